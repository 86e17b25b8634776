//! Errors of training, by the action that the user can take.

use std::path::PathBuf;

use schemas::BatchError;
use schemas::ordinal::{BatchIndex, Step};

/// Error of the caller's code that supplies batches or stores checkpoints.
pub type ForeignError = Box<dyn std::error::Error + Send + Sync>;

/// Reason why training did not reach its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configured run cannot be trained.
    #[error("{0}")]
    Config(String),
    /// The run folder holds checkpoints of another run.
    #[error("{}: the run has another configuration:\n{}\nways to continue:\n{}", checkpoint.display(), indented(changes), indented(ways))]
    Identity {
        /// The newest checkpoint.
        checkpoint: PathBuf,
        /// One line for each key that differs: `key  then → now`.
        changes: Vec<String>,
        /// One line for each way to continue.
        ways: Vec<String>,
    },
    /// A checkpoint cannot be read or written.
    #[error("checkpoint {}: {problem}", path.display())]
    Checkpoint {
        /// File or folder.
        path: PathBuf,
        /// Description of the problem and its fix.
        problem: String,
    },
    /// The checkpoint has another version of the format.
    #[error(
        "checkpoint {}: version {version} of the format; finish the run with the program that started it, or start a \
         new run with these weights, `train.init_from = \"{}\"` (the file `main.safetensors`)",
        folder.display(), folder.display()
    )]
    CheckpointVersion {
        /// Folder of the checkpoint.
        folder: PathBuf,
        /// Version of the format in the file.
        version: u64,
    },
    /// Gradients of too many steps were not finite. Such steps do not update the weights, and recur bit for bit: exit
    /// code 43.
    #[error(
        "the gradient of step {step} is not finite ({objective}); its first micro-batch is batch {batch}; such steps do \
         not update the weights: {skipped} so far, `train.max_skipped_steps` allows {allowed}; the same command repeats \
         this step: allow more skipped steps, or start a new run from the newest checkpoint (`train.init_from`) with a \
         lower `optimizer.lr` or in `precision = \"f32\"`"
    )]
    NonFinite {
        /// First such step, counted from 1 as in reports.
        step: Step,
        /// Objectives whose losses were not finite either.
        objective: String,
        /// Number of steps skipped so far.
        skipped: u64,
        /// Number of skipped steps that the configuration allows.
        allowed: u64,
        /// First micro-batch of the step.
        batch: BatchIndex,
    },
    /// More steps spiked than the spike guard may skip: exit code 43.
    #[error(
        "loss spike at step {step}: {skips} steps are already skipped, the maximum of `spike_guard.max_skips`; raise it, \
         inspect the rows of the step (`cloze explain RUN --step {step}`), or continue over spikes with another \
         `spike_guard.action`"
    )]
    LossSpikes {
        /// First new spike, counted from 1 as in reports.
        step: Step,
        /// Number of skipped steps.
        skips: usize,
    },
    /// The memory of the device does not suffice: exit code 44.
    #[error("{shortage}; {owners}; {way}; saved checkpoints are not affected")]
    Memory {
        /// Message of libtorch.
        shortage: String,
        /// Planned memory by owner.
        owners: String,
        /// Proposed change.
        way: String,
    },
    /// The requested device does not exist.
    #[error("{0}")]
    Device(String),
    /// A case of `cloze parity` cannot be computed.
    #[error("case `{case}`, `{field}`: {problem}")]
    Case {
        /// Id of the case.
        case: String,
        /// `inputs.NAME` or `variant.NAME`.
        field: String,
        /// Description of the problem.
        problem: String,
    },
    /// Input or output failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Native(String),
    /// A batch lacks columns that the objectives read.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The caller failed to supply a batch or to store a checkpoint.
    #[error(transparent)]
    Foreign(ForeignError),
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

impl Error {
    /// Whether the configuration or the command must change before a retry can succeed (exit code 2).
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
