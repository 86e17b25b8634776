//! Estimated floating-point operations and numbers of weights of a planned run.
//!
//! The estimate has only the operations that the loss needs, not those that an implementation adds. An encoded token
//! costs 2 operations per weight of the layers' matrices, and `4 · layers · hidden · width` for attention. A pass with
//! gradient costs three times as much (Kaplan et al. 2020, section 2.1).
//!
//! A vocabulary head costs 2 operations per weight at each scored position, and three times as much with gradient. For
//! a masked view, 15 % of the positions count as scored, regardless of the share that is masked.

use std::collections::BTreeMap;

use crate::encoder::EncoderConfig;
use crate::networks::{AnyNetwork, MAIN};
use crate::objectives::{AnyObjective, SCORED, Scores};
use crate::pass::Pass;
use crate::run_weights;
use crate::train_plan::TrainPlan;

impl TrainPlan {
    /// Floating-point operations per token of the rows. BERT-base of width 512 with masked language modelling: 588 M.
    #[must_use]
    pub fn flops_per_token(&self) -> f64 {
        let passes: f64 = self
            .passes()
            .iter()
            .map(|(pass, &learns)| {
                let share = f64::from(self.view_width(&pass.view)) / f64::from(self.width);
                let backward = if learns { 2.0 * self.encoding(pass, self.trained_depth(pass)) } else { 0.0 };
                share * (self.encoding(pass, self.depth(pass)) + backward)
            })
            .sum();
        passes + self.heads() + self.sampling()
    }

    /// Operations of [`flops_per_token`](Self::flops_per_token) relative to plain masked language modelling with the
    /// same encoder.
    #[must_use]
    pub fn flops_ratio(&self) -> f64 {
        let encoder = &self.encoder;
        let plain = 3.0 * (body(encoder, self.width) + SCORED * head(encoder, self.vocab.size));
        self.flops_per_token() / plain
    }

    /// Tokens per row of a view.
    pub fn view_width(&self, view: &str) -> u32 {
        self.view_widths.get(view).copied().unwrap_or(self.width)
    }

    /// Operations of `layers` layers.
    fn encoding(&self, pass: &Pass, layers: u32) -> f64 {
        let width = self.view_width(&pass.view);
        self.shape(&pass.network).map_or(0.0, |shape| body(&EncoderConfig { layers, ..shape }, width))
    }

    /// Shape of a network; `None` if the run has no network of that name, or if the network has no encoder.
    pub fn shape(&self, network: &str) -> Option<EncoderConfig> {
        if network == MAIN { Some(self.encoder.clone()) } else { self.networks.get(network)?.shape(&self.encoder) }
    }

    /// Whether the weights of a network are trained.
    pub fn is_trained(&self, network: &str) -> bool {
        self.networks.get(network).is_none_or(|network| network.is_trained())
    }

    fn heads(&self) -> f64 {
        let learning = self.active().filter(|active| active.weight != 0.0);
        learning.map(|active| self.head(active.objective)).sum()
    }

    fn head(&self, objective: &AnyObjective) -> f64 {
        let reads = objective.reads();
        let scores = objective.scores();
        let shape = reads.passes.first().and_then(|pass| self.shape(&pass.network));
        let cost = |(shape, scores): (EncoderConfig, Scores)| {
            let cost = if scores.transformed { head } else { decoder };
            3.0 * scores.share * cost(&shape, self.vocab.size)
        };
        shape.zip(scores).map_or(0.0, cost)
    }

    /// Operations of the passes without gradient in which generators sample, including their heads.
    fn sampling(&self) -> f64 {
        let passes = self.passes();
        let cost = |name: &String, network: &AnyNetwork| {
            let made = network.output_view()?;
            let shape = network.shape(&self.encoder)?;
            let trained = passes.contains_key(&Pass::new(name, made.input_view));
            let extra = network.additional_passes(trained);
            // A pass with gradient computes scores for its loss. The samples are drawn from the same scores.
            Some(extra * (body(&shape, self.view_width(made.input_view)) + SCORED * head(&shape, self.vocab.size)))
        };
        self.used_networks().iter().filter_map(|(name, network)| cost(name, network)).sum()
    }

