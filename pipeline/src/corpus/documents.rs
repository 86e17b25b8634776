//! Iterator over the documents of a part, with the progress of reading.

use std::mem::take;
use std::ops::Range;

use schemas::Document;
use serde::{Deserialize, Serialize};

use super::AnyFormat;
use super::input_split::{Part, PieceEnd, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::memory_budget::MemoryBudget;
use super::record::{RawDocument, Record, RecordBuffers, RejectReason};
use crate::{Error, Result};

/// Document of a part, or the complaints about a rejected one.
#[derive(Clone, Debug)]
pub struct Found {
    /// Index of the piece within the part.
    pub piece: usize,
    /// Bytes of the decompressed file, or rows of a Parquet file.
    pub range: Range<u64>,
    /// Line on which it begins, 0-based, within the piece.
    pub line: u64,
    /// Document.
    pub document: Option<Document>,
    /// Repairs of this document, or the reasons for its rejection.
    pub complaints: Vec<Complaint>,
}

/// Rejection or repair, to count and perhaps to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Reason of the complaint.
    pub reason: RejectReason,
    /// Index of the piece within the part.
    pub piece: usize,
    /// 0-based line within the piece.
    pub line: u64,
}

/// Resume position in a part: the end of a document of a piece, or the beginning of a piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentPlace {
    /// Index of the piece within the part.
    pub piece: usize,
    /// Progress within the piece; `None` at its beginning.
    pub reached: Option<PieceEnd>,
}

/// The documents of a part, in order.
pub struct Documents<'a> {
    part: &'a Part,
    files: Vec<&'a InputFile>,
    format: &'a AnyFormat,
    reading: ReadOptions,
    /// Current piece. This reader has read the earlier ones to their ends.
    piece: usize,
    read: Vec<(usize, PieceEnd)>,
    open: Option<Box<dyn PieceReader>>,
    spare: RecordBuffers,
}

impl<'a> Documents<'a> {
    pub(super) fn open(
        part: &'a Part,
        files: Vec<&'a InputFile>,
        format: &'a AnyFormat,
        reading: ReadOptions,
        from: DocumentPlace,
    ) -> Result<Self> {
        let mut documents = Self {
            part,
            files,
            format,
            reading,
            piece: from.piece,
            read: Vec::new(),
            open: None,
            spare: RecordBuffers::default(),
        };
        if let (Some(reached), Some(&file)) = (from.reached, documents.files.get(from.piece)) {
            let mut open = documents.begin(file)?;
            open.skip(reached.to).map_err(|error| file.explain(error))?;
            if open.reached() != reached {
                return Err(changed(file, "not what it was when its first segments were made"));
            }
            documents.open = Some(open);
        }
        Ok(documents)
    }

    /// Returns the position of the next document.
    #[must_use]
    pub fn place(&self) -> DocumentPlace {
        DocumentPlace { piece: self.piece, reached: self.open.as_ref().map(|reader| reader.reached()) }
    }

    /// Returns the memory budget of the documents.
    #[must_use]
    pub fn memory_budget(&self) -> &MemoryBudget {
        &self.reading.memory_budget
    }

    /// Returns the pieces that this reader read to their ends, by index, with the end state of each.
    #[must_use]
    pub fn read(&self) -> &[(usize, PieceEnd)] {
        &self.read
    }

    /// Takes back a finished document, to reuse its memory for the next one.
    pub fn take_back(&mut self, found: Found) {
        if let Some(document) = found.document {
            self.spare.take_back(document);
        }
    }

    fn begin(&self, file: &InputFile) -> Result<Box<dyn PieceReader>> {
        // The previous piece is closed: memory for a file is reserved while no other is held.
        self.reading.memory_budget.release();
        // An object is checked when it was read: a request costs as much as reading a small one.
        if file.object().is_none() {
            file.refuse_another()?;
        }
        let opened = self.format.open(file, &self.part.pieces[self.piece].range, &self.reading);
        opened.map_err(|error| file.explain(error))
    }

    fn advance(&mut self) -> Result<Option<Found>> {
        while let Some(&file) = self.files.get(self.piece) {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => self.begin(file)?,
            };
            if let Some(record) = open.next(&mut self.spare).map_err(|error| file.explain(error))? {
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

fn found(record: Record, piece: usize, spare: &mut RecordBuffers) -> Found {
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

/// Returns a document with its own id, or with the hash of its text as id. Two documents of one text then share an id.
fn named(document: RawDocument, spare: &mut RecordBuffers) -> Document {
    let RawDocument { id, text } = document;
    let id = id.unwrap_or_else(|| {
        let mut id = take(&mut spare.id);
        Document::write_digest(&text, &mut id);
        id
    });
    Document { id, text }
}

/// Each item is a document or a complaint. If a file has changed since discovery at a piece's beginning or end, the
/// item is an error.
impl Iterator for Documents<'_> {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Result<Found>> {
        self.advance().transpose()
    }
}

fn changed(file: &InputFile, message: &str) -> Error {
    Error::Corpus { path: file.path.clone(), line: None, message: message.to_owned() }
}
