//! Error of a caller, for tests of the pools.

use crate::error::Error;

/// Error of a caller that embeds the crate's error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TestError {
    /// A failure of the pool.
    #[error(transparent)]
    Runtime(#[from] Error),
    /// A failure of an item.
    #[error("{0}")]
    Item(&'static str),
}
