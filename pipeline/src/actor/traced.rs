//! What actors do, as `tracing` spans of one target: nothing but a look at a level while nobody records a trace.
//!
//! [`telemetry::spans`] says what fields mean. All are roots: a state that knew the batch in whose middle it began would keep
//! that batch open.

use std::sync::atomic::{AtomicU64, Ordering};

use telemetry::spans::SPANS;
use tracing::span::EnteredSpan;
use tracing::{trace, trace_span};

/// Bits of an item's number in that of its way from one actor to another.
const INDEX_BITS: u32 = 40;

/// A number that nobody else has: of a meter, of a row group that was decoded.
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The way of item `index` from whoever makes it to the reader of that number.
pub(crate) fn way(reader: u64, index: u64) -> u64 {
    (reader << INDEX_BITS) | (index & ((1 << INDEX_BITS) - 1))
}

/// An item in the making: what it is called and who will read it, and its index.
pub(super) fn item((what, reader): (&'static str, u64), index: u64) -> EnteredSpan {
    trace_span!(target: SPANS, parent: None, "item", what, index, makes = way(reader, index)).entered()
}

/// An item that its reader takes, by its number.
pub(super) fn takes(by: u64, (what, index): (&'static str, u64)) {
    trace!(target: SPANS, takes = way(by, index), by, what, index);
}

/// How full the queue behind an actor is.
pub(super) fn fill(queue: u64, fill: usize, capacity: usize) {
    trace!(target: SPANS, queue, fill, capacity);
}
