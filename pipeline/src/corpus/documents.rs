//! The documents of a part, in order, and what was read to find them.

use std::mem::take;
use std::ops::Range;

use schemas::Document;
use serde::{Deserialize, Serialize};

use super::AnyFormat;
use super::input_split::{Part, PieceReader, Reached, Reading};
use super::inputs::InputFile;
use super::memory_budget::MemoryBudget;
use super::record::{RawDocument, Record, RejectReason, Spare};
use crate::{Error, Result};

/// A document of a part, or what took its place.
#[derive(Clone, Debug)]
pub struct Found {
    /// Index of the piece within the part.
    pub piece: usize,
    /// Bytes of the decompressed file, or rows of a Parquet file.
    pub range: Range<u64>,
    /// The line on which it begins, 0-based, within the piece.
    pub line: u64,
    /// The document.
    pub document: Option<Document>,
    /// What is wrong with it.
    pub complaints: Vec<Complaint>,
}

/// Something to count, and perhaps to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong.
    pub reason: RejectReason,
    /// Index of the piece within the part.
    pub piece: usize,
    /// 0-based line within the piece.
    pub line: u64,
}

/// A place of a part behind which reading continues: where a document of a piece ended, or the beginning of a piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Index of the piece within the part.
    pub piece: usize,
    /// How far it was read; nothing yet, if it is absent.
    pub reached: Option<Reached>,
}

/// The documents of a part, in order.
pub struct Documents<'a> {
    part: &'a Part,
    files: Vec<&'a InputFile>,
    format: &'a AnyFormat,
    reading: Reading,
    /// The piece in hand, and those before it that were read to their ends, by this reader.
    piece: usize,
    read: Vec<(usize, Reached)>,
    open: Option<Box<dyn PieceReader>>,
    spare: Spare,
}

impl<'a> Documents<'a> {
    pub(super) fn open(
        part: &'a Part,
        files: Vec<&'a InputFile>,
        format: &'a AnyFormat,
        reading: Reading,
        from: Place,
    ) -> Result<Self> {
        let mut documents = Self {
            part,
            files,
            format,
            reading,
            piece: from.piece,
            read: Vec::new(),
            open: None,
            spare: Spare::default(),
        };
        if let (Some(reached), Some(&file)) = (from.reached, documents.files.get(from.piece)) {
            let mut open = documents.begin(file)?;
            open.skip(reached.to)?;
            if open.reached() != reached {
                return Err(changed(file, "not what it was when its first segments were made"));
            }
            documents.open = Some(open);
        }
        Ok(documents)
    }

    /// Where the next document is looked for.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { piece: self.piece, reached: self.open.as_ref().map(|reader| reader.reached()) }
    }

    /// The room that its documents take.
    #[must_use]
    pub fn room(&self) -> &MemoryBudget {
        &self.reading.room
    }

    /// The pieces that this reader read to their ends, by index, and what they came to.
    #[must_use]
    pub fn read(&self) -> &[(usize, Reached)] {
        &self.read
    }

    /// Takes back a document that nobody needs any more: the next one may lie in its memory.
    pub fn take_back(&mut self, found: Found) {
        if let Some(document) = found.document {
            self.spare.take_back(document);
        }
    }

    fn begin(&self, file: &InputFile) -> Result<Box<dyn PieceReader>> {
        // What was read of the piece before is read no more: a file's room is asked for with no other in hand.
        self.reading.room.put_down();
        file.refuse_another()?;
        self.format.open(file, &self.part.pieces[self.piece].range, &self.reading)
    }

    fn advance(&mut self) -> Result<Option<Found>> {
        while let Some(&file) = self.files.get(self.piece) {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => self.begin(file)?,
            };
            if let Some(record) = open.next(&mut self.spare)? {
                self.open = Some(open);
                return Ok(Some(found(record, self.piece, &mut self.spare)));
            }
            file.refuse_another()?;
            self.read.push((self.piece, open.reached()));
            self.piece += 1;
        }
        Ok(None)
    }
}

fn found(record: Record, piece: usize, spare: &mut Spare) -> Found {
    let Record { document, range, line, complaints } = record;
    let complain = |(reason, line)| Complaint { reason, piece, line };
    Found {
        piece,
        range,
        line,
        document: document.map(|document| named(document, spare)),
        complaints: complaints.into_iter().map(complain).collect(),
    }
}

/// A document under its own name, or under that of its text: two of one text are then one.
fn named(document: RawDocument, spare: &mut Spare) -> Document {
    let RawDocument { id, text } = document;
    let id = id.unwrap_or_else(|| {
        let mut id = take(&mut spare.id);
        Document::write_digest(&text, &mut id);
        id
    });
    Document { id, text }
}

/// Each document or complaint. A file that is another at a piece's beginning or end than it was when it was found is an
/// error.
impl Iterator for Documents<'_> {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Result<Found>> {
        self.advance().transpose()
    }
}

fn changed(file: &InputFile, message: &str) -> Error {
    Error::Corpus { path: file.path.clone(), line: None, message: message.to_owned() }
}
