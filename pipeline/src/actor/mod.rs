//! The whole concurrency vocabulary: an ordered parallel map, one in the order of chance, a channel that keeps time, a thread with a name.
//!
//! Data moves through operating-system threads and bounded channels, nothing else. Shutdown is a channel closing: the
//! end of the data travels down by disconnect, a stop travels up by disconnect, and nobody polls a flag.
//!
//! - `Lanes`: item `i` is made by lane `i % n` and read in index order, whatever the threads do.
//! - `Demand`: whoever is free makes the next item; read as they finish, so that a slow one holds up no other.
//! - [`channel`]: one bounded queue with the clocks of its two ends, and [`Stop`], a channel that only ever closes.
//! - [`Meter`]: busy + starved + blocked = wall time, per actor.
//! - `traced`: what actors do, as `tracing` spans for who records a trace.
//! - [`spawn`]: a named thread whose panic is an [`Error::Actor`](crate::Error::Actor).

pub mod channel;
pub mod counted;
pub mod demand;
pub mod lanes;
pub mod meter;
pub mod scheduled;
pub mod supervisor;
pub(crate) mod traced;

pub use channel::{Stop, Stopper, stopper};
pub use counted::Counted;
pub(crate) use demand::{Demand, Ready};
pub(crate) use lanes::Lanes;
pub use lanes::{Gauges, LaneOptions, Next};
pub(crate) use meter::holds;
pub use meter::{Activity, Meter, Reading, starved};
pub use scheduled::Scheduled;
pub(crate) use supervisor::caught;
pub use supervisor::{Actor, spawn};

/// SIGXFSZ of Linux: a file would become longer than `ulimit -f` allows. Whoever does not listen to it is ended by it.
pub const FILE_SIZE_SIGNAL: i32 = 25;
