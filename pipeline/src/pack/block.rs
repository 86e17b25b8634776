//! Rows filled to the last token, documents apart by a separator.
//!
//! # What
//! Documents in order, a separator between two of them, cut into runs of `max_seq_len − 2`; the frame adds the outer
//! tokens. Only the last run may be shorter.
//!
//! # Why
//! No padding, and no token thrown away.
//!
//! # Definition
//! A document that begins where a run begins has no separator before it: the frame already ends the row before.
//!
//! # Reference
//! Liu et al. 2019 (RoBERTa), section 4.2, "full-sentences".

use super::{OpenSample, Packing, Sink};
use crate::Result;

/// Full rows, documents apart by a separator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks;

impl Packing for Blocks {
    fn content(&self, max_seq_len: u32) -> u32 {
        max_seq_len.saturating_sub(2)
    }

    fn cuts(&self) -> bool {
        true
    }

    fn extend(&self, open: &mut OpenSample, ids: &[u32], sink: Sink<'_>) -> Result<()> {
        if open.is_fresh() && !open.is_empty() {
            open.separate(open.special().sep, sink)?;
        }
        open.fill(ids, sink)
    }

    fn end(&self, _open: &mut OpenSample, _sink: Sink<'_>) -> Result<()> {
        Ok(())
    }
}
