//! The documents of a part, in order, and what was read to find them.

use std::fs;
use std::os::unix::fs::MetadataExt;

use schemas::Document;

use super::AnyFormat;
use super::inputs::InputFile;
use super::piece::{Part, PieceReader, Reached, Reading};
use super::record::{Reason, Record};
use crate::{Error, Result};

/// A document of a part, or what took its place.
#[derive(Clone, Debug)]
pub struct Found {
    /// The document's 64-bit name and itself.
    pub document: Option<(u64, Document)>,
    /// What is wrong with it.
    pub complaints: Vec<Complaint>,
}

/// Something to count, and perhaps to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong.
    pub reason: Reason,
    /// Index of the piece within the part.
    pub piece: usize,
    /// 0-based line within the piece.
    pub line: u64,
}

/// A piece that was read to its end.
pub type PieceRead = Reached;

/// The documents of a part, in order.
pub struct Documents<'a> {
    part: &'a Part,
    files: Vec<&'a InputFile>,
    format: &'a AnyFormat,
    reading: &'a Reading,
    read: Vec<PieceRead>,
    open: Option<Open>,
}

/// The piece in hand.
struct Open {
    reader: Box<dyn PieceReader>,
    identity: Identity,
}

impl<'a> Documents<'a> {
    pub(super) fn new(part: &'a Part, files: Vec<&'a InputFile>, format: &'a AnyFormat, reading: &'a Reading) -> Self {
        Self { part, files, format, reading, read: Vec::new(), open: None }
    }

    fn advance(&mut self) -> Result<Option<Found>> {
        loop {
            let piece = self.read.len();
            let Some(&file) = self.files.get(piece) else { return Ok(None) };
            let open = match &mut self.open {
                Some(open) => open,
                closed => {
                    let identity = Identity::of(file)?;
                    let reader = self.format.open(file, &self.part.pieces[piece].range, self.reading)?;
                    closed.insert(Open { reader, identity })
                }
            };
            if let Some(record) = open.reader.next()? {
                return Ok(Some(self.found(record)));
            }
            open.identity.refuse_another(file)?;
            self.read.push(open.reader.reached());
            self.open = None;
        }
    }

    /// The pieces that were read to their ends.
    #[must_use]
    pub fn read(&self) -> &[PieceRead] {
        &self.read
    }

    fn found(&self, record: Record) -> Found {
        let index = self.read.len();
        let piece = &self.part.pieces[index];
        // A `u16` in the format: files past the 65,535th share a number, their documents still differ by hash.
        let source = u16::try_from(piece.source).unwrap_or(u16::MAX);
        let (range, complaints) = (record.range, record.complaints);
        let document = record.document.map(|document| {
            let id = document.id.unwrap_or_else(|| range.start.to_string());
            (Document::hash(&piece.name, &id), Document { id, source, text: document.text })
        });
        let complain = |(reason, line)| Complaint { reason, piece: index, line };
        Found { document, complaints: complaints.into_iter().map(complain).collect() }
    }
}

/// Each document or complaint. A file that is another at its end than at its beginning is an error.
impl Iterator for Documents<'_> {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Result<Found>> {
        self.advance().transpose()
    }
}

/// What tells a file from one that took its place, or from itself before it was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    bytes: u64,
    modified: (i64, i64),
    inode: (u64, u64),
}

impl Identity {
    fn of(file: &InputFile) -> Result<Self> {
        let metadata = fs::metadata(&file.path).map_err(|error| changed(file, &error.to_string()))?;
        let identity = Self {
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            inode: (metadata.dev(), metadata.ino()),
        };
        if identity.bytes == file.bytes {
            return Ok(identity);
        }
        Err(changed(file, &format!("{} bytes long, it was {} when the parts were planned", identity.bytes, file.bytes)))
    }

    fn refuse_another(self, file: &InputFile) -> Result<()> {
        if Self::of(file)? == self { Ok(()) } else { Err(changed(file, "changed while it was read")) }
    }
}

fn changed(file: &InputFile, message: &str) -> Error {
    let hint = "; run the same command again when it stands still, finished parts are kept";
    Error::Corpus { path: file.path.clone(), line: None, message: format!("{message}{hint}") }
}
