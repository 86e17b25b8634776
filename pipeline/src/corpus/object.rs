//! Objects of a store as files of a corpus.
//!
//! An object is read in ranged requests, so a dropped connection costs one block: the store retries a failed request, and
//! the reader continues at its offset. Blocks are fetched ahead of the reader. The first block is small and fetched
//! alone, because the check of a file reads no more.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use runtime::{OrderedPool, PoolOptions, starved};
use store::{Stat, Store};

use crate::Error;

/// Bytes of the first request of a reader.
pub(super) const HEAD_BYTES: u64 = 256 << 10;

/// Bytes of each later request.
const BLOCK_BYTES: u64 = 4 << 20;

/// Requests ahead of the reader: two threads with one finished block each.
const READ_AHEAD: PoolOptions = PoolOptions { name: "read-ahead", item: "block", workers: 2, queue_depth: 1 };

/// Maximum bytes that a reader of an object has in memory.
pub(crate) const READER_BYTES: u64 = 5 * BLOCK_BYTES;

/// Object of a store.
#[derive(Clone, Debug)]
pub(super) struct StoredObject {
    store: Store,
    name: String,
    /// First bytes of the object, if they were fetched for several reads.
    head: Bytes,
}

impl StoredObject {
    /// Creates the handle of an object.
    pub(super) fn new(store: Store, name: String) -> Self {
        Self { store, name, head: Bytes::new() }
    }

    /// Returns the metadata of the object; `None` if it is absent.
    pub(super) fn stat(&self) -> io::Result<Option<Stat>> {
        starved(|| self.store.head(&self.name))
    }

    /// Returns the same object with its first bytes in memory. `bytes` is its length.
    pub(super) fn with_head(&self, bytes: u64) -> io::Result<Self> {
        Ok(Self { head: self.range(0..bytes.min(HEAD_BYTES))?, ..self.clone() })
    }

    /// Reads exactly the bytes of a range, in one request.
    pub(super) fn range(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.end <= self.head.len() as u64 && range.start <= range.end {
            let at = |offset| usize::try_from(offset).expect("it is in memory");
            return Ok(self.head.slice(at(range.start)..at(range.end)));
        }
        starved(|| self.store.get_range(&self.name, range)).map(Bytes::from)
    }

    /// Reads exactly the bytes of a large range, in several requests at a time.
    pub(super) fn large_range(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.end.saturating_sub(range.start) <= BLOCK_BYTES {
            return self.range(range);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(range.end - range.start).map_err(io::Error::other)?);
        let mut blocks = self.blocks(range);
        while let Some(block) = next(&mut blocks)? {
            bytes.extend_from_slice(&block);
        }
        Ok(bytes.into())
    }

    /// Returns a reader of the bytes of a range.
    pub(super) fn reader(&self, range: Range<u64>) -> ObjectReader {
        ObjectReader { object: self.clone(), block: Bytes::new(), left: range, is_first: true, ahead: None }
    }

    /// Returns the blocks of a range in order, fetched ahead by two threads.
    fn blocks(&self, range: Range<u64>) -> BlockStream {
        let object = Arc::new(self.clone());
        let count = (range.end - range.start).div_ceil(BLOCK_BYTES);
        OrderedPool::new(0..count, READ_AHEAD, move |index| {
            let start = range.start + index * BLOCK_BYTES;
            Ok(object.range(start..range.end.min(start + BLOCK_BYTES))?)
        })
    }
}

/// Blocks of an object, in order.
type BlockStream = OrderedPool<Bytes, Error>;

fn next(blocks: &mut BlockStream) -> io::Result<Option<Bytes>> {
    starved(|| blocks.next()).transpose().map_err(|error| match error {
        Error::Io(error) => error,
        error => io::Error::other(error),
    })
}

/// Reader of a range of an object.
pub(super) struct ObjectReader {
    object: StoredObject,
    /// Fetched bytes that are not read yet.
    block: Bytes,
    /// Range that no request was made for yet.
    left: Range<u64>,
    is_first: bool,
    /// All blocks after the first.
    ahead: Option<BlockStream>,
}

impl ObjectReader {
    /// Fetches the next block; it is empty at the end of the range.
    fn fetch(&mut self) -> io::Result<()> {
        if self.is_first {
            self.is_first = false;
            let end = self.left.end.min(self.left.start + HEAD_BYTES);
            self.block = self.object.range(self.left.start..end)?;
            self.left.start = end;
            return Ok(());
        }
        let ahead = self.ahead.get_or_insert_with(|| self.object.blocks(self.left.clone()));
        self.block = next(ahead)?.unwrap_or_default();
        Ok(())
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() && !buffer.is_empty() {
            self.fetch()?;
        }
        let count = buffer.len().min(self.block.len());
        buffer[..count].copy_from_slice(&self.block.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use store::{FaultConfig, MemoryBackend};

    use super::*;

    fn bytes(length: u64) -> Vec<u8> {
        (0..length).map(|index| u8::try_from(index % 251).expect("below 256")).collect()
    }

    #[test]
    fn ranges_are_read_exactly_in_blocks_also_over_failures() {
        let length = HEAD_BYTES + 2 * BLOCK_BYTES + 7;
        let memory = MemoryBackend::new(FaultConfig::none());
        Store::from_memory(&memory).put("a.txt", &bytes(length)).expect("written");
        let faults = FaultConfig { failures: 0.3, seed: 1, ..FaultConfig::none() };
        let object = StoredObject::new(Store::from_memory(&memory.with_faults(faults)), "a.txt".into());
        let all = bytes(length);
        for range in [0..length, 0..10, 5..HEAD_BYTES + 5, HEAD_BYTES..length, 3..3, length - 1..length] {
            let expected =
                &all[usize::try_from(range.start).expect("small")..usize::try_from(range.end).expect("small")];
            let mut found = Vec::new();
            object.reader(range.clone()).read_to_end(&mut found).expect("read");
            assert!(found == expected, "{range:?}");
            assert!(object.large_range(range.clone()).expect("read") == expected, "{range:?}");
        }
        assert!(memory.tally().failed > 0, "requests failed and were repeated");
        object.reader(0..length + 1).read_to_end(&mut Vec::new()).expect_err("it ends before");
    }

    #[test]
    fn the_beginning_of_an_object_takes_one_small_request() {
        let memory = MemoryBackend::new(FaultConfig::none());
        let store = Store::from_memory(&memory);
        store.put("a.txt", &bytes(3 * BLOCK_BYTES)).expect("written");
        let object = StoredObject::new(store, "a.txt".into());
        let before = memory.tally().calls;
        let mut head = [0; 100];
        object.reader(0..3 * BLOCK_BYTES).read_exact(&mut head).expect("read");
        assert_eq!(memory.tally().calls, before + 1);
        let object = object.with_head(3 * BLOCK_BYTES).expect("read");
        object.reader(0..3 * BLOCK_BYTES).read_exact(&mut head).expect("read");
        assert_eq!(object.range(0..64).expect("read").len(), 64);
        assert_eq!(memory.tally().calls, before + 2, "read from memory");
    }
}
