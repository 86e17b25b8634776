//! Threads with names, and what becomes of their panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// A running thread. Dropping it lets the thread run on; [`join`](Actor::join) waits for its value.
#[derive(Debug)]
pub struct Actor<T> {
    name: String,
    handle: JoinHandle<T>,
}

/// Starts a thread under `name`.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<Actor<T>> {
    let name = name.into();
    let handle = Builder::new().name(name.clone()).spawn(body)?;
    Ok(Actor { name, handle })
}

impl<T> Actor<T> {
    /// Waits for the thread to end.
    ///
    /// # Errors
    /// [`Error::Actor`] with its panic message, if it panicked.
    pub fn join(self) -> Result<T> {
        self.handle.join().map_err(|panic| failure(&self.name, 0, panic.as_ref()))
    }
}

/// Runs the work of actor `name` on item `index`; a panic becomes an error that names both.
pub(super) fn guard<T>(name: &str, index: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
    // The work's captures are not used again after a panic: its lane ends.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(failure(name, index, panic.as_ref())))
}

/// Runs work that its actor outlives; a panic becomes its message. What it had in hand is half done then: whoever asks
/// begins again with it, or gives it up.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(panic.as_ref()).to_owned())
}

fn failure(name: &str, index: u64, panic: &(dyn Any + Send)) -> Error {
    Error::Actor { name: name.to_owned(), index, message: message(panic).to_owned() }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_the_actors_name() {
        assert_eq!(spawn("adder", || 1 + 1).and_then(Actor::join).expect("no panic"), 2);
        let error = spawn("trainer", || assert!(std::thread::current().name().is_none(), "out of {}", "luck"))
            .and_then(Actor::join)
            .expect_err("it panicked");
        assert_eq!(error.to_string(), "actor `trainer` failed at item 0: out of luck");
    }
}
