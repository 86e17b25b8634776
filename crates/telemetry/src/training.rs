//! Payloads of the events of a training run. The [`Position`](crate::Position) of the event has the step.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemas::ordinal::Step;
use schemas::{DatasetVersion, RowIndex};
use serde::{Deserialize, Serialize};

use crate::number::{Float, List, NamedNumbers, OptionalNumber};

/// Losses of the first step of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartReport {
    /// Whether all weights are randomly initialized. If not, `expected` is empty.
    pub random: bool,
    /// Value of each term in the first step, by `objective` or `objective.term`.
    #[serde(with = "NamedNumbers")]
    pub terms: BTreeMap<String, f64>,
    /// Expected range of each term that has a known initial value.
    pub expected: BTreeMap<String, Bounds>,
    /// Terms outside their expected range.
    pub unexpected_losses: Vec<UnexpectedLoss>,
}

/// Expected range of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Lower bound, inclusive.
    #[serde(with = "Float")]
    pub low: f64,
    /// Upper bound, inclusive.
    #[serde(with = "Float")]
    pub high: f64,
}

impl Bounds {
    /// Returns whether a value is in the range. NaN is in no range.
    #[must_use]
    pub fn admit(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Term whose first value differs from the loss of an untrained model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnexpectedLoss {
    /// `objective` or `objective.term`.
    pub term: String,
    /// Measured value.
    #[serde(with = "Float")]
    pub value: f64,
    /// Expected range.
    #[serde(flatten)]
    pub expected: Bounds,
    /// Usual cause.
    pub hint: String,
}

/// Training since the last report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepReport {
    /// Losses and metrics. The same command on the same number of threads reports bit-identical values.
    #[serde(flatten)]
    pub figures: Figures,
    /// Loss of each step since the last report, in order. If a loss is not a number, the step updated nothing: it had nothing to
    /// predict, or its gradient was not finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "List")]
    pub losses: Vec<f64>,
    /// Gradient norm of each of these steps, before clipping.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "List")]
    pub grad_norms: Vec<f64>,
    /// Running BLAKE3 over the digests of all rows consumed.
    pub batch_hash: String,
    /// Fraction of the run that is done. The learning rate follows it. Only set if tokens or hours end the run.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "OptionalNumber")]
    pub progress: Option<f64>,
    /// Speed, which differs between any two runs.
    #[serde(flatten)]
    pub speed: Speed,
    /// Epochs of each source of a mixture so far. Empty if the run reads one folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "NamedNumbers")]
    pub source_epochs: BTreeMap<String, f64>,
    /// Wall time since the last report, by phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<PhaseSeconds>,
    /// Memory use of the device. CUDA only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<DeviceMemory>,
    /// Resident host memory of the process in bytes, including all its threads and page-locked buffers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_bytes: Option<u64>,
    /// Times and memory of each rank, in the order of the ranks. Empty for a single process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankReport>,
}

/// Times since the last report, and memory, of one of several ranks. Fractions are of wall time without validations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankReport {
    /// Number of the rank, from 0.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// Wall seconds per step.
    #[serde(with = "Float")]
    pub step_s: f64,
    /// Fraction of wall time spent waiting for batches.
    #[serde(with = "Float")]
    pub data_wait: f64,
    /// Fraction of wall time spent waiting for checkpoints.
    #[serde(with = "Float")]
    pub checkpoint_stall: f64,
    /// Fraction of wall time in which the host waits for slower ranks. The slowest rank waits least.
    #[serde(with = "Float")]
    pub rank_wait: f64,
    /// Resident host memory of the process in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_bytes: Option<u64>,
}

/// Seconds since the last report by phase of the training loop. The rest of `wall` is overhead between the phases.
/// A report covers the steps up to it. The validation and the checkpoint after a report count in the next report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseSeconds {
    /// Total wall time.
    #[serde(with = "Float")]
    pub wall: f64,
    /// Time waiting for batches.
    #[serde(with = "Float")]
    pub data: f64,
    /// Host time of the steps: submitting work to the device. On the CPU: the work itself.
    #[serde(with = "Float")]
    pub step: f64,
    /// Time waiting for the device and reading its results.
    #[serde(with = "Float")]
    pub read: f64,
    /// Time of validations.
    #[serde(with = "Float")]
    pub validation: f64,
    /// Time waiting for checkpoints: for the copy in memory, or for the previous checkpoint to be written.
    #[serde(with = "Float")]
    pub checkpoint: f64,
}

/// Memory use of the device since the last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceMemory {
    /// Peak bytes of all tensors.
    pub allocated_peak_bytes: u64,
    /// Peak bytes that libtorch reserved: tensors, and its cache for later tensors.
    pub reserved_peak_bytes: u64,
    /// Total memory of the device in bytes.
    pub total_bytes: u64,
}

