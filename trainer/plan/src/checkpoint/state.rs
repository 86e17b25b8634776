//! State of a checkpoint, `state.json`: the position of a run.

use std::collections::BTreeMap;
use std::io;

use schemas::ordinal::Step;
use schemas::{SealError, Sealed};
use serde::{Deserialize, Serialize};
use store::Store;
use telemetry::change::KeyChange;
use telemetry::training::ValidReport;

use super::STATE_FILE;
use crate::error::Error;
use crate::identity::Identity;
use crate::metric_name::MetricName;

/// The content of `state.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Steps done.
    pub step: Step,
    /// Rows of the stream that these steps consumed.
    pub rows_consumed: u64,
    /// Real tokens of these rows.
    pub tokens_consumed: u64,
    /// Whether the validation of this step is still to be done, because a stop request came first.
    pub validation_pending: bool,
    /// Running BLAKE3 over the digests of all rows consumed, in hexadecimal.
    pub batch_hash: String,
    /// Content hash of the data.
    pub data_content: String,
    /// Program that wrote it, with its version. Another program resumes, but not bit for bit.
    pub program: String,
    /// Version of libtorch. Another version resumes, but not bit for bit.
    pub libtorch: String,
    /// Threads of libtorch. Another number resumes, but not bit for bit.
    pub threads: usize,
    /// Device of the training. Another device resumes, but not bit for bit.
    pub device: String,
    /// Means of the unfinished report, in order; their sums are in `optimizer.safetensors`.
    pub report: Vec<SavedMean>,
    /// Skipped steps among the steps done: see [`skips`](crate::run::skipped_steps).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Step>,
    /// Steps with which the spike guard compares the next ones. Loss and norm of the steps that it has not read yet are
    /// `guard.ring` in `optimizer.safetensors`.
    #[serde(default, skip_serializing_if = "SavedGuard::is_empty")]
    pub guard: SavedGuard,
    /// Detectors of replaced tokens whose gain is watched, by the name of the metric.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub detectors: BTreeMap<String, SavedDetector>,
    /// Best validation so far, if `validation.stop` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stop: Option<SavedEarlyStop>,
    /// Identity of the run.
    pub identity: Identity,
    /// BLAKE3 of every file next to this one.
    pub files: BTreeMap<String, String>,
    /// Keys of the identity that changed in the middle of the run, oldest change first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<IdentityChange>,
    /// Seconds of training of the run, if `train.max_hours` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_s: Option<f64>,
    /// Entries of the run's sidecar files that the run has used.
    #[serde(default, skip_serializing_if = "SidecarState::is_empty")]
    pub sidecars: SidecarState,
}

/// Change of one key of the identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityChange {
    /// Steps done when it changed.
    pub step: Step,
    /// Key with its old and new value.
    pub key: KeyChange,
}

impl Sealed for State {
    const FORMAT: &'static str = "cloze checkpoint";
    const VERSION: u32 = 4;
    const PRETTY: bool = true;
}

impl State {
    /// Reads the state of a checkpoint, which must be the one after `step`.
    pub fn read(checkpoint: &Store, step: Step) -> Result<Self, UnreadState> {
        let damaged = |problem: String| UnreadState::Damaged { place: checkpoint.place(STATE_FILE), problem };
        let Some((bytes, _)) = checkpoint.get_with_stat(STATE_FILE)? else {
            return Err(damaged("the file is missing".to_owned()));
        };
        let state = Self::unseal(&bytes).map_err(|error| match error {
            SealError::Version { found, .. } => {
                UnreadState::Other(Error::CheckpointVersion { folder: checkpoint.place("").into(), version: found })
            }
            SealError::Rewritten => {
                let path = checkpoint.place(STATE_FILE).into();
                let problem = error.to_string();
                UnreadState::Other(Error::Checkpoint { path, problem })
            }
            damage => damaged(damage.to_string()),
        })?;
        if state.step == step {
            Ok(state)
        } else {
            Err(damaged(format!("the file is of the checkpoint after step {}, not {step}", state.step)))
        }
    }
}

