//! Room for text: what all workers together may hold in memory, and who waits for it.
//!
//! # What
//! `prepare.max_memory_bytes` in four parts. A quarter is for the workers, an equal share each: what is short costs no word. A half
//! is for *files* that take memory as long as they are open (the window of a zstd stream, the pages of a Parquet file, a
//! Parquet file that was compressed as a whole). An eighth is for eight *long* documents at a time, an eighth for one
//! that is *very long*. Who needs more than is left waits for others to be done; what would not fit into an empty room is
//! refused by name.
//!
//! # Why
//! A document may be as long with 64 workers as with one, and 64 of that length come one after another instead of all at
//! once.
//!
//! # Definition
//! A worker takes a file's room before that of a document, and that of a long document before that of a very long one. So
//! nobody who is waited for waits in turn, and nobody waits forever. Requests are met in the order in which they come: a
//! large one is not overtaken again and again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Long documents that are in memory at a time, at most.
const LONG_AT_A_TIME: u64 = 8;

/// Copies of a document's bytes that there may be while it is read: the line, the same repaired (three bytes for one that
/// is not UTF-8), the text that was in it with its escapes and without, the text with other line ends.
pub(crate) const COPIES: u64 = 8;

/// Bytes that are reserved and given back.
#[derive(Debug)]
struct Budget {
    total: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: u64,
    /// Requests that were made, and those that were met.
    asked: u64,
    met: u64,
}

impl Budget {
    fn new(total: u64) -> Arc<Self> {
        let state = Mutex::new(State { free: total, asked: 0, met: 0 });
        Arc::new(Self { total, state, changed: Condvar::new() })
    }

    /// Nothing is done while it is locked that could panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so many bytes as soon as they are there; none if they never will be.
    fn take(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        if bytes > self.total {
            return None;
        }
        let mut state = self.state();
        let turn = state.asked;
        state.asked += 1;
        while state.met < turn || state.free < bytes {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.met += 1;
        state.free -= bytes;
        drop(state);
        self.changed.notify_all();
        Some(Reservation { budget: Arc::clone(self), bytes })
    }
}

/// Bytes that somebody holds; they go back when it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.state().free += self.bytes;
        self.budget.changed.notify_all();
    }
}

/// Who gets how much of `prepare.max_memory_bytes`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Short documents and files, in the hands of all workers together.
    pub short: u64,
    /// What longer files take while they are open: windows of zstd, pages of Parquet.
    pub files: u64,
    /// Long documents, eight at a time.
    pub long: u64,
    /// One document that is very long.
    pub very_long: u64,
}

impl Shares {
    /// Those of so much.
    #[must_use]
    pub fn of(max_memory_bytes: u64) -> Self {
        Self {
            short: max_memory_bytes / 4,
            files: max_memory_bytes / 2,
            long: max_memory_bytes / 8,
            very_long: max_memory_bytes / 8,
        }
    }
}

/// All room there is, and what one part of the corpus holds of it.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    /// What one worker has to itself, for a file and for a document alike.
    share: u64,
    files: Arc<Budget>,
    long: Arc<Budget>,
    very_long: Arc<Budget>,
    /// What this part holds for the document in hand.
    held: Arc<Mutex<Vec<Reservation>>>,
}

impl MemoryBudget {
    /// The room of a preparation.
    #[must_use]
    pub fn new(max_memory_bytes: u64, workers: usize) -> Self {
        let Shares { short, files, long, very_long } = Shares::of(max_memory_bytes);
        Self {
            share: short / 2 / workers as u64,
            files: Budget::new(files),
            long: Budget::new(long),
            very_long: Budget::new(very_long),
            held: Arc::default(),
        }
    }

    /// The same room, for another part: what that holds is its own.
    #[must_use]
    pub fn part(&self) -> Self {
        Self { held: Arc::default(), ..self.clone() }
    }

    /// What a worker has without asking, for the file that is open.
    pub(super) fn share(&self) -> u64 {
        self.share
    }

    /// The most that a file may ask for.
    pub(super) fn file_max(&self) -> u64 {
        self.files.total
    }

    /// Room for a file, as long as it is open: none is needed for what fits into the worker's share.
    pub(super) fn file(&self, bytes: u64) -> Result<Option<Reservation>, ResourcesExhausted> {
        if bytes <= self.share {
            return Ok(None);
        }
        self.files.take(bytes).map(Some).ok_or(ResourcesExhausted { wanted: bytes, most: self.files.total })
    }

