//! Pool of per-thread working state, reused between threads.

use std::sync::{Mutex, PoisonError};

/// Pool of values, one per working thread. A value is created when none is free, and kept: the pool has as many values
/// as there were concurrent threads.
#[derive(Debug)]
pub(crate) struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Passes a free value to `work`. A value in use when a thread panics is dropped.
    pub(crate) fn with_item<R>(&self, make: impl FnOnce() -> T, work: impl FnOnce(&mut T) -> R) -> R {
        let free = self.free().pop();
        let mut value = free.unwrap_or_else(make);
        let outcome = work(&mut value);
        self.free().push(value);
        outcome
    }

    /// Removes and returns all free values.
    pub(crate) fn take_all(&self) -> Vec<T> {
        std::mem::take(&mut *self.free())
    }

    /// Locks the free values. No code that runs under this lock can panic.
    fn free(&self) -> std::sync::MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
