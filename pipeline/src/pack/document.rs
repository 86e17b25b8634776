//! Packing with one document per row, truncated to the row.
//!
//! # What
//! A sample is the first `max_seq_len − 2` tokens of a document. Dropped tokens are counted.
//!
//! # Why
//! Rows begin at the beginnings of texts, for corpora of short documents.
//!
//! # Definition
//! One sample for each document with tokens.
//!
//! # Reference
//! `truncation = True` of `transformers`' tokenizers.

use super::{OpenSample, Packing, SampleSink};
use crate::Result;

/// First tokens of each document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstTokens;

impl Packing for FirstTokens {
    fn content(&self, max_seq_len: u32) -> u32 {
        max_seq_len.saturating_sub(2)
    }

    fn extend(&self, open: &mut OpenSample, ids: &[u32], _sink: SampleSink<'_>) -> Result<()> {
        let room = open.capacity() - open.len();
        let (kept, cut) = ids.split_at(room.min(ids.len()));
        open.append(kept);
        open.cut(cut.len());
        Ok(())
    }

    fn end(&self, open: &mut OpenSample, sink: SampleSink<'_>) -> Result<()> {
        open.flush_rest(sink)
    }
}
