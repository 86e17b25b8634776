//! What can go wrong on the way from batches to checkpoints, by what the operator can do about it.

use std::path::PathBuf;

use schemas::BatchError;
use schemas::ordinal::{BatchIndex, Step};

/// An error that crosses from the side that feeds batches in or takes checkpoints out.
pub type ForeignError = Box<dyn std::error::Error + Send + Sync>;

/// Why training did not reach its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run as configured cannot be trained.
    #[error("{0}")]
    Config(String),
    /// The run folder holds checkpoints of another run.
    #[error(
        "{} is a checkpoint of another run; these differ: {keys}; change that back, go on with it nevertheless \
         (`--allow-change KEY`, `cloze branch`), or begin another run (`run.folder`; `train.init_from = \"{}\"` has these weights){ways}",
        checkpoint.display(), checkpoint.display()
    )]
    Identity {
        /// The newest checkpoint.
        checkpoint: PathBuf,
        /// `key: then → now`, one after another.
        keys: String,
        /// `; a way on` for each of them that has one of its own.
        ways: String,
    },
    /// A checkpoint that cannot be read or written.
    #[error("checkpoint {}: {problem}", path.display())]
    Checkpoint {
        /// File or folder.
        path: PathBuf,
        /// What is wrong, and the way out.
        problem: String,
    },
    /// A checkpoint that another version of this program made.
    #[error(
        "checkpoint {}: made by version {version} of the format; finish it with the program that began it, or begin a \
         new run with its weights, `train.init_from = \"{}\"` (its `main.safetensors`)",
        folder.display(), folder.display()
    )]
    CheckpointVersion {
        /// Its folder.
        folder: PathBuf,
        /// The version that it was made by.
        version: u64,
    },
    /// Gradients of too many steps were not finite. Such steps update no weight, and come again to the bit: exit code 43.
    #[error(
        "the gradient of step {step} is not finite ({objective}); such a step changes no weight; {skipped} so far, \
         `train.max_skipped_steps` allows {allowed}; the same command meets it again: allow more, or begin another run from \
         the newest checkpoint (`train.init_from`) with a lower `optimizer.lr` or in `precision = \"f32\"`; its micro-batches \
         begin with batch {batch}"
    )]
    NonFinite {
        /// The first such step, counted from 1 as reports count them.
        step: Step,
        /// Which objectives' losses were not finite either.
        objective: String,
        /// Steps skipped so far.
        skipped: u64,
        /// What the config allows.
        allowed: u64,
        /// The step's first micro-batch.
        batch: BatchIndex,
    },
    /// More steps spiked than the guard may skip: exit code 43.
    #[error(
        "step {step} spiked out of those before it, and {skips} steps are skipped already, as many as `spike_guard.max_skips` \
         allows; allow more, or look at what these rows have in common: `cloze explain RUN --step {step}`; another \
         `spike_guard.action` lets the run go on over them"
    )]
    Leaps {
        /// The first that spiked now, counted from 1 as reports count them.
        step: Step,
        /// Steps that are skipped.
        skips: usize,
    },
    /// The device's memory does not suffice: exit code 44.
    #[error("{shortage}; {owners}; {way}; what was saved before stands")]
    Memory {
        /// libtorch's words.
        shortage: String,
        /// Who has how much of it by the plan.
        owners: String,
        /// What to change.
        way: String,
    },
    /// The device that was asked for is not there.
    #[error("{0}")]
    Device(String),
    /// A case of `cloze parity` that cannot be computed.
    #[error("case `{case}`, `{field}`: {problem}")]
    Case {
        /// Its id.
        case: String,
        /// `inputs.NAME` or `variant.NAME`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Native(String),
    /// A batch does not hold what the objectives read.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The pipeline failed while it made a batch, or the command line while it kept a checkpoint.
    #[error(transparent)]
    Foreign(ForeignError),
}

impl Error {
    /// Whether the config or the command must change before another try can succeed (exit code 2).
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::Case { .. }
                | Self::Identity { .. }
                | Self::CheckpointVersion { .. }
                | Self::Device(_)
        )
    }
}
