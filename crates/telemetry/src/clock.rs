//! When: the one place that reads time for events.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::event::{Event, EventKind, Position, VERSION};

/// Stamps events. Clones share one beginning, so that everybody who speaks in a process counts from the same moment.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> Now + Send + Sync>,
    begun: Duration,
}

/// A reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the epoch of Unix. It may be set back.
    pub time: u64,
    /// Time since any fixed moment. It never goes back.
    pub steady: Duration,
}

impl Clock {
    /// The machine's clocks; begins now.
    #[must_use]
    pub fn system() -> Self {
        let begun = Instant::now();
        Self::of(move || {
            // A machine that believes it is before 1970 says 0.
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Now { time: u64::try_from(since.as_millis()).unwrap_or(u64::MAX), steady: begun.elapsed() }
        })
    }

    /// Clocks that the caller reads; begins now.
    #[must_use]
    pub fn of(read: impl Fn() -> Now + Send + Sync + 'static) -> Self {
        Self { begun: read().steady, read: Arc::new(read) }
    }

    /// Clocks that stand still at the epoch, for tests that compare events.
    #[must_use]
    pub fn still() -> Self {
        Self::of(Now::default)
    }

    /// An event of this moment.
    #[must_use]
    pub fn event(&self, at: Position, what: EventKind) -> Event {
        let now = (self.read)();
        Event { version: VERSION, time: now.time, elapsed_s: self.since(now), at, what }
    }

    /// Milliseconds since the epoch of Unix, as events have them.
    #[must_use]
    pub fn time(&self) -> u64 {
        (self.read)().time
    }

    /// Seconds since it began.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        self.since((self.read)())
    }

    // Milliseconds say enough and read well.
    fn since(&self, now: Now) -> f64 {
        now.steady.saturating_sub(self.begun).as_millis() as f64 / 1e3
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("now", &(self.read)()).field("begun", &self.begun).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::training::ResumeReport;

    fn stamp(clock: &Clock) -> (u64, f64) {
        let event = clock.event(Position::default(), EventKind::Resume(ResumeReport { place: String::new() }));
        (event.time, event.elapsed_s)
    }

    #[test]
    fn clones_count_from_one_beginning() {
        let ms = Arc::new(AtomicU64::new(5000));
        let hand = Arc::clone(&ms);
        let clock = Clock::of(move || {
            let ms = hand.load(Ordering::Relaxed);
            // The wall clock is set back while the run continues.
            Now { time: 1_700_000_000_000 - ms, steady: Duration::from_millis(ms) }
        });
        assert_eq!(stamp(&clock), (1_699_999_995_000, 0.0));
        ms.store(6250, Ordering::Relaxed);
        assert_eq!(stamp(&clock.clone()), (1_699_999_993_750, 1.25));
    }

    #[test]
    fn the_machine_says_milliseconds() {
        let (time, elapsed_s) = stamp(&Clock::system());
        // Between 2020 and 2100.
        assert!((1_577_836_800_000..4_102_444_800_000).contains(&time), "{time}");
        assert!(elapsed_s >= 0.0);
        assert_eq!(stamp(&Clock::still()), (0, 0.0));
    }
}
