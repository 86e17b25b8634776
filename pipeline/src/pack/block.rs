//! Packing into full rows, with a separator between documents.
//!
//! # What
//! Documents in order, with a separator between two of them, cut into runs of `max_seq_len − 2`. The frame adds the
//! outer tokens. Only the last run may be shorter.
//!
//! # Why
//! No padding, and no token is dropped.
//!
//! # Definition
//! A document that begins at the start of a run has no separator before it: the frame already ends the previous row.
//!
//! # Reference
//! Liu et al. 2019 (RoBERTa), section 4.2, "full-sentences".

use super::{OpenSample, Packing, SampleSink};
use crate::Result;

/// Full rows, with a separator between documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks;

impl Packing for Blocks {
    fn content(&self, max_seq_len: u32) -> u32 {
        max_seq_len.saturating_sub(2)
    }

    fn cuts(&self) -> bool {
        true
    }

    fn extend(&self, open: &mut OpenSample, ids: &[u32], sink: SampleSink<'_>) -> Result<()> {
        if open.is_fresh() && !open.is_empty() {
            open.separate(open.special().sep, sink)?;
        }
        open.fill(ids, sink)
    }

    fn end(&self, _open: &mut OpenSample, _sink: SampleSink<'_>) -> Result<()> {
        Ok(())
    }
}
