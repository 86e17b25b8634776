//! States and items of workers as `tracing` spans of one target, and the clock of their timestamps.
//!
//! # What
//! Workers open spans of the target [`SPANS`] at the level `TRACE`; a trace recorder receives them. Without a recorder,
//! each span costs one check of the level.
//!
//! # Definition
//! A span is a slice of the thread that enters it. Its name is that of the span or its field `what`; other fields are
//! arguments of the slice. All spans are roots, because a state inside the span of a batch would keep that batch open.
//! These fields have a special meaning:
//!
//! | field | in | meaning |
//! |---|---|---|
//! | `actor`, `id`, `own`, `at_ns` | a span that is never entered | state of a worker until its next state: name, number, whether this thread is the worker, and start ([`nanoseconds`]) |
//! | `often` | a span | the span is entered very often; short slices are merged |
//! | `makes` | a span | number of the item that this span produces and another thread takes |
//! | `takes`, `by` | an event | number of the item that is taken, and the worker that takes it if it is not this thread |
//! | `queue`, `fill`, `capacity` | an event | number of the worker, items in its queue, and capacity of the queue |

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::span::EnteredSpan;
use tracing::{trace, trace_span};

/// Target of all trace spans.
pub const SPANS: &str = "span";

/// Bits of the item index in the number of an item.
const INDEX_BITS: u32 = 40;

/// Zero point of [`nanoseconds`].
static BASE: OnceLock<Instant> = OnceLock::new();

/// Nanoseconds from the `at` of the first call to this `at`; 0 if this `at` is earlier.
pub fn nanoseconds(at: Instant) -> u64 {
    let since = at.saturating_duration_since(*BASE.get_or_init(|| at));
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a number that is unique in the process, for a time account or a decoded row group.
pub fn unique_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Item name and number of a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemStream {
    pub(crate) item: &'static str,
    pub(crate) reader: u64,
}

impl ItemStream {
    /// Number that identifies item `index` of this reader.
    fn number(self, index: u64) -> u64 {
        (self.reader << INDEX_BITS) | (index & ((1 << INDEX_BITS) - 1))
    }

    /// Opens the span in which a worker computes item `index`.
    pub(crate) fn begin(self, index: u64) -> EnteredSpan {
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
