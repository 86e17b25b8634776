//! How libtorch says that a device's memory does not suffice.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use trainer_plan::Error;

/// Its allocator's words, the driver's, and those of the library of matrix products, which takes memory of its own.
const WORDS: [&str; 3] = ["CUDA out of memory", "CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED"];

/// libtorch's words where CUDA has no memory left, up to the reason's end; `None` where it is something else.
#[must_use]
pub(crate) fn shortage(text: &str) -> Option<String> {
    let said = &text[WORDS.iter().find_map(|words| text.find(words))?..];
    // A panic has written its error as Rust does.
    let line = said.split(['\n', '"']).next()?.split("\\n").next()?;
    // What is asked for, then how much there is and how much of it is free; the rest is advice for Python.
    let sentences: Vec<&str> = line.trim_end_matches('.').split(". ").take(3).collect();
    Some(sentences.join(". "))
}

thread_local! {
    /// Whether this thread makes an error of a shortage.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Does what computes on a device. A shortage comes back as the error that `explain` makes of it, whether an operator
/// returned it or panicked: `tch`'s panic where they fail. Any other panic continues.
pub(crate) fn caught<T>(
    work: impl FnOnce() -> Result<T, Error>,
    explain: impl FnOnce(String) -> Error,
) -> Result<T, Error> {
    let outer = CATCHES.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    CATCHES.set(outer);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(panic) => match words(panic.as_ref()).and_then(shortage) {
            Some(shortage) => Err(Error::Native(shortage)),
            None => resume_unwind(panic),
        },
    };
    outcome.map_err(|error| match error {
        Error::Native(text) => shortage(&text).map_or(Error::Native(text), explain),
        error => error,
    })
}

/// Whether a panic of this thread is a shortage of which an error will be made that says more.
#[must_use]
pub fn is_caught(panic: &(dyn Any + Send)) -> bool {
    CATCHES.get() && words(panic).is_some_and(|words| shortage(words).is_some())
}

/// What a panic says.
pub(crate) fn words(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_from_other_errors_and_in_few_words() {
        let said = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which \
                    17.38 MiB is free. Process 1 has 79.08 GiB memory in use.\nException raised from malloc";
        let short = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which \
                     17.38 MiB is free";
        assert_eq!(shortage(said).as_deref(), Some(short));
        let panic = format!("called `Result::unwrap()` on an `Err` value: {:?}", tch::TchError::Torch(said.to_owned()));
        assert_eq!(shortage(&panic).as_deref(), Some(short));
        assert!(!is_caught(&panic), "nobody waits for it");
        let seen: Result<(), Error> = caught(
            || {
                assert!(is_caught(&panic) && !is_caught(&"CUDA error: an illegal memory access"));
                panic!("{panic}")
            },
            Error::Device,
        );
        assert!(matches!(seen, Err(Error::Device(said)) if said == short) && !is_caught(&panic));
        for words in WORDS {
            assert_eq!(shortage(words).as_deref(), Some(words));
        }
    }
}
