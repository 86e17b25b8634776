//! Plain text format: each line is a document.
//!
//! # What
//! Every non-blank line is one document. Byte-order marks, CRLF and very long lines are valid and give no complaints.
//!
//! # Why
//! The simplest format of a collection: `grep`, `shuf` and `wc -l` work on it.
//!
//! # Definition
//! Lines end with a line feed or with the file. A blank line is a separator and not an empty document: it is skipped
//! without a complaint. Plain files are cut after line feeds.
//!
//! # Reference
//! POSIX.1-2024, section 3.185, "line".

use std::mem::take;
use std::ops::Range;

use super::input_split::{PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::lines::{Border, LineRecords, cut};
use super::record::Record;
use super::sniff::{FileCheck, head, of_lines};
use super::{Format, text};
use crate::Result;

/// Plain text: each line is a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainLines;

impl Format for PlainLines {
    fn extensions(&self) -> &'static [&'static str] {
        text::EXTENSIONS
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        of_lines(file, &head(file, reading)?, reading)
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        cut(file, stride, Border::Line, reading)
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
        let records = LineRecords::open(file, range, reading, |line, spare| {
            let mut text = take(&mut spare.text);
            text.extend_from_slice(line.bytes);
            Record::of_bytes(text, line.range.clone(), line.number)
        })?;
        Ok(Box::new(records))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| (texts.join("\n") + "\n").into_bytes(),
            dirty: b"one\n\n\xc3\x28\nthree\n".to_vec(),
            texts: &["one", "\u{fffd}(", "three"],
            complaints: &["invalid_utf8:3"],
        }
    }
}
