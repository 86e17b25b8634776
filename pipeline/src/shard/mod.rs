//! Shards on disk and in memory; the format is specified at [`schemas::sample`].
//!
//! # The content hash
//!
//! BLAKE3 over the decoded rows, whatever their compression. Each row contributes, as little-endian integers: the
//! number of its ids (`u32`), the ids (`u32` each, also where the file stores `uint16`), the number of its documents
//! (`u32`), their starts (`u16` each), their names (`u64` each), and its source (`u16`); and, where sentences are kept,
//! their number (`u32`) and their starts (`u16` each); and, where a row has targets, their number (`u32`) and the targets
//! (`i32` each).

pub mod cache;
pub mod groups;
mod ids;
pub mod opened;
pub mod reader;
mod runs;
mod shard_file;
pub mod synthetic;
pub mod writer;

pub use writer::{ShardOptions, ShardWriter};

use std::ops::Range;

use schemas::{Sample, TokenIds};

/// Number of bytes that are hashed at a time. BLAKE3 is several times faster on long inputs in whole chunks of 1 KiB.
const HASHED_BYTES: usize = 1 << 16;

/// Content hash under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContentHasher {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl ContentHasher {
    /// Adds a row.
    pub(crate) fn row(&mut self, sample: &Sample<'_>) {
        let Sample { input_ids, document_starts, documents, sentence_starts, targets, source, .. } = sample;
        let count = |length: usize| u32::try_from(length).expect("a row has fewer than 65,536 tokens").to_le_bytes();
        self.buffer.extend_from_slice(&count(input_ids.len()));
        match input_ids {
            TokenIds::U16(ids) => put(&mut self.buffer, ids, |id| u32::from(id).to_le_bytes()),
            TokenIds::U32(ids) => put(&mut self.buffer, ids, u32::to_le_bytes),
        }
        self.buffer.extend_from_slice(&count(documents.len()));
        put(&mut self.buffer, document_starts, u16::to_le_bytes);
        put(&mut self.buffer, documents, u64::to_le_bytes);
        self.buffer.extend_from_slice(&source.to_le_bytes());
        // A row that keeps sentences has at least one.
        if !sentence_starts.is_empty() {
            self.buffer.extend_from_slice(&count(sentence_starts.len()));
            put(&mut self.buffer, sentence_starts, u16::to_le_bytes);
        }
        if !targets.is_empty() {
            self.buffer.extend_from_slice(&count(targets.len()));
            put(&mut self.buffer, targets, i32::to_le_bytes);
        }
        if self.buffer.len() >= HASHED_BYTES {
            let whole = self.buffer.len() / HASHED_BYTES * HASHED_BYTES;
            self.hasher.update(&self.buffer[..whole]);
            self.buffer.drain(..whole);
        }
    }

    /// Returns the hash as hexadecimal digits.
    #[must_use]
    pub(crate) fn finish(mut self) -> String {
        self.hasher.update(&self.buffer);
        self.hasher.finalize().to_hex().to_string()
    }
}

/// Returns the range of a row's items in a list column.
fn range(offsets: &[i32], row: usize) -> Range<usize> {
    index(offsets[row])..index(offsets[row + 1])
}

/// Converts an offset to an index.
fn index(offset: i32) -> usize {
    usize::try_from(offset).expect("Arrow offsets ascend from 0")
}

/// Appends the bytes of some numbers. Capacity is reserved once, not per number.
fn put<T: Copy, const N: usize>(buffer: &mut Vec<u8>, numbers: &[T], bytes: impl Fn(T) -> [u8; N]) {
    let begin = buffer.len();
    buffer.resize(begin + N * numbers.len(), 0);
    for (place, &number) in buffer[begin..].chunks_exact_mut(N).zip(numbers) {
        place.copy_from_slice(&bytes(number));
    }
}
