//! What a run says. Where it stands, its step among it, is the event's [`Position`](crate::Position).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemas::ordinal::Step;
use schemas::{DatasetVersion, RowIndex};
use serde::{Deserialize, Serialize};

use crate::number::{ByName, Float, List, Maybe};

/// What a run began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartReport {
    /// Whether all weights were drawn. Otherwise nothing is expected.
    pub random: bool,
    /// Each term over the first step, by `objective` or `objective.term`.
    #[serde(with = "ByName")]
    pub terms: BTreeMap<String, f64>,
    /// What those that have a law should be.
    pub expected: BTreeMap<String, Bounds>,
    /// Those that are not.
    pub unexpected_losses: Vec<UnexpectedLoss>,
}

/// Where a value should lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// At least.
    #[serde(with = "Float")]
    pub low: f64,
    /// At most.
    #[serde(with = "Float")]
    pub high: f64,
}

impl Bounds {
    /// Whether a value lies there. What is not a number lies nowhere.
    #[must_use]
    pub fn admit(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// A first value that is not what guessing costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnexpectedLoss {
    /// `objective` or `objective.term`.
    pub term: String,
    /// What it is.
    #[serde(with = "Float")]
    pub value: f64,
    /// What it should be.
    #[serde(flatten)]
    pub expected: Bounds,
    /// What usually causes it.
    pub hint: String,
}

/// Training since the last report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepReport {
    /// What was learned. The same command reports the same, to the bit, on an equal number of threads.
    #[serde(flatten)]
    pub figures: Figures,
    /// The loss of each step since the last report, the first one first; what is not a number learned nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "List")]
    pub losses: Vec<f64>,
    /// The norm of the gradient of each of them, before clipping.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "List")]
    pub grad_norms: Vec<f64>,
    /// Running BLAKE3 over the digests of all rows consumed.
    pub batch_hash: String,
    /// The share of the run that is done, by which the learning rate goes; where tokens or hours end the run.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe")]
    pub progress: Option<f64>,
    /// How fast: no two runs agree.
    #[serde(flatten)]
    pub speed: Speed,
    /// Passes over each source of a mixture so far; nothing where a run reads one folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "ByName")]
    pub source_epochs: BTreeMap<String, f64>,
    /// Where the wall time since the last report went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<PhaseSeconds>,
    /// How full the device was; CUDA only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<DeviceMemory>,
    /// Bytes of the machine's memory that the process has (resident), all its threads and page-locked buffers included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_bytes: Option<u64>,
}

/// Seconds since the last report, and what the loop did in them; what is left of `wall` are the small things between.
/// Reports are said with the steps that they are of: the validation and the checkpoint after a report are in the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseSeconds {
    /// All of them.
    #[serde(with = "Float")]
    pub wall: f64,
    /// Waiting for batches.
    #[serde(with = "Float")]
    pub data: f64,
    /// The host's part of steps: handing work to the device, on the CPU the work itself.
    #[serde(with = "Float")]
    pub step: f64,
    /// Waiting for the device to be done with it, and reading what came of it.
    #[serde(with = "Float")]
    pub read: f64,
    /// Validating.
    #[serde(with = "Float")]
    pub validation: f64,
    /// Waiting for checkpoints: for a copy in memory, or for the one before to be written.
    #[serde(with = "Float")]
    pub checkpoint: f64,
}

/// Memory of the device since the last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceMemory {
    /// The most bytes that tensors had at once.
    pub allocated_peak_bytes: u64,
    /// The most bytes that libtorch had taken at once: those, and what it keeps for the next.
    pub reserved_peak_bytes: u64,
    /// Bytes that the device has.
    pub total_bytes: u64,
}

/// Memory of the device over a whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DevicePeak {
    /// The most bytes that tensors had at once.
    pub peak_bytes: u64,
    /// The most that there would be by plan.
    pub planned_bytes: u64,
}

