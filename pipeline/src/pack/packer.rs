//! Documents in, samples out.

use schemas::SpecialIds;
use schemas::manifest::PackReport;

use super::AnyPacking;
use super::open::{OpenSample, Sink};
use crate::Result;

/// A way of packing at work on one split.
#[derive(Clone, Debug)]
pub struct Packer {
    packing: AnyPacking,
    open: OpenSample,
}

impl Packer {
    /// A packer of samples for rows of `max_seq_len`.
    ///
    /// # Panics
    /// If these have room for no content token, or for more than 65,535.
    #[must_use]
    pub fn new(packing: &AnyPacking, max_seq_len: u32, special: SpecialIds) -> Self {
        Self { packing: packing.clone(), open: OpenSample::new(packing.content(max_seq_len), special) }
    }

    /// Begins a document; its tokens follow by [`extend`](Self::extend).
    pub fn begin(&mut self, document: u64, source: u16) {
        self.open.begin(document, source);
    }

    /// The number of the sample, of all that this packer hands over, in which the current document begins; of no meaning
    /// before its first token.
    #[must_use]
    pub fn began(&self) -> u64 {
        self.open.began()
    }

    /// Appends tokens of the current document, handing over every sample that becomes full. If the packing keeps
    /// sentences, `ids` are those of one sentence; otherwise it does not matter where they are cut.
    ///
    /// # Panics
    /// If no document was begun.
    pub fn extend(&mut self, ids: &[u32], sink: Sink<'_>) -> Result<()> {
        if ids.is_empty() { Ok(()) } else { self.packing.extend(&mut self.open, ids, sink) }
    }

    /// Ends the document.
    pub fn end(&mut self, sink: Sink<'_>) -> Result<()> {
        self.packing.end(&mut self.open, sink)
    }

    /// Hands over what is left, or drops it, as the packing says. Returns what was found and cut.
    pub fn finish(mut self, sink: Sink<'_>) -> Result<PackReport> {
        self.packing.finish(&mut self.open, sink)?;
        Ok(self.open.report)
    }
}