    /// Number of trained parameters and number of frozen ones, heads included. Padding rows of the word table count,
    /// because they take memory.
    #[must_use]
    pub fn parameters(&self) -> (u64, u64) {
        let weights = run_weights::of_run(self);
        (weights.trained(), weights.frozen())
    }

    /// Bytes of a checkpoint: weights and two moments, in float32.
    #[must_use]
    pub fn checkpoint_bytes(&self) -> f64 {
        let (trained, frozen) = self.parameters();
        12.0 * trained as f64 + 4.0 * frozen as f64
    }

    /// Names of all weights with their shapes, in order of the names.
    #[must_use]
    pub(crate) fn weight_shapes(&self) -> BTreeMap<String, Vec<i64>> {
        run_weights::of_run(self).iter().map(|(name, spec)| (name.to_owned(), spec.shape.clone())).collect()
    }
}

/// Operations that encode one token of a row of `width` tokens.
fn body(shape: &EncoderConfig, width: u32) -> f64 {
    let layers = f64::from(shape.layers);
    let d = f64::from(shape.hidden);
    let f = f64::from(shape.feed_forward);
    2.0 * layers * (4.0 * d * d + 2.0 * d * f) + 4.0 * layers * d * f64::from(width)
}

/// Operations that score all ids at one position, including the dense layer before the word table.
fn head(shape: &EncoderConfig, vocab_size: u32) -> f64 {
    2.0 * f64::from(shape.hidden) * shape.embedding_width() as f64 + decoder(shape, vocab_size)
}

/// Operations of the product with the word table at one position.
fn decoder(shape: &EncoderConfig, vocab_size: u32) -> f64 {
    2.0 * f64::from(vocab_size) * shape.embedding_width() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::Frozen;
    use crate::testing;

    #[test]
    fn bert_base_needs_588_million_operations_per_token() {
        let mut plan = testing::request();
        plan.loss.retain(|name, _| name == "masked_lm");
        plan.encoder = EncoderConfig::default();
        plan.width = 512;
        plan.vocab.size = 30_522;
        let millions = testing::checked(plan).flops_per_token() / 1e6;
        assert!((millions - 587.858_688).abs() < 1e-6, "{millions}");
    }

    #[test]
    fn frozen_layers_have_no_backward_pass() {
        let millions = |frozen: Vec<Frozen>, layer: Option<u32>| {
            let mut plan = testing::request();
            plan.loss = [("classification".to_owned(), 1.0)].into();
            plan.objectives.insert(
                "classification".to_owned(),
                AnyObjective::Classification(crate::objectives::classification::Classification {
                    layer,
                    ..Default::default()
                }),
            );
            plan.encoder = EncoderConfig { frozen, ..EncoderConfig::default() };
            plan.width = 512;
            testing::checked(plan).flops_per_token() / 1e6
        };
        // 12 layers: 189 M forward, and twice that backward.
        let [forward, each] = [188.743_68, 188.743_68 / 12.0];
        for (frozen, layer, expected) in [
            (vec![], None, 3.0 * forward),
            (vec![Frozen::Encoder], None, forward),
            (vec![Frozen::Layers(9)], None, forward + 6.0 * each),
            (vec![Frozen::Layers(3)], Some(4), 4.0 * each + 2.0 * each),
            (vec![Frozen::Encoder], Some(4), 4.0 * each),
        ] {
            let found = millions(frozen.clone(), layer);
            assert!((found - expected).abs() < 1e-6, "{frozen:?} {layer:?}: {found}");
        }
    }

    #[test]
    fn weights_are_counted_with_heads_and_padding() {
        let mut plan = testing::request();
        plan.loss.retain(|name, _| name == "masked_lm");
        let d = 16;
        let f = 32;
        let embeddings = (64 + 16 + 2) * d + 2 * d;
        let layer = 4 * (d * d + d) + (d * f + f) + (f * d + d) + 4 * d;
        let head = d * d + d + 2 * d + 60;
        assert_eq!(testing::checked(plan).parameters(), (embeddings + 2 * layer + head, 0));
    }
}
