//! CSV format: each row is a document.
//!
//! # What
//! Fields between commas; a field in double quotes may contain commas, line breaks and doubled quotes. The first row
//! names the columns.
//!
//! # Why
//! Spreadsheets, databases and `datasets` export tables as CSV.
//!
//! # Definition
//! `prepare.text_field` names the column of the text, `prepare.id_field` that of the id. A row with another number of
//! fields than the first, or with a quote that is still open at the end of the file, is skipped and counted. Rows end
//! with a line feed, CRLF or CR; blank rows are skipped. A quote within a field without quotes is a character. A line
//! feed may be within a field, which only a reader from the beginning of the file knows: a plain file of more than one
//! part is read once for its cut points when it is planned.
//!
//! # Reference
//! RFC 4180.

use std::ops::Range;

use super::Format;
use super::bytes::can_be_entered;
use super::delimited::{Dialect, RowScanner, Rows, check};
use super::input_split::{BytesRead, PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::lines::whole;
use super::sniff::FileCheck;
use crate::Result;

/// CSV: each row is a document; quotes as in RFC 4180.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommaSeparated;

const CSV: Dialect = Dialect { delimiter: b',', has_quotes: true };

impl Format for CommaSeparated {
    fn extensions(&self) -> &'static [&'static str] {
        &["csv"]
    }

    fn has_fields(&self) -> bool {
        true
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        check(CSV, file, reading)
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        if file.bytes <= stride || !can_be_entered(file, reading) {
            return Ok(whole(file));
        }
        cut_after_rows(file, stride, reading)
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
        Ok(Box::new(Rows::open(CSV, file, range, reading)?))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| {
                let row = |(number, text): (usize, &&str)| format!("{number},\"{}\"\r\n", text.replace(' ', "\n"));
                let rows: String = texts.iter().enumerate().map(row).collect();
                ["key,text\r\n", &rows].concat().into_bytes()
            },
            dirty: b"text,key\n\"a \"\"b\"\"\n,c\",1\nd\n\n\"\",2\n\xff,3\ne,4,\nf,\"4".to_vec(),
            texts: &["a \"b\"\n,c", "\u{fffd}"],
            complaints: &[
                "broken_record:4",
                "empty_document:6",
                "invalid_utf8:7",
                "broken_record:8",
                "broken_record:9",
            ],
        }
    }
}

/// Cuts a file after the first row that ends at or after each multiple of `stride`.
fn cut_after_rows(file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
    let uncounted = ReadOptions { bytes_read: BytesRead::default(), ..reading.clone() };
    let mut rows = RowScanner::open(CSV, file, &(0..file.bytes), &uncounted)?;
    // As the reader of the first piece does.
    rows.header()?;
    let mut starts = vec![0];
    let mut next = stride;
    while rows.read(|_, _| {})?.is_some() {
        rows.pass_row_end()?;
        let end = rows.offset();
        if end >= next {
            starts.push(end.min(file.bytes));
            next = (end / stride + 1).saturating_mul(stride);
        }
    }
    starts.push(file.bytes);
    starts.dedup();
    Ok(starts.windows(2).map(|pair| (pair[0]..pair[1], pair[1] - pair[0])).collect())
}
