//! Named threads, and their panics as errors.

use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};
use crate::panic_guard::panic_error;

/// Running thread. Dropping it detaches the thread; [`join`](NamedThread::join) waits for its value.
#[derive(Debug)]
pub struct NamedThread<T> {
    name: String,
    handle: JoinHandle<T>,
}

/// Starts a thread called `name`.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<NamedThread<T>> {
    let name = name.into();
    match Builder::new().name(name.clone()).spawn(body) {
        Ok(handle) => Ok(NamedThread { name, handle }),
        Err(source) => Err(Error::Spawn { name, source }),
    }
}

impl<T> NamedThread<T> {
    /// Waits for the thread to end.
    ///
    /// # Errors
    /// [`Error::Panicked`] with its panic message, if it panicked.
    pub fn join(self) -> Result<T> {
        self.handle.join().map_err(|panic| panic_error(&self.name, 0, panic.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_the_threads_name() {
        assert_eq!(spawn("adder", || 1 + 1).and_then(NamedThread::join).expect("no panic"), 2);
        let error = spawn("trainer", || assert!(std::thread::current().name().is_none(), "out of {}", "luck"))
            .and_then(NamedThread::join)
            .expect_err("it panicked");
        assert_eq!(error.to_string(), "worker `trainer` failed at item 0: out of luck");
    }
}
