//! What of a corpus is tokenized twice, to see that ids are the crate's.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::tokenize::front;

/// Text of a run that is compared: the crate takes a tenth of a second for it.
const RUN_BYTES: u64 = 256 << 10;

/// Text of a document that is: so that there are several.
const DOCUMENT_BYTES: usize = 16 << 10;

/// How much is still to be compared. Whose documents come first is a matter of lanes; what is made of them is not.
#[derive(Debug)]
pub(super) struct Sample {
    left: AtomicU64,
}

impl Default for Sample {
    fn default() -> Self {
        Self { left: AtomicU64::new(RUN_BYTES) }
    }
}

impl Sample {
    /// What of a document is to be compared, if there was not enough yet.
    pub(super) fn take<'a>(&self, text: &'a str) -> Option<&'a str> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let taken = front(text, DOCUMENT_BYTES);
        let less = |left: u64| Some(left.saturating_sub(taken.len() as u64));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0);
        (left > 0).then_some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_several_documents_and_ends() {
        let (sample, long) = (Sample::default(), "é".repeat(DOCUMENT_BYTES));
        let taken: Vec<usize> = (0..100).map_while(|_| sample.take(&long)).map(str::len).collect();
        assert_eq!((taken.len() as u64, taken[0]), (RUN_BYTES / DOCUMENT_BYTES as u64, DOCUMENT_BYTES));
        assert_eq!(sample.take("a"), None);
    }
}
