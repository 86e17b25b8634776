//! Failures of threads and workers.

use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure of a thread or of a worker.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to start a thread.
    #[error(
        "the thread `{name}` does not start: {source}; raise the limits of threads (`ulimit -u`, `pids.max`) and of memory \
         (`ulimit -v`)"
    )]
    Spawn {
        /// Name of the thread.
        name: String,
        /// Error of the operating system.
        source: io::Error,
    },

    /// A worker panicked: a defect of the program.
    #[error("worker `{name}` failed at item {index}: {message}")]
    Panicked {
        /// Name of the thread.
        name: String,
        /// Item that the worker was computing.
        index: u64,
        /// Panic message.
        message: String,
    },
}
