//! Who is looked at.

use serde::Serialize;
use serde_json::Value;

/// A training or a preparation, as those who look at it ask it. Everything is answered at once, but for rows, which are
/// rebuilt, and other runs, whose logs are read.
pub trait Backend: Send + Sync {
    /// What all of it does now.
    fn status(&self) -> Status;

    /// Whether it lives, is ready, has started: in this order what orchestrators ask.
    fn health(&self) -> Health;

    /// The configuration: `{"keys": [{"key", "value", "default", "changed"}], "toml"}`. No secret is in it.
    fn config(&self) -> Result<Value, ApiError>;

    /// Some rows that are learned from about now, with what each view made of them.
    fn rows(&self, count: usize) -> Result<Value, ApiError>;

    /// Runs next to this one.
    fn runs(&self) -> Value;

    /// What another run next to this one has said: a history in the JSON that the page reads.
    fn history_of(&self, run: &str) -> Result<String, ApiError>;

    /// What may be asked of it.
    fn actions(&self) -> &'static [&'static str];

    /// Asks it; says what will be done.
    fn act(&self, action: Action) -> Result<String, ApiError>;
}

/// Why something cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// There is no such thing.
    #[error("{0}")]
    Unknown(String),
    /// It cannot be had now.
    #[error("{0}")]
    Unable(String),
    /// It was asked for in a way that never will be answered.
    #[error("{0}")]
    Wrong(String),
}

/// What may be asked of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Save now.
    Checkpoint,
    /// Finish the step, save, leave.
    Stop,
    /// Log by this filter.
    LogLevel(String),
    /// Write this into the log of the run.
    Note(String),
}

impl Action {
    /// All names.
    pub const NAMES: &'static [&'static str] = &["checkpoint", "stop", "log-level", "note"];

    /// Its name, as in a path.
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

/// Whether a run lives, is ready, has started; the text says why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Somebody moves.
    pub live: Result<(), String>,
    /// It does what it is for.
    pub ready: Result<(), String>,
    /// It has begun.
    pub started: Result<(), String>,
}

/// What all actors do now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// `train` or `prepare`.
    pub kind: &'static str,
    /// What is being done.
    pub phase: String,
    /// For how long, in seconds.
    pub since_s: f64,
    /// Steps done.
    pub step: Option<u64>,
    /// Steps by plan.
    pub steps: Option<u64>,
    /// The share that is done.
    pub progress: Option<f64>,
    /// Seconds that are left.
    pub eta_s: Option<f64>,
    /// Passes over the data.
    pub epoch: Option<f64>,
    /// Real tokens per second.
    pub tokens_per_s: Option<f64>,
    /// Those that make, and those that read.
    pub actors: Vec<ActorStatus>,
    /// The same of a validation, while there is one.
    pub validation: Vec<ActorStatus>,
    /// What becomes of checkpoints.
    pub checkpoint: CheckpointStatus,
    /// Memory.
    pub memory: MemoryStatus,
    /// Seconds since the process began.
    pub uptime_s: f64,
    /// What may be asked.
    pub actions: &'static [&'static str],
}

/// One actor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ActorStatus {
    /// Its name.
    pub name: String,
    /// `busy`, `starved`, `blocked` or `ended`.
    pub doing: &'static str,
    /// For how long, in seconds.
    pub since_s: f64,
    /// Items done.
    pub items: u64,
    /// Seconds that it worked.
    pub busy_s: f64,
    /// Seconds that it waited for input.
    pub starved_s: f64,
    /// Seconds that it waited for room.
    pub blocked_s: f64,
    /// Seconds that it is there.
    pub wall_s: f64,
    /// Items that wait behind it.
    pub queued: u64,
    /// Items that may.
    pub capacity: u64,
    /// Whether it reads what the others make.
    pub is_reader: bool,
}

impl ActorStatus {
    /// The shares of its time that it was busy, starved and blocked.
    #[must_use]
    pub fn shares(&self) -> [f64; 3] {
        [self.busy_s, self.starved_s, self.blocked_s].map(|seconds| seconds / self.wall_s.max(1e-9))
    }
}

/// What becomes of checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CheckpointStatus {
    /// Seconds that one is being written; none if none is.
    pub writing_s: Option<f64>,
    /// The newest that this process kept.
    pub kept: Option<String>,
}

/// Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStatus {
    /// Resident bytes of the process.
    pub host_bytes: Option<u64>,
    /// The most bytes that tensors had on the device since the last report.
    pub device_bytes: Option<u64>,
}
