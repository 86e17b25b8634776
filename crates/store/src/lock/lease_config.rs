//! What a lock is taken on, and why it is not.

use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};
use std::time::Duration;

use super::holder::Holder;

/// How often a lock beats, and how long it may stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// The time between two beats.
    pub beat: Duration,
    /// The time after which a lock that stands still is taken over: at least four beats.
    pub patience: Duration,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self { beat: Duration::from_secs(1), patience: Duration::from_secs(10) }
    }
}

/// Why a lock was not taken.
#[derive(Debug)]
pub enum LockError {
    /// Somebody else holds it, and is alive.
    Held {
        /// The lock, in words.
        place: String,
        /// Who.
        holder: Box<Holder>,
    },
    /// The store failed.
    Io(io::Error),
}

impl Display for LockError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { place, holder } => write!(f, "{place}: held by {holder}; wait for its end, or end it"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LockError {}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<LockError> for io::Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held { .. } => Self::new(ErrorKind::ResourceBusy, error),
            LockError::Io(error) => error,
        }
    }
}