/// Reason why a checkpoint is not read.
#[derive(Debug)]
pub enum UnreadState {
    /// The content differs from the written content.
    Damaged {
        /// Location of the object.
        place: String,
        /// Description of the damage.
        problem: String,
    },
    /// The checkpoint may be complete: the store failed, the version differs, or another program reformatted its state.
    Other(Error),
}

impl From<UnreadState> for Error {
    fn from(unread: UnreadState) -> Self {
        match unread {
            UnreadState::Damaged { place, problem } => Self::Checkpoint { path: place.into(), problem },
            UnreadState::Other(error) => error,
        }
    }
}

impl From<io::Error> for UnreadState {
    fn from(error: io::Error) -> Self {
        Self::Other(error.into())
    }
}

/// One mean of the unfinished report in `state.json`. Its sum is a tensor, and so is a count on the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SavedMean {
    /// Term of an objective.
    Term {
        /// Objective and part.
        name: MetricName,
        /// Weight in the loss.
        weight: f64,
        /// Number of summands.
        count: f64,
    },
    /// Metric of an objective.
    Metric {
        /// Objective and part.
        name: MetricName,
        /// Number of summands; `None` if the device counts them.
        count: Option<f64>,
        /// Metric whose entropy is added to the mean.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entropy_of: Option<MetricName>,
    },
    /// Norm of the gradient.
    Norm {
        /// Number of steps in the sum.
        count: f64,
    },
}

/// Window of the spike guard in `state.json`: the steps that later ones are compared with. Values that the host has not
/// read yet are a tensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedGuard {
    /// Losses of the last steps, oldest first.
    pub losses: Vec<f64>,
    /// Norms of their gradients.
    pub norms: Vec<f64>,
    /// Number of steps whose loss and norm are still on the device.
    pub unread: usize,
}

impl SavedGuard {
    /// Whether the window is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Health of a detector of replaced tokens, by the reports so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedDetector {
    /// Number of latest reports whose gain was above noise; negative if it was within noise.
    pub streak: i64,
    /// Whether the gain has been above noise.
    pub has_learned: bool,
    /// Whether the latest collapse was warned of.
    pub is_warned: bool,
}

/// Best validation of a run that `validation.stop` may end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedEarlyStop {
    /// Metric by which validations are compared.
    pub metric: String,
    /// Best finite value; `None` if there was none.
    pub best: Option<f64>,
    /// Steps done at the best value, or at the first validation.
    pub best_step: Step,
    /// Validations after the best one.
    pub since: u64,
}

/// Number of entries of each sidecar file that the run had used when the checkpoint was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SidecarState {
    /// Readings of the clock, if `train.max_hours` is set.
    pub readings: usize,
    /// Spans of steps, if the run was extended.
    pub spans: usize,
}

impl SidecarState {
    /// Whether the run had used no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Validation scores of a checkpoint: `validation_scores.json` in its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validated {
    /// Steps done.
    pub step: Step,
    /// Finite scores by name: `loss`, `valid/mlm`, `valid/mlm.accuracy`, terms and metrics by their names.
    pub figures: BTreeMap<String, f64>,
}

impl Sealed for Validated {
    const FORMAT: &'static str = "cloze validation scores";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl Validated {
    /// Collects the finite scores of a validation after `step`.
    #[must_use]
    pub fn new(step: Step, report: &ValidReport) -> Self {
        // JSON has no representation of infinity and NaN.
        let figures = Self::scores(report).into_iter().filter(|(_, value)| value.is_finite()).collect();
        Self { step, figures }
    }

    /// Returns all scores of a validation by name.
    #[must_use]
    pub fn scores(report: &ValidReport) -> BTreeMap<String, f64> {
        let mlm = report.mlm.iter().flat_map(|mlm| [("valid/mlm", mlm.loss), ("valid/mlm.accuracy", mlm.accuracy)]);
        let own = [("loss", report.loss)].into_iter().chain(mlm).map(|(name, value)| (name.to_owned(), value));
        let named = report.terms.iter().chain(&report.metrics).map(|(name, value)| (name.clone(), *value));
        named.chain(own).collect()
    }
}
