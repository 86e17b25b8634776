//! State of a checkpoint: `state.json`, the position of a run.

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
    /// Rows of the stream that they took.
    pub rows_consumed: u64,
    /// Real tokens of these rows.
    pub tokens_consumed: u64,
    /// Whether the validation of this step is still to be done (a stop came first).
    pub validation_pending: bool,
    /// Running BLAKE3 over the digests of all rows consumed, in hexadecimal.
    pub batch_hash: String,
    /// Content hash of the data.
    pub data_content: String,
    /// The program that wrote it, with its version: another resumes, not to the bit.
    pub program: String,
    /// The version of libtorch: likewise.
    pub libtorch: String,
    /// Threads of libtorch: likewise.
    pub threads: usize,
    /// Where it was trained: likewise.
    pub device: String,
    /// The means of the report under way, in order; their sums are in `optimizer.safetensors`.
    pub report: Vec<SavedMean>,
    /// The steps that were skipped, of those done: see [`skips`](crate::run::skipped_steps).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Step>,
    /// What the guard compares the next steps with; the loss and norm of those that it has still to look at are
    /// `guard.ring` in `optimizer.safetensors`.
    #[serde(default, skip_serializing_if = "SavedGuard::is_empty")]
    pub guard: SavedGuard,
    /// What makes it this run.
    pub identity: Identity,
    /// BLAKE3 of every file next to this one.
    pub files: BTreeMap<String, String>,
    /// Keys of the identity that were changed in the middle of the run, the oldest change first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<IdentityChange>,
    /// Seconds that the run has trained, where hours end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_s: Option<f64>,
    /// What the run has passed that is kept next to its checkpoints.
    #[serde(default, skip_serializing_if = "Beside::is_empty")]
    pub beside: Beside,
}

/// A key of the identity that is another since a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityChange {
    /// Steps done when it changed.
    pub step: Step,
    /// Which, and how.
    pub key: KeyChange,
}

impl Sealed for State {
    const FORMAT: &'static str = "cloze checkpoint";
    const VERSION: u32 = 4;
    const PRETTY: bool = true;
}

impl State {
    /// That of a checkpoint, which has to be after that step.
    pub fn read(checkpoint: &Store, step: Step) -> Result<Self, Unread> {
        let damaged = |problem: String| Unread::Damaged { place: checkpoint.place(STATE_FILE), problem };
        let Some((bytes, _)) = checkpoint.read_with_stat(STATE_FILE)? else {
            return Err(damaged("it is missing".to_owned()));
        };
        let state = Self::unseal(&bytes).map_err(|error| match error {
            SealError::Version { found, .. } => {
                Unread::Other(Error::CheckpointVersion { folder: checkpoint.place("").into(), version: found })
            }
            SealError::Rewritten => {
                let (path, problem) = (checkpoint.place(STATE_FILE).into(), error.to_string());
                Unread::Other(Error::Checkpoint { path, problem })
            }
            damage => damaged(damage.to_string()),
        })?;
        if state.step == step {
            Ok(state)
        } else {
            Err(damaged(format!("it is the checkpoint after step {}", state.step)))
        }
    }
}

/// Why a checkpoint is not read.
#[derive(Debug)]
pub enum Unread {
    /// It is not as it was written.
    Damaged {
        /// The object.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It may well be whole: the store failed, it is of another version, or somebody has formatted its state.
    Other(Error),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Damaged { place, problem } => Self::Checkpoint { path: place.into(), problem },
            Unread::Other(error) => error,
        }
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Other(error.into())
    }
}

/// One mean of a tally as `state.json` keeps it; its sum is a tensor, and so is a count of the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SavedMean {
    /// A term.
    Term {
        /// Whose, and which.
        name: MetricName,
        /// Its weight in the loss.
        weight: f64,
        /// How many things were added up.
        count: f64,
    },
    /// A metric.
    Metric {
        /// Whose, and which.
        name: MetricName,
        /// How many things were added up; none where the device counts.
        count: Option<f64>,
    },
    /// The norm of the gradient.
    Norm {
        /// How many steps were added up.
        count: f64,
    },
}

/// What `state.json` keeps of a guard: the steps that others are compared with. Those that nobody has read yet are a tensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedGuard {
    /// Losses of the last steps, the oldest first.
    pub losses: Vec<f64>,
    /// Norms of their gradients.
    pub norms: Vec<f64>,
    /// Steps whose loss and norm are on the device.
    pub unread: usize,
}

impl SavedGuard {
    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How much a checkpoint has seen of the files next to it, which the run has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Beside {
    /// Readings of the clock, where hours end the run.
    pub readings: usize,
    /// Spans of steps, where somebody has extended it.
    pub spans: usize,
}

impl Beside {
    /// Whether there was nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The figures of a checkpoint: `validation_scores.json` in its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validated {
    /// Steps done.
    pub step: Step,
    /// Each figure that is a number: `loss`, `valid/mlm`, `valid/mlm.accuracy`, terms and metrics by their names.
    pub figures: BTreeMap<String, f64>,
}

impl Sealed for Validated {
    const FORMAT: &'static str = "cloze validation scores";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl Validated {
    /// What a validation after that step found.
    #[must_use]
    pub fn of(step: Step, report: &ValidReport) -> Self {
        let mlm = report.mlm.iter().flat_map(|mlm| [("valid/mlm", mlm.loss), ("valid/mlm.accuracy", mlm.accuracy)]);
        let own = [("loss", report.loss)].into_iter().chain(mlm).map(|(name, value)| (name.to_owned(), value));
        let named = report.terms.iter().chain(&report.metrics).map(|(name, value)| (name.clone(), *value));
        // JSON has no other numbers.
        let figures = named.chain(own).filter(|(_, value)| value.is_finite()).collect();
        Self { step, figures }
    }
}
