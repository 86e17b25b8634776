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
//! with a line feed, CRLF or CR; blank rows are skipped. A quote within a field without quotes is a character; a row with
//! text after the quote that ends a field is skipped and counted. If the first row has the column of the text only between
//! semicolons, tabs or vertical bars, these are the delimiters, as those of a line `sep=;` before it. A line
//! feed may be within a field, which only a reader from the beginning of the file knows: a plain file of more than one
//! part is read once for its cut points when it is planned.
//!
//! # Reference
//! RFC 4180.

use std::ops::Range;

use super::Format;
use super::delimited::{RowScanner, Rows, check};
use super::delimiter::Dialect;
use super::input_split::{PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::piece_ranges::cut_at;
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
        let mut opened = None;
        // Called only if the file is cut.
        cut_at(file, stride, reading, |from| {
            let rows = if let Some(rows) = &mut opened {
                rows
            } else {
                let rows = opened.insert(RowScanner::open(CSV, file, &(0..file.bytes), &reading.uncounted())?);
                // As the reader of the first piece does.
                rows.header(&reading.text_field)?;
                rows
            };
            end_of_row(rows, from)
        })
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

/// Takes rows up to the first that ends at or after the offset `from`. Returns its end, or that of the file.
fn end_of_row(rows: &mut RowScanner, from: u64) -> Result<u64> {
    loop {
        let is_row = rows.read(|_, _| {})?.is_some();
        rows.pass_row_end()?;
        if !is_row || rows.offset() >= from {
            return Ok(rows.offset());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::corpus::AnyFormat;
    use crate::corpus::tests::{config, read};
    use crate::testing::write_all;

    /// One wrong byte may lose most of a file: the limit of bad lines must see that.
    #[test]
    fn every_line_behind_an_unclosed_quote_is_counted() {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("a.csv", ["text\na\n\"b\n", &"c\n".repeat(300)].concat())]);
        let (texts, complaints) =
            read(&config(home.path(), AnyFormat::of_kind("csv").expect("known"), None)).expect("read");
        assert_eq!(texts, ["a"]);
        assert_eq!((complaints.len(), complaints[0].as_str()), (302, "broken_record@a.csv:3"));
    }
}
