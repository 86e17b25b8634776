//! What a run says now, for any number of readers.
//!
//! A ring of the newest events, each with its number. Readers keep a place in it and nothing else: one that is too slow
//! is told to start over, and costs nobody memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Events that a reader may be behind.
const RING: usize = 1024;

/// A place among the events of one course of a run: `5f3a-17`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) boot: Arc<str>,
    pub(crate) number: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.boot, self.number)
    }
}

impl Id {
    /// The place that a client says it is at.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (boot, number) = text.rsplit_once('-')?;
        Some(Self { boot: boot.into(), number: number.parse().ok()? })
    }
}

/// An event as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) line: Arc<str>,
}

/// What a reader gets.
#[derive(Debug)]
pub(crate) enum Since {
    /// All that was said since its place, perhaps nothing.
    Messages(Vec<Message>),
    /// It cannot go on from there.
    Lost,
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Live {
    ring: Mutex<Ring>,
    said: watch::Sender<u64>,
    instance: Arc<str>,
}

#[derive(Debug)]
struct Ring {
    boot: Arc<str>,
    /// The number of the newest event.
    last: u64,
    messages: VecDeque<Message>,
    /// How often it began again.
    begun: u64,
}

impl Live {
    pub(crate) fn new() -> Self {
        let instance = boot(0);
        let ring = Ring { boot: Arc::clone(&instance), last: 0, messages: VecDeque::new(), begun: 0 };
        Self { ring: Mutex::new(ring), said: watch::channel(0).0, instance }
    }

    /// A name that no other process has.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, line: String) {
        let mut ring = self.ring();
        ring.last += 1;
        if ring.messages.len() == RING {
            ring.messages.pop_front();
        }
        let message = Message { number: ring.last, line: line.into() };
        ring.messages.push_back(message);
        self.wake();
    }

    /// What was said before is of another course: every reader starts over.
    pub(crate) fn begin_anew(&self) {
        let mut ring = self.ring();
        ring.begun += 1;
        ring.boot = boot(ring.begun);
        ring.messages.clear();
        self.wake();
    }

    fn wake(&self) {
        self.said.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// The place of the newest event.
    pub(crate) fn last(&self) -> Id {
        let ring = self.ring();
        Id { boot: Arc::clone(&ring.boot), number: ring.last }
    }

    pub(crate) fn since(&self, place: &Id) -> Since {
        let ring = self.ring();
        let oldest = ring.last + 1 - ring.messages.len() as u64;
        if ring.boot != place.boot || place.number > ring.last || place.number + 1 < oldest {
            return Since::Lost;
        }
        let is_new = |message: &&Message| message.number > place.number;
        Since::Messages(ring.messages.iter().filter(is_new).cloned().collect())
    }

    /// Wakes its holder when something is said.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.said.subscribe()
    }
}

/// A name that no other process, and no other course of this one, has.
fn boot(begun: u64) -> Arc<str> {
    use std::time::{SystemTime, UNIX_EPOCH};

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&now.as_nanos().to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    hasher.update(&begun.to_le_bytes());
    hasher.finalize().to_hex()[..12].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(live: &Live, place: &Id) -> Option<Vec<u64>> {
        match live.since(place) {
            Since::Messages(messages) => Some(messages.into_iter().map(|message| message.number).collect()),
            Since::Lost => None,
        }
    }

    #[test]
    fn a_reader_goes_on_where_it_was_or_begins_anew() {
        let live = Live::new();
        let begun = live.last();
        assert_eq!(numbers(&live, &begun), Some(vec![]));
        (1..=3).for_each(|number| live.push(number.to_string()));
        assert_eq!(numbers(&live, &begun), Some(vec![1, 2, 3]));
        let two = Id::parse(&Id { number: 2, ..begun.clone() }.to_string()).expect("as written");
        assert_eq!(numbers(&live, &two), Some(vec![3]));
        assert_eq!(numbers(&live, &Id { number: 4, ..begun.clone() }), None, "from the future");
        (0..RING).for_each(|number| live.push(number.to_string()));
        assert_eq!(numbers(&live, &two), None, "it is too slow");
        assert_eq!(numbers(&live, &live.last()), Some(vec![]));
        let before = live.last();
        live.begin_anew();
        assert_eq!(numbers(&live, &before), None, "of another course");
        live.push("next".to_owned());
        assert_eq!(
            numbers(&live, &Id { boot: live.last().boot, number: before.number }),
            Some(vec![before.number + 1])
        );
    }

    #[test]
    fn places_that_nobody_wrote_are_none() {
        for text in ["", "-", "a-", "a-b", "12", "a-99999999999999999999999"] {
            assert_eq!(Id::parse(text), None, "{text}");
        }
    }
}
