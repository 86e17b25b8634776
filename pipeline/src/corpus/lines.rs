//! Lines of a range of a file, and the cut points of plain files.

use std::io::BufRead;
use std::ops::Range;
use std::path::PathBuf;

use super::bytes::{Bytes, ReadHash, open, read_error, require_skippable, reserve};
use super::input_split::{PieceEnd, PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::json_text::JsonTextCounter;
use super::piece_ranges::cut_at;
use super::record::{KEPT_BYTES, Record, RecordBuffers, RejectReason, count_newlines};
use crate::{Error, Result};

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Line without its terminator.
pub(super) struct Line<'a> {
    /// Text of the line; empty if it does not fit.
    pub(super) bytes: &'a [u8],
    /// False if the line exceeds the memory limit and is to be skipped.
    pub(super) fits: bool,
    /// Start of the line in the (decompressed) file, and start of its terminator.
    pub(super) range: Range<u64>,
    /// 0-based, within the piece.
    pub(super) number: u64,
}

/// Reader of the lines of a file range: slices of the read buffer, or a separate buffer for lines across two reads.
pub(super) struct LineReader {
    bytes: Bytes,
    path: PathBuf,
    reading: ReadOptions,
    /// Bytes of the current line that are still in the read buffer.
    borrowed: usize,
    buffer: Vec<u8>,
    /// Bytes of the current line with its terminator if it does not fit, else 0.
    oversize: u64,
    /// End of the current line.
    tail: Tail,
    /// Text field, if lines are objects.
    text_field: Option<String>,
    offset: u64,
    number: u64,
    read: ReadHash,
}

impl LineReader {
    pub(super) fn open(file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Self> {
        let bytes = open(file, range, reading)?;
        let path = file.path.clone();
        let reading = reading.clone();
        let buffer = Vec::new();
        let read = ReadHash::default();
        Ok(Self {
            bytes,
            path,
            reading,
            borrowed: 0,
            buffer,
            oversize: 0,
            tail: Tail::default(),
            text_field: None,
            offset: range.start,
            number: 0,
            read,
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.fill()?;
        if self.oversize > 0 {
            let range = self.offset..self.offset + self.oversize - self.tail.terminator();
            let number = self.number;
            self.offset += self.oversize;
            self.number += 1;
            return Ok(Some(Line { bytes: &[], fits: false, range, number }));
        }
        let line = match self.borrowed {
            0 => &self.buffer,
            borrowed => &self.bytes.fill_buf().map_err(|error| read_error(&self.path, &error))?[..borrowed],
        };
        let length = line.len() as u64;
        if length == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        let number = self.number;
        self.offset += length;
        self.number += 1;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let range = offset..offset + line.len() as u64;
        // Files that were joined have one before the first line of each.
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        Ok(Some(Line { bytes: line, fits: true, range, number }))
    }

    /// Finds the next line with its terminator: `borrowed` bytes of the read buffer, or all of the separate buffer.
    fn fill(&mut self) -> Result<()> {
        self.give_back();
        self.buffer.clear();
        self.oversize = 0;
        self.tail = Tail::default();
        loop {
            let ready = self.bytes.fill_buf().map_err(|error| read_error(&self.path, &error))?;
            let (part, is_whole) = of_line(ready);
            let length = part.len();
            let tail = self.tail.followed_by(part);
            if !reserve((self.buffer.len() + length) as u64 - tail.terminator(), &self.reading) {
                return self.skip_oversize();
            }
            self.tail = tail;
            self.read.push(part);
            if is_whole && self.buffer.is_empty() {
                self.borrowed = length;
                return Ok(());
            }
            self.buffer.extend_from_slice(part);
            self.bytes.consume(length);
            if is_whole {
                return Ok(());
            }
        }
    }

    /// Reads the rest of a line that does not fit, and holds none of it.
    ///
    /// Only the length of the text decides whether the line is skipped. Other fields of an object must not: they may fit
    /// with more memory, and then the text would be kept.
    fn skip_oversize(&mut self) -> Result<()> {
        let mut counter = self.text_field.as_deref().map(JsonTextCounter::new);
        if let Some(counter) = &mut counter {
            counter.push(&self.buffer);
        }
        self.oversize = self.buffer.len() as u64;
        self.release();
        // An early answer if the line must not be skipped, whatever its length.
        if !self.may_skip() {
            require_skippable(&self.path, self.number, 0, &self.reading)?;
        }
        loop {
            let ready = self.bytes.fill_buf().map_err(|error| read_error(&self.path, &error))?;
            let (part, is_whole) = of_line(ready);
            let length = part.len();
            self.tail = self.tail.followed_by(part);
            if let Some(counter) = &mut counter {
                counter.push(part);
            }
            self.read.push(part);
            self.bytes.consume(length);
            self.oversize += length as u64;
            if is_whole {
                let line = self.oversize - self.tail.terminator();
                let text = counter.map_or(Some(line), |counter| counter.finish());
                return require_skippable(&self.path, self.number, text.unwrap_or(0), &self.reading);
            }
        }
    }

    /// Releases the current line.
    fn give_back(&mut self) {
        self.bytes.consume(std::mem::take(&mut self.borrowed));
    }

    /// Reserves memory for a document of several lines. Returns false if it does not fit.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        reserve(bytes as u64, &self.reading)
    }

    /// Whether the configuration skips documents of some length.
    pub(super) fn may_skip(&self) -> bool {
        self.reading.skip_above_bytes.is_some()
    }

    /// Fails if a document of several lines, the first of which is `line` of the piece, must not be skipped.
    pub(super) fn require_skippable(&self, line: u64, bytes: u64) -> Result<()> {
        require_skippable(&self.path, line, bytes, &self.reading)
    }

    /// Releases the memory of the previous document.
    pub(super) fn release(&mut self) {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BYTES);
        self.reading.memory_budget.release();
    }

    /// Skips whole lines up to the offset `to`, at the speed of BLAKE3.
    pub(super) fn skip(&mut self, to: u64) -> Result<()> {
        self.give_back();
        let mut last = b'\n';
        while self.offset < to {
            let ready = self.bytes.fill_buf().map_err(|error| read_error(&self.path, &error))?;
            let most = usize::try_from(to - self.offset).unwrap_or(usize::MAX).min(ready.len());
            let Some(&end) = ready[..most].last() else {
                let message =
                    format!("it ends before byte {to}, which an earlier process has read: it changed in between");
                return Err(Error::Corpus { path: self.path.clone(), line: None, message });
            };
            self.read.push(&ready[..most]);
            self.number += count_newlines(&ready[..most]);
            self.bytes.consume(most);
            self.offset += most as u64;
            last = end;
        }
        // A last line without a terminator counts as a line.
        self.number += u64::from(last != b'\n');
        Ok(())
    }

    pub(super) fn reached(&self) -> PieceEnd {
        PieceEnd { to: self.offset, lines: self.number, blake3: self.read.hex() }
    }
}

/// Last two bytes of a line so far.
#[derive(Clone, Copy, Default)]
struct Tail([u8; 2]);

impl Tail {
    fn followed_by(self, part: &[u8]) -> Self {
        match *part {
            [] => self,
            [last] => Self([self.0[1], last]),
            [.., one, last] => Self([one, last]),
        }
    }

