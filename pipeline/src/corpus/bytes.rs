//! Bytes of a file, whatever its compression.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::piece::{BytesRead, Reading};
use crate::{Error, Result};

const BUFFER_BYTES: usize = 1 << 17;

/// Decompressed bytes of a file or of a byte range of a plain file.
pub(super) type Bytes = Box<dyn BufRead + Send>;

/// How a file is compressed, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// Opens the bytes `range` of a file; ranges of compressed files are always whole. A file that ends before its range
/// does is an error when that is found out, never a shorter text.
pub(super) fn open(path: &Path, range: &Range<u64>, count: &BytesRead) -> Result<Bytes> {
    if range.is_empty() {
        return Ok(Box::new(io::empty()));
    }
    let refused = |error: io::Error| read_error(path, &error);
    let mut file = File::open(path).map_err(refused)?;
    file.seek(SeekFrom::Start(range.start)).map_err(refused)?;
    let raw =
        BufReader::with_capacity(BUFFER_BYTES, Exactly { file, left: range.end - range.start, count: count.clone() });
    Ok(match Compression::of(path) {
        Compression::Plain => Box::new(raw),
        // Several members or frames in one file are one text: `cat a.gz b.gz > c.gz`.
        Compression::Gzip => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(raw))),
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(raw).map_err(refused)?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder))
        }
    })
}

/// A file up to a place where it was seen to have bytes.
struct Exactly {
    file: File,
    left: u64,
    count: BytesRead,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            let message = format!("it ends {} bytes earlier than it did: it was changed meanwhile", self.left);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        self.left -= count as u64;
        self.count.add(count as u64);
        Ok(count)
    }
}

/// What a failing read means to the operator.
pub(super) fn read_error(path: &Path, error: &io::Error) -> Error {
    let compressed = Compression::of(path) != Compression::Plain;
    let refused = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
    let message = if compressed && !refused {
        format!(
            "truncated or damaged ({error}); replace the file and run the same command again, finished parts are kept"
        )
    } else {
        error.to_string()
    };
    Error::Corpus { path: path.to_owned(), line: None, message }
}

/// All bytes of a file, decompressed.
pub(super) fn read_whole(path: &Path, range: &Range<u64>, reading: &Reading) -> Result<Vec<u8>> {
    let (mut bytes, limit) = (Vec::new(), reading.document_bytes_max);
    open(path, range, &reading.bytes_read)?
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| read_error(path, &error))?;
    if bytes.len() as u64 > limit { Err(too_long(path, 0, limit)) } else { Ok(bytes) }
}

/// A document that does not fit into memory's bound.
pub(super) fn too_long(path: &Path, line: u64, limit: u64) -> Error {
    let message = format!(
        "a document of more than {limit} bytes; raise `prepare.memory_max`, lower `prepare.lanes`, or split it"
    );
    Error::Corpus { path: path.to_owned(), line: Some(line + 1), message }
}

/// Refuses a binary file where text is expected: a NUL among its first 8 KiB.
pub(super) fn refuse_binary(path: &Path, bytes: u64) -> Result<()> {
    let mut head = Vec::with_capacity(8 << 10);
    // A file that cannot be read to here is reported by the part that it belongs to.
    let _ = open(path, &(0..bytes), &BytesRead::default())?.take(8 << 10).read_to_end(&mut head);
    if memchr::memchr(0, &head).is_none() {
        return Ok(());
    }
    let utf16 = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    let message = if utf16 {
        "UTF-16; convert it to UTF-8 (`iconv -f UTF-16 -t UTF-8`)"
    } else {
        "a binary file (a NUL in its first 8 KiB); take it out of `prepare.inputs`, or convert it to text"
    };
    Err(Error::Corpus { path: path.to_owned(), line: None, message: message.into() })
}

/// BLAKE3 of what was read of a piece so far. Gathered, since BLAKE3 is several times faster on long inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadHash {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl ReadHash {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= 1 << 16 {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }

    /// The hash, as hexadecimal digits; more may follow.
    pub(super) fn hex(&self) -> String {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.buffer);
        hasher.finalize().to_hex().to_string()
    }
}
