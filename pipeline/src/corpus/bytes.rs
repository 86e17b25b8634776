//! Decompressed bytes of a file.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;

use super::compression::{Compression, is_skippable};
use super::decode::Decoding;
use super::decoder_memory::{XZ_EXTRA_BYTES, decoder_bytes};
use super::input_split::{BytesRead, ReadOptions};
use super::inputs::{FileReader, InputFile};
use super::members::{Lz4Frame, Members, TRAILING_BYTES};
use super::memory_budget::{COPIES, Reservation, ResourcesExhausted};
use super::window::{WINDOW_BYTES, log2, needs_dictionary};
use crate::{Error, Result};

const BUFFER_BYTES: usize = 1 << 17;

/// Decompressed bytes of a file or of a byte range of a plain file.
pub(super) type Bytes = Box<dyn BufRead + Send>;

/// Returns the reason why the compression of a file is not that of its name, with a hint; `None` if it is, or if the
/// file is empty.
///
/// Downloads keep the name `.gz` if the server has decompressed them, or has sent an HTML page. Others lose it.
pub(super) fn name_problem(file: &InputFile) -> Result<Option<String>> {
    let path = &file.path;
    let named = Compression::from_path(path);
    if file.bytes == 0 {
        return Ok(None);
    }
    let mut head = Vec::new();
    let reader = file.reader(0..file.bytes.min(64)).map_err(|error| read_error(path, &error))?;
    reader.take(64).read_to_end(&mut head).map_err(|error| read_error(path, &error))?;
    if named == Compression::Zstd && needs_dictionary(&head) {
        let message = "compressed with a zstd dictionary, which cannot be read; decompress it (`zstd -d -D DICTIONARY`), \
                       and compress it again without";
        return Ok(Some(message.to_owned()));
    }
    let found = Compression::of_head(&head);
    // LZ4 and zstd share the frames to be skipped.
    if found == named || (named == Compression::Lz4 && is_skippable(&head)) {
        return Ok(None);
    }
    Ok(Some(named.mismatch(found, &head)))
}

/// Returns true if a file can be read from the middle: it is plain, and its encoding has character boundaries.
pub(super) fn can_be_entered(file: &InputFile, reading: &ReadOptions) -> bool {
    Compression::from_path(&file.path) == Compression::Plain && reading.encoding.is_none()
}

/// Opens the bytes `range` of a file, decompressed and as UTF-8; ranges of files without entry points are always whole.
/// A file that ends before its range is an error when the reader reaches its end, never a shorter text.
pub(super) fn open(file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Bytes> {
    if range.is_empty() {
        return Ok(Box::new(io::empty()));
    }
    let path = &file.path;
    let refused = |error: io::Error| read_error(path, &error);
    let file = file.reader(range.clone()).map_err(refused)?;
    let left = range.end - range.start;
    let count = reading.bytes_read.clone();
    let mut raw = BufReader::with_capacity(BUFFER_BYTES, ExactReader { file, left, count, hold: None });
    let compression = Compression::from_path(path);
    let memory = decoder_bytes(compression, raw.fill_buf().map_err(refused)?);
    raw.get_mut().hold = reading
        .memory_budget
        .file(memory)
        .map_err(|ResourcesExhausted { wanted, most }| too_much_memory(path, compression, wanted, most))?;
    let plain = decompressed(raw, compression, memory).map_err(refused)?;
    Ok(match reading.encoding {
        None => plain,
        Some(encoding) => Box::new(Decoding::new(plain, encoding)),
    })
}

/// Returns the decompressed bytes of a file. `memory` limits the memory of the decoder.
fn decompressed(raw: BufReader<ExactReader>, compression: Compression, memory: u64) -> io::Result<Bytes> {
    type Raw = BufReader<ExactReader>;
    fn buffered(plain: impl Read + Send + 'static) -> Bytes {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, plain))
    }
    Ok(match compression {
        Compression::Plain => Box::new(raw),
        Compression::Gzip => buffered(Members::<GzDecoder<Raw>>::new(raw, memory)?),
        Compression::Bzip2 => buffered(Members::<BzDecoder<Raw>>::new(raw, memory)?),
        Compression::Xz => buffered(Members::<XzDecoder<Raw>>::new(raw, memory + XZ_EXTRA_BYTES)?),
        Compression::Lz4 => buffered(Members::<Lz4Frame<Raw>>::new(raw, memory)?),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(raw)?;
            decoder.window_log_max(log2(memory.max(WINDOW_BYTES)))?;
            buffered(decoder)
        }
    })
}

