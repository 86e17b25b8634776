//! Between two looks at a folder that is not far enough.

use std::time::Duration;

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Pauses that grow.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn begin() -> Self {
        Self(PAUSES.0)
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Duration {
        let next = self.0;
        self.0 = (2 * next).min(PAUSES.1);
        next
    }
}
