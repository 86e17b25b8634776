//! Plain text format: each document is a run of lines.
//!
//! # What
//! Blank lines separate documents; line breaks within a document stay.
//!
//! # Why
//! BERT's released code reads this format: blank lines between documents, one sentence per line within them.
//!
//! # Definition
//! A document begins at the first non-blank line and ends before the next blank one, or with the file. Plain files are
//! cut after blank lines.
//!
//! # Reference
//! Devlin et al. 2019, `create_pretraining_data.py`: "Blank lines between documents".

use std::mem::take;
use std::ops::Range;

use super::input_split::{PieceEnd, PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::lines::{Border, LineReader, cut, is_blank};
use super::record::{Record, RecordBuffers, RejectReason};
use super::sniff::{FileCheck, head, of_lines};
use super::{Format, text};
use crate::Result;

/// Plain text: blank lines separate documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paragraphs;

impl Format for Paragraphs {
    fn extensions(&self) -> &'static [&'static str] {
        text::EXTENSIONS
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        of_lines(file, &head(file, reading)?, reading)
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        cut(file, stride, Border::BlankLine, reading)
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
        Ok(Box::new(ParagraphReader { lines: LineReader::open(file, range, reading)? }))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| {
                texts.iter().flat_map(|text| [text.replace(' ', "\n").as_str(), "\n\n"].concat().into_bytes()).collect()
            },
            dirty: b"\n\na\nb\n \nc\xff\n\n\n".to_vec(),
            texts: &["a\nb", "c\u{fffd}"],
            complaints: &["invalid_utf8:6"],
        }
    }
}

struct ParagraphReader {
    lines: LineReader,
}

impl PieceReader for ParagraphReader {
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>> {
        self.lines.release();
        let mut text = take(&mut spare.text);
        let mut range = 0..0;
        let mut first = 0;
        let mut fits = true;
        // Bytes of the document, with a line feed behind each line.
        let mut length = 0;
        while let Some(line) = self.lines.next()? {
            if line.fits && is_blank(line.bytes) {
                if range.is_empty() {
                    continue;
                }
                break;
            }
            if range.is_empty() {
                (range.start, first) = (line.range.start, line.number);
            }
            range.end = line.range.end;
            length += line.range.end - line.range.start + 1;
            fits &= line.fits;
            if fits {
                text.extend_from_slice(line.bytes);
                text.push(b'\n');
                fits = self.lines.reserve(text.len() - 1);
            }
            if !fits {
                // The rest of the document is read, and none of it is held.
                text = Vec::new();
                self.lines.release();
                if !self.lines.may_skip() {
                    break;
                }
            }
        }
        if !fits {
            self.lines.require_skippable(first, length - 1)?;
            return Ok(Some(Record::rejected(RejectReason::TooLong, range, first)));
        }
        if text.is_empty() {
            return Ok(None);
        }
        text.pop();
        Ok(Some(Record::of_bytes(text, range, first)))
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        self.lines.skip(to)
    }

    fn reached(&self) -> PieceEnd {
        self.lines.reached()
    }
}
