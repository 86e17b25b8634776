//! Pauses between two polls of a folder that is still being prepared.

use std::time::Duration;

/// The first and the longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Pauses that double up to a maximum.
#[derive(Debug)]
pub struct PollInterval(Duration);

impl PollInterval {
    /// Starts with the shortest pause.
    pub fn begin() -> Self {
        Self(PAUSES.0)
    }

    /// Returns the next pause, and doubles it for the following call.
    pub fn next_pause(&mut self) -> Duration {
        let next = self.0;
        self.0 = (2 * next).min(PAUSES.1);
        next
    }
}
