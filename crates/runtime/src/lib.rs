//! Threads of the whole program: worker pools, cancellation, time accounts, panic guards and process exit.
//!
//! Data moves through operating-system threads and bounded channels only. Shutdown is a channel that closes: the end of
//! the data travels downstream by disconnect, a cancellation travels upstream by disconnect, and no thread polls a flag.
//!
//! - [`OrderedPool`]: worker `i % n` computes item `i`; the reader gets the items in index order.
//! - [`WorkPool`]: a free worker takes the next item; the reader gets the items as they finish.
//! - [`CancelSource`] and [`CancelToken`]: a channel that only closes.
//! - `TimeAccount`: busy + starved + blocked = wall time of one worker.
//! - [`spans`]: the state of every worker as `tracing` spans, for trace recorders.
//! - [`spawn`]: a named thread whose panic is an [`Error`].
//! - [`panic_guard`]: panics of decoders and of items as values.
//! - [`thread_stats`]: kernel counters of one thread.
//! - [`exit`]: process exit that runs no destructors.
//!
//! The pools are generic over the error of the caller, which must convert from [`Error`].

pub mod cancel;
mod channel;
mod error;
pub mod exit;
pub mod ordered_pool;
pub mod panic_guard;
pub mod spans;
pub mod supervisor;
#[cfg(test)]
mod testing;
pub mod thread_stats;
pub mod time_account;
pub mod work_pool;

pub use cancel::{CancelSource, CancelToken, cancel_pair};
pub use error::{Error, Result};
pub use exit::{FILE_SIZE_SIGNAL, exit_now};
pub use ordered_pool::{NextItem, OrderedPool, PoolOptions, PoolStats};
pub use panic_guard::{catch_decoder, catch_panic};
pub use supervisor::{NamedThread, spawn};
pub use thread_stats::{ThreadCounters, ThreadSchedule};
pub use time_account::{Activity, WorkerStats, add_held, starved};
pub use work_pool::{Poll, WorkPool};
