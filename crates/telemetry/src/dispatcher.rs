//! Dispatches events to observers on a background thread, so that training never blocks on an observer.
//!
//! An observer may be slow: a page without readers, a full disk, a host that does not answer. Events that the queue has no
//! room for are dropped, counted and reported. The log is not such an observer: losing one of its lines must end a run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::{Event, Observer};

/// Events that may wait to be told: at a report a second, those of a quarter of an hour.
const EVENTS: usize = 1024;

/// How long readers may take for the last ones.
const PATIENCE: Duration = Duration::from_secs(2);

/// Readers, and the way to them.
#[derive(Debug)]
pub struct Dispatcher {
    /// None where nobody reads.
    events: Option<SyncSender<Told>>,
    /// Events that there was no room for, since the last that there was.
    missed: u64,
    /// Closed when all is told.
    done: Receiver<()>,
}

/// An event on its way, and how many before it were left out.
#[derive(Debug)]
struct Told {
    event: Event,
    missed: u64,
}

impl Dispatcher {
    /// Tells these readers. Without one it costs nothing.
    pub fn start(readers: Vec<Box<dyn Observer>>) -> runtime::Result<Self> {
        let (alive, done) = sync_channel(0);
        if readers.is_empty() {
            return Ok(Self { events: None, missed: 0, done });
        }
        let (events, waiting) = sync_channel::<Told>(EVENTS);
        runtime::spawn("dispatcher", move || {
            let _alive = alive;
            let mut readers = readers;
            for Told { event, missed } in waiting {
                if missed > 0 {
                    say_missed(missed);
                }
                readers.retain_mut(|reader| is_told(reader.as_mut(), &event));
            }
        })?;
        Ok(Self { events: Some(events), missed: 0, done })
    }
}

impl Observer for Dispatcher {
    fn observe(&mut self, event: &Event) {
        let Some(events) = &self.events else { return };
        match events.try_send(Told { event: event.clone(), missed: self.missed }) {
            Ok(()) => self.missed = 0,
            Err(TrySendError::Full(_)) => self.missed += 1,
            // Every reader is gone, and that was said.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        let Some(events) = self.events.take() else { return };
        drop(events);
        if self.done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("those who watch next to the work were not done with its last events in time");
        }
        if self.missed > 0 {
            say_missed(self.missed);
        }
    }
}

/// Whether a reader can be told more. One that panics is left out from then on: the others are not to be missed with it.
fn is_told(reader: &mut dyn Observer, event: &Event) -> bool {
    // It is not used again after a panic.
    let told = catch_unwind(AssertUnwindSafe(|| reader.observe(event)));
    if told.is_err() {
        tracing::warn!("one of those who watch broke off and is told nothing more; the work continues");
    }
    told.is_ok()
}

fn say_missed(missed: u64) {
    tracing::warn!(missed, "events came faster than they were read next to the work; the log of a run has them all");
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

    fn place(event: &Event) -> String {
        let EventKind::Resume(ResumeReport { place }) = &event.what else {
            unreachable!("this test says nothing else")
        };
        place.clone()
    }

    /// Says what it was told, as soon as it may.
    struct Slow {
        told: SyncSender<String>,
        may: Receiver<()>,
    }

    impl Observer for Slow {
        fn observe(&mut self, event: &Event) {
            let _ = self.may.recv();
            let _ = self.told.send(place(event));
        }
    }

    struct Broken;

    impl Observer for Broken {
        fn observe(&mut self, _: &Event) {
            panic!("on purpose");
        }
    }

    #[test]
    fn a_slow_reader_keeps_nobody_waiting_and_is_told_in_order() {
        let ((told, heard), (go, may)) = (sync_channel(2 * EVENTS), sync_channel(0));
        let mut watchers = Dispatcher::start(vec![Box::new(Slow { told, may })]).expect("a thread");
        let begun = Instant::now();
        // One is in its hands at most, and there is room for so many more.
        for index in 0..EVENTS + 100 {
            watchers.observe(&event(&index.to_string()));
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        assert!((99..=100).contains(&watchers.missed), "{}", watchers.missed);
        drop(go);
        drop(watchers);
        let heard: Vec<String> = heard.iter().collect();
        let expected: Vec<String> = (0..heard.len()).map(|index| index.to_string()).collect();
        assert!(heard.len() >= EVENTS && heard == expected, "{} were heard", heard.len());
    }

    #[test]
    fn who_never_returns_is_waited_for_no_longer_than_patience() {
        let ((told, _heard), (_never, may)) = (sync_channel(2 * EVENTS), sync_channel(0));
        let mut watchers = Dispatcher::start(vec![Box::new(Slow { told, may })]).expect("a thread");
        watchers.observe(&event("a"));
        let begun = Instant::now();
        drop(watchers);
        assert!((PATIENCE..2 * PATIENCE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[test]
    fn one_that_panics_takes_no_other_with_it() {
        let ((told, heard), (go, may)) = (sync_channel(2 * EVENTS), sync_channel(0));
        drop(go);
        let readers: Vec<Box<dyn Observer>> = vec![Box::new(Broken), Box::new(Slow { told, may })];
        let mut watchers = Dispatcher::start(readers).expect("a thread");
        for name in ["a", "b"] {
            watchers.observe(&event(name));
        }
        drop(watchers);
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["a", "b"]);
        let mut nobody = Dispatcher::start(Vec::new()).expect("no thread");
        nobody.observe(&event("a"));
    }
}
