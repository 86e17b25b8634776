//! Packing of token ids into samples, within a part and never across parts.
//!
//! A [`Packer`] receives documents one after another and fills the one open sample of a split. The [`Packing`] decides
//! when a sample is complete and which tokens separate documents. Each packing is one file, with one line here.

mod open;
mod packer;

use schemas::manifest::{Frame, Pack};

pub use self::open::{OpenSample, Packed, SampleSink};
pub use self::packer::Packer;
use crate::Result;

schemas::registry! {
    /// Method of packing documents into samples.
    pub enum AnyPacking: Packing by name {
        block::Blocks,
        taco::FramedBlocks,
        document::FirstTokens,
        sentences::WholeSentences,
    }
}

impl AnyPacking {
    /// Returns the packing facts for a manifest.
    #[must_use]
    pub fn facts(&self, max_seq_len: u32) -> Pack {
        Pack {
            name: self.kind().to_owned(),
            content: self.content(max_seq_len),
            frame: self.frame(),
            keeps_sentences: self.keeps_sentences(),
            cuts: self.cuts(),
            has_targets: false,
        }
    }
}

impl Default for AnyPacking {
    fn default() -> Self {
        Self::of_kind("block").expect("it is in the table")
    }
}

/// Method of packing documents into samples.
pub trait Packing: Send + Sync {
    /// Returns the content tokens of a full sample for rows of `max_seq_len`; 0 if they have no room for any.
    fn content(&self, max_seq_len: u32) -> u32;

    /// Returns the frame tokens around the content.
    fn frame(&self) -> Frame {
        Frame::ClsSep
    }

    /// Returns true if samples record the starts of their sentences. The caller then passes one sentence at a time.
    fn keeps_sentences(&self) -> bool {
        false
    }

    /// Returns true if a sample may be cut anywhere, so that its pieces can fill narrower rows.
    fn cuts(&self) -> bool {
        false
    }

    /// Returns the minimum `prepare.max_seq_len`.
    fn tokens_min(&self) -> u32 {
        4
    }

    /// Appends tokens of the current document, at least one, and emits every sample that becomes full.
    fn extend(&self, open: &mut OpenSample, ids: &[u32], sink: SampleSink<'_>) -> Result<()>;

    /// Ends the document.
    fn end(&self, open: &mut OpenSample, sink: SampleSink<'_>) -> Result<()>;

    /// Emits the remaining tokens.
    fn finish(&self, open: &mut OpenSample, sink: SampleSink<'_>) -> Result<()> {
        open.flush_rest(sink)
    }
}

#[cfg(test)]
mod contract;
#[cfg(test)]
mod tests;
