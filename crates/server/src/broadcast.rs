//! Broadcast of new events to any number of readers.
//!
//! A ring buffer keeps the newest events, each with its number. A reader stores only its position in the buffer. If it
//! falls behind, it is told to reload, so slow readers cost no memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Maximum number of events that a reader may lag behind.
const RING: usize = 1024;

/// Position in the events since the last start or resume of a run, such as `5f3a-17`.
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
    /// Parses the position that a client sends.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (boot, number) = text.rsplit_once('-')?;
        Some(Self { boot: boot.into(), number: number.parse().ok()? })
    }
}

/// Serialized event with its number.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) line: Arc<str>,
}

/// Result of a read from a position.
#[derive(Debug)]
pub(crate) enum ReadResult {
    /// Events after the position; may be empty.
    Messages(Vec<Message>),
    /// The position is not in the buffer.
    Lost,
}

/// Ring buffer with change notification.
#[derive(Debug)]
pub(crate) struct LiveEvents {
    ring: Mutex<Ring>,
    changed: watch::Sender<u64>,
    instance: Arc<str>,
}

#[derive(Debug)]
struct Ring {
    boot: Arc<str>,
    /// Number of the newest event.
    last: u64,
    messages: VecDeque<Message>,
    /// Number of restarts.
    restarts: u64,
}

impl LiveEvents {
    pub(crate) fn new() -> Self {
        let instance = boot(0);
        let ring = Ring { boot: Arc::clone(&instance), last: 0, messages: VecDeque::new(), restarts: 0 };
        Self { ring: Mutex::new(ring), changed: watch::channel(0).0, instance }
    }

    /// Identifier that is unique to this process.
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
        self.notify_readers();
    }

    /// Discards all events, so that every reader reloads. Called when a run resumes from a checkpoint.
    pub(crate) fn reset(&self) {
        let mut ring = self.ring();
        ring.restarts += 1;
        ring.boot = boot(ring.restarts);
        ring.messages.clear();
        self.notify_readers();
    }

    fn notify_readers(&self) {
        self.changed.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Position of the newest event.
    pub(crate) fn last(&self) -> Id {
        let ring = self.ring();
        Id { boot: Arc::clone(&ring.boot), number: ring.last }
    }

    pub(crate) fn since(&self, place: &Id) -> ReadResult {
        let ring = self.ring();
        let oldest = ring.last + 1 - ring.messages.len() as u64;
        if ring.boot != place.boot || place.number > ring.last || place.number + 1 < oldest {
            return ReadResult::Lost;
        }
        let is_new = |message: &&Message| message.number > place.number;
        ReadResult::Messages(ring.messages.iter().filter(is_new).cloned().collect())
    }

    /// Returns a receiver that wakes on every change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// Returns an identifier that is unique to this process and restart.
fn boot(restarts: u64) -> Arc<str> {
    use std::time::{SystemTime, UNIX_EPOCH};

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&now.as_nanos().to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    hasher.update(&restarts.to_le_bytes());
    hasher.finalize().to_hex()[..12].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(live: &LiveEvents, place: &Id) -> Option<Vec<u64>> {
        match live.since(place) {
            ReadResult::Messages(messages) => Some(messages.into_iter().map(|message| message.number).collect()),
            ReadResult::Lost => None,
        }
    }

    #[test]
    fn a_reader_continues_at_its_position_or_reloads() {
        let live = LiveEvents::new();
        let begun = live.last();
        assert_eq!(numbers(&live, &begun), Some(vec![]));
        (1..=3).for_each(|number| live.push(number.to_string()));
        assert_eq!(numbers(&live, &begun), Some(vec![1, 2, 3]));
        let two = Id::parse(&Id { number: 2, ..begun.clone() }.to_string()).expect("as written");
        assert_eq!(numbers(&live, &two), Some(vec![3]));
        assert_eq!(numbers(&live, &Id { number: 4, ..begun.clone() }), None, "a position after the newest event");
        (0..RING).for_each(|number| live.push(number.to_string()));
        assert_eq!(numbers(&live, &two), None, "a reader that fell behind");
        assert_eq!(numbers(&live, &live.last()), Some(vec![]));
        let before = live.last();
        live.reset();
        assert_eq!(numbers(&live, &before), None, "a position before the restart");
        live.push("next".to_owned());
        assert_eq!(
            numbers(&live, &Id { boot: live.last().boot, number: before.number }),
            Some(vec![before.number + 1])
        );
    }

    #[test]
    fn malformed_positions_are_rejected() {
        for text in ["", "-", "a-", "a-b", "12", "a-99999999999999999999999"] {
            assert_eq!(Id::parse(text), None, "{text}");
        }
    }
}
