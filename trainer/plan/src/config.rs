//! Configuration sections for budgets, intervals and the device: `[train]`, `[validation]`, `[checkpoints]`, `[report]`
//! and `[spike_guard]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::DeviceChoice;
use crate::objectives::Normalize;
use crate::precision::Precision;

/// `[train]`: budgets, batch sizes and device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent keys")]
pub struct TrainConfig {
    /// Optimizer steps of the whole run, unless `max_tokens` or `max_hours` ends it earlier. If one of those is set
    /// and this key is not, the number of steps is not limited.
    pub steps: u64,
    /// Real tokens (no padding) of the whole run. The first budget that is reached ends the run; the learning rate
    /// follows the budget with the most progress.
    pub max_tokens: Option<u64>,
    /// Hours of training of the whole run, over all its processes. Validations and checkpoints count; work that is lost
    /// in a kill does not. Checked with each report.
    pub max_hours: Option<f64>,
    /// Rows per optimizer step.
    pub global_batch_size: u64,
    /// Rows on the device at once. Must divide `global_batch_size`.
    pub micro_batch_size: u64,
    /// Denominator of a sum over positions.
    pub normalize: Normalize,
    /// Type of matrix products.
    pub precision: Precision,
    /// Whether float32 products may use TensorFloat-32 (10 instead of 23 bits): several times as fast on CUDA.
    pub tf32: bool,
    /// Device: `auto` (the first CUDA device if there is one, else the CPU), `cpu`, `cuda` (the first; an error without
    /// one) or `cuda:1` (counted from 0). Of several ranks on a host, the first has this device and the others have the
    /// following ones.
    pub device: DeviceChoice,
    /// Whether activations are recomputed in the backward pass. This needs far less memory and a third more operations;
    /// the results are bitwise equal.
    pub activation_checkpointing: bool,
    /// Threads of libtorch on the CPU; 0 for one per core, divided by the ranks of the host. Results are bitwise equal
    /// only for equal numbers of threads.
    pub threads: usize,
    /// Whether several ranks sum their gradients in bfloat16: half the bytes between the ranks, 8 instead of 24 bits.
    pub bf16_all_reduce: bool,
    /// Whether CUDA uses reproducible kernels, which are slower. The CPU always does.
    pub deterministic: bool,
    /// Folder with the initial weights: a checkpoint of another run, or a model that `transformers` saved.
    pub init_from: Option<PathBuf>,
    /// Number of steps with a non-finite gradient that a run may skip before it fails.
    pub max_skipped_steps: u64,
}

impl TrainConfig {
    /// Number of steps that no run reaches: the value of `steps` if only another budget ends the run.
    pub const STEPS_ENDLESS: u64 = 1 << 40;

    /// Whether the number of steps limits the run.
    #[must_use]
    pub fn ends_by_steps(&self) -> bool {
        self.steps < Self::STEPS_ENDLESS
    }

    /// Problem with a number of steps: their rows must be countable in 63 bits. `None` if there is none.
    #[must_use]
    pub fn rows_problem(&self, steps: u64) -> Option<String> {
        let rows = steps.checked_mul(self.global_batch_size).and_then(|rows| i64::try_from(rows).ok());
        let message = || format!("{steps} steps of {} rows are more rows than can be counted", self.global_batch_size);
        rows.is_none().then(message)
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
            bf16_all_reduce: false,
            deterministic: false,
            init_from: None,
            max_skipped_steps: 0,
        }
    }
}

/// `[validation]`: validation during training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// Steps between validations; 0 for none.
    pub every_steps: u64,
    /// Number of rows, spread over the whole validation split.
    pub rows: u64,
    /// Rule that ends the run early, such as `{ metric = "task.accuracy", patience = 3 }`. The best checkpoint is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<EarlyStopConfig>,
}

/// `validation.stop`: end of a run whose validations no longer improve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EarlyStopConfig {
    /// Metric by which validations are compared, as in `checkpoints.best_by`; `loss` by default. A fine-tuning also has
    /// the metrics of its task, such as `task.matthews`.
    pub metric: String,
    /// Number of consecutive validations without a better value after which the run ends; 3 by default.
    pub patience: u64,
}

