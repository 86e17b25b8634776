//! Plain text format: each file is a document.
//!
//! # What
//! The whole file, without its byte-order mark, is one document; an empty file is none. Extensions `txt`, `text`, `md`.
//!
//! # Why
//! Books and articles are often stored as single files.
//!
//! # Definition
//! Never cut, since a part must not end within a document; long files make long parts.
//!
//! # Reference
//! RFC 3629, section 6, for byte-order marks.

use std::io::BufRead as _;
use std::mem::take;
use std::ops::Range;

use super::Format;
use super::bytes::{self, ReadHash, read_error, require_skippable, reserve};
use super::input_split::{PieceEnd, PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::lines::BYTE_ORDER_MARK;
use super::piece_ranges::whole;
use super::record::{Record, RecordBuffers, RejectReason, count_newlines};
use super::sniff::{FileCheck, head, of_text};
use crate::Result;

pub(super) const EXTENSIONS: &[&str] = &["txt", "text", "md"];

/// Plain text: each file is a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeFiles;

impl Format for WholeFiles {
    fn extensions(&self) -> &'static [&'static str] {
        EXTENSIONS
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        Ok(of_text(&head(file, reading)?))
    }

    fn pieces(&self, file: &InputFile, _stride: u64, _reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        Ok(whole(file))
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
        reading.memory_budget.release();
        let nothing = PieceEnd { to: 0, lines: 0, blake3: ReadHash::default().hex() };
        let mut source = bytes::open(file, range, reading)?;
        let mut read = ReadHash::default();
        let mut bytes = Vec::new();
        let mut fits = true;
        let mut length = 0;
        let mut lines = 0;
        let mut last = b'\n';
        loop {
            let ready = source.fill_buf().map_err(|error| read_error(&file.path, &error))?;
            let Some(&end) = ready.last() else { break };
            last = end;
            read.push(ready);
            length += ready.len() as u64;
            lines += count_newlines(ready);
            fits = fits && reserve(length, reading);
            if fits {
                bytes.extend_from_slice(ready);
            } else {
                // The rest is read without holding it.
                bytes = Vec::new();
                reading.memory_budget.release();
                if reading.skip_above_bytes.is_none() {
                    break;
                }
            }
            let count = ready.len();
            source.consume(count);
        }
        if !fits {
            require_skippable(&file.path, 0, length, reading)?;
        }
        lines += u64::from(last != b'\n');
        let reached = PieceEnd { to: length, lines, blake3: read.hex() };
        Ok(Box::new(SingleRecord { bytes: Some(bytes), fits, nothing, whole: reached }))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| texts.join("\n").into_bytes(),
            dirty: b"one\ntwo\xff\n".to_vec(),
            texts: &["one\ntwo\u{fffd}\n"],
            complaints: &["invalid_utf8:2"],
        }
    }
}

/// Reader of the single record of a file.
struct SingleRecord {
    bytes: Option<Vec<u8>>,
    /// False if the file exceeds the memory limit and is to be skipped.
    fits: bool,
    /// Position before the record, and after it.
    nothing: PieceEnd,
    whole: PieceEnd,
}

impl PieceReader for SingleRecord {
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>> {
        let Some(mut bytes) = self.bytes.take() else { return Ok(None) };
        if !self.fits {
            return Ok(Some(Record::rejected(RejectReason::TooLong, 0..self.whole.to, 0)));
        }
        if bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut record = Record::of_bytes(bytes, 0..self.whole.to, 0);
        if let Some(document) = record.document.as_mut().filter(|document| document.text.len() as u64 == self.whole.to)
            && record.complaints.is_empty()
        {
            // Nothing was removed or replaced: the id of the text is the hash of the file.
            let mut id = take(&mut spare.id);
            id.push_str(&self.whole.blake3);
            document.id = Some(id);
        }
        Ok(Some(record))
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        if to > 0 {
            self.bytes = None;
        }
        Ok(())
    }

    fn reached(&self) -> PieceEnd {
        if self.bytes.is_some() { self.nothing.clone() } else { self.whole.clone() }
    }
}
