//! Trace recorder: the activity of each actor over time, for Perfetto and for flame graphs.
//!
//! # What
//! Actors report their activity as `tracing` spans of one target ([`runtime::spans`]). While a [`Trace`] exists,
//! `layer` receives these spans: from [`Trace::begin`] to [`Trace::end`]. One process can record several traces, one
//! at a time. The result ([`Recorded`]) is written in Perfetto's format or as folded stacks.
//!
//! # Definition
//! Each thread writes to its own buffer, so that no thread waits for another. All buffers together are bounded by
//! [`Limits`]. When the limit is reached, recording stops for all threads at the same moment, and later events are
//! only counted. A separate thread samples the stacks every millisecond.
//!
//! Reading order: `recorder` starts and stops a trace, `layer` receives spans, `fields` reads their fields, `shared`
//! finds the buffer of a thread, `buffer` stores events, `samples` samples stacks, `tracks` builds nested slices,
//! `perfetto` encodes them as the messages of `wire`.

mod buffer;
mod fields;
mod layer;
mod perfetto;
mod recorded;
mod recorder;
mod samples;
mod shared;
#[cfg(test)]
mod tests;
mod tracks;
mod wire;

pub use self::layer::layer;
pub use self::recorded::Recorded;
pub use self::recorder::{Limits, Trace};
