//! Packer: receives documents, emits samples.

use schemas::SpecialIds;
use schemas::manifest::PackReport;

use super::AnyPacking;
use super::open::{OpenSample, SampleSink};
use crate::Result;

/// Packer of one split.
#[derive(Clone, Debug)]
pub struct Packer {
    packing: AnyPacking,
    open: OpenSample,
}

impl Packer {
    /// Creates a packer of samples for rows of `max_seq_len`.
    ///
    /// # Panics
    /// If the rows have no room for a content token, or room for more than 65,535.
    #[must_use]
    pub fn new(packing: &AnyPacking, max_seq_len: u32, special: SpecialIds) -> Self {
        Self { packing: packing.clone(), open: OpenSample::new(packing.content(max_seq_len), special) }
    }

    /// Begins a document; its tokens follow by [`extend`](Self::extend).
    pub fn begin(&mut self, document: u64, source: u16) {
        self.open.begin(document, source);
    }

    /// Returns the number, among all samples of this packer, of the sample in which the current document begins. Valid
    /// only after its first token.
    #[must_use]
    pub fn began(&self) -> u64 {
        self.open.began()
    }

    /// Appends tokens of the current document, and emits every sample that becomes full. If the packing keeps
    /// sentences, `ids` must be one sentence; otherwise `ids` may be any slice.
    ///
    /// # Panics
    /// If no document was begun.
    pub fn extend(&mut self, ids: &[u32], sink: SampleSink<'_>) -> Result<()> {
        if ids.is_empty() { Ok(()) } else { self.packing.extend(&mut self.open, ids, sink) }
    }

    /// Ends the document.
    pub fn end(&mut self, sink: SampleSink<'_>) -> Result<()> {
        self.packing.end(&mut self.open, sink)
    }

    /// Returns the number of tokens of the open sample.
    #[must_use]
    pub fn open_tokens(&self) -> usize {
        self.open.len()
    }

    /// Emits or drops the remaining tokens, as the packing defines. Returns the counts of sentences and cuts.
    pub fn finish(mut self, sink: SampleSink<'_>) -> Result<PackReport> {
        self.packing.finish(&mut self.open, sink)?;
        Ok(self.open.report)
    }
}
