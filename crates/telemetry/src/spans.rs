//! What actors do at each moment: the target of their `tracing` spans, and the time that these are told by.
//!
//! # What
//! Whoever works opens spans of the target [`SPANS`] at the level `TRACE`, whoever records a trace hears them. While nobody
//! does, each costs one look at the level that somebody listens to.
//!
//! # Definition
//! A span is a slice of the thread that enters it, named as the span is, or by its field `what`; other fields stand beside it.
//! These fields mean more:
//!
//! | field | of | means |
//! |---|---|---|
//! | `actor`, `id`, `own`, `at_ns` | a span that is never entered | the state of an actor, until the next: its name, its number, whether this thread is it, and since when ([`nanoseconds`]) |
//! | `often` | a span | it is entered many times in a moment: short slices are gathered |
//! | `makes` | a span | what begins here is taken elsewhere: a number for both ends |
//! | `takes`, `by` | an event | what was begun under that number arrives; by which actor, where that is not this thread |
//! | `queue`, `fill`, `capacity` | an event | items that wait behind the actor of that number now, and how many can |

use std::sync::OnceLock;
use std::time::Instant;

/// The target of all spans that a trace is made of.
pub const SPANS: &str = "span";

/// The moment from which [`nanoseconds`] counts.
static BASE: OnceLock<Instant> = OnceLock::new();

/// Nanoseconds from the first moment that anybody asked for to `at`; 0 for what was before.
pub fn nanoseconds(at: Instant) -> u64 {
    let since = at.saturating_duration_since(*BASE.get_or_init(|| at));
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
