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
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self { lr: 1e-4, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.01, bias_correction: true, max_grad_norm: 1.0 }
    }
}
