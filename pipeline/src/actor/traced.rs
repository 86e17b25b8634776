//! What actors do, as `tracing` spans of one target: nothing but a look at a level while nobody records a trace.
//!
//! [`observe::spans`] says what fields mean. All are roots: a state that knew the batch in whose middle it began would keep
//! that batch open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use observe::spans::{SPANS, nanoseconds};
use tracing::span::EnteredSpan;
use tracing::{Span, trace, trace_span};

use super::meter::{Activity, Meter};

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

/// What an actor (name, number, and whether this thread is it) does from `at` on, until this is dropped for the next.
pub(super) fn state(clock: Activity, (actor, id, own): (&str, u64, bool), at: Instant) -> Span {
    match clock {
        Activity::Busy => {
            trace_span!(target: SPANS, parent: None, "busy", actor, id, own, at_ns = nanoseconds(at))
        }
        Activity::Starved => {
            trace_span!(target: SPANS, parent: None, "starved", actor, id, own, at_ns = nanoseconds(at))
        }
        Activity::Blocked => {
            trace_span!(target: SPANS, parent: None, "blocked", actor, id, own, at_ns = nanoseconds(at))
        }
    }
}

/// An item in the making: what it is called and who will read it, and its index.
pub(super) fn item((what, reader): (&'static str, u64), index: u64) -> EnteredSpan {
    trace_span!(target: SPANS, parent: None, "item", what, index, makes = way(reader, index)).entered()
}

/// An item that its reader takes.
pub(super) fn takes(reader: &Meter, (what, index): (&'static str, u64)) {
    let by = reader.number();
    trace!(target: SPANS, takes = way(by, index), by, what, index);
}

/// How full the queue behind an actor is.
pub(super) fn fill(queue: u64, fill: usize, capacity: usize) {
    trace!(target: SPANS, queue, fill, capacity);
}
