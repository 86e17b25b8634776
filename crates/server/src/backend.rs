//! Interface between the server and the training or preparation that it exposes.

use serde::Serialize;
use serde_json::Value;

/// Training or preparation that the server exposes. Every method returns at once, except for rows, which are rebuilt,
/// and for other runs, whose logs are read.
pub trait Backend: Send + Sync {
    /// Returns the current state of all workers, checkpoints and memory.
    fn status(&self) -> Status;

    /// Returns the liveness, readiness and startup state for orchestrators.
    fn health(&self) -> Health;

    /// Returns the configuration without secrets: `{"keys": [{"key", "value", "default", "changed"}], "toml"}`.
    fn config(&self) -> Result<Value, ApiError>;

    /// Returns `count` rows of the current batches, with the output of each view.
    fn rows(&self, count: usize) -> Result<Value, ApiError>;

    /// Returns the list of runs in the same parent folder.
    fn runs(&self) -> Value;

    /// Returns the history of another run of the same parent folder, in the JSON format of the page.
    fn history_of(&self, run: &str) -> Result<String, ApiError>;

    /// Names of the supported actions.
    fn actions(&self) -> &'static [&'static str];

    /// Requests an action. Returns a text that describes the effect.
    fn execute(&self, action: Action) -> Result<String, ApiError>;
}

/// Error of a request to a [`Backend`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The requested object does not exist (status 404).
    #[error("{0}")]
    Unknown(String),
    /// The request cannot be answered now; a retry may succeed (status 503).
    #[error("{0}")]
    Unable(String),
    /// The request is invalid (status 400).
    #[error("{0}")]
    Wrong(String),
}

/// Request to change a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Saves a checkpoint now.
    Checkpoint,
    /// Finishes the step, saves a checkpoint and exits.
    Stop,
    /// Sets the log filter.
    LogLevel(String),
    /// Writes a note to the event log of the run.
    Note(String),
}

impl Action {
    /// Names of all actions.
    pub const NAMES: &'static [&'static str] = &["checkpoint", "stop", "log-level", "note"];

    /// Name of the action, which is also its URL path.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Stop => "stop",
            Self::LogLevel(_) => "log-level",
            Self::Note(_) => "note",
        }
    }
}

/// Probe results. The error text gives the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Liveness: the process makes progress.
    pub live: Result<(), String>,
    /// Readiness: the process does its task.
    pub ready: Result<(), String>,
    /// Startup: the process has started its task.
    pub started: Result<(), String>,
}

/// Current state of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// `train` or `prepare`.
    pub kind: &'static str,
    /// Name of the current phase.
    pub phase: String,
    /// Seconds since the phase began.
    pub since_s: f64,
    /// Completed steps.
    pub step: Option<u64>,
    /// Planned steps.
    pub steps: Option<u64>,
    /// Completed fraction, 0 to 1.
    pub progress: Option<f64>,
    /// Estimated remaining seconds.
    pub eta_s: Option<f64>,
    /// Completed passes over the data.
    pub epoch: Option<f64>,
    /// Real tokens per second.
    pub tokens_per_s: Option<f64>,
    /// Workers of the training data or of the preparation, and their consumers.
    pub actors: Vec<ActorStatus>,
    /// Workers of a running validation; empty otherwise.
    pub validation: Vec<ActorStatus>,
    /// Checkpoint state.
    pub checkpoint: CheckpointStatus,
    /// Memory use.
    pub memory: MemoryStatus,
    /// Seconds since the process started.
    pub uptime_s: f64,
    /// Names of the supported actions.
    pub actions: &'static [&'static str],
}

/// State and time account of one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ActorStatus {
    /// Name of the worker.
    pub name: String,
    /// `busy`, `starved`, `blocked` or `ended`.
    pub doing: &'static str,
    /// Seconds in the current state.
    pub since_s: f64,
    /// Completed items.
    pub items: u64,
    /// Seconds of work.
    pub busy_s: f64,
    /// Seconds of waiting for input.
    pub starved_s: f64,
    /// Seconds of waiting for space in its output queue.
    pub blocked_s: f64,
    /// Seconds since the worker started.
    pub wall_s: f64,
    /// Items in its output queue.
    pub queued: u64,
    /// Capacity of its output queue.
    pub capacity: u64,
    /// Whether it consumes the output of the other workers.
    pub is_reader: bool,
}

impl ActorStatus {
    /// Fractions of its time that it was busy, starved and blocked.
    #[must_use]
    pub fn shares(&self) -> [f64; 3] {
        [self.busy_s, self.starved_s, self.blocked_s].map(|seconds| seconds / self.wall_s.max(1e-9))
    }
}

/// Checkpoint state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CheckpointStatus {
    /// Seconds since the write of the current checkpoint began; `None` if no write is in progress.
    pub writing_s: Option<f64>,
    /// Newest checkpoint that this process saved.
    pub kept: Option<String>,
}

/// Memory use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStatus {
    /// Resident memory of the process, in bytes.
    pub host_bytes: Option<u64>,
    /// Peak device memory of tensors since the last report, in bytes.
    pub device_bytes: Option<u64>,
}
