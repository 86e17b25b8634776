//! Clock of events, the only place that reads time for them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::event::{Event, EventKind, Position, VERSION};

/// Clock that stamps events. Clones share the same start, so that all events of a process count from one instant.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> ClockTime + Send + Sync>,
    begun: Duration,
}

/// Reading of the wall clock and the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockTime {
    /// Wall-clock time in milliseconds since the Unix epoch. It may be set back.
    pub time: u64,
    /// Monotonic time since a fixed instant.
    pub steady: Duration,
}

impl Clock {
    /// Creates a clock from the clocks of the machine. It starts now.
    #[must_use]
    pub fn system() -> Self {
        let begun = Instant::now();
        Self::new(move || {
            // A system time before 1970 counts as 0.
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            ClockTime { time: u64::try_from(since.as_millis()).unwrap_or(u64::MAX), steady: begun.elapsed() }
        })
    }

    /// Creates a clock from the readings of `read`. It starts now.
    #[must_use]
    pub fn new(read: impl Fn() -> ClockTime + Send + Sync + 'static) -> Self {
        Self { begun: read().steady, read: Arc::new(read) }
    }

    /// Creates a clock that is stopped at the Unix epoch, for tests that compare events.
    #[must_use]
    pub fn still() -> Self {
        Self::new(ClockTime::default)
    }

    /// Creates an event with the current time.
    #[must_use]
    pub fn event(&self, at: Position, what: EventKind) -> Event {
        let now = (self.read)();
        Event { version: VERSION, time: now.time, elapsed_s: self.since(now), at, what }
    }

    /// Returns the wall-clock time of events, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn time(&self) -> u64 {
        (self.read)().time
    }

    /// Returns the seconds since the clock started.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        self.since((self.read)())
    }

    // Rounded to milliseconds, which keeps the JSON short.
    fn since(&self, now: ClockTime) -> f64 {
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
    fn clones_count_from_one_start() {
        let ms = Arc::new(AtomicU64::new(5000));
        let hand = Arc::clone(&ms);
        let clock = Clock::new(move || {
            let ms = hand.load(Ordering::Relaxed);
            // The wall clock runs backwards.
            ClockTime { time: 1_700_000_000_000 - ms, steady: Duration::from_millis(ms) }
        });
        assert_eq!(stamp(&clock), (1_699_999_995_000, 0.0));
        ms.store(6250, Ordering::Relaxed);
        assert_eq!(stamp(&clock.clone()), (1_699_999_993_750, 1.25));
    }

    #[test]
    fn the_system_clock_reads_milliseconds() {
        let (time, elapsed_s) = stamp(&Clock::system());
        // Between 2020 and 2100.
        assert!((1_577_836_800_000..4_102_444_800_000).contains(&time), "{time}");
        assert!(elapsed_s >= 0.0);
        assert_eq!(stamp(&Clock::still()), (0, 0.0));
    }
}
