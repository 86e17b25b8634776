//! CSV and quoted TSV files, as RFC 4180 defines them.

use serde_json::Value;

use super::lines::{LineReader, text, too_long};
use super::table::{RowReader, RowStep, TableRow, positions, wrong_width};
use crate::RowError;
use crate::layout::{ColumnRef, WidthPolicy};

/// Reader of a file with quoted fields. A field in quotes may contain separators, line breaks and doubled quotes.
pub(super) struct QuotedReader {
    lines: LineReader,
    separator: u8,
    max_bytes: usize,
    requested: Vec<ColumnRef>,
    has_header: bool,
    policy: WidthPolicy,
    width: usize,
    positions: Option<Vec<usize>>,
}

/// Column selection of a quoted file.
pub(super) struct QuotedOptions {
    pub(super) separator: u8,
    pub(super) max_bytes: usize,
    pub(super) requested: Vec<ColumnRef>,
    pub(super) has_header: bool,
    pub(super) policy: WidthPolicy,
}

/// Record, with the line on which it begins.
struct QuotedRecord {
    line: u64,
    fields: Vec<Vec<u8>>,
}

impl QuotedReader {
    pub(super) fn new(lines: LineReader, options: QuotedOptions) -> Self {
        let QuotedOptions { separator, max_bytes, requested, has_header, policy } = options;
        Self { lines, separator, max_bytes, requested, has_header, policy, width: 0, positions: None }
    }

    /// Reads one record. A quote that is never closed ends at the limit of a record, or at the end of the file.
    fn record(&mut self) -> Option<Result<QuotedRecord, RowError>> {
        let mut state = FieldState::default();
        let first = self.lines.line() + 1;
        let mut bytes = 0;
        loop {
            let read = self.lines.line();
            let line = match self.lines.next_raw() {
                None if first > read => return None,
                None => {
                    let hint = "close the quote, or read the file without quoting (`tsv`)";
                    return Some(Err(RowError::new(first, "a quote that is never closed", hint).last()));
                }
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(line)) => line,
            };
            bytes += line.len();
            if bytes > self.max_bytes {
                return Some(Err(too_long(first, self.max_bytes)));
            }
            match state.push_line(line, self.separator) {
                Ok(false) => {}
                Ok(true) => return Some(Ok(QuotedRecord { line: first, fields: state.fields })),
                Err(at) => {
                    let hint = "double the quotes within a field, or read the file without quoting (`tsv`)";
                    let error = RowError::new(self.lines.line(), "a character after a closing quote", hint);
                    return Some(Err(error.column(format!("byte {at}"))));
                }
            }
        }
    }

    fn read_header(&mut self) -> Result<(), RowError> {
        if self.positions.is_some() || !self.has_header {
            return Ok(());
        }
        let empty = || RowError::new(0, "no header: the file is empty", "replace the file");
        let record = self.record().ok_or_else(empty)?.map_err(RowError::last)?;
        let header = texts(&record).map_err(RowError::last)?;
        self.width = header.len();
        self.positions = Some(positions(&self.requested, &header, true)?);
        Ok(())
    }

    fn select(&self, record: &QuotedRecord) -> Result<TableRow, RowError> {
        let positions = self.positions.iter().flatten();
        let cells = positions.map(|&position| Ok(Value::from(text(&record.fields[position], record.line)?)));
        Ok(TableRow { line: record.line, cells: cells.collect::<Result<_, RowError>>()? })
    }
}

impl RowReader for QuotedReader {
    fn step(&mut self) -> RowStep {
        if let Err(error) = self.read_header() {
            return RowStep::Invalid(error);
        }
        let record = match self.record() {
            None => return RowStep::End,
            Some(Err(error)) => return RowStep::Invalid(error),
            Some(Ok(record)) => record,
        };
        if record.fields.len() == 1 && record.fields[0].is_empty() {
            return RowStep::Blank;
        }
        if self.positions.is_none() {
            self.width = record.fields.len();
            match positions(&self.requested, &vec![String::new(); self.width], false) {
                Ok(positions) => self.positions = Some(positions),
                Err(error) => return RowStep::Invalid(error),
            }
        }
        if record.fields.len() == self.width {
            return self.select(&record).map_or_else(RowStep::Invalid, RowStep::Row);
        }
        match self.policy {
            WidthPolicy::Drop => RowStep::Dropped,
            WidthPolicy::Refuse => RowStep::Invalid(wrong_width(record.line, record.fields.len(), self.width)),
        }
    }
}

fn texts(record: &QuotedRecord) -> Result<Vec<String>, RowError> {
    record.fields.iter().map(|field| text(field, record.line).map(str::to_owned)).collect()
}

/// Position within a record.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    FieldStart,
    Plain,
    Quoted,
    QuoteInQuoted,
}

/// Fields of the record that is being read.
#[derive(Default)]
struct FieldState {
    place: Place,
    fields: Vec<Vec<u8>>,
    field: Vec<u8>,
}

impl FieldState {
    /// Adds a line with its end. Returns whether the record is complete, or the byte of an error, from 1.
    fn push_line(&mut self, line: &[u8], separator: u8) -> Result<bool, usize> {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        for (at, &byte) in content.iter().enumerate() {
            self.push(byte, separator).map_err(|()| at + 1)?;
        }
        if self.place == Place::Quoted {
            if !line.ends_with(b"\n") {
                // The end of the file: the next call reports the open quote.
                return Ok(false);
            }
            self.field.push(b'\n');
            return Ok(false);
        }
        self.end_field();
        Ok(true)
    }

    fn push(&mut self, byte: u8, separator: u8) -> Result<(), ()> {
        match (self.place, byte) {
            (Place::Quoted, b'"') => self.place = Place::QuoteInQuoted,
            (Place::Quoted, _) => self.field.push(byte),
            (Place::QuoteInQuoted, b'"') => {
                self.field.push(b'"');
                self.place = Place::Quoted;
            }
            (_, _) if byte == separator => self.end_field(),
            (Place::QuoteInQuoted, _) => return Err(()),
            (Place::FieldStart, b'"') => self.place = Place::Quoted,
            (Place::FieldStart | Place::Plain, _) => {
                self.field.push(byte);
                self.place = Place::Plain;
            }
        }
        Ok(())
    }

    fn end_field(&mut self) {
        self.fields.push(std::mem::take(&mut self.field));
        self.place = Place::FieldStart;
    }
}
