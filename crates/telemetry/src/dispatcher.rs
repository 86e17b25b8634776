//! Dispatches events to observers on a background thread, so that training never blocks on an observer.
//!
//! An observer may be slow: a page without readers, a full disk, a host that does not respond. If the queue is full,
//! events are dropped, counted and reported. The log is not such an observer: losing one of its lines must end a run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::{Event, Observer};

/// Capacity of the event queue: 17 minutes of events at one report per second.
const EVENTS: usize = 1024;

/// Maximum time that observers may take for the last events.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Dispatcher of events to observers.
#[derive(Debug)]
pub struct Dispatcher {
    /// Sender of events. `None` if there are no observers.
    events: Option<SyncSender<Delivered>>,
    /// Events that were dropped since the last queued event.
    missed: u64,
    /// Closed when all events are delivered.
    done: Receiver<()>,
}

/// Queued event, and the number of events dropped before it.
#[derive(Debug)]
struct Delivered {
    event: Event,
    missed: u64,
}

impl Dispatcher {
    /// Starts the thread of these observers. Without observers there is no thread.
    pub fn start(readers: Vec<Box<dyn Observer>>) -> runtime::Result<Self> {
        let (alive, done) = sync_channel(0);
        if readers.is_empty() {
            return Ok(Self { events: None, missed: 0, done });
        }
        let (events, waiting) = sync_channel::<Delivered>(EVENTS);
        runtime::spawn("dispatcher", move || {
            let _alive = alive;
            let mut readers = readers;
            for Delivered { event, missed } in waiting {
                if missed > 0 {
                    warn_missed(missed);
                }
                readers.retain_mut(|reader| deliver(reader.as_mut(), &event));
            }
        })?;
        Ok(Self { events: Some(events), missed: 0, done })
    }
}

impl Observer for Dispatcher {
    fn observe(&mut self, event: &Event) {
        let Some(events) = &self.events else { return };
        match events.try_send(Delivered { event: event.clone(), missed: self.missed }) {
            Ok(()) => self.missed = 0,
            Err(TrySendError::Full(_)) => self.missed += 1,
            // The thread has ended, and its panics are logged.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        let Some(events) = self.events.take() else { return };
        drop(events);
        if self.done.recv_timeout(SHUTDOWN_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("dispatcher: observers did not process the last events in time");
        }
        if self.missed > 0 {
            warn_missed(self.missed);
        }
    }
}

/// Delivers an event to an observer. Returns `false` if the observer panics: it then receives no more events, and the
/// other observers are not affected.
fn deliver(reader: &mut dyn Observer, event: &Event) -> bool {
    // Unwind safety: the observer is not used again after a panic.
    let result = catch_unwind(AssertUnwindSafe(|| reader.observe(event)));
    if result.is_err() {
        tracing::warn!("dispatcher: an observer panicked and receives no more events; the work continues");
    }
    result.is_ok()
}

fn warn_missed(missed: u64) {
    tracing::warn!(missed, "dispatcher: dropped events, because observers are too slow; the run log has all events");
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::training::ResumeReport;
    use crate::{Clock, EventKind, Position};

    fn event(place: &str) -> Event {
        Clock::still().event(Position::default(), EventKind::Resume(ResumeReport { place: place.to_owned() }))
    }

    fn position_of(event: &Event) -> String {
        let EventKind::Resume(ResumeReport { place }) = &event.what else {
            unreachable!("these tests emit no other kind")
        };
        place.clone()
    }

    /// Observer that forwards each event after a permission.
    struct Slow {
        told: SyncSender<String>,
        may: Receiver<()>,
    }

    impl Observer for Slow {
        fn observe(&mut self, event: &Event) {
            let _ = self.may.recv();
            let _ = self.told.send(position_of(event));
        }
    }

    struct Broken;

    impl Observer for Broken {
        fn observe(&mut self, _: &Event) {
            panic!("on purpose");
        }
    }

    #[test]
    fn a_slow_observer_never_blocks_and_receives_events_in_order() {
        let (told, received) = sync_channel(2 * EVENTS);
        let (go, may) = sync_channel(0);
        let mut watchers = Dispatcher::start(vec![Box::new(Slow { told, may })]).expect("a thread");
        let begun = Instant::now();
        // The observer holds at most one event, and the queue has room for `EVENTS` more.
        for index in 0..EVENTS + 100 {
            watchers.observe(&event(&index.to_string()));
        }
        assert!(begun.elapsed() < SHUTDOWN_TIMEOUT, "{:?}", begun.elapsed());
        assert!((99..=100).contains(&watchers.missed), "{}", watchers.missed);
        drop(go);
        drop(watchers);
        let received: Vec<String> = received.iter().collect();
        let expected: Vec<String> = (0..received.len()).map(|index| index.to_string()).collect();
        assert!(received.len() >= EVENTS && received == expected, "{} were received", received.len());
    }

    #[test]
    fn shutdown_waits_for_a_blocked_observer_up_to_the_timeout() {
        let (told, _received) = sync_channel(2 * EVENTS);
        let (_never, may) = sync_channel(0);
        let mut watchers = Dispatcher::start(vec![Box::new(Slow { told, may })]).expect("a thread");
        watchers.observe(&event("a"));
        let begun = Instant::now();
        drop(watchers);
        assert!((SHUTDOWN_TIMEOUT..2 * SHUTDOWN_TIMEOUT).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[test]
    fn an_observer_that_panics_does_not_affect_others() {
        let (told, received) = sync_channel(2 * EVENTS);
        let (go, may) = sync_channel(0);
        drop(go);
        let readers: Vec<Box<dyn Observer>> = vec![Box::new(Broken), Box::new(Slow { told, may })];
        let mut watchers = Dispatcher::start(readers).expect("a thread");
        for name in ["a", "b"] {
            watchers.observe(&event(name));
        }
        drop(watchers);
        assert_eq!(received.iter().collect::<Vec<_>>(), ["a", "b"]);
        let mut empty = Dispatcher::start(Vec::new()).expect("no thread");
        empty.observe(&event("a"));
    }
}
