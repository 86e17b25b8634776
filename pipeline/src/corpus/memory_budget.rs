//! Memory budget for text: bounds the memory of all workers together, and queues their requests.
//!
//! # What
//! `prepare.max_memory_bytes` has four parts. A quarter is divided equally among the workers; short documents use it
//! without a request. A half is for *files* that need memory while they are open (the window of a zstd stream, the
//! pages of a Parquet file, a Parquet file that was compressed as a whole). An eighth is for eight *long* documents at
//! a time, an eighth for one *very long* document. A request for more than is free waits. A request that exceeds its
//! whole part is an error.
//!
//! # Why
//! The maximum document length does not depend on the number of workers. Many documents of that length are processed
//! one after another instead of all at once.
//!
//! # Definition
//! A worker reserves memory for a file before that for a document, and for a long document before that for a very long
//! one. So the holder of the last reservation never waits, and a deadlock is impossible. Requests are granted in their
//! order of arrival, so that small requests cannot starve a large one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of long documents in memory at a time.
const LONG_AT_A_TIME: u64 = 8;

/// Maximum copies of a document's bytes while it is read: the line, the repaired line (three bytes for each invalid
/// one), the JSON text with its escapes and without, the text with converted line ends.
pub(crate) const COPIES: u64 = 8;

/// Pool of bytes that are reserved and released.
#[derive(Debug)]
struct Budget {
    total: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: u64,
    /// Number of requests made, and of requests granted.
    asked: u64,
    met: u64,
}

impl Budget {
    fn new(total: u64) -> Arc<Self> {
        let state = Mutex::new(State { free: total, asked: 0, met: 0 });
        Arc::new(Self { total, state, changed: Condvar::new() })
    }

    // No code that runs under this lock can panic, so a poisoned lock is still consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves `bytes` as soon as they are free; returns `None` if they exceed the pool.
    fn try_reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
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

/// Reserved bytes, released on drop.
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

/// Division of `prepare.max_memory_bytes`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Short documents and files of all workers together.
    pub short: u64,
    /// Longer files while they are open: windows of zstd, pages of Parquet.
    pub files: u64,
    /// Long documents, eight at a time.
    pub long: u64,
    /// One document that is very long.
    pub very_long: u64,
}

impl Shares {
    /// Divides `max_memory_bytes`.
    #[must_use]
    pub fn new(max_memory_bytes: u64) -> Self {
        Self {
            short: max_memory_bytes / 4,
            files: max_memory_bytes / 2,
            long: max_memory_bytes / 8,
            very_long: max_memory_bytes / 8,
        }
    }
}

/// Memory budget, with the reservations of one part of the corpus.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    /// Bytes that one worker may use without a request, for a file and for a document each.
    share: u64,
    files: Arc<Budget>,
    long: Arc<Budget>,
    very_long: Arc<Budget>,
    /// Reservations of this part for its current document.
    held: Arc<Mutex<Vec<Reservation>>>,
}

impl MemoryBudget {
    /// Creates the budget of a preparation.
    #[must_use]
    pub fn new(max_memory_bytes: u64, workers: usize) -> Self {
        let Shares { short, files, long, very_long } = Shares::new(max_memory_bytes);
        Self {
            share: short / 2 / workers as u64,
            files: Budget::new(files),
            long: Budget::new(long),
            very_long: Budget::new(very_long),
            held: Arc::default(),
        }
    }

    /// Returns the same budget for another part, with separate reservations.
    #[must_use]
    pub fn part(&self) -> Self {
        Self { held: Arc::default(), ..self.clone() }
    }

    /// Returns the bytes that a worker may use without a request, for the open file.
    pub(super) fn share(&self) -> u64 {
        self.share
    }

    /// Returns the maximum reservation of a file.
    pub(super) fn file_max(&self) -> u64 {
        self.files.total
    }

    /// Reserves memory for an open file; `None` if it fits into the worker's share.
    pub(super) fn file(&self, bytes: u64) -> Result<Option<Reservation>, ResourcesExhausted> {
        if bytes <= self.share {
            return Ok(None);
        }
        self.files.try_reserve(bytes).map(Some).ok_or(ResourcesExhausted { wanted: bytes, most: self.files.total })
    }

    /// Returns true if `bytes` fit into a worker's share and need no reservation.
    #[must_use]
    pub fn is_short(&self, bytes: u64) -> bool {
        bytes <= self.share
    }