/// Memory use of the device over the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DevicePeak {
    /// Peak bytes of all tensors.
    pub peak_bytes: u64,
    /// Planned peak in bytes.
    pub planned_bytes: u64,
}

/// Losses and metrics of the steps since the last report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Weighted sum of the terms. NaN if there was nothing to predict.
    #[serde(with = "Float")]
    pub loss: f64,
    /// Value of each term in nats or its own unit, by `objective` or `objective.term`. NaN if the term counted nothing.
    #[serde(with = "NamedNumbers")]
    pub terms: BTreeMap<String, f64>,
    /// Metrics, by `objective.metric`.
    #[serde(with = "NamedNumbers")]
    pub metrics: BTreeMap<String, f64>,
    /// Learning rate of the last step.
    #[serde(with = "Float")]
    pub lr: f64,
    /// Mean gradient norm before clipping. A skipped step counts as 0.
    #[serde(with = "Float")]
    pub grad_norm: f64,
    /// Steps skipped since the run began.
    pub skipped: u64,
}

/// Measurements that depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speed {
    /// Real tokens (no padding) per second of wall time.
    #[serde(with = "Float")]
    pub tokens_per_s: f64,
    /// Optimizer steps per second of wall time. As for `tokens_per_s`, validations are excluded.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "OptionalNumber")]
    pub steps_per_s: Option<f64>,
    /// Model FLOPs utilization: fraction of the peak throughput of the device. CUDA only.
    #[serde(default, with = "OptionalNumber")]
    pub mfu: Option<f64>,
    /// Fraction of wall time spent waiting for batches.
    #[serde(with = "Float")]
    pub data_wait: f64,
    /// Fraction of wall time spent waiting for checkpoints: for the copy in memory, or for the previous write.
    #[serde(default, with = "Float")]
    pub checkpoint_stall: f64,
    /// Estimated seconds to the last step, at the average speed of this process including validations and
    /// checkpoints. None after the last step.
    #[serde(default, with = "OptionalNumber")]
    pub eta_s: Option<f64>,
}

/// Validation on the valid split, in eval mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValidReport {
    /// Rows of the valid split that were evaluated.
    pub rows: u64,
    /// Weighted sum of the terms.
    #[serde(with = "Float")]
    pub loss: f64,
    /// Value of each term, by `objective` or `objective.term`.
    #[serde(with = "NamedNumbers")]
    pub terms: BTreeMap<String, f64>,
    /// Metrics, by `objective.metric`.
    #[serde(with = "NamedNumbers")]
    pub metrics: BTreeMap<String, f64>,
    /// Plain masked language modelling on the fixed mask. None if no head predicts tokens.
    pub mlm: Option<MlmReport>,
    /// Duration in seconds.
    #[serde(with = "Float")]
    pub seconds: f64,
}

/// Masked language modelling with one fixed mask for all runs on the same data, and context-free baselines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MlmReport {
    /// Mean cross-entropy in nats.
    #[serde(with = "Float")]
    pub loss: f64,
    /// Fraction of masked tokens whose top prediction is correct.
    #[serde(with = "Float")]
    pub accuracy: f64,
    /// Natural logarithm of the vocabulary size: the loss of an untrained model.
    #[serde(with = "Float")]
    pub ln_vocab: f64,
    /// Cross-entropy of the masked targets under the unigram distribution of the training split: the loss that a model
    /// without context reaches. None if the distribution is not counted, as when a streamed run starts before it is.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "OptionalNumber")]
    pub unigram_cross_entropy: Option<f64>,
}

/// Change of the dataset version of a prepared folder between two epochs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetVersionReport {
    /// Dataset version of the rows from here on.
    pub dataset_version: DatasetVersion,
    /// Previous dataset version.
    pub before: DatasetVersion,
    /// First row of the stream with this dataset version.
    pub row: RowIndex,
    /// Source of the folder. None if the run reads one folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Wait of a step for data that are still being prepared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StarvedReport {
    /// Cause of the wait: `prepare`.
    pub by: String,
    /// Duration of the wait in seconds.
    #[serde(with = "Float")]
    pub seconds: f64,
    /// Index of the awaited part in the list, from 0.
    pub part: u64,
    /// Number of parts in the list.
    pub parts: u64,
}

/// Quantity that the spike guard checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpikeMetric {
    /// Loss of a step.
    Loss,
    /// Gradient norm of a step, before clipping.
    GradNorm,
}

