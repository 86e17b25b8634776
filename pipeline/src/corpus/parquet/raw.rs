//! The bytes of a Parquet file: on disk, or in memory where the whole file was compressed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ::parquet::errors::Result as ParquetResult;
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;

use crate::corpus::bytes::{Compression, read_whole};
use crate::corpus::input_split::{BytesRead, Reading};
use crate::corpus::inputs::InputFile;
use crate::corpus::memory_budget::{MemoryBudget, Reservation};
use crate::{Error, Result};

/// Bytes read at a time: BLAKE3 hashes many of its chunks side by side.
const CHUNK_BYTES: u64 = 1 << 18;

#[derive(Clone, Debug)]
pub(super) enum Raw {
    /// The file and its length.
    File(Arc<File>, u64),
    /// What a file was decompressed to.
    Memory(Bytes),
}

pub(super) fn error(file: &InputFile, message: String) -> Error {
    Error::Corpus { path: file.path.clone(), line: None, message }
}

/// The same for a file that no other try can read.
pub(super) fn unfit(file: &InputFile, message: String) -> Error {
    Error::Unfit { path: file.path.clone(), line: None, message }
}

impl Raw {
    pub(super) fn is_wrapped(file: &InputFile) -> bool {
        Compression::of(&file.path) != Compression::Plain
    }

    /// Opens a file; one that is compressed as a whole is decompressed, and comes with its room, where it needs one.
    pub(super) fn open(file: &InputFile, reading: &Reading) -> Result<(Self, Option<Reservation>)> {
        if Self::is_wrapped(file) {
            return Self::unwrap(file, reading);
        }
        let handle = File::open(&file.path).map_err(|refused| error(file, refused.to_string()))?;
        let bytes = handle.metadata().map_err(|refused| error(file, refused.to_string()))?.len();
        Ok((Self::File(Arc::new(handle), bytes), None))
    }

    /// Within the worker's share, if that suffices. If not, a quarter of the room of all files is for the bytes, another for
    /// what they are decompressed with and then for the pages in them: together, since nobody may wait for the one while he
    /// holds the other.
    fn unwrap(file: &InputFile, reading: &Reading) -> Result<(Self, Option<Reservation>)> {
        let (share, files) = (reading.room.share(), reading.room.file_max());
        let (bytes, hold) = if let Ok(bytes) = Self::decompressed(file, reading, share / 2) {
            (bytes, None)
        } else {
            let hold = reading.room.file(files / 2).unwrap_or_default();
            (Self::decompressed(file, reading, files / 4)?, hold)
        };
        reading.bytes_read.add(file.bytes);
        Ok((Self::Memory(bytes), hold))
    }

    fn decompressed(file: &InputFile, reading: &Reading, most: u64) -> Result<Bytes> {
        let (encoding, room, bytes_read) = (None, MemoryBudget::new(2 * most, 1), BytesRead::default());
        let plain = Reading { encoding, room, bytes_read, ..reading.clone() };
        let bytes = read_whole(&file.path, &(0..file.bytes), &plain, |bytes| {
            if bytes <= most {
                return Ok(());
            }
            let hint = "raise it, or decompress the file";
            let message =
                format!("it decompresses to more than {most} bytes, 1/8 of `prepare.max_memory_bytes`; {hint}");
            Err(unfit(file, message))
        })?;
        Ok(Bytes::from(bytes))
    }

    /// Hands over the bytes of a range, some at a time.
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
        // No memory for more than there is: lengths come from the file.
        let end = start.checked_add(length as u64).filter(|&end| end <= self.len());
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        match self {
            Self::File(file, _) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                Ok(bytes.into())
            }
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
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl ChunkReader for Raw {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(BufReader::new(From { raw: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        Ok(self.exactly(start, length)?)
    }
}

/// All bytes from a place on.
#[derive(Debug)]
pub(super) struct From {
    raw: Raw,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &self.raw {
            Raw::File(file, _) => file.read_at(buffer, self.at)?,
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
