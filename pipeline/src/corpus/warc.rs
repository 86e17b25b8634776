//! WARC format: each record with text is a document.
//!
//! # What
//! `conversion` records (WET files of Common Crawl) and plain-text responses of web archives. Records of other types
//! (`warcinfo`, `request`, `metadata`, `revisit`) are skipped.
//!
//! # Why
//! Common Crawl and other archives publish web text as WARC.
//!
//! # Definition
//! - A `conversion` or `resource` record of type `text/plain`, or without a type, is a document.
//! - A `response` record is one if its HTTP status is 2xx and its type is `text/plain`, in UTF-8 or the encoding that
//!   `charset` names. HTML and other types are skipped and counted as `unsupported_type`: extract their text first.
//! - `prepare.id_field` names a header: `WARC-Record-ID` or `WARC-Target-URI`. A record without it is skipped and counted.
//! - A record whose headers or length are wrong is skipped and counted, and the next line that begins with `WARC/1.` is
//!   the next record.
//! - Headers of HTTP that are longer than 64 KiB are not read: the type of the response is unknown, so it is skipped.
//!
//! A file is one piece: only a reader from its beginning knows whether such a line is within a record. Compressed
//! files have one gzip member or zstd frame per record, and are read as a stream.
//!
//! # Reference
//! ISO 28500:2017, <https://iipc.github.io/warc-specifications/>.

use std::mem::take;
use std::ops::Range;

use super::Format;
use super::input_split::{PieceEnd, PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::piece_ranges::whole;
use super::record::{Record, RecordBuffers, RejectReason, count_newlines};
use super::scanner::{ByteScanner, count_searched};
use super::sniff::{FileCheck, Head, head};
use crate::Result;

mod content;
mod headers;

use self::content::{Content, is_response};
use self::headers::{HeaderEnd, Headers, MARK};

/// Maximum bytes of the headers of a record.
const MAX_HEADER_BYTES: usize = 1 << 16;

/// Bytes of a blank line with the line end before it: those at the end of a buffer are searched again with the next ones.
const MAX_LINE_END_BYTES: usize = 3;

/// WARC: each record with text is a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarcRecords;

impl Format for WarcRecords {
    fn extensions(&self) -> &'static [&'static str] {
        &["warc", "wet"]
    }

    fn has_fields(&self) -> bool {
        true
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        let head = head(file, reading)?;
        if !head.is_empty() && !head.starts_with(MARK) {
            return Ok(FileCheck::unfit(
                "not a WARC file: it does not begin with `WARC/1.`; take it out of `prepare.inputs`",
            ));
        }
        Ok(FileCheck { unfit: None, head: Head::default() })
    }

    fn pieces(&self, file: &InputFile, _stride: u64, _reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        Ok(whole(file))
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
        // Encodings are those of the records.
        let reading = ReadOptions { encoding: None, ..reading.clone() };
        let id_header = reading.id_field.clone();
        Ok(Box::new(WarcReader { bytes: ByteScanner::open(file, range, &reading)?, id_header }))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| {
                let info = tests::record("warcinfo", "application/warc-fields", "isPartOf: a");
                let records = texts.iter().map(|text| tests::record("conversion", "text/plain", text));
                std::iter::once(info).chain(records).collect::<String>().into_bytes()
            },
            dirty: tests::dirty(),
            texts: &["one\ntwo\u{fffd}", "three", "four", "five"],
            complaints: &[
                "invalid_utf8:7",
                "broken_record:9",
                "unsupported_type:21",
                "broken_record:31",
                "broken_record:58",
            ],
        }
    }
}

/// Reader of the records of a file.
struct WarcReader {
    bytes: ByteScanner,
    id_header: Option<String>,
}

/// Record that was found.
enum Step {
    Record(Record),
    /// A record that is no document.
    Skipped,
    End,
}

