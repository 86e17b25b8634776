//! Configuration of the optimizer, AdamW.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[optimizer]`: AdamW.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Maximum learning rate.
    pub lr: f64,
    /// Decay rates of the first and second moment.
    pub betas: [f64; 2],
    /// Constant added to the denominator.
    pub eps: f64,
    /// Decoupled weight decay of matrices.
    pub weight_decay: f64,
    /// Whether the moments are divided by `1 − βⁿ`. ELECTRA's Adam does not divide them.
    pub bias_correction: bool,
    /// Maximum global norm of the gradient; 0 disables clipping.
    pub max_grad_norm: f64,
    /// Factor by which the learning rate falls from layer to layer towards the input; 1 trains all layers equally. Of
    /// `n` layers, layer `i`, counted from 1, has the rate `lr · layer_decay^(n + 2 − i)`. Embeddings and relative
    /// positions have `lr · layer_decay^(n + 2)`; heads and other networks have `lr`. ELECTRA's code does the same.
    pub layer_decay: f64,
    /// Whether each of several ranks has the moments of a part of the weights only (stage 1 of ZeRO): less memory, the same
    /// weights, and more bytes between the ranks.
    pub shard: bool,
}

impl OptimizerConfig {
    /// Factor of the learning rate of a weight, if the main network has `layers` layers. It is 1 for the weights of
    /// heads and other networks.
    ///
    /// Clark et al. 2020, `_get_layer_lrs` of the released code: embeddings have the depth 0, layers 1 to `layers`, and
    /// heads `layers + 2`.
    #[must_use]
    pub fn rate_factor(&self, weight: &str, layers: u32) -> f64 {
        let Some(below) = weight.strip_prefix("encoder.") else { return 1.0 };
        let number = below.strip_prefix("layers.").and_then(|rest| rest.split('.').next());
        let depth = number.and_then(|number| number.parse::<u32>().ok()).map_or(0, |number| number + 1);
        (0..(layers + 2).saturating_sub(depth)).fold(1.0, |factor, _| factor * self.layer_decay)
    }

    /// Whether all layers have the same learning rate.
    #[must_use]
    pub fn has_one_rate(&self) -> bool {
        self.layer_decay >= 1.0
    }
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self {
            lr: 1e-4,
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.01,
            bias_correction: true,
            max_grad_norm: 1.0,
            layer_decay: 1.0,
            shard: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ELECTRA-base, by the table of its `_get_layer_lrs(1.0, 0.8, 12)`.
    #[test]
    fn rates_fall_towards_the_input_as_in_the_released_code_of_electra() {
        let config = OptimizerConfig { layer_decay: 0.8, ..OptimizerConfig::default() };
        for (weight, expected) in [
            ("heads.task.classifier.weight", 1.0),
            ("generator.encoder.layers.0.norm.weight", 1.0),
            ("encoder.layers.11.attention.qkv.weight", 0.64),
            ("encoder.layers.10.attention.qkv.weight", 0.512),
            ("encoder.layers.0.feed_forward.norm.bias", 0.054_975_581_388_8),
            ("encoder.relative.weight", 0.043_980_465_111_04),
            ("encoder.embeddings.word.weight", 0.043_980_465_111_04),
            ("encoder.embeddings.project.bias", 0.043_980_465_111_04),
        ] {
            let factor = config.rate_factor(weight, 12);
            assert!((factor - expected).abs() < 1e-12, "{weight}: {factor}");
            let same = OptimizerConfig::default().rate_factor(weight, 12);
            assert_eq!(same.to_bits(), 1_f64.to_bits(), "{weight}");
        }
    }
}
