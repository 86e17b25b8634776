//! Plain text: a file is a document, or documents lie between blank lines, or a line is a document.
//!
//! Byte-order marks, CRLF, very long lines and empty files are silent and right. In [`Lines`] a blank line is a
//! separator and not an empty document: it is passed over without a complaint.

use std::io::{BufRead, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::open::{self, Bytes, Compression, open, read_error};
use super::{FileFormat, PieceRange, Record, Records, Source, from_bytes, too_long};
use crate::Result;

const EXTENSIONS: &[&str] = &["txt", "text", "md"];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file is a document.
pub(super) struct Files {
    pub(super) limit: u64,
}

impl FileFormat for Files {
    fn extensions(&self) -> &'static [&'static str] {
        EXTENSIONS
    }

    fn check(&self, source: &Source) -> Result<()> {
        open::refuse_binary(&source.path, source.bytes)
    }

    fn pieces(&self, source: &Source, _stride: u64) -> Result<Vec<PieceRange>> {
        Ok(whole(source))
    }

    fn records(&self, source: &Source, range: &Range<u64>) -> Result<Records> {
        let bytes = read_whole(&source.path, range, self.limit)?;
        let text = bytes.strip_prefix(BYTE_ORDER_MARK).map(<[u8]>::to_vec).unwrap_or(bytes);
        let record = (!text.is_empty()).then(|| Ok(from_bytes("0".into(), text, 0)));
        Ok(Box::new(record.into_iter()))
    }

    fn lines_before(&self, _source: &Source, _range: &Range<u64>) -> Result<u64> {
        Ok(0)
    }
}

/// Documents lie between blank lines.
pub(super) struct Paragraphs {
    pub(super) limit: u64,
}

impl FileFormat for Paragraphs {
    fn extensions(&self) -> &'static [&'static str] {
        EXTENSIONS
    }

    fn check(&self, source: &Source) -> Result<()> {
        open::refuse_binary(&source.path, source.bytes)
    }

    fn pieces(&self, source: &Source, stride: u64) -> Result<Vec<PieceRange>> {
        cut(source, stride, Border::BlankLine)
    }

    fn records(&self, source: &Source, range: &Range<u64>) -> Result<Records> {
        let mut lines = LineReader::open(source, range, self.limit)?;
        Ok(Box::new(std::iter::from_fn(move || next_paragraph(&mut lines).transpose())))
    }

    fn lines_before(&self, source: &Source, range: &Range<u64>) -> Result<u64> {
        newlines_before(source, range)
    }
}

fn next_paragraph(lines: &mut LineReader) -> Result<Option<Record>> {
    let (mut text, mut start) = (Vec::new(), (0, 0));
    while let Some(line) = lines.next()? {
        if is_blank(line.bytes) {
            if text.is_empty() {
                continue;
            }
            break;
        }
        if text.is_empty() {
            start = (line.offset, line.number);
        }
        text.extend_from_slice(line.bytes);
        text.push(b'\n');
        if text.len() as u64 > lines.limit {
            return Err(too_long(&lines.path, start.1, lines.limit));
        }
    }
    if text.is_empty() {
        return Ok(None);
    }
    text.pop();
    Ok(Some(from_bytes(start.0.to_string(), text, start.1)))
}

/// A line is a document.
pub(super) struct Lines {
    pub(super) limit: u64,
}

impl FileFormat for Lines {
    fn extensions(&self) -> &'static [&'static str] {
        EXTENSIONS
    }

    fn check(&self, source: &Source) -> Result<()> {
        open::refuse_binary(&source.path, source.bytes)
    }

    fn pieces(&self, source: &Source, stride: u64) -> Result<Vec<PieceRange>> {
        cut(source, stride, Border::Line)
    }

    fn records(&self, source: &Source, range: &Range<u64>) -> Result<Records> {
        line_records(source, range, self.limit, |line| {
            from_bytes(line.offset.to_string(), line.bytes.to_vec(), line.number)
        })
    }

    fn lines_before(&self, source: &Source, range: &Range<u64>) -> Result<u64> {
        newlines_before(source, range)
    }
}

