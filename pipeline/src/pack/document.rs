//! A row a document, cut at its end.
//!
//! # What
//! A sample is the first `max_seq_len − 2` tokens of a document; what is cut is counted.
//!
//! # Why
//! Rows that begin where texts begin, for corpora of short documents.
//!
//! # Definition
//! As many samples as documents with tokens.
//!
//! # Reference
//! `truncation = True` of `transformers`' tokenizers.

use super::{OpenSample, Packing, Sink};
use crate::Result;

/// The first tokens of each document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstTokens;

impl Packing for FirstTokens {
    fn content(&self, max_seq_len: u32) -> u32 {
        max_seq_len.saturating_sub(2)
    }

    fn extend(&self, open: &mut OpenSample, ids: &[u32], _sink: Sink<'_>) -> Result<()> {
        let room = open.capacity() - open.len();
        let (kept, cut) = ids.split_at(room.min(ids.len()));
        open.append(kept);
        open.cut(cut.len());
        Ok(())
    }

    fn end(&self, open: &mut OpenSample, sink: Sink<'_>) -> Result<()> {
        open.flush_rest(sink)
    }
}
