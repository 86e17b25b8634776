//! The sections of a configuration that say how long, how often and where to train.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::DeviceChoice;
use crate::objectives::Normalize;
use crate::precision::Precision;

/// `[train]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Optimizer steps of the whole run, unless `max_tokens` or `max_hours` ends it earlier. If one of those is set
    /// and this is not, the number of steps is not limited.
    pub steps: u64,
    /// Real tokens (no padding) of the whole run. The first budget that is reached ends the run; the learning rate
    /// follows the budget with the most progress.
    pub max_tokens: Option<u64>,
    /// Hours of training of the whole run, over all its processes, validations and checkpoints included. Work that a
    /// kill loses does not count. Checked with each report.
    pub max_hours: Option<f64>,
    /// Rows of an optimizer step.
    pub global_batch_size: u64,
    /// Rows on the device at once; divides `global_batch_size`.
    pub micro_batch_size: u64,
    /// Divisor of a sum over positions.
    pub normalize: Normalize,
    /// Type of matrix products.
    pub precision: Precision,
    /// Whether float32 products may use TensorFloat-32 (10 instead of 23 bits): several times as fast on CUDA.
    pub tf32: bool,
    /// Device: `auto` (the first CUDA device if there is one, else the CPU), `cpu`, `cuda` (the first; an error
    /// without one) or `cuda:1` (counted from 0).
    pub device: DeviceChoice,
    /// Whether activations are recomputed in the backward pass: far less memory, a third more operations, the same
    /// bits.
    pub activation_checkpointing: bool,
    /// Threads of libtorch on the CPU; 0 for one per core. Results are equal for equal numbers of threads.
    pub threads: usize,
    /// Whether CUDA uses reproducible kernels, which are slower. The CPU always does.
    pub deterministic: bool,
    /// Folder with the first weights: a checkpoint of another run, or a model that `transformers` saved.
    pub init_from: Option<PathBuf>,
    /// Number of steps with a non-finite gradient that a run may skip before it fails.
    pub max_skipped_steps: u64,
}

impl TrainConfig {
    /// As many steps as no run does: what `steps` is where another budget ends the run.
    pub const STEPS_ENDLESS: u64 = 1 << 40;

    /// Whether steps end the run, as far as is known before it begins.
    #[must_use]
    pub fn ends_by_steps(&self) -> bool {
        self.steps < Self::STEPS_ENDLESS
    }

    /// What is wrong with so many steps: their rows are numbered.
    #[must_use]
    pub fn rows_problem(&self, steps: u64) -> Option<String> {
        let rows = steps.checked_mul(self.global_batch_size).and_then(|rows| i64::try_from(rows).ok());
        let told = || format!("{steps} steps of {} rows are more rows than can be counted", self.global_batch_size);
        rows.is_none().then(told)
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: 100_000,
            max_tokens: None,
            max_hours: None,
            global_batch_size: 256,
            micro_batch_size: 32,
            normalize: Normalize::Step,
            precision: Precision::F32,
            tf32: false,
            device: DeviceChoice::Auto,
            activation_checkpointing: false,
            threads: 0,
            deterministic: false,
            init_from: None,
            max_skipped_steps: 0,
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
    /// How many of the newest stay; at least 1. What `cloze checkpoints RUN pin STEP` names stays too.
    pub keep: usize,
    /// Steps between checkpoints that stay forever, and are made for that; 0 for none.
    pub keep_every_steps: u64,
    /// How many of the best by `best_by` stay; 0 for none. Only a step that was validated can be among them.
    pub keep_best: usize,
    /// What is best: `valid/mlm`, `valid/mlm.accuracy`, `loss`, or a term or metric of the validation by its name, like `mlm`
    /// or `mlm.accuracy`. Of accuracies and of `positive_cosine` the highest, of all others the lowest; of equals the oldest.
    pub best_by: String,
    /// Makes each checkpoint a folder that `transformers` loads, as `cloze export` writes it: with `config.json`,
    /// `model.safetensors` and the tokenizer next to the rest.
    pub export: Option<ModelFamily>,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            every_steps: 1000,
            keep: 3,
            keep_every_steps: 0,
            keep_best: 0,
            best_by: "valid/mlm".to_owned(),
            export: None,
        }
    }
}

/// Families of models that `transformers` loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelFamily {
    /// `BertForMaskedLM`.
    Bert,
    /// `RobertaForMaskedLM`.
    Roberta,
    /// `ElectraForPreTraining`, or `ElectraForMaskedLM` of a run without `replaced_token`.
    Electra,
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

/// `[spike_guard]`: what becomes of a step whose loss or gradient leaps out of those before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpikeGuardConfig {
    /// Reaction to a loss spike.
    pub action: SpikeAction,
    /// Number of robust standard deviations (1.4826 times the median distance from the median) above the median of
    /// the steps before, from which a loss is a spike. 0 disables it.
    pub loss_sigmas: f64,
    /// The same for the gradient norm before clipping, which varies more.
    pub norm_sigmas: f64,
    /// Number of steps that a step is compared with. With fewer than 32, no step is judged.
    pub window: usize,
    /// Number of steps that a run may skip because of spikes before it fails.
    pub max_skips: usize,
}

impl Default for SpikeGuardConfig {
    fn default() -> Self {
        Self { action: SpikeAction::Warn, loss_sigmas: 10.0, norm_sigmas: 30.0, window: 128, max_skips: 10 }
    }
}

/// What becomes of a step that leaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpikeAction {
    /// No check.
    Off,
    /// A warning; the run continues.
    #[default]
    Warn,
    /// A warning; the run saves and stops with exit code 45. The same command continues.
    Pause,
    /// The run goes back to the newest checkpoint before the step and skips its rows.
    Skip,
}
