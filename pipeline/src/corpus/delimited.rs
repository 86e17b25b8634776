//! Rows of tables as text: fields between delimiters, with or without quotes.

use std::mem::take;
use std::ops::Range;

use csv_core::{ReadFieldResult, Reader};

use super::bytes::reserve;
use super::delimiter::{self, Dialect, QuoteCheck};
use super::input_split::{PieceEnd, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::record::{RawDocument, Record, RecordBuffers, RejectReason};
use super::scanner::ByteScanner;
use super::sniff::{FileCheck, HEAD_BYTES, Head, head, of_records, of_text};
use crate::Result;

/// Maximum bytes of the names of the columns.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// Bytes of a field that the parser writes at a time.
const OUTPUT_BYTES: usize = 4096;

/// Checks the first row of a file, and that not all rows after it are rejected.
pub(super) fn check(dialect: Dialect, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
    let head = head(file, reading)?;
    let check = of_text(&head);
    if check.unfit.is_some() || head.is_empty() {
        return Ok(check);
    }
    let mut rows = RowScanner::open(dialect, file, &(0..file.bytes), &reading.uncounted())?;
    let names = rows.header(&reading.text_field)?;
    if let Some(other) = delimiter::problem(dialect, &head, &reading.text_field) {
        return Ok(FileCheck::unfit(other));
    }
    let wanted = [
        Some(("prepare.text_field", &reading.text_field)),
        reading.id_field.as_ref().map(|id| ("prepare.id_field", id)),
    ];
    let missing = wanted.into_iter().flatten().find(|(_, name)| !names.contains(name));
    let records = memchr::memchr_iter(b'\n', &head).count().saturating_sub(1) as u64;
    let unfit = missing.map(|(key, name)| {
        let names: Vec<String> = names.iter().take(20).map(|name| format!("`{}`", schemas::printable(name))).collect();
        format!(
            "no column `{name}`: the first row names {}; set `{key}`, or add a row with the names",
            names.join(", ")
        )
    });
    let with_fields = if unfit.is_none() { records } else { 0 };
    let escaped =
        || rows.dialect.has_quotes.then(|| delimiter::escaped_quotes(&head, rows.dialect.delimiter)).flatten();
    let unfit = match unfit.or_else(escaped) {
        None => of_records(reading, |reading| Ok(Box::new(Rows::open(dialect, file, &(0..file.bytes), reading)?)))?,
        unfit => unfit,
    };
    let is_cut = head.len() as u64 >= HEAD_BYTES;
    let fields = names.into_iter().collect();
    Ok(FileCheck { unfit, head: Head { records, with_fields, fields, is_cut, ..Head::default() } })
}

/// Scanner of the rows of a range of a file.
pub(super) struct RowScanner {
    bytes: ByteScanner,
    dialect: Dialect,
    parser: Reader,
    /// Bytes of a field that the parser has written.
    output: Vec<u8>,
}

/// Row that was read to its end.
pub(super) struct Row {
    fields: usize,
    /// False if the file ends within a quoted field.
    is_closed: bool,
    /// Whether text follows the quote that ends a field.
    has_stray_quote: bool,
}

impl RowScanner {
    pub(super) fn open(dialect: Dialect, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Self> {
        let bytes = ByteScanner::open(file, range, reading)?;
        Ok(Self { bytes, dialect, parser: dialect.parser(), output: vec![0; OUTPUT_BYTES] })
    }

    /// Reads the names of the columns; those of a table with quotes may be between other delimiters, with which one of
    /// them is `wanted`. A longer first row than any header is one without names.
    pub(super) fn header(&mut self, wanted: &str) -> Result<Vec<String>> {
        self.bytes.take_byte_order_mark()?;
        if self.dialect.has_quotes {
            self.find_delimiter(wanted)?;
        }
        let mut names: Vec<Vec<u8>> = vec![Vec::new()];
        let mut length = 0;
        self.read(|field, bytes| {
            length += bytes.len() + 1;
            if length > MAX_HEADER_BYTES {
                return;
            }
            names.resize(names.len().max(field + 1), Vec::new());
            names[field].extend_from_slice(bytes);
        })?;
        Ok(names.into_iter().map(|name| String::from_utf8_lossy(&name).trim().to_owned()).collect())
    }

    /// Finds the delimiter in the first line, and takes a line that only tells it.
    fn find_delimiter(&mut self, wanted: &str) -> Result<()> {
        self.pass_row_end()?;
        let line = self.first_line()?;
        let told = delimiter::told(&line);
        if told.is_some() {
            self.bytes.take(line.len());
        }
        self.follow(Dialect {
            delimiter: told.unwrap_or_else(|| delimiter::find(&line, self.dialect.delimiter, wanted)),
            ..self.dialect
        });
        Ok(())
    }

    /// Reads rows of that dialect from here on.
    fn follow(&mut self, dialect: Dialect) {
        (self.dialect, self.parser) = (dialect, dialect.parser());
    }

    /// Returns the rest of the current line, at most about [`MAX_HEADER_BYTES`], and takes none of it.
    fn first_line(&mut self) -> Result<Vec<u8>> {
        loop {
            let ahead = self.bytes.ahead();
            if let Some(end) = memchr::memchr2(b'\n', b'\r', ahead) {
                return Ok(ahead[..end].to_vec());
            }
            if ahead.len() > MAX_HEADER_BYTES || !self.bytes.more()? {
                return Ok(self.bytes.ahead().to_vec());
            }
        }
    }

    /// Position of the next byte to be taken.
    pub(super) fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    /// Takes line ends. Returns false at the end of the range.
    pub(super) fn pass_row_end(&mut self) -> Result<bool> {
        Ok(self.bytes.take_while(|byte| matches!(byte, b'\n' | b'\r'))?.is_some())
    }

    /// Takes a row, and passes the parts of its fields to `part`, with their numbers. Returns `None` at the end.
    pub(super) fn read(&mut self, mut part: impl FnMut(usize, &[u8])) -> Result<Option<Row>> {
        if !self.pass_row_end()? {
            return Ok(None);
        }
        self.parser.reset();
        // The parser removes a byte-order mark if it is in one part: so it depends on the buffer, and is prevented.
        let mut most = 1;
        let mut field = 0;
        let mut quotes = QuoteCheck::new(self.dialect.delimiter);
        loop {
            if self.bytes.ahead().is_empty() && !self.bytes.more()? {
                // The end of the file ends the row as a line feed does, unless it is within quotes.
                let (result, ..) = self.parser.read_field(b"\n", &mut self.output);
                let is_closed = matches!(result, ReadFieldResult::Field { .. });
                return Ok(Some(Row { fields: field + 1, is_closed, has_stray_quote: quotes.has_stray() }));
            }
            let ahead = self.bytes.ahead();
            let input = &ahead[..ahead.len().min(most)];
            let (result, taken, written) = self.parser.read_field(input, &mut self.output);
            if self.dialect.has_quotes {
                quotes.push(&input[..taken]);
            }
            self.bytes.take(taken);
            part(field, &self.output[..written]);
            most = usize::MAX;
            match result {
                ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => {}
                ReadFieldResult::Field { record_end } => {
                    field += 1;
                    if record_end {
                        return Ok(Some(Row { fields: field, is_closed: true, has_stray_quote: quotes.has_stray() }));
                    }
                }
                ReadFieldResult::End => return Ok(None),
            }
        }
    }
}

/// Reader of the rows of a piece.
pub(super) struct Rows {
    scanner: RowScanner,
    reading: ReadOptions,
    columns: usize,
    text: usize,
    id: Option<usize>,
}

impl Rows {
    pub(super) fn open(dialect: Dialect, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Self> {
        let mut rows = RowScanner::open(dialect, file, range, reading)?;
        // Blank lines before the first row may be pieces, which have no rows and need no names.
        let names = if range.start == 0 {
            rows.header(&reading.text_field)?
        } else {
            let mut beginning = RowScanner::open(dialect, file, &(0..file.bytes), &reading.uncounted())?;
            let names = beginning.header(&reading.text_field)?;
            if range.start < beginning.offset() {
                rows.header(&reading.text_field)?;
            }
            rows.follow(beginning.dialect);
            names
        };
        // A column that is missing is no field of any row: all rows are rejected.
        let place = |name: &String| names.iter().position(|column| column == name).unwrap_or(usize::MAX);
        let text = place(&reading.text_field);
        let id = reading.id_field.as_ref().map(place);
        Ok(Self { scanner: rows, reading: reading.clone(), columns: names.len(), text, id })
    }
}

impl PieceReader for Rows {
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>> {
        self.scanner.bytes.release();
        if !self.scanner.pass_row_end()? {
            return Ok(None);
        }
        let start = self.scanner.bytes.offset();
        let line = self.scanner.bytes.line();
        let mut text = take(&mut spare.text);
        let mut id = take(&mut spare.id).into_bytes();
        id.clear();
        let mut length = 0_u64;
        let mut has_text = false;
        let mut has_id = self.id.is_none();
        let mut fits = true;
        let row = self.scanner.read(|field, bytes| {
            if field == self.text {
                has_text = true;
                length += bytes.len() as u64;
            }
            if Some(field) == self.id {
                has_id = true;
            }
            if fits && !bytes.is_empty() {
                let columns = usize::from(field == self.text) + usize::from(Some(field) == self.id);
                fits = columns == 0 || reserve((text.len() + id.len() + columns * bytes.len()) as u64, &self.reading);
            }
            if fits && field == self.text {
                text.extend_from_slice(bytes);
            }
            if fits && Some(field) == self.id {
                id.extend_from_slice(bytes);
            }
            if !fits {
                (text, id) = (Vec::new(), Vec::new());
                self.reading.memory_budget.release();
            }
        })?;
        let Some(row) = row else { return Ok(None) };
        let range = start..self.scanner.bytes.offset();
        self.scanner.pass_row_end()?;
        if !row.is_closed {
            // A quote that is not closed takes all lines behind it: each of them is lost.
            let lines = line..self.scanner.bytes.line() + 1;
            return Ok(Some(Record::rejected_lines(RejectReason::BrokenRecord, range, lines)));
        }
        if row.fields != self.columns || row.has_stray_quote {
            return Ok(Some(Record::rejected(RejectReason::BrokenRecord, range, line)));
        }
        if !has_text || !has_id {
            return Ok(Some(Record::rejected(RejectReason::MissingField, range, line)));
        }
        if !fits {
            self.scanner.bytes.require_skippable(line, length)?;
            return Ok(Some(Record::rejected(RejectReason::TooLong, range, line)));
        }
        let mut record = Record::of_bytes(text, range, line);
        if let (Some(RawDocument { id: place, .. }), Some(_)) = (&mut record.document, self.id) {
            *place = Some(String::from_utf8_lossy(&id).into_owned());
        }
        Ok(Some(record))
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        self.scanner.bytes.skip(to)
    }

    fn reached(&self) -> PieceEnd {
        self.scanner.bytes.reached()
    }
}
