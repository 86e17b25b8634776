//! Packing of whole sentences of one document.
//!
//! # What
//! A sample is as many whole sentences of one document as fit `max_seq_len − 3`, with the start of each. The views
//! `segments` and `pair` use them.
//!
//! # Why
//! Next-sentence prediction and similar objectives need segments that begin and end at sentence boundaries.
//!
//! # Definition
//! Greedy: a sentence that does not fit the open sample begins the next one. A sentence longer than a sample is cut
//! there; its last piece continues like a sentence. Two segments and their frame need `max_seq_len` of at least 5.
//!
//! # Reference
//! Devlin et al. 2019, section 3.1, and `create_pretraining_data.py`.

use super::{OpenSample, Packing, SampleSink};
use crate::Result;

/// Whole sentences of one document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeSentences;

impl Packing for WholeSentences {
    fn content(&self, max_seq_len: u32) -> u32 {
        max_seq_len.saturating_sub(3)
    }

    fn keeps_sentences(&self) -> bool {
        true
    }

    fn tokens_min(&self) -> u32 {
        5
    }

    fn extend(&self, open: &mut OpenSample, ids: &[u32], sink: SampleSink<'_>) -> Result<()> {
        open.report.sentences += 1;
        open.report.cut_sentences += u64::from(ids.len() > open.capacity());
        for piece in ids.chunks(open.capacity()) {
            if open.len() + piece.len() > open.capacity() {
                open.flush_rest(sink)?;
            }
            open.append_sentence(piece);
        }
        Ok(())
    }

    fn end(&self, open: &mut OpenSample, sink: SampleSink<'_>) -> Result<()> {
        open.flush_rest(sink)
    }
}
