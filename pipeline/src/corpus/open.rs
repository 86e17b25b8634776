//! Bytes of a file, whatever its compression.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

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

/// Opens the bytes `range` of a file; ranges of compressed files are always whole.
pub(super) fn open(path: &Path, range: &Range<u64>) -> Result<Bytes> {
    let refused = |error: io::Error| read_error(path, &error);
    let mut file = File::open(path).map_err(refused)?;
    if file.metadata().map_err(refused)?.len() == 0 {
        return Ok(Box::new(io::empty()));
    }
    file.seek(SeekFrom::Start(range.start)).map_err(refused)?;
    let raw = BufReader::with_capacity(BUFFER_BYTES, file.take(range.end - range.start));
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

/// Refuses a binary file where text is expected: a NUL among its first 8 KiB.
pub(super) fn refuse_binary(path: &Path, bytes: u64) -> Result<()> {
    let mut head = Vec::with_capacity(8 << 10);
    // A file that cannot be read to here is reported by the part that it belongs to.
    let _ = open(path, &(0..bytes))?.take(8 << 10).read_to_end(&mut head);
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
