//! States and items of workers as `tracing` spans of one target, and the clock of their timestamps.
//!
//! # What
//! Workers open spans of the target [`SPANS`] at the level `TRACE`; a trace recorder receives them. Without a recorder each
//! span costs one check of the level.
//!
//! # Definition
//! A span is a slice of the thread that enters it, named as the span is, or by its field `what`; other fields are
//! arguments of the slice. All spans here are roots: a state inside the span of a batch would keep that batch open.
//! These fields have a meaning:
//!
//! | field | of | meaning |
//! |---|---|---|
//! | `actor`, `id`, `own`, `at_ns` | a span that is never entered | the state of a worker, until the next: its name, its number, whether this thread is the worker, and its start ([`nanoseconds`]) |
//! | `often` | a span | it is entered many times in a moment: short slices are merged |
//! | `makes` | a span | the item that begins here is taken elsewhere: a number for both ends |
//! | `takes`, `by` | an event | the item of that number arrives; the worker that takes it, where that is not this thread |
//! | `queue`, `fill`, `capacity` | an event | items in the queue of the worker of that number, and how many fit |

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::span::EnteredSpan;
use tracing::{trace, trace_span};

/// Target of all spans that a trace is made of.
pub const SPANS: &str = "span";

/// Bits of an item's index in its number.
const INDEX_BITS: u32 = 40;

/// Moment from which [`nanoseconds`] counts.
static BASE: OnceLock<Instant> = OnceLock::new();

/// Nanoseconds from the first moment that was asked for to `at`; 0 for earlier moments.
pub fn nanoseconds(at: Instant) -> u64 {
    let since = at.saturating_duration_since(*BASE.get_or_init(|| at));
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A number that is unique in the process: of a time account, of a decoded row group.
pub fn unique_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Items of one reader: their name, and the number of the reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemStream {
    pub(crate) item: &'static str,
    pub(crate) reader: u64,
}

impl ItemStream {
    /// Number of item `index` on its way to the reader.
    fn number(self, index: u64) -> u64 {
        (self.reader << INDEX_BITS) | (index & ((1 << INDEX_BITS) - 1))
    }

    /// Opens the span in which a worker computes item `index`.
    pub(crate) fn enter(self, index: u64) -> EnteredSpan {
        let what = self.item;
        trace_span!(target: SPANS, parent: None, "item", what, index, makes = self.number(index)).entered()
    }

    /// Reports that the reader takes item `index`.
    pub(crate) fn taken(self, index: u64) {
        let what = self.item;
        trace!(target: SPANS, takes = self.number(index), by = self.reader, what, index);
    }
}

/// Reports the fill of a worker's queue.
pub(crate) fn queue_fill(queue: u64, fill: usize, capacity: usize) {
    trace!(target: SPANS, queue, fill, capacity);
}