fn too_much_memory(path: &Path, compression: Compression, wanted: u64, most: u64) -> Error {
    let (what, fix) = match compression {
        Compression::Zstd => ("a zstd window", "compress the file again without `--long`"),
        Compression::Xz => ("an xz dictionary", "compress the file again with `xz -6`"),
        _ => ("a decoder", "decompress the file"),
    };
    let limit = "half of `prepare.max_memory_bytes`";
    let message = format!("{what} of {wanted} bytes, {most} are allowed, {limit}; raise it, or {fix}");
    Error::UnusableFile { path: path.to_owned(), line: None, message }
}

/// Reader of a file up to an offset that existed at discovery.
struct ExactReader {
    file: FileReader,
    left: u64,
    count: BytesRead,
    /// Memory for the decoder, reserved while the file is open.
    hold: Option<Reservation>,
}

impl Read for ExactReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read(&mut buffer[..most]).map_err(SourceError::mark)?;
        if count == 0 && most > 0 {
            let message = format!("it became {} bytes shorter while it was read", self.left);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        self.left -= count as u64;
        self.count.add(count as u64);
        Ok(count)
    }
}

/// Error of the file or store below a decoder. It says nothing about the content.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct SourceError(io::Error);

impl SourceError {
    /// Marks an error that the operating system did not report: such an error could be one of a decoder.
    fn mark(error: io::Error) -> io::Error {
        if error.raw_os_error().is_some() { error } else { io::Error::new(error.kind(), Self(error)) }
    }

    fn is_in(error: &io::Error) -> bool {
        error.raw_os_error().is_some() || error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).is_some()
    }
}

/// Converts a read error to one with a hint.
pub(super) fn read_error(path: &Path, error: &io::Error) -> Error {
    let compression = Compression::from_path(path);
    let compressed = compression != Compression::Plain;
    let unfit = |message: String| Error::UnusableFile { path: path.to_owned(), line: None, message };
    let text = error.to_string();
    // A server that lacks something, such as ranges. The message of the store has the place and the way out.
    if error.kind() == io::ErrorKind::Unsupported && SourceError::is_in(error) {
        return Error::Config(text);
    }
    let message = if text.contains("requires too much memory") {
        return unfit(
            "a zstd frame with a longer window than its first one; compress it again, as one frame".to_owned(),
        );
    } else if compressed && text.contains("memory limit") {
        return unfit("an xz stream with a larger dictionary than its first block; compress it again".to_owned());
    } else if compressed && text.ends_with(TRAILING_BYTES) {
        let [program, extension] = compression.program();
        return unfit(format!(
            "{error}; if they are not part of the text, remove them with `{program} -dc OLD.{extension} | {program} > \
             NEW.{extension}`, else download the file again"
        ));
    } else if compressed && !SourceError::is_in(error) {
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

/// Converts an error of a store to one with a hint.
pub(super) fn store_error(path: &Path, error: io::Error) -> Error {
    read_error(path, &SourceError::mark(error))
}

/// Reads all bytes of a file, decompressed; `make_room` is called with the number of bytes so far.
pub(super) fn read_whole(
    file: &InputFile,
    range: &Range<u64>,
    reading: &ReadOptions,
    mut make_room: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut source = open(file, range, reading)?;
    loop {
        let ready = source.fill_buf().map_err(|error| read_error(&file.path, &error))?;
        if ready.is_empty() {
            return Ok(bytes);
        }
        make_room((bytes.len() + ready.len()) as u64)?;
        bytes.extend_from_slice(ready);
        let count = ready.len();
        source.consume(count);
    }
}

/// Reserves memory for a document of `bytes` bytes so far. Returns false if it exceeds the memory limit.
pub(super) fn reserve(bytes: u64, reading: &ReadOptions) -> bool {
    bytes <= reading.max_document_bytes && reading.memory_budget.document(bytes.saturating_mul(COPIES)).is_ok()
}

/// Fails if a document that exceeds the memory limit, and begins at `line` of the piece, must not be skipped.
pub(super) fn require_skippable(path: &Path, line: u64, bytes: u64, reading: &ReadOptions) -> Result<()> {
    if reading.skip_above_bytes.is_some_and(|most| bytes > most) {
        return Ok(());
    }
    let limit = reading.max_document_bytes;
    let message = format!(
        "a document of more than {limit} bytes; set `prepare.max_document_bytes` to {limit} or less to skip such \
         documents, raise `prepare.max_memory_bytes`, of which it is 1/64, or split it"
    );
    Err(Error::UnusableFile { path: path.to_owned(), line: Some(line + 1), message })
}

/// Buffer size before hashing.
const GATHERED_BYTES: usize = 1 << 16;

/// BLAKE3 of the bytes of a piece that were read so far. Buffered, since BLAKE3 is several times faster on long inputs.
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

    /// Returns the hash of the bytes so far, in hexadecimal digits.
    pub(super) fn hex(&self) -> String {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.buffer);
        hasher.finalize().to_hex().to_string()
    }
}
