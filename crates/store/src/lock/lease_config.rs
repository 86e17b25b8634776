//! Timing of a lock, and the error of a refused lock.

use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};
use std::time::Duration;

use super::holder::Holder;

/// Timing of a lock: heartbeat interval and expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Time between two heartbeats.
    pub heartbeat_interval: Duration,
    /// Time without a heartbeat after which the lock is taken over: at least four heartbeats, at most an hour.
    pub takeover_delay: Duration,
}

/// Longest takeover delay. A longer one in a lock is a damaged or foreign file, and contenders wait no longer for it.
pub(super) const MAX_TAKEOVER_DELAY: Duration = Duration::from_secs(3600);

impl Default for LeaseConfig {
    fn default() -> Self {
        Self { heartbeat_interval: Duration::from_secs(1), takeover_delay: Duration::from_secs(10) }
    }
}

/// Error of a lock that was not taken.
#[derive(Debug)]
pub enum LockError {
    /// Another holder has the lock and is alive.
    Held {
        /// Location of the lock.
        place: String,
        /// Holder of the lock.
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
