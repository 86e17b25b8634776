//! Lines of a range of a file, and the places where plain files may be cut.

use std::io::{BufRead, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::bytes::{Bytes, Compression, ReadHash, open, read_error, too_long};
use super::inputs::InputFile;
use super::piece::{PieceRange, PieceReader, Reached, Reading};
use super::record::{Record, count_newlines};
use crate::{Error, Result};

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line without its end.
pub(super) struct Line<'a> {
    pub(super) bytes: &'a [u8],
    /// Where it begins in the (decompressed) file, and where its end begins.
    pub(super) range: Range<u64>,
    /// 0-based, within the piece.
    pub(super) number: u64,
}

/// Lines of a range of a file, in one buffer.
pub(super) struct LineReader {
    bytes: Bytes,
    path: PathBuf,
    limit: u64,
    buffer: Vec<u8>,
    offset: u64,
    number: u64,
    read: ReadHash,
}

impl LineReader {
    pub(super) fn open(file: &InputFile, range: &Range<u64>, reading: &Reading) -> Result<Self> {
        let (bytes, limit) = (open(&file.path, range, &reading.bytes_read)?, reading.document_bytes_max);
        let (path, buffer, read) = (file.path.clone(), Vec::new(), ReadHash::default());
        Ok(Self { bytes, path, limit, buffer, offset: range.start, number: 0, read })
    }

    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.buffer.clear();
        let mut bounded = (&mut self.bytes).take(self.limit + 1);
        let length = bounded.read_until(b'\n', &mut self.buffer).map_err(|error| read_error(&self.path, &error))?;
        if length == 0 {
            return Ok(None);
        }
        if length as u64 > self.limit {
            return Err(self.too_long(self.number));
        }
        self.read.push(&self.buffer);
        let (offset, number) = (self.offset, self.number);
        self.offset += length as u64;
        self.number += 1;
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let range = offset..offset + line.len() as u64;
        let line = if offset == 0 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        Ok(Some(Line { bytes: line, range, number }))
    }

    /// A document that began at `line` of the piece and is too long.
    pub(super) fn too_long(&self, line: u64) -> Error {
        too_long(&self.path, line, self.limit)
    }

    /// Most bytes of a document.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Passes over whole lines up to the offset `to`, at the speed of BLAKE3.
    pub(super) fn skip(&mut self, to: u64) -> Result<()> {
        let mut last = b'\n';
        while self.offset < to {
            let ready = self.bytes.fill_buf().map_err(|error| read_error(&self.path, &error))?;
            let most = usize::try_from(to - self.offset).unwrap_or(usize::MAX).min(ready.len());
            let Some(&end) = ready[..most].last() else {
                let message = format!("it ends before byte {to}, which was read before; it was changed meanwhile");
                return Err(Error::Corpus { path: self.path.clone(), line: None, message });
            };
            self.read.push(&ready[..most]);
            self.number += count_newlines(&ready[..most]);
            self.bytes.consume(most);
            self.offset += most as u64;
            last = end;
        }
        // A last line without an end is a line.
        self.number += u64::from(last != b'\n');
        Ok(())
    }

    pub(super) fn reached(&self) -> Reached {
        Reached { to: self.offset, lines: self.number, blake3: self.read.hex() }
    }
}

/// A piece with one record for every line that is not blank.
pub(super) struct LineRecords<F> {
    lines: LineReader,
    record: F,
}

impl<F: Fn(&Line<'_>) -> Record + Send> LineRecords<F> {
    pub(super) fn open(file: &InputFile, range: &Range<u64>, reading: &Reading, record: F) -> Result<Self> {
        Ok(Self { lines: LineReader::open(file, range, reading)?, record })
    }
}

impl<F: Fn(&Line<'_>) -> Record + Send> PieceReader for LineRecords<F> {
    fn next(&mut self) -> Result<Option<Record>> {
        while let Some(line) = self.lines.next()? {
            if !is_blank(line.bytes) {
                return Ok(Some((self.record)(&line)));
            }
        }
        Ok(None)
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        self.lines.skip(to)
    }

    fn reached(&self) -> Reached {
        self.lines.reached()
    }
}

pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// A file as one piece.
pub(super) fn whole(file: &InputFile) -> Vec<PieceRange> {
    vec![(0..file.bytes, file.bytes)]
}

/// Where a plain file may be cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Border {
    Line,
    BlankLine,
}

/// Cuts a plain file after the first border at or behind each multiple of `stride`.
pub(super) fn cut(file: &InputFile, stride: u64, border: Border) -> Result<Vec<PieceRange>> {
    if file.bytes <= stride || Compression::of(&file.path) != Compression::Plain {
        return Ok(whole(file));
    }
    let mut cuts = vec![0];
    let mut at = stride;
    while at < file.bytes {
        let border = next_border(&file.path, at, border).map_err(|error| read_error(&file.path, &error))?;
        cuts.push(border.min(file.bytes));
        at = (border / stride + 1) * stride;
    }
    cuts.push(file.bytes);
    cuts.dedup();
    Ok(cuts.windows(2).map(|pair| (pair[0]..pair[1], pair[1] - pair[0])).collect())
}

/// The offset behind the first border that ends behind `from`; the file's end where there is none.
fn next_border(path: &Path, from: u64, border: Border) -> std::io::Result<u64> {
    let mut file = std::fs::File::open(path)?;
    // One byte earlier, so that a line that ends exactly at `from` is seen to end there.
    file.seek(SeekFrom::Start(from - 1))?;
    let mut bytes = std::io::BufReader::new(file);
    let mut at = from - 1 + bytes.skip_until(b'\n')? as u64;
    if border == Border::Line {
        return Ok(at);
    }
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = bytes.read_until(b'\n', &mut line)?;
        at += length as u64;
        if length == 0 || is_blank(&line) {
            return Ok(at);
        }
    }
}