/// The numbers of the steps since the last report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// The sum of the terms with their weights.
    #[serde(with = "Float")]
    pub loss: f64,
    /// Each term in nats or its own unit, by `objective` or `objective.term`.
    #[serde(with = "ByName")]
    pub terms: BTreeMap<String, f64>,
    /// By `objective.metric`.
    #[serde(with = "ByName")]
    pub metrics: BTreeMap<String, f64>,
    /// Learning rate of the last step.
    #[serde(with = "Float")]
    pub lr: f64,
    /// Mean norm of the gradient before clipping; a skipped step counts as 0.
    #[serde(with = "Float")]
    pub grad_norm: f64,
    /// Steps skipped since the run began.
    pub skipped: u64,
}

/// Numbers that depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speed {
    /// Real tokens (no padding) per second of wall time.
    #[serde(with = "Float")]
    pub tokens_per_s: f64,
    /// Optimizer steps per second of wall time, as `tokens_per_s` counts it: without validations.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe")]
    pub steps_per_s: Option<f64>,
    /// Share of the device's peak that the model needed; CUDA only.
    #[serde(default, with = "Maybe")]
    pub mfu: Option<f64>,
    /// Share of wall time spent waiting for batches.
    #[serde(with = "Float")]
    pub data_wait: f64,
    /// Share of wall time spent waiting for checkpoints: for a copy in memory, or for the one before to be written.
    #[serde(default, with = "Float")]
    pub checkpoint_stall: f64,
    /// Seconds until the last step, if all take as long as this process's did so far, validations and checkpoints
    /// included; none once it is done.
    #[serde(default, with = "Maybe")]
    pub eta_s: Option<f64>,
}

/// The valid split, in eval mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValidReport {
    /// Rows of the valid split that were looked at.
    pub rows: u64,
    /// The sum of the terms with their weights.
    #[serde(with = "Float")]
    pub loss: f64,
    /// Each term, by `objective` or `objective.term`.
    #[serde(with = "ByName")]
    pub terms: BTreeMap<String, f64>,
    /// By `objective.metric`.
    #[serde(with = "ByName")]
    pub metrics: BTreeMap<String, f64>,
    /// Plain masked language modelling on the fixed mask; none without a head that predicts tokens.
    pub mlm: Option<MlmReport>,
    /// Seconds it took.
    #[serde(with = "Float")]
    pub seconds: f64,
}

/// The yardstick: one fixed mask for all runs on the same data, next to what needs no context at all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MlmReport {
    /// Mean cross-entropy in nats.
    #[serde(with = "Float")]
    pub loss: f64,
    /// Share of masked tokens whose best guess is right.
    #[serde(with = "Float")]
    pub accuracy: f64,
    /// ln of the vocabulary's size: where an untrained model begins.
    #[serde(with = "Float")]
    pub ln_vocab: f64,
    /// Entropy of the masked targets' own distribution: what no model without context can beat.
    #[serde(with = "Float")]
    pub unigram_entropy: f64,
    /// Their cross-entropy under the training split's unigram distribution: what a model without context reaches.
    /// None where nobody has counted it: a streamed run begins before.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe")]
    pub unigram_cross_entropy: Option<f64>,
}

/// The data of an epoch is another dataset version of the prepared folder than that of the epoch before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetVersionReport {
    /// The dataset version that rows are of from now on.
    pub dataset_version: DatasetVersion,
    /// The one before.
    pub before: DatasetVersion,
    /// The first row of the stream that is of it.
    pub row: RowIndex,
    /// The source whose folder that is; none where a run reads one folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A step waited for data that are still being prepared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StarvedReport {
    /// By whom: `prepare`.
    pub by: String,
    /// For how long.
    #[serde(with = "Float")]
    pub seconds: f64,
    /// The part that it waited for, by its place in the list, from 0.
    pub part: u64,
    /// Parts of the list.
    pub parts: u64,
}

/// What leaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpikeMetric {
    /// The loss of a step.
    Loss,
    /// The norm of its gradient, before clipping.
    GradNorm,
}

