//! Raw bytes of a Parquet file: on disk, in an object store, or in memory if the whole file was compressed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ::parquet::errors::Result as ParquetResult;
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;

use crate::corpus::bytes::{read_whole, store_error};
use crate::corpus::compression::Compression;
use crate::corpus::input_split::ReadOptions;
use crate::corpus::inputs::InputFile;
use crate::corpus::memory_budget::{MemoryBudget, Reservation};
use crate::corpus::parquet::object_source::ObjectSource;
use crate::{Error, Result};

/// Bytes read at a time: enough for BLAKE3 to hash many chunks in parallel.
const CHUNK_BYTES: u64 = 1 << 18;

#[derive(Clone, Debug)]
pub(super) enum Raw {
    /// File and its length.
    File(Arc<File>, u64),
    /// Object of a store.
    Object(Arc<ObjectSource>),
    /// Decompressed content of a file.
    Memory(Bytes),
}

pub(super) fn error(file: &InputFile, message: String) -> Error {
    Error::Corpus { path: file.path.clone(), line: None, message }
}

impl Raw {
    pub(super) fn is_wrapped(file: &InputFile) -> bool {
        Compression::from_path(&file.path) != Compression::Plain
    }

    /// Opens a file. A file compressed as a whole is decompressed, with a memory reservation if it exceeds the share.
    pub(super) fn open(file: &InputFile, reading: &ReadOptions) -> Result<(Self, Option<Reservation>)> {
        if Self::is_wrapped(file) {
            return Self::unwrap(file, reading);
        }
        if let Some(object) = file.object() {
            let source = ObjectSource::open(object, file.bytes).map_err(|refused| store_error(&file.path, refused))?;
            return Ok((Self::Object(Arc::new(source)), None));
        }
        let handle = File::open(&file.path).map_err(|refused| error(file, refused.to_string()))?;
        let bytes = handle.metadata().map_err(|refused| error(file, refused.to_string()))?.len();
        Ok((Self::File(Arc::new(handle), bytes), None))
    }

    /// Decompresses the file, within the worker's share if that suffices. Otherwise it reserves a quarter of the memory
    /// of all files for the bytes, and another for the decoder and later the pages. Both are one reservation, since
    /// waiting for one while holding the other could deadlock.
    fn unwrap(file: &InputFile, reading: &ReadOptions) -> Result<(Self, Option<Reservation>)> {
        let share = reading.memory_budget.share();
        let files = reading.memory_budget.file_max();
        let (bytes, hold) = if let Ok(bytes) = Self::decompressed(file, reading, share / 2) {
            (bytes, None)
        } else {
            let hold = reading.memory_budget.file(files / 2).unwrap_or_default();
            (Self::decompressed(file, reading, files / 4)?, hold)
        };
        reading.bytes_read.add(file.bytes);
        Ok((Self::Memory(bytes), hold))
    }

    fn decompressed(file: &InputFile, reading: &ReadOptions, most: u64) -> Result<Bytes> {
        let memory_budget = MemoryBudget::new(2 * most, 1);
        let plain = ReadOptions { encoding: None, memory_budget, ..reading.uncounted() };
        let bytes = read_whole(file, &(0..file.bytes), &plain, |bytes| {
            if bytes <= most {
                return Ok(());
            }
            let hint = "raise it, or decompress the file";
            let message =
                format!("it decompresses to more than {most} bytes, 1/8 of `prepare.max_memory_bytes`; {hint}");
            Err(file.unfit_error(message))
        })?;
        Ok(Bytes::from(bytes))
    }

    /// Fetches column chunks of an object into memory, with a reservation if they exceed the share; chunks that do not
    /// fit are fetched block by block when they are read. The reservation is as in [`unwrap`](Self::unwrap).
    pub(super) fn prefetch(
        &self,
        chunks: &[Range<u64>],
        memory_budget: &MemoryBudget,
    ) -> io::Result<Option<Reservation>> {
        let Self::Object(source) = self else { return Ok(None) };
        source.clear();
        let bytes = chunks.iter().map(|chunk| chunk.end.saturating_sub(chunk.start)).fold(0, u64::saturating_add);
        let files = memory_budget.file_max();
        if bytes > files / 4 || chunks.iter().any(|chunk| chunk.end > source.length) {
            return Ok(None);
        }
        let is_small = bytes <= memory_budget.share() / 2;
        let hold = if is_small { None } else { memory_budget.file(files / 2).unwrap_or_default() };
        source.fetch(chunks)?;
        Ok(hold)
    }

    /// Passes the bytes of a range to `take`, one chunk at a time.
    pub(super) fn each(&self, range: Range<u64>, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let length = (range.end - at).min(CHUNK_BYTES);
            take(&self.exactly(at, usize::try_from(length).expect("a chunk"))?);
            at += length;
        }
        Ok(())
    }

    fn exactly(&self, start: u64, length: usize) -> io::Result<Bytes> {
        // No allocation beyond the file's length: lengths come from the file.
        let end = start.checked_add(length as u64).filter(|&end| end <= self.len());
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        match self {
            Self::File(file, _) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                Ok(bytes.into())
            }
            Self::Object(source) => source.exactly(start..end),
            Self::Memory(bytes) => {
                let at = |offset| usize::try_from(offset).expect("it is in memory");
                Ok(bytes.slice(at(start)..at(end)))
            }
        }
    }
}

impl Length for Raw {
    fn len(&self) -> u64 {
        match self {
            Self::File(_, bytes) => *bytes,
            Self::Object(source) => source.length,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl ChunkReader for Raw {
    type T = BufReader<RawSource>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(BufReader::new(RawSource { raw: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        Ok(self.exactly(start, length)?)
    }
}

/// Reader of all bytes from an offset on.
#[derive(Debug)]
pub(super) struct RawSource {
    raw: Raw,
    at: u64,
}

impl Read for RawSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &self.raw {
            Raw::File(file, _) => file.read_at(buffer, self.at)?,
            Raw::Object(source) => {
                let bytes = source.read(self.at, buffer.len())?;
                buffer[..bytes.len()].copy_from_slice(&bytes);
                bytes.len()
            }
            Raw::Memory(bytes) => {
                let rest = usize::try_from(self.at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                count
            }
        };
        self.at += count as u64;
        Ok(count)
    }
}
