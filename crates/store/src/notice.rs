//! Warnings of long waits: many threads may wait for the same store, and one line reports it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wait after which a warning is logged.
pub const AFTER: Duration = Duration::from_secs(10);

/// Shortest time between two warnings of a process.
const INTERVAL: Duration = Duration::from_secs(30);

/// Time of the newest warning.
static NEWEST: Mutex<Option<Instant>> = Mutex::new(None);

/// Returns true if a warning of a wait may be logged now. The caller logs it.
pub fn is_due() -> bool {
    let mut newest = NEWEST.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = newest.is_none_or(|newest| newest.elapsed() >= INTERVAL);
    if is_due {
        *newest = Some(Instant::now());
    }
    is_due
}
