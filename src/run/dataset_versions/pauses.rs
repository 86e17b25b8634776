//! Pauses between two reads of a folder that is still being filled.

use std::time::Duration;

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Pauses that grow.
#[derive(Debug)]
pub struct Pauses(Duration);

impl Pauses {
    /// Starts the count of pauses.
    pub fn begin() -> Self {
        Self(PAUSES.0)
    }

    /// The next one.
    pub fn next_pause(&mut self) -> Duration {
        let next = self.0;
        self.0 = (2 * next).min(PAUSES.1);
        next
    }
}
