//! Rows of framed documents, cut wherever a row is full.
//!
//! # What
//! Documents in order, each as `[CLS]` … `[SEP]`, cut into runs of exactly `max_seq_len`, wherever that falls; the frame
//! adds nothing. What is left at the end is dropped, and counted.
//!
//! # Why
//! The rows of TACO's released code, for its reproduction.
//!
//! # Definition
//! A row may begin and end within a document; its first token need not be `[CLS]`.
//!
//! # Reference
//! Fu et al. 2022 (TACO), its released code.

use schemas::manifest::Frame;

use super::{OpenSample, Packing, Sink};
use crate::Result;

/// Full rows of framed documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramedBlocks;

impl Packing for FramedBlocks {
    fn content(&self, max_seq_len: u32) -> u32 {
        max_seq_len
    }

    fn frame(&self) -> Frame {
        Frame::None
    }

    fn extend(&self, open: &mut OpenSample, ids: &[u32], sink: Sink<'_>) -> Result<()> {
        if open.is_fresh() {
            open.fill(&[open.special().cls], sink)?;
        }
        open.fill(ids, sink)
    }

    fn end(&self, open: &mut OpenSample, sink: Sink<'_>) -> Result<()> {
        // A document without tokens has no frame either.
        if open.is_fresh() { Ok(()) } else { open.fill(&[open.special().sep], sink) }
    }

    fn finish(&self, open: &mut OpenSample, _sink: Sink<'_>) -> Result<()> {
        open.report.cut_tokens += open.len() as u64;
        open.clear();
        Ok(())
    }
}
