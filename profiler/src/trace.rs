//! What every actor does at each moment, recorded for a while, for Perfetto and for flame graphs.
//!
//! # What
//! `tracing` spans of one target ([`runtime::spans`]) are what actors say of themselves. `layer` hears them while there is
//! a [`Trace`]: from [`Trace::begin`] to [`Trace::end`], in any process, as often as wanted, one at a time. What comes of it
//! ([`Recorded`]) is written as Perfetto reads it, or as folded stacks.
//!
//! # Definition
//! A thread writes into its own buffer, so that none waits for another. All buffers together have the room of
//! [`Limits`]; when it is used up, recording is over for all, at one moment, and what came after is counted. Stacks are
//! looked at every millisecond, next to the work.
//!
//! In the order of reading: `recorder` begins and ends, `layer` hears, `fields` reads what spans carry, `shared` finds a
//! thread's buffer, `buffer` keeps, `samples` looks at stacks, `tracks` makes nested slices of it all, `perfetto` says them
//! in the messages of `wire`.

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
