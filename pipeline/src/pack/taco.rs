//! Packing of framed documents into full rows, cut at any token.
//!
//! # What
//! Documents in order, each as `[CLS]` … `[SEP]`, cut into runs of exactly `max_seq_len` at any token. The frame adds
//! nothing. The remainder at the end is dropped, and counted.
//!
//! # Why
//! These are the rows of TACO's released code, for its reproduction.
//!
//! # Definition
//! A row may begin and end within a document; its first token need not be `[CLS]`.
//!
//! # Reference
//! Fu et al. 2022 (TACO), its released code.

use schemas::manifest::Frame;

use super::{OpenSample, Packing, SampleSink};
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

    fn extend(&self, open: &mut OpenSample, ids: &[u32], sink: SampleSink<'_>) -> Result<()> {
        if open.is_fresh() {
            open.fill(&[open.special().cls], sink)?;
        }
        open.fill(ids, sink)
    }

    fn end(&self, open: &mut OpenSample, sink: SampleSink<'_>) -> Result<()> {
        // A document without tokens gets no frame.
        if open.is_fresh() { Ok(()) } else { open.fill(&[open.special().sep], sink) }
    }

    fn finish(&self, open: &mut OpenSample, _sink: SampleSink<'_>) -> Result<()> {
        open.report.cut_tokens += open.len() as u64;
        open.clear();
        Ok(())
    }
}
