//! Shards on disk and in memory; the format is specified at [`schemas::sample`].
//!
//! # The content hash
//!
//! BLAKE3 over the decoded rows, whatever their compression. Each row contributes, as little-endian integers: the
//! number of its ids (`u32`), the ids (`u32` each, also where the file stores `uint16`), the number of its documents
//! (`u32`), their starts (`u16` each), their names (`u64` each), and its source (`u16`); and, where sentences are kept,
//! their number (`u32`) and their starts (`u16` each).

pub mod groups;
mod object;
pub mod opened;
pub mod reader;
pub mod synthetic;
pub mod writer;

pub use writer::{ShardOptions, ShardWriter};

use schemas::{Sample, TokenIds};

/// The content hash in the making.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContentHasher {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl ContentHasher {
    /// Adds a row.
    pub(crate) fn row(&mut self, sample: &Sample<'_>) {
        let Sample { input_ids, document_starts, documents, sentence_starts, source, .. } = sample;
        let count = |length: usize| u32::try_from(length).expect("a row has fewer than 65,536 tokens").to_le_bytes();
        self.buffer.extend_from_slice(&count(input_ids.len()));
        match input_ids {
            TokenIds::U16(ids) => self.buffer.extend(ids.iter().flat_map(|&id| u32::from(id).to_le_bytes())),
            TokenIds::U32(ids) => self.buffer.extend(ids.iter().flat_map(|id| id.to_le_bytes())),
        }
        self.buffer.extend_from_slice(&count(documents.len()));
        self.buffer.extend(document_starts.iter().flat_map(|start| start.to_le_bytes()));
        self.buffer.extend(documents.iter().flat_map(|document| document.to_le_bytes()));
        self.buffer.extend_from_slice(&source.to_le_bytes());
        // A row that keeps sentences has at least one.
        if !sentence_starts.is_empty() {
            self.buffer.extend_from_slice(&count(sentence_starts.len()));
            self.buffer.extend(sentence_starts.iter().flat_map(|start| start.to_le_bytes()));
        }
        // BLAKE3 is several times faster on long inputs.
        if self.buffer.len() >= 1 << 16 {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }

    /// The hash, as hexadecimal digits.
    #[must_use]
    pub(crate) fn finish(mut self) -> String {
        self.hasher.update(&self.buffer);
        self.hasher.finalize().to_hex().to_string()
    }
}