    /// Bytes of the terminator. A `\r` is taken for its beginning.
    fn terminator(self) -> u64 {
        match self.0 {
            [b'\r', b'\n'] => 2,
            [_, b'\n' | b'\r'] => 1,
            _ => 0,
        }
    }
}

/// Reader of a piece with one record per non-blank line.
pub(super) struct LineRecords<F> {
    lines: LineReader,
    record: F,
}

impl<F: Fn(&Line<'_>, &mut RecordBuffers) -> Record + Send> LineRecords<F> {
    pub(super) fn open(file: &InputFile, range: &Range<u64>, reading: &ReadOptions, record: F) -> Result<Self> {
        Ok(Self { lines: LineReader::open(file, range, reading)?, record })
    }

    /// Reads lines of JSON objects with this text field.
    pub(super) fn with_text_field(mut self, field: &str) -> Self {
        self.lines.text_field = Some(field.to_owned());
        self
    }
}

impl<F: Fn(&Line<'_>, &mut RecordBuffers) -> Record + Send> PieceReader for LineRecords<F> {
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>> {
        self.lines.release();
        while let Some(line) = self.lines.next()? {
            if !line.fits {
                return Ok(Some(Record::rejected(RejectReason::TooLong, line.range, line.number)));
            }
            if !is_blank(line.bytes) {
                return Ok(Some((self.record)(&line, spare)));
            }
        }
        Ok(None)
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        self.lines.skip(to)
    }

    fn reached(&self) -> PieceEnd {
        self.lines.reached()
    }
}

pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Type of cut points of a plain file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Border {
    Line,
    BlankLine,
}

/// Cuts a plain file after the first border at or after each multiple of `stride`.
pub(super) fn cut(file: &InputFile, stride: u64, border: Border, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
    cut_at(file, stride, reading, |from| {
        next_border(file, from, border).map_err(|error| read_error(&file.path, &error))
    })
}

/// Returns the offset after the first border that ends after `from`, or the file's end.
fn next_border(file: &InputFile, from: u64, border: Border) -> std::io::Result<u64> {
    // Starts one byte earlier, to detect a line that ends exactly at `from`.
    let mut bytes = std::io::BufReader::new(file.reader(from - 1..file.bytes)?);
    let mut at = from - 1 + bytes.skip_until(b'\n')? as u64;
    if border == Border::Line {
        return Ok(at);
    }
    loop {
        let (length, blank) = pass_line(&mut bytes)?;
        at += length;
        if length == 0 || blank {
            return Ok(at);
        }
    }
}

/// Returns the part of the buffer that belongs to the line, with its terminator, and whether the line ends there.
fn of_line(ready: &[u8]) -> (&[u8], bool) {
    let end = memchr::memchr(b'\n', ready);
    let part = &ready[..end.map_or(ready.len(), |end| end + 1)];
    (part, end.is_some() || part.is_empty())
}

/// Skips a line of any length. Returns its length and whether it was blank.
fn pass_line(bytes: &mut impl BufRead) -> std::io::Result<(u64, bool)> {
    let mut length = 0;
    let mut blank = true;
    loop {
        let (part, is_whole) = of_line(bytes.fill_buf()?);
        let count = part.len();
        blank = blank && is_blank(part);
        length += count as u64;
        bytes.consume(count);
        if is_whole {
            return Ok((length, blank));
        }
    }
}