impl Default for EarlyStopConfig {
    fn default() -> Self {
        Self { metric: "loss".to_owned(), patience: 3 }
    }
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self { every_steps: 1000, rows: 1024, stop: None }
    }
}

/// `[checkpoints]`: interval and retention of checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Steps between checkpoints. The end of a run and a stop request also write one.
    pub every_steps: u64,
    /// Number of newest checkpoints to keep; at least 1. Checkpoints pinned by `cloze checkpoints RUN pin STEP` are
    /// also kept.
    pub keep: usize,
    /// Steps between permanent checkpoints, which are written in addition and never removed; 0 for none.
    pub keep_every_steps: u64,
    /// Number of best checkpoints by `best_by` to keep; 0 for none. Only checkpoints of validated steps qualify.
    pub keep_best: usize,
    /// Metric that ranks checkpoints: `valid/mlm`, `valid/mlm.accuracy`, `loss`, or a term or metric of the validation,
    /// such as `mlm` or `mlm.accuracy`. Accuracies, gains, precision, recall, F1, exact matches, correlations and
    /// `positive_cosine` are maximized, all others minimized. The older of two equal checkpoints is better.
    pub best_by: String,
    /// Model family of the export. If set, `transformers` can load each checkpoint folder: it also contains
    /// `config.json`, `model.safetensors` and the tokenizer, as written by `cloze export`.
    pub export: Option<ModelFamily>,
}

impl CheckpointConfig {
    /// Returns the rules of a run with that early stopping: they keep the best checkpoint by its metric, unless they
    /// already keep the best ones.
    #[must_use]
    pub fn keeping_best_of(&self, stop: Option<&EarlyStopConfig>) -> Self {
        match stop {
            Some(stop) if self.keep_best == 0 => Self { keep_best: 1, best_by: stop.metric.clone(), ..self.clone() },
            _ => self.clone(),
        }
    }
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

/// Model family of `transformers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelFamily {
    /// `BertForMaskedLM`, or `BertForPreTraining` for a run with `next_sentence`.
    Bert,
    /// `RobertaForMaskedLM`.
    Roberta,
    /// `ElectraForPreTraining`, or `ElectraForMaskedLM` for a run without `replaced_token`.
    Electra,
    /// `MPNetForMaskedLM`, or `MPNetModel` for a run without `masked_lm`. For relative positions of kind `t5`.
    Mpnet,
    /// Classes of `modeling_cloze.py`, which is written next to the weights.
    Cloze,
}

/// `[report]`: reports of training metrics.
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

/// `[spike_guard]`: detection of loss spikes and gradient spikes, and the reaction to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpikeGuardConfig {
    /// Reaction to a loss spike.
    pub action: SpikeAction,
    /// Threshold for the loss, in robust standard deviations (1.4826 times the median distance from the median) above
    /// the median of the previous steps. 0 disables the check.
    pub loss_sigmas: f64,
    /// Threshold for the gradient norm before clipping, which varies more, in the same unit. 0 disables the check.
    pub norm_sigmas: f64,
    /// Number of previous steps that a step is compared with. Before 32 steps are known, no step is checked.
    pub window: usize,
    /// Number of steps that a run may skip because of spikes before it fails.
    pub max_skips: usize,
}

impl Default for SpikeGuardConfig {
    fn default() -> Self {
        Self { action: SpikeAction::Warn, loss_sigmas: 10.0, norm_sigmas: 30.0, window: 128, max_skips: 10 }
    }
}

/// Reaction to a loss spike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpikeAction {
    /// No check.
    Off,
    /// Warning; the run continues.
    #[default]
    Warn,
    /// Warning; the run saves and stops with exit code 45. The same command resumes it.
    Pause,
    /// The run goes back to the newest checkpoint before the step and skips its rows.
    Skip,
}
