//! Servers that have answered this process.
//!
//! # Why
//! A refused connection or an unknown name is a mistake of the configuration if it comes first. Later it is a server that
//! restarts, or a name server that is busy, and passes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Servers, as `HOST` or `HOST:PORT`.
static ANSWERED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Records an answer, of any status.
pub(crate) fn record(server: &str) {
    let mut answered = ANSWERED.lock().unwrap_or_else(PoisonError::into_inner);
    if !answered.contains(server) {
        answered.insert(server.to_owned());
    }
}

/// Returns true if the server has answered.
pub(crate) fn has(server: &str) -> bool {
    ANSWERED.lock().unwrap_or_else(PoisonError::into_inner).contains(server)
}
