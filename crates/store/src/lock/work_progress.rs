//! Progress of the work that a lock protects. A lock is not renewed while its work makes none.

use std::fmt::{self, Debug, Formatter};
use std::time::{Duration, Instant};

/// Counter of some work, and the time that it may stay the same.
pub struct WorkProgress {
    count: Box<dyn Fn() -> u64 + Send>,
    max_idle: Duration,
    last: u64,
    since: Instant,
}

impl Debug for WorkProgress {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WorkProgress").field("max_idle", &self.max_idle).finish_non_exhaustive()
    }
}

impl WorkProgress {
    /// Creates the progress of a counter that changes at least once within `max_idle` while there is progress.
    pub fn new(max_idle: Duration, count: impl Fn() -> u64 + Send + 'static) -> Self {
        Self { last: count(), count: Box::new(count), max_idle, since: Instant::now() }
    }

    /// Whether the counter has been the same for too long.
    pub(super) fn is_idle(&mut self) -> bool {
        let count = (self.count)();
        if count != self.last {
            (self.last, self.since) = (count, Instant::now());
        }
        self.since.elapsed() > self.max_idle
    }
}
