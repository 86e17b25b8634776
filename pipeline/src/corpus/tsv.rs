//! TSV format: each row is a document.
//!
//! # What
//! Fields between tabs, without quotes. The first row names the columns.
//!
//! # Why
//! Sets of sentences (GLUE) are often TSV. Their fields may begin with a quote that never ends, so that rules of quotes
//! would join rows.
//!
//! # Definition
//! As [`csv`](super::csv), except that a quote is a character like any other: no field contains a tab or a line break.
//! Plain files are cut after line feeds.
//!
//! # Reference
//! IANA media type `text/tab-separated-values`.

use std::ops::Range;

use super::Format;
use super::delimited::{Rows, check};
use super::delimiter::Dialect;
use super::input_split::{PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::lines::{Border, cut};
use super::sniff::FileCheck;
use crate::Result;

/// TSV: each row is a document; no quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TabSeparated;

const TSV: Dialect = Dialect { delimiter: b'\t', has_quotes: false };

impl Format for TabSeparated {
    fn extensions(&self) -> &'static [&'static str] {
        &["tsv"]
    }

    fn has_fields(&self) -> bool {
        true
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        check(TSV, file, reading)
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        cut(file, stride, Border::Line, reading)
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
        Ok(Box::new(Rows::open(TSV, file, range, reading)?))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| {
                let row = |(key, text): (usize, &&str)| format!("{text}\t{key}\n");
                let rows: String = texts.iter().enumerate().map(row).collect();
                ["\u{feff}text\tkey\n", &rows].concat().into_bytes()
            },
            dirty: b"key\ttext\n1\t\"a\r\n2\n\n3\t\n4\tb\xff\n5\tc\td\n6\te".to_vec(),
            texts: &["\"a", "b\u{fffd}", "e"],
            complaints: &["broken_record:3", "empty_document:5", "invalid_utf8:6", "broken_record:7"],
        }
    }
}
