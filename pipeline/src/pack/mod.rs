//! Token ids to samples, within a part and never across.
//!
//! A [`Packer`] takes documents one after another and fills the one open sample of a split; when it hands a sample over,
//! and what it puts between documents, is the [`Packing`]: one file, one line each.

mod open;
mod packer;

use schemas::manifest::{Frame, Pack};

pub use self::open::{OpenSample, Packed, Sink};
pub use self::packer::Packer;
use crate::Result;

schemas::registry! {
    /// Every way in which documents become samples.
    pub enum AnyPacking: Packing by name {
        block::Blocks,
        taco::FramedBlocks,
        document::FirstTokens,
        sentences::WholeSentences,
    }
}

impl AnyPacking {
    /// What a manifest says of it.
    #[must_use]
    pub fn facts(&self, max_seq_len: u32) -> Pack {
        Pack {
            name: self.kind().to_owned(),
            content: self.content(max_seq_len),
            frame: self.frame(),
            keeps_sentences: self.keeps_sentences(),
            cuts: self.cuts(),
        }
    }
}

impl Default for AnyPacking {
    fn default() -> Self {
        Self::of_kind("block").expect("it is in the table")
    }
}

/// A way in which documents become samples.
pub trait Packing: Send + Sync {
    /// Content tokens of a full sample for rows of `max_seq_len`. 0 if they have no room for any.
    fn content(&self, max_seq_len: u32) -> u32;

    /// What a frame adds around them.
    fn frame(&self) -> Frame {
        Frame::ClsSep
    }

    /// Whether samples say where their sentences begin. Tokens then come sentence by sentence.
    fn keeps_sentences(&self) -> bool {
        false
    }

    /// Whether a sample may be cut anywhere, so that narrower rows may be made of its pieces.
    fn cuts(&self) -> bool {
        false
    }

    /// The least `prepare.max_seq_len` that it can do with.
    fn tokens_min(&self) -> u32 {
        4
    }

    /// Appends tokens of the current document, at least one, handing over every sample that becomes full.
    fn extend(&self, open: &mut OpenSample, ids: &[u32], sink: Sink<'_>) -> Result<()>;

    /// Ends the document.
    fn end(&self, open: &mut OpenSample, sink: Sink<'_>) -> Result<()>;

    /// Hands over what is left.
    fn finish(&self, open: &mut OpenSample, sink: Sink<'_>) -> Result<()> {
        open.flush_rest(sink)
    }
}

#[cfg(test)]
mod contract;
#[cfg(test)]
mod tests;