    /// Returns the maximum reservation of a document.
    pub fn document_max(&self) -> u64 {
        self.very_long.total
    }

    /// Reserves memory for the current document of `bytes` bytes so far, until it is [released](Self::release).
    pub fn document(&self, bytes: u64) -> Result<(), ResourcesExhausted> {
        if self.is_short(bytes) {
            return Ok(());
        }
        let slot = self.long.total / LONG_AT_A_TIME;
        let held = self.held().len();
        let levels = [self.share, slot, self.very_long.total];
        let level = levels.iter().position(|&most| bytes <= most);
        let level = level.ok_or(ResourcesExhausted { wanted: bytes, most: self.very_long.total })?;
        for next in held..level {
            // Not under the lock of `held`: the reservation may wait.
            let hold =
                if next == 0 { self.long.try_reserve(slot) } else { self.very_long.try_reserve(self.very_long.total) };
            self.held().extend(hold);
        }
        Ok(())
    }

    /// Releases the memory of the current document.
    pub fn release(&self) {
        self.held().clear();
    }

    fn held(&self) -> MutexGuard<'_, Vec<Reservation>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Error for a request that exceeds its whole part of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourcesExhausted {
    /// Bytes requested.
    pub wanted: u64,
    /// Maximum bytes of one request.
    pub most: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    /// Budget of 6400 bytes: workers have 800 for short documents; long ones have 100 each, one very long one 800.
    fn budget(workers: usize) -> MemoryBudget {
        MemoryBudget::new(6400, workers)
    }

    #[test]
    fn small_requests_reserve_nothing_and_oversized_ones_are_refused() {
        let room = budget(16);
        assert_eq!((room.share(), room.file_max()), (50, 3200));
        room.document(50).expect("short");
        assert_eq!(room.held().len(), 0);
        room.document(100).expect("long");
        room.document(100).expect("held already");
        assert_eq!(room.held().len(), 1);
        room.document(800).expect("very long");
        assert_eq!(room.held().len(), 2);
        assert_eq!(room.document(801), Err(ResourcesExhausted { wanted: 801, most: 800 }));
        room.release();
        assert_eq!((room.long.state().free, room.very_long.state().free), (800, 800), "all of it is back");
        assert!(room.file(50).expect("it fits").is_none() && room.file(3200).expect("it fits").is_some());
        assert_eq!(room.file(3201).expect_err("never").most, 3200);
        assert_eq!(room.files.state().free, 3200, "what is dropped is back");
    }

    /// For any requests, workers never hold more than the budget, and all of them finish.
    #[test]
    fn workers_hold_no_more_than_there_is_and_none_waits_forever() {
        let room = budget(16);
        let documents = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        thread::scope(|scope| {
            for worker in 0..16_u64 {
                let room = room.part();
                let documents = &documents;
                let most = &most;
                scope.spawn(move || {
                    for document in 0..50 {
                        let file = room.file((worker * 997 + document * 31) % 3200).expect("it fits");
                        let size = (worker * 131 + document * 71) % 801;
                        room.document(size.min(90)).expect("it fits");
                        room.document(size).expect("it fits");
                        let now = documents.fetch_add(size, Ordering::SeqCst) + size;
                        most.fetch_max(now, Ordering::SeqCst);
                        documents.fetch_sub(size, Ordering::SeqCst);
                        room.release();
                        drop(file);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 16 * 50 + 800 + 800, "shares, eight long ones and one very long one");
        assert_eq!([&room.files, &room.long, &room.very_long].map(|budget| budget.state().free), [3200, 800, 800]);
    }

    #[test]
    fn large_request_is_served_in_order() {
        let budget = Budget::new(10);
        let first = budget.try_reserve(5).expect("free");
        thread::scope(|scope| {
            let large = scope.spawn(|| budget.try_reserve(10).map(drop));
            while budget.state().asked < 2 {
                thread::yield_now();
            }
            let small = scope.spawn(|| budget.try_reserve(1).map(drop));
            while budget.state().asked < 3 {
                thread::yield_now();
            }
            assert_eq!(budget.state().met, 1, "5 are free, and no request overtakes the one for 10");
            drop(first);
            assert!(large.join().expect("met").is_some() && small.join().expect("met").is_some());
        });
    }
}