/// A step whose loss or gradient leaps out of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossSpikeReport {
    /// The step, counted from 1 as reports count them.
    pub spike_step: Step,
    /// The first row of the stream that it learned from.
    pub first_row: RowIndex,
    /// How many rows it learned from.
    pub rows: u64,
    /// Which of its numbers spiked.
    pub figure: SpikeMetric,
    /// What it was.
    #[serde(with = "Float")]
    pub value: f64,
    /// The median of those before it.
    #[serde(with = "Float")]
    pub median: f64,
    /// How many robust standard deviations lie between the two.
    #[serde(with = "Float")]
    pub sigmas: f64,
}

/// A step that is skipped: its rows are consumed, and teach nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SkipReport {
    /// Why.
    #[serde(flatten)]
    pub leap: LossSpikeReport,
    /// The rows that the model found hardest, the worst first.
    pub suspects: Vec<Suspect>,
}

/// A row that may have made a step leap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suspect {
    /// Its number in the stream.
    pub row: RowIndex,
    /// Its own loss, without dropout, by the weights before the step.
    #[serde(with = "Float")]
    pub loss: f64,
    /// The ids of its documents, in order.
    pub documents: Vec<String>,
}

/// A row that cannot be made is in the batch that was handed on: as padding, which counts nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BadRowReport {
    /// Its number in the stream.
    pub row: RowIndex,
    /// The source of a mixture that it is of; none where a run reads one folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The stored sample, `part:row`.
    pub sample: String,
    /// The shard that it is in, within the prepared folder.
    pub shard: String,
    /// The row group in the shard.
    pub group: u32,
    /// The row in the group.
    pub row_in_group: u64,
    /// The hashes of its documents, in hexadecimal.
    pub documents: Vec<String>,
    /// What went wrong, each time that it was made.
    pub why: String,
}

/// A checkpoint that is on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointReport {
    /// Where it is.
    pub place: String,
    /// Seconds that writing it took, next to training.
    #[serde(with = "Float")]
    pub seconds: f64,
    /// Seconds that the next step waited for it: for the one before it to be written, and for a copy in memory.
    #[serde(default, with = "Float")]
    pub stall_s: f64,
}

/// The checkpoint that a run continues from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeReport {
    /// Where it is.
    pub place: String,
}

/// Something that is not as it should be, and that work continues with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// One name for all warnings of its sort, like `first_value`: what a program counts them by.
    pub topic: String,
    /// What, and where.
    pub message: String,
    /// The usual cause, or the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What an audit counted of one law of one view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditReport {
    /// The view.
    pub view: String,
    /// What was counted.
    pub what: String,
    /// The share that was found.
    #[serde(with = "Float")]
    pub found: f64,
    /// The share that the view promises.
    #[serde(with = "Float")]
    pub promised: f64,
    /// Standard error of the share.
    #[serde(with = "Float")]
    pub error: f64,
    /// Of how many.
    #[serde(with = "Float")]
    pub of: f64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopReport {
    /// Why it ended.
    pub why: Why,
    /// Whether a checkpoint holds every step done.
    pub saved: bool,
    /// Steps done at the newest checkpoint that is kept; none where there is no checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Step>,
    /// The run's folder.
    pub place: String,
    /// What went wrong, where something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How full the device was; CUDA only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<DevicePeak>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// All steps are done.
    Finished,
    /// Somebody at the terminal asked for it: SIGINT.
    Interrupt,
    /// The system asked for it: SIGTERM.
    Terminate,
    /// The terminal that it was started from went away: SIGHUP.
    Hangup,
    /// A scheduler wants to start it again elsewhere: SIGUSR1.
    Requeue,
    /// A step has a loss spike, and `spike_guard.action` is `pause`.
    Guard,
    /// An error.
    Failed,
    /// For a reason that only a later program knows.
    #[serde(other)]
    Other,
}