impl WarcReader {
    fn step(&mut self, spare: &mut RecordBuffers) -> Result<Step> {
        self.bytes.release();
        if self.bytes.take_while(|byte| matches!(byte, b'\r' | b'\n'))?.is_none() {
            return Ok(Step::End);
        }
        let start = self.bytes.offset();
        let line = self.bytes.line();
        let Some(headers) = self.headers()? else { return self.broken(start, line) };
        let Some(length) = headers.length() else { return self.broken(start, line) };
        let whole = length.saturating_add(headers.bytes as u64);
        let content =
            if is_response(&headers) { self.response(headers.bytes, length)? } else { Content::new(&headers) };
        if !usize::try_from(whole).is_ok_and(|whole| self.bytes.reserve(whole)) {
            return self.pass_long(start, line, whole, content);
        }
        let whole = usize::try_from(whole).expect("it fits into memory");
        // A record ends with two line ends, or with the file.
        let has_more = self.bytes.has(whole + 4)?;
        let rest = self.bytes.ahead().get(whole..);
        let is_ended = |rest: &[u8]| {
            let is_last = !has_more && rest.iter().all(u8::is_ascii_whitespace);
            rest.starts_with(b"\r\n\r\n") || rest.starts_with(b"\n\n") || is_last
        };
        if !rest.is_some_and(is_ended) {
            return self.broken(start, line);
        }
        let range = start..start + whole as u64;
        let id = self.id_header.as_deref().map(|name| headers.get(name).map(str::to_owned));
        let step = match (content, id) {
            (Content::None, _) => Step::Skipped,
            (Content::Unsupported, _) => Step::Record(Record::rejected(RejectReason::UnsupportedType, range, line)),
            (Content::Text(_), Some(None)) => Step::Record(Record::rejected(RejectReason::MissingField, range, line)),
            (Content::Text(content), id) => {
                let (before, rest) = self.bytes.ahead()[..whole].split_at(headers.bytes);
                let lines = count_newlines(before) + count_newlines(&rest[..content.start]);
                let mut record = Record::of_bytes(content.text(rest, take(&mut spare.text)), range, line + lines);
                record.line = line;
                if let (Some(document), Some(id)) = (&mut record.document, id) {
                    document.id = id;
                }
                Step::Record(record)
            }
        };
        self.bytes.take(whole);
        Ok(step)
    }

    /// Returns the content of an HTTP response of `length` bytes, which begins `from` bytes ahead. Only its headers are
    /// read, so that it does not depend on the memory.
    fn response(&mut self, from: usize, length: u64) -> Result<Content> {
        let most = usize::try_from(length).unwrap_or(usize::MAX).min(MAX_HEADER_BYTES);
        let mut searched = 0_usize;
        loop {
            let length = (self.bytes.ahead().len() - from).min(most);
            let start = searched.saturating_sub(MAX_LINE_END_BYTES);
            let end = headers::end(&self.bytes.ahead()[from + start..from + length]);
            count_searched(end.unwrap_or(length - start));
            if let Some(end) = end {
                return Ok(Content::of_response(&self.bytes.ahead()[from..from + start + end]));
            }
            if length == most {
                return Ok(Content::Unsupported);
            }
            searched = length;
            if !self.bytes.more()? {
                return Ok(Content::Unsupported);
            }
        }
    }

    /// Reads the headers of the record that begins here; `None` if they are malformed.
    ///
    /// Headers end before a line that begins as a record does. So bytes without a blank line are searched once, not once
    /// per record.
    fn headers(&mut self) -> Result<Option<Headers>> {
        if !self.bytes.has(MARK.len())? || !self.bytes.ahead().starts_with(MARK) {
            return Ok(None);
        }
        let mut searched = 0_usize;
        loop {
            let length = self.bytes.ahead().len().min(MAX_HEADER_BYTES);
            // The line end before a mark may be at the end of the buffer.
            let start = searched.saturating_sub(MARK.len());
            let end = HeaderEnd::find(&self.bytes.ahead()[start..length]);
            count_searched(end.map_or(length - start, HeaderEnd::offset));
            match end {
                Some(HeaderEnd::Blank(end)) => return Ok(Headers::parse(&self.bytes.ahead()[..start + end])),
                Some(HeaderEnd::Record(_)) => return Ok(None),
                None if length == MAX_HEADER_BYTES || !self.bytes.more()? => return Ok(None),
                None => searched = length,
            }
        }
    }

    /// Takes a broken record up to the next line that begins as a record does.
    fn broken(&mut self, start: u64, line: u64) -> Result<Step> {
        let mark = [b"\n", MARK].concat();
        // The mark at the beginning of this record is no next one.
        if self.bytes.pass_to(&mark)? {
            self.bytes.take(1);
        }
        Ok(Step::Record(Record::rejected(RejectReason::BrokenRecord, start..self.bytes.offset(), line)))
    }

    /// Takes a record that does not fit into memory.
    fn pass_long(&mut self, start: u64, line: u64, whole: u64, content: Content) -> Result<Step> {
        if matches!(content, Content::Text(_)) {
            self.bytes.require_skippable(line, whole)?;
        }
        let range = start..start.saturating_add(whole);
        if !self.bytes.pass(whole)? {
            return Ok(Step::Record(Record::rejected(RejectReason::BrokenRecord, start..self.bytes.offset(), line)));
        }
        Ok(match content {
            Content::None => Step::Skipped,
            Content::Unsupported => Step::Record(Record::rejected(RejectReason::UnsupportedType, range, line)),
            Content::Text(_) => Step::Record(Record::rejected(RejectReason::TooLong, range, line)),
        })
    }
}

impl PieceReader for WarcReader {
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>> {
        loop {
            match self.step(spare)? {
                Step::Record(record) => return Ok(Some(record)),
                Step::Skipped => {}
                Step::End => return Ok(None),
            }
        }
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        self.bytes.skip(to)
    }

    fn reached(&self) -> PieceEnd {
        self.bytes.reached()
    }
}

#[cfg(test)]
mod tests;