    /// Whether so much is a worker's own, for which nobody has to ask.
    #[must_use]
    pub fn is_short(&self, bytes: u64) -> bool {
        bytes <= self.share
    }

    /// Room for the document in hand, which takes so many bytes by now, until it is [put down](Self::put_down).
    pub fn document(&self, bytes: u64) -> Result<(), ResourcesExhausted> {
        if self.is_short(bytes) {
            return Ok(());
        }
        let slot = self.long.total / LONG_AT_A_TIME;
        let (held, levels) = (self.held().len(), [self.share, slot, self.very_long.total]);
        let level = levels.iter().position(|&most| bytes <= most);
        let level = level.ok_or(ResourcesExhausted { wanted: bytes, most: self.very_long.total })?;
        for next in held..level {
            // Not while `held` is locked: it may take a while.
            let hold = if next == 0 { self.long.take(slot) } else { self.very_long.take(self.very_long.total) };
            self.held().extend(hold);
        }
        Ok(())
    }

    /// The document in hand is no longer in memory.
    pub fn put_down(&self) {
        self.held().clear();
    }

    fn held(&self) -> MutexGuard<'_, Vec<Reservation>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What would not fit into an empty room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourcesExhausted {
    /// What it would take.
    pub wanted: u64,
    /// What there is for one.
    pub most: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    /// One worker of a room of 6400 bytes has 800 for short documents; long ones have 100 each, one very long one 800.
    fn room(workers: usize) -> MemoryBudget {
        MemoryBudget::new(6400, workers)
    }

    #[test]
    fn what_is_short_holds_nothing_and_what_never_fits_is_refused() {
        let room = room(16);
        assert_eq!((room.share(), room.file_max()), (50, 3200));
        room.document(50).expect("short");
        assert_eq!(room.held().len(), 0);
        room.document(100).expect("long");
        room.document(100).expect("held already");
        assert_eq!(room.held().len(), 1);
        room.document(800).expect("very long");
        assert_eq!(room.held().len(), 2);
        assert_eq!(room.document(801), Err(ResourcesExhausted { wanted: 801, most: 800 }));
        room.put_down();
        assert_eq!((room.long.state().free, room.very_long.state().free), (800, 800), "all of it is back");
        assert!(room.file(50).expect("it fits").is_none() && room.file(3200).expect("it fits").is_some());
        assert_eq!(room.file(3201).expect_err("never").most, 3200);
        assert_eq!(room.files.state().free, 3200, "what is dropped is back");
    }

    /// Whatever workers ask for, they never hold more than there is, and all of them come to their end.
    #[test]
    fn workers_hold_no_more_than_there_is_and_none_waits_for_ever() {
        let room = room(16);
        let (documents, most) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for worker in 0..16_u64 {
                let room = room.part();
                let (documents, most) = (&documents, &most);
                scope.spawn(move || {
                    for document in 0..50 {
                        let file = room.file((worker * 997 + document * 31) % 3200).expect("it fits");
                        let size = (worker * 131 + document * 71) % 801;
                        room.document(size.min(90)).expect("it fits");
                        room.document(size).expect("it fits");
                        let now = documents.fetch_add(size, Ordering::SeqCst) + size;
                        most.fetch_max(now, Ordering::SeqCst);
                        documents.fetch_sub(size, Ordering::SeqCst);
                        room.put_down();
                        drop(file);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 16 * 50 + 800 + 800, "shares, eight long ones and one very long one");
        assert_eq!([&room.files, &room.long, &room.very_long].map(|budget| budget.state().free), [3200, 800, 800]);
    }

    #[test]
    fn a_large_request_is_not_overtaken() {
        let budget = Budget::new(10);
        let first = budget.take(5).expect("free");
        thread::scope(|scope| {
            let large = scope.spawn(|| budget.take(10).map(drop));
            while budget.state().asked < 2 {
                thread::yield_now();
            }
            let small = scope.spawn(|| budget.take(1).map(drop));
            while budget.state().asked < 3 {
                thread::yield_now();
            }
            assert_eq!(budget.state().met, 1, "5 are free, and nobody passes the one that wants 10");
            drop(first);
            assert!(large.join().expect("met").is_some() && small.join().expect("met").is_some());
        });
    }
}