/// One record for every line that is not blank.
pub(super) fn line_records(
    source: &Source,
    range: &Range<u64>,
    limit: u64,
    record: impl Fn(&Line<'_>) -> Record + Send + 'static,
) -> Result<Records> {
    let mut lines = LineReader::open(source, range, limit)?;
    let mut next = move || {
        while let Some(line) = lines.next()? {
            if !is_blank(line.bytes) {
                return Ok(Some(record(&line)));
            }
        }
        Ok(None)
    };
    Ok(Box::new(std::iter::from_fn(move || next().transpose())))
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// A line without its end.
pub(super) struct Line<'a> {
    pub(super) bytes: &'a [u8],
    /// Of its first byte, in the (decompressed) file.
    pub(super) offset: u64,
    /// 0-based, within the range.
    pub(super) number: u64,
}

/// Lines of a range of a file, in one buffer.
struct LineReader {
    bytes: Bytes,
    path: PathBuf,
    limit: u64,
    buffer: Vec<u8>,
    offset: u64,
    number: u64,
}

impl LineReader {
    fn open(source: &Source, range: &Range<u64>, limit: u64) -> Result<Self> {
        let bytes = open(&source.path, range)?;
        Ok(Self { bytes, path: source.path.clone(), limit, buffer: Vec::new(), offset: range.start, number: 0 })
    }

    fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.buffer.clear();
        let mut bounded = (&mut self.bytes).take(self.limit + 1);
        let length = bounded.read_until(b'\n', &mut self.buffer).map_err(|error| read_error(&self.path, &error))?;
        if length == 0 {
            return Ok(None);
        }
        if length as u64 > self.limit {
            return Err(too_long(&self.path, self.number, self.limit));
        }
        let (offset, number) = (self.offset, self.number);
        self.offset += length as u64;
        self.number += 1;
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = if offset == 0 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        Ok(Some(Line { bytes: line, offset, number }))
    }
}

/// All bytes of a file, decompressed.
pub(super) fn read_whole(path: &Path, range: &Range<u64>, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, range)?.take(limit + 1).read_to_end(&mut bytes).map_err(|error| read_error(path, &error))?;
    if bytes.len() as u64 > limit { Err(too_long(path, 0, limit)) } else { Ok(bytes) }
}

fn whole(source: &Source) -> Vec<PieceRange> {
    vec![(0..source.bytes, source.bytes)]
}

/// Where a plain file may be cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Border {
    Line,
    BlankLine,
}

/// Cuts a plain file after the first border at or behind each multiple of `stride`.
pub(super) fn cut(source: &Source, stride: u64, border: Border) -> Result<Vec<PieceRange>> {
    if source.bytes <= stride || Compression::of(&source.path) != Compression::Plain {
        return Ok(whole(source));
    }
    let mut cuts = vec![0];
    let mut at = stride;
    while at < source.bytes {
        let border = next_border(&source.path, at, border).map_err(|error| read_error(&source.path, &error))?;
        cuts.push(border.min(source.bytes));
        at = (border / stride + 1) * stride;
    }
    cuts.push(source.bytes);
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

/// Newlines in a plain file before a range: needed for the few complaints that are logged, so counted only then.
pub(super) fn newlines_before(source: &Source, range: &Range<u64>) -> Result<u64> {
    let mut bytes = open(&source.path, &(0..range.start))?;
    let mut count = 0;
    loop {
        let buffer = bytes.fill_buf().map_err(|error| read_error(&source.path, &error))?;
        if buffer.is_empty() {
            return Ok(count);
        }
        count += super::count_newlines(buffer);
        let length = buffer.len();
        bytes.consume(length);
    }
}
