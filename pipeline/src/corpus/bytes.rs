//! Bytes of a file, whatever its compression.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::decode::Decoding;
use super::input_split::{BytesRead, Reading};
use super::memory_budget::{COPIES, Reservation, ResourcesExhausted};
use super::window::{WINDOW_BYTES, log2, window_bytes};
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
        let is = |name| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(name));
        if is("gz") {
            Self::Gzip
        } else if is("zst") {
            Self::Zstd
        } else {
            Self::Plain
        }
    }
}

/// Whether a file can be read from the middle: not if it is compressed, nor where a character may begin at any byte.
pub(super) fn can_be_entered(path: &Path, reading: &Reading) -> bool {
    Compression::of(path) == Compression::Plain && reading.encoding.is_none()
}

/// Opens the bytes `range` of a file, decompressed and as UTF-8; ranges of files that cannot be entered are always whole. A
/// file that ends before its range does is an error when that is found out, never a shorter text.
pub(super) fn open(path: &Path, range: &Range<u64>, reading: &Reading) -> Result<Bytes> {
    if range.is_empty() {
        return Ok(Box::new(io::empty()));
    }
    let refused = |error: io::Error| read_error(path, &error);
    let mut file = File::open(path).map_err(refused)?;
    file.seek(SeekFrom::Start(range.start)).map_err(refused)?;
    let (left, count) = (range.end - range.start, reading.bytes_read.clone());
    let mut raw = BufReader::with_capacity(BUFFER_BYTES, Exactly { file, left, count, hold: None });
    let plain: Bytes = match Compression::of(path) {
        Compression::Plain => Box::new(raw),
        // Several members or frames in one file are one text: `cat a.gz b.gz > c.gz`.
        Compression::Gzip => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(raw))),
        Compression::Zstd => {
            let window = window_bytes(raw.fill_buf().map_err(refused)?);
            let hold = reading
                .room
                .file(window)
                .map_err(|ResourcesExhausted { wanted, most }| too_long_a_window(path, wanted, most))?;
            raw.get_mut().hold = hold;
            let mut decoder = zstd::stream::read::Decoder::with_buffer(raw).map_err(refused)?;
            decoder.window_log_max(log2(window.max(WINDOW_BYTES))).map_err(refused)?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder))
        }
    };
    Ok(match reading.encoding {
        None => plain,
        Some(encoding) => Box::new(Decoding::new(plain, encoding)),
    })
}

fn too_long_a_window(path: &Path, wanted: u64, most: u64) -> Error {
    let message = format!(
        "a zstd window of {wanted} bytes, {most} are allowed, half of `prepare.max_memory_bytes`; raise it, or compress the file \
         again without `--long`"
    );
    Error::Unfit { path: path.to_owned(), line: None, message }
}

/// A file up to a place where it was seen to have bytes.
struct Exactly {
    file: File,
    left: u64,
    count: BytesRead,
    /// Room for what it is decompressed with, as long as it is open.
    hold: Option<Reservation>,
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
    let unfit = |message: String| Error::Unfit { path: path.to_owned(), line: None, message };
    let message = if error.to_string().contains("requires too much memory") {
        return unfit(
            "a zstd frame with a longer window than its first one; compress it again, as one frame".to_owned(),
        );
    } else if let (true, None) = (compressed, error.raw_os_error()) {
        return unfit(format!(
            "truncated or damaged ({error}); replace the file and run the same command again, finished parts are kept"
        ));
    } else if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) {
        format!("{error}; check `prepare.inputs`")
    } else {
        format!("{error}; run the same command again, finished parts are kept")
    };
    Error::Corpus { path: path.to_owned(), line: None, message }
}

/// All bytes of a file, decompressed; `make_room` hears how many there are by now.
pub(super) fn read_whole(
    path: &Path,
    range: &Range<u64>,
    reading: &Reading,
    mut make_room: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<u8>> {
    let (mut bytes, mut source) = (Vec::new(), open(path, range, reading)?);
    loop {
        let ready = source.fill_buf().map_err(|error| read_error(path, &error))?;
        if ready.is_empty() {
            return Ok(bytes);
        }
        make_room((bytes.len() + ready.len()) as u64)?;
        bytes.extend_from_slice(ready);
        let count = ready.len();
        source.consume(count);
    }
}

/// Room for a document that has so many bytes by now, and began at that line of the piece.
pub(super) fn make_room(path: &Path, line: u64, bytes: u64, reading: &Reading) -> Result<()> {
    let limit = reading.max_document_bytes;
    let fits = bytes <= limit && reading.room.document(bytes.saturating_mul(COPIES)).is_ok();
    if fits { Ok(()) } else { Err(too_long(path, line, limit)) }
}

/// A document that does not fit into memory's bound.
pub(super) fn too_long(path: &Path, line: u64, limit: u64) -> Error {
    let message = format!(
        "a document of more than {limit} bytes; raise `prepare.max_memory_bytes`, of which it is 1/64, or split it"
    );
    Error::Unfit { path: path.to_owned(), line: Some(line + 1), message }
}

/// What is gathered before it is hashed.
const GATHERED_BYTES: usize = 1 << 16;

/// BLAKE3 of what was read of a piece so far. Gathered, since BLAKE3 is several times faster on long inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadHash {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl ReadHash {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() < GATHERED_BYTES {
            self.buffer.extend_from_slice(bytes);
        } else {
            self.hasher.update(&self.buffer).update(bytes);
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
