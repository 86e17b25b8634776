//! Detection of out-of-memory errors of libtorch.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use trainer_plan::Error;

/// Messages of libtorch's allocators, of the driver, of cuBLAS, which allocates its own memory, and of the C++ library.
const MESSAGES: [&str; 6] = [
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED",
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "std::bad_alloc",
];

/// Extracts libtorch's out-of-memory message, up to the end of the reason. `None` for any other error.
#[must_use]
pub(crate) fn shortage(text: &str) -> Option<String> {
    let said = &text[MESSAGES.iter().find_map(|words| text.find(words))?..];
    // A panic message holds the error in Rust's debug format, so newlines are escaped.
    let line = said.split(['\n', '"']).next()?.split("\\n").next()?;
    // The message, the requested size, and total and free memory. The rest is advice for Python.
    let sentences: Vec<&str> = line.trim_end_matches('.').split(". ").take(3).collect();
    Some(sentences.join(". "))
}

thread_local! {
    /// Whether this thread converts an out-of-memory failure to an error.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Runs a computation on a device and converts an out-of-memory failure with `explain`.
///
/// The failure may be an error or a panic, because operators of `tch` panic when they fail. Any other panic continues.
pub(crate) fn caught<T>(
    work: impl FnOnce() -> Result<T, Error>,
    explain: impl FnOnce(String) -> Error,
) -> Result<T, Error> {
    let outer = CATCHES.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    CATCHES.set(outer);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(panic) => match panic_message(panic.as_ref()).and_then(shortage) {
            Some(shortage) => Err(Error::Native(shortage)),
            None => resume_unwind(panic),
        },
    };
    outcome.map_err(|error| match error {
        Error::Native(text) => shortage(&text).map_or(Error::Native(text), explain),
        error => error,
    })
}

/// Runs work on a thread of libtorch, which no panic may pass. A panic becomes an error with its message.
pub(crate) fn without_panic<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let outer = CATCHES.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    CATCHES.set(outer);
    outcome.unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref()).unwrap_or("a panic without a message");
        Err(Error::Native(message.to_owned()))
    })
}

/// Whether a panic of this thread is an out-of-memory failure that [`caught`] or [`without_panic`] converts to a more detailed error.
#[must_use]
pub fn is_caught(panic: &(dyn Any + Send)) -> bool {
    CATCHES.get() && panic_message(panic).is_some_and(|words| shortage(words).is_some())
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_out_of_memory_message_is_recognized_and_shortened() {
        let said = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which \
                    17.38 MiB is free. Process 1 has 79.08 GiB memory in use.\nException raised from malloc";
        let short = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which \
                     17.38 MiB is free";
        assert_eq!(shortage(said).as_deref(), Some(short));
        let panic = format!("called `Result::unwrap()` on an `Err` value: {:?}", tch::TchError::Torch(said.to_owned()));
        assert_eq!(shortage(&panic).as_deref(), Some(short));
        assert!(!is_caught(&panic), "outside of `caught`");
        let seen: Result<(), Error> = caught(
            || {
                assert!(is_caught(&panic) && !is_caught(&"CUDA error: an illegal memory access"));
                panic!("{panic}")
            },
            Error::Device,
        );
        assert!(matches!(seen, Err(Error::Device(said)) if said == short) && !is_caught(&panic));
        for words in MESSAGES {
            assert_eq!(shortage(words).as_deref(), Some(words));
        }
    }

    #[test]
    fn a_failed_allocation_of_host_memory_is_an_out_of_memory_error() {
        // More than the address space of a process.
        let shape = [1_i64 << 50];
        let allocate = || Ok(tch::Tensor::zeros(shape, (tch::Kind::Uint8, tch::Device::Cpu)));
        let outcome = caught(allocate, Error::Device).map(|_| ());
        let said = format!("{:?}", outcome.expect_err("no machine has this memory"));
        assert!(said.contains("can't allocate memory: you tried to allocate 1125899906842624 bytes"), "{said}");
        assert!(!said.contains("frame"), "no stack: {said}");
    }
}