/// Step whose loss or gradient norm is far above that of the preceding steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossSpikeReport {
    /// Step, counted from 1 as in reports.
    pub spike_step: Step,
    /// First row of the step in the stream.
    pub first_row: RowIndex,
    /// Number of rows of the step.
    pub rows: u64,
    /// Quantity that spiked.
    pub figure: SpikeMetric,
    /// Value of the quantity.
    #[serde(with = "Float")]
    pub value: f64,
    /// Median over the preceding steps.
    #[serde(with = "Float")]
    pub median: f64,
    /// Distance between the value and the median, in robust standard deviations.
    #[serde(with = "Float")]
    pub sigmas: f64,
}

/// Skipped step: its rows are consumed, but the weights are not updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SkipReport {
    /// Loss spike that caused the skip.
    #[serde(flatten)]
    pub spike: LossSpikeReport,
    /// Rows with the highest loss, highest first.
    pub suspects: Vec<SuspectRow>,
}

/// Row that may have caused a loss spike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuspectRow {
    /// Row number in the stream.
    pub row: RowIndex,
    /// Loss of the row without dropout, with the weights before the step.
    #[serde(with = "Float")]
    pub loss: f64,
    /// Ids of its documents, in order.
    pub documents: Vec<String>,
}

/// Row that cannot be built. Its place in the batch is padding, which adds nothing to the loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BadRowReport {
    /// Row number in the stream.
    pub row: RowIndex,
    /// Source of the mixture that the row comes from. None if the run reads one folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Stored sample, as `part:row`.
    pub sample: String,
    /// Shard of the sample, relative to the prepared folder.
    pub shard: String,
    /// Row group in the shard.
    pub group: u32,
    /// Row in the row group.
    pub row_in_group: u64,
    /// Hashes of its documents, in hexadecimal.
    pub documents: Vec<String>,
    /// Error, which occurred in each attempt to build the row.
    pub why: String,
}

/// End of a run whose validations have not improved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EarlyStopReport {
    /// Metric by which validations are compared.
    pub metric: String,
    /// Value of this validation.
    #[serde(with = "Float")]
    pub value: f64,
    /// Best value. None if no validation had a finite one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "OptionalNumber")]
    pub best: Option<f64>,
    /// Steps done at the best value.
    pub best_step: Step,
    /// Validations after the best one.
    pub validations: u64,
}

/// Checkpoint that is on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointReport {
    /// Location of the checkpoint.
    pub place: String,
    /// Seconds of writing, concurrently with training.
    #[serde(with = "Float")]
    pub seconds: f64,
    /// Seconds that the next step waited: for the write of the previous checkpoint, and for the copy in memory.
    #[serde(default, with = "Float")]
    pub stall_s: f64,
}

/// Checkpoint from which a run resumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeReport {
    /// Location of the checkpoint.
    pub place: String,
}

/// Program, device and number format of a process that trains. Changes of them may change the last bits of the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvironmentReport {
    /// Version of the program.
    pub program: String,
    /// Device: `cpu` or `cuda:0`.
    pub device: String,
    /// Name of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Number format of matrix products: `f32`, `tf32` or `bf16`.
    pub products: String,
    /// Threads of libtorch on the CPU.
    pub threads: u64,
    /// Settings of libtorch's allocator on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<String>,
    /// Attention kernels on a GPU, by network and row width: `main 512` has `flash where no row is padded`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attention: BTreeMap<String, String>,
}

/// Problem that does not stop the run or the preparation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Category of the warning, such as `first_value` or `detector`, by which programs count warnings.
    pub topic: String,
    /// Problem and its place.
    pub message: String,
    /// Usual cause or remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Audit result for one specified probability of one view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditReport {
    /// View.
    pub view: String,
    /// Counted quantity.
    pub what: String,
    /// Measured fraction.
    #[serde(with = "Float")]
    pub found: f64,
    /// Specified fraction.
    #[serde(with = "Float")]
    pub promised: f64,
    /// Standard error of the fraction.
    #[serde(with = "Float")]
    pub error: f64,
    /// Sample size.
    #[serde(with = "Float")]
    pub of: f64,
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopReport {
    /// Reason for the end.
    pub why: StopReason,
    /// Whether a checkpoint contains every completed step.
    pub saved: bool,
    /// Steps done at the newest checkpoint that is kept. None if there is no checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Step>,
    /// Run folder.
    pub place: String,
    /// Error message, if the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Memory use of the device. CUDA only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<DevicePeak>,
}

/// Reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// All steps are done.
    Finished,
    /// SIGINT: the user stopped the run at the terminal.
    Interrupt,
    /// SIGTERM: the system stopped the run.
    Terminate,
    /// SIGHUP: the terminal that started the run was closed.
    Hangup,
    /// SIGUSR1: the scheduler stopped the run in order to requeue it.
    Requeue,
    /// Loss spike, with `spike_guard.action = "pause"`.
    Guard,
    /// Error.
    Failed,
    /// Reason that only a later version of the program defines.
    #[serde(other)]
    Other,
}
