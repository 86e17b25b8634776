//! What a thread needs while it encodes, kept for the next one.

use std::sync::{Mutex, PoisonError};

/// Things of which each thread that is at work has one. Made when there is none to lend, and kept: there are as
/// many as there were threads at once.
#[derive(Debug)]
pub(crate) struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Lends one that nobody else has at the moment. One in use when a thread panicked is gone with it.
    pub(crate) fn lend<R>(&self, make: impl FnOnce() -> T, work: impl FnOnce(&mut T) -> R) -> R {
        let free = self.free().pop();
        let mut lent = free.unwrap_or_else(make);
        let outcome = work(&mut lent);
        self.free().push(lent);
        outcome
    }

    /// All that nobody has, for good.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.free())
    }

    /// Those that nobody has. Nothing is done while it is locked that could panic.
    fn free(&self) -> std::sync::MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
