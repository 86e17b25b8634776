//! Adapter from objects of a prepared folder to Parquet's decoder.

use std::io;
use std::ops::Range;

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use store::Store;

/// Size of the end of a Parquet file: the length of its metadata, and a magic word.
const FOOTER_BYTES: u64 = 8;

/// Part of a Parquet file that is in memory. Reading another part is an error.
#[derive(Clone, Debug)]
pub(crate) struct Excerpt {
    /// Length of the whole file in bytes.
    length: u64,
    first: u64,
    bytes: Bytes,
}

impl Excerpt {
    /// Reads a byte range of a file with that length, in one request.
    pub(crate) fn read(store: &Store, name: &str, length: u64, range: Range<u64>) -> io::Result<Self> {
        let bytes = store.get_range(name, range.clone())?;
        Ok(Self { length, first: range.start, bytes: bytes.into() })
    }

    /// Reads a file's metadata. The last bytes of the file contain its length.
    pub(crate) fn metadata(store: &Store, name: &str, length: u64) -> io::Result<Self> {
        let footer = store.get_range(name, length.saturating_sub(FOOTER_BYTES)..length)?;
        // The decoder detects invalid lengths.
        let metadata = footer.get(..4).map_or(0, |mut bytes| u64::from(bytes.get_u32_le()));
        let range = length.saturating_sub(metadata + FOOTER_BYTES)..length;
        Self::read(store, name, length, range)
    }

    fn at(&self, start: u64) -> ParquetResult<Bytes> {
        let offset = start.checked_sub(self.first).and_then(|offset| usize::try_from(offset).ok());
        let rest = offset.filter(|&offset| offset <= self.bytes.len()).map(|offset| self.bytes.slice(offset..));
        rest.ok_or_else(|| ParquetError::EOF(format!("byte {start} is not where the metadata says")))
    }
}

impl Length for Excerpt {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Excerpt {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.at(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let mut rest = self.at(start)?;
        if length > rest.len() {
            return Err(ParquetError::EOF(format!("{length} bytes from byte {start} on are not there")));
        }
        rest.truncate(length);
        Ok(rest)
    }
}
