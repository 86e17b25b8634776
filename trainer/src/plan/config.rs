//! The sections of a configuration that say how long, how often and where to train.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::choice::DeviceChoice;
use crate::device::precision::Precision;
use crate::objectives::combine::Normalize;

/// `[train]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Optimizer steps of the whole run.
    pub steps: u64,
    /// Rows that one step learns from.
    pub rows_per_step: u64,
    /// Rows that are on the device at once; divides `rows_per_step`.
    pub rows_per_micro_batch: u64,
    /// What a sum over positions is divided by.
    pub normalize: Normalize,
    /// The type of matrix products.
    pub precision: Precision,
    /// Whether products of float32 may round their factors to TensorFloat-32 (10 bits of 23): several times as fast on CUDA.
    pub tf32: bool,
    /// Where to compute: `auto` (the first CUDA device where there is one), `cpu`, `cuda` (the first; an error without one)
    /// or `cuda:1` (that one, counted from 0).
    pub device: DeviceChoice,
    /// Whether activations are made anew in the backward pass: far less memory, a third more operations, the same bits.
    pub recompute: bool,
    /// Threads of libtorch on the CPU; 0 for one per core. Equal numbers give equal bits.
    pub threads: usize,
    /// Reproducible kernels on CUDA, at a price; the CPU's always are.
    pub deterministic: bool,
    /// A folder to take the first weights from: a checkpoint of another run, or a model that `transformers` saved.
    pub init: Option<PathBuf>,
    /// Steps with a non-finite gradient that a run may skip before it fails.
    pub skipped_steps_max: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: 100_000,
            rows_per_step: 256,
            rows_per_micro_batch: 32,
            normalize: Normalize::Step,
            precision: Precision::F32,
            tf32: false,
            device: DeviceChoice::Auto,
            recompute: false,
            threads: 0,
            deterministic: false,
            init: None,
            skipped_steps_max: 0,
        }
    }
}

/// `[validation]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// Steps between validations; 0 for none.
    pub every_steps: u64,
    /// Rows of the valid split, from all over it.
    pub rows: u64,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self { every_steps: 1000, rows: 1024 }
    }
}

/// `[checkpoints]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Steps between checkpoints; the end of a run and a stop make one too.
    pub every_steps: u64,
    /// How many of the newest stay; at least 1.
    pub keep: usize,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every_steps: 1000, keep: 3 }
    }
}

/// `[report]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReportConfig {
    /// Steps between reports.
    pub every_steps: u64,
}

impl Default for ReportConfig {
    fn default() -> Self {
        Self { every_steps: 50 }
    }
}

/// `[guard]`: what becomes of a step whose loss or gradient leaps out of those before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GuardConfig {
    /// What to do about such a step.
    pub rule: GuardRule,
    /// How many robust standard deviations (1.4826 times the median distance from the median) above the median of the steps
    /// before it a loss may lie; 0 for any.
    pub loss_sigmas: f64,
    /// The same for the norm of the gradient before clipping, which scatters more.
    pub norm_sigmas: f64,
    /// Steps that a step is compared with. Nothing is judged before there are 32.
    pub window: usize,
    /// Steps that a run may skip for it before it fails.
    pub skips_max: usize,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self { rule: GuardRule::Warn, loss_sigmas: 10.0, norm_sigmas: 30.0, window: 128, skips_max: 10 }
    }
}

/// What becomes of a step that leaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardRule {
    /// Nothing is looked at.
    Off,
    /// It is said, and the run goes on.
    #[default]
    Warn,
    /// It is said, and the run saves and stops: exit code 45. The same command goes on.
    Pause,
    /// The run goes back to the newest checkpoint before it, and does not learn from that step's rows.
    Skip,
}
