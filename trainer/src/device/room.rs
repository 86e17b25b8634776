//! How libtorch says that a device's memory does not suffice.

use std::any::Any;

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

/// Whether a panic is `tch`'s way to say so: its operators panic where they fail.
#[must_use]
pub fn is_shortage(panic: &(dyn Any + Send)) -> bool {
    words(panic).is_some_and(|words| shortage(words).is_some())
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
        assert!(is_shortage(&panic) && !is_shortage(&"CUDA error: an illegal memory access"));
        for words in WORDS {
            assert_eq!(shortage(words).as_deref(), Some(words));
        }
    }
}
