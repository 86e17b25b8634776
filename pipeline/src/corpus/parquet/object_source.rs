//! Parquet file in an object store: the parts that are in memory, and requests for the others.
//!
//! A decoder reads headers and pages in many small steps, and a request takes as long as reading a megabyte. The column
//! chunks of a row group are therefore fetched as a whole, if the memory allows; other reads fetch a block.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::corpus::object::StoredObject;

/// Bytes of the end of a file that are fetched first. They hold the metadata of most files.
const TAIL_BYTES: u64 = 64 << 10;

/// Bytes that are fetched at least by a read outside the fetched parts.
const BLOCK_BYTES: u64 = 1 << 20;

/// Parquet file in an object store.
#[derive(Debug)]
pub(super) struct ObjectSource {
    object: StoredObject,
    /// Length of the object.
    pub(super) length: u64,
    /// End of the file.
    tail: Part,
    fetched: Mutex<Fetched>,
}

/// Bytes of the file from an offset on.
#[derive(Clone, Debug, Default)]
struct Part {
    start: u64,
    bytes: Bytes,
}

#[derive(Debug, Default)]
struct Fetched {
    /// Column chunks of the current row group.
    chunks: Vec<Part>,
    /// Block of the last read outside them.
    block: Part,
}

impl Part {
    /// Returns a range of the file, if it is in this part.
    fn slice(&self, range: &Range<u64>) -> Option<Bytes> {
        let at = |offset: u64| usize::try_from(offset.checked_sub(self.start)?).ok();
        let (start, end) = (at(range.start)?, at(range.end)?);
        (start <= end && end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

impl ObjectSource {
    /// Opens an object of that length, and fetches its end.
    pub(super) fn open(object: &StoredObject, length: u64) -> io::Result<Self> {
        let start = length.saturating_sub(TAIL_BYTES);
        let tail = Part { start, bytes: object.range(start..length)? };
        Ok(Self { object: object.clone(), length, tail, fetched: Mutex::default() })
    }

    /// Forgets the fetched column chunks.
    pub(super) fn clear(&self) {
        *self.fetched() = Fetched::default();
    }

    /// Fetches column chunks, which stay in memory until the next ones are.
    pub(super) fn fetch(&self, chunks: &[Range<u64>]) -> io::Result<()> {
        for chunk in chunks {
            if self.tail.slice(chunk).is_none() {
                let part = Part { start: chunk.start, bytes: self.object.large_range(chunk.clone())? };
                self.fetched().chunks.push(part);
            }
        }
        Ok(())
    }

    /// Returns exactly the bytes of a range within the object.
    pub(super) fn exactly(&self, range: Range<u64>) -> io::Result<Bytes> {
        let known = {
            let fetched = self.fetched();
            let mut parts = fetched.chunks.iter().chain([&fetched.block, &self.tail]);
            parts.find_map(|part| part.slice(&range))
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let end = range.end.max(self.length.min(range.start + BLOCK_BYTES));
        let part = Part { start: range.start, bytes: self.object.large_range(range.start..end)? };
        let wanted = part.slice(&range).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.fetched().block = part;
        Ok(wanted)
    }

    /// Returns bytes from an offset on, at most `most`: fewer where a part in memory ends, none at the end of the object.
    pub(super) fn read(&self, start: u64, most: usize) -> io::Result<Bytes> {
        let end = self.length.min(start.saturating_add(most as u64));
        let known_end = {
            let fetched = self.fetched();
            let parts = fetched.chunks.iter().chain([&fetched.block, &self.tail]);
            let ends = parts.filter(|part| part.start <= start).map(|part| part.start + part.bytes.len() as u64);
            ends.filter(|&end| end > start).max()
        };
        self.exactly(start.min(end)..known_end.unwrap_or(end).min(end))
    }

    fn fetched(&self) -> MutexGuard<'_, Fetched> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
