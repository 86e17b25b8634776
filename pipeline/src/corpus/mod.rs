//! Where documents come from: files ↦ parts ↦ documents.
//!
//! The list of parts is a function of the corpus alone: never of threads or machines. A part is one or more *pieces*,
//! a piece a file or a byte range of one. Small files are grouped, large plain ones are cut where a document ends.
//!
//! Dirty text is data, not an error: it is repaired or passed over, and counted by [`Reason`].

mod inputs;
mod jsonl;
mod open;
mod parquet;
mod text;

use std::fmt;
use std::ops::Range;
use std::path::Path;

use schemas::Document;
use serde::{Deserialize, Serialize};

pub use self::inputs::Source;
use crate::prepare::Format;
use crate::{Error, Result};

/// What makes a corpus out of files; the `[prepare]` section's share of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusConfig {
    /// Files, folders and globs.
    pub inputs: Vec<String>,
    /// How documents lie in a file.
    pub format: Format,
    /// JSONL and Parquet: where the text is.
    pub text_field: String,
    /// JSONL and Parquet: where the document's name is.
    pub id_field: Option<String>,
    /// Size of a part on disk; `None` chooses by the corpus' size.
    pub part_bytes: Option<u64>,
    /// Longest document.
    pub document_bytes_max: u64,
}

/// A way in which documents lie in files. To add one: a file beside this one, and a line in `file_format`.
pub trait FileFormat: Send + Sync {
    /// Extensions that count in folders.
    fn extensions(&self) -> &'static [&'static str];

    /// Refuses a file that no part could use, before anything is written.
    fn check(&self, source: &Source) -> Result<()>;

    /// Cuts a file into ranges of about `stride` at places where a document ends. They cover `0..source.bytes`, or
    /// what the format counts in (Parquet: row groups).
    fn pieces(&self, source: &Source, stride: u64) -> Result<Vec<PieceRange>>;

    /// The records of a range, in order.
    fn records(&self, source: &Source, range: &Range<u64>) -> Result<Records>;

    /// Lines (or rows) before a range, so that a complaint can name its line.
    fn lines_before(&self, source: &Source, range: &Range<u64>) -> Result<u64>;
}

/// A range of a file and its weight in bytes on disk.
pub type PieceRange = (Range<u64>, u64);

/// Records of one piece, in order.
pub type Records = Box<dyn Iterator<Item = Result<Record>> + Send>;

/// What was found at one place of a file: a document, complaints, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The name within its file, and the text, if it is fit for use.
    pub document: Option<(String, String)>,
    /// What is wrong with it, with lines counted from the start of the piece, 0-based.
    pub complaints: Vec<(Reason, u64)>,
}

impl Record {
    fn rejected(reason: Reason, line: u64) -> Self {
        Self { document: None, complaints: vec![(reason, line)] }
    }
}

/// Why a line or a document was repaired or passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Bytes that are not UTF-8, replaced by U+FFFD.
    InvalidUtf8,
    /// NUL characters, removed.
    Nul,
    /// A line that is no JSON object; passed over.
    BrokenJson,
    /// The text or the name is missing; passed over.
    MissingField,
    /// The text is not a string, or the name neither a string nor a number; passed over.
    NonStringField,
    /// No text, or none that the tokenizer keeps; passed over.
    EmptyDocument,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::InvalidUtf8 => "invalid_utf8",
            Self::Nul => "nul",
            Self::BrokenJson => "broken_json",
            Self::MissingField => "missing_field",
            Self::NonStringField => "non_string_field",
            Self::EmptyDocument => "empty_document",
        })
    }
}

/// The unit of preparing: what one lane turns into shards at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its number.
    pub index: u32,
    /// Bytes on disk.
    pub bytes: u64,
    /// What it consists of, in order.
    pub pieces: Vec<Piece>,
}

/// A file, or a range of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Index of the file among [`Corpus::sources`].
    pub source: u32,
    /// The file's name.
    pub name: String,
    /// Bytes, or row groups of a Parquet file.
    pub range: Range<u64>,
}

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

/// Sorted files and the way to read them.
pub struct Corpus {
    sources: Vec<Source>,
    format: Box<dyn FileFormat>,
    part_bytes: u64,
}

impl fmt::Debug for Corpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Corpus").field("sources", &self.sources).finish_non_exhaustive()
    }
}

impl Corpus {
    /// Finds the files and refuses those that cannot be used; opens each for a moment, writes nothing.
    pub fn open(config: &CorpusConfig) -> Result<Self> {
        let format = file_format(config);
        let sources = inputs::find(&config.inputs, format.extensions())?;
        sources.iter().try_for_each(|source| format.check(source))?;
        let bytes: u64 = sources.iter().map(|source| source.bytes).sum();
        // 256 parts keep 64 lanes busy to the end; 64 MiB bounds what a kill costs to a minute or so.
        let part_bytes = config.part_bytes.unwrap_or_else(|| (bytes / 256).clamp(1 << 20, 64 << 20));
        Ok(Self { sources, format, part_bytes })
    }

    /// The files, sorted by name.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }

    /// The largest compressed file: nobody can cut it, so no number of lanes is faster than it.
    #[must_use]
    pub fn largest_compressed(&self) -> Option<&Source> {
        let compressed = |source: &&Source| open::Compression::of(&source.path) != open::Compression::Plain;
        self.sources.iter().filter(compressed).max_by_key(|source| source.bytes)
    }

    /// The parts, in order.
    pub fn parts(&self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let mut open = Part { index: 0, bytes: 0, pieces: Vec::new() };
        for (source, file) in (0_u32..).zip(&self.sources) {
            for (range, bytes) in self.format.pieces(file, self.part_bytes)? {
                if open.bytes + bytes > self.part_bytes && !open.pieces.is_empty() {
                    let index = open.index + 1;
                    parts.push(std::mem::replace(&mut open, Part { index, bytes: 0, pieces: Vec::new() }));
                }
                open.bytes += bytes;
                open.pieces.push(Piece { source, name: file.name.clone(), range });
            }
        }
        if !open.pieces.is_empty() {
            parts.push(open);
        }
        Ok(parts)
    }

    /// The documents of a part, in order.
    pub fn documents<'a>(&'a self, part: &'a Part) -> impl Iterator<Item = Result<Found>> + 'a {
        part.pieces.iter().enumerate().flat_map(move |(index, piece)| {
            let file = &self.sources[piece.source as usize];
            let (records, failed) = match self.format.records(file, &piece.range) {
                Ok(records) => (Some(records), None),
                Err(error) => (None, Some(Err(error))),
            };
            let found = move |record: Result<Record>| record.map(|record| found(record, index, piece));
            failed.into_iter().chain(records.into_iter().flatten().map(found))
        })
    }

    /// The 1-based line of a complaint in its file.
    pub fn line(&self, part: &Part, complaint: &Complaint) -> Result<u64> {
        let piece = &part.pieces[complaint.piece];
        let before = self.format.lines_before(&self.sources[piece.source as usize], &piece.range)?;
        Ok(before + complaint.line + 1)
    }

    /// The file that a piece is of.
    #[must_use]
    pub fn path(&self, piece: &Piece) -> &Path {
        &self.sources[piece.source as usize].path
    }

    /// The corpus in a line: two that differ in it are not the same.
    #[must_use]
    pub fn outline(&self) -> String {
        format!("{} files, {} bytes", self.sources.len(), self.bytes())
    }
}

fn found(record: Record, index: usize, piece: &Piece) -> Found {
    // A `u16` in the format: files past the 65,535th share a number, their documents still differ by hash.
    let source = u16::try_from(piece.source).unwrap_or(u16::MAX);
    let document = record.document.map(|(id, text)| (Document::hash(&piece.name, &id), Document { id, source, text }));
    let complain = |(reason, line)| Complaint { reason, piece: index, line };
    Found { document, complaints: record.complaints.into_iter().map(complain).collect() }
}

/// Every format, by its name in the configuration.
fn file_format(config: &CorpusConfig) -> Box<dyn FileFormat> {
    let limit = config.document_bytes_max;
    let fields = Fields { text: config.text_field.clone(), id: config.id_field.clone() };
    match config.format {
        Format::TextFile => Box::new(text::Files { limit }),
        Format::TextParagraphs => Box::new(text::Paragraphs { limit }),
        Format::TextLines => Box::new(text::Lines { limit }),
        Format::Jsonl => Box::new(jsonl::Jsonl { fields, limit }),
        Format::Parquet => Box::new(parquet::Parquet { fields, limit }),
    }
}

/// Where a structured record keeps what we need.
#[derive(Clone, Debug)]
struct Fields {
    text: String,
    id: Option<String>,
}

/// Makes a record of a document's bytes: replaces what is not UTF-8, then [`from_text`].
fn from_bytes(id: String, bytes: Vec<u8>, line: u64) -> Record {
    match String::from_utf8(bytes) {
        Ok(text) => from_text(id, text, line),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let at = line + count_newlines(&error.as_bytes()[..valid]);
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let mut record = from_text(id, text, line);
            record.complaints.insert(0, (Reason::InvalidUtf8, at));
            record
        }
    }
}

/// Makes a record of a document's text: removes NULs, ends lines with a line feed, refuses the empty.
fn from_text(id: String, mut text: String, line: u64) -> Record {
    let mut complaints = Vec::new();
    if let Some(at) = memchr::memchr(0, text.as_bytes()) {
        complaints.push((Reason::Nul, line + count_newlines(&text.as_bytes()[..at])));
        text.retain(|character| character != '\0');
    }
    if memchr::memmem::find(text.as_bytes(), b"\r\n").is_some() {
        text = text.replace("\r\n", "\n");
    }
    if text.trim().is_empty() {
        complaints.push((Reason::EmptyDocument, line));
        return Record { document: None, complaints };
    }
    Record { document: Some((id, text)), complaints }
}

fn count_newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// A document that does not fit into memory's bound.
fn too_long(path: &Path, line: u64, limit: u64) -> Error {
    let message = format!(
        "a document of more than {limit} bytes; raise `prepare.memory_max`, lower `prepare.lanes`, or split it"
    );
    Error::Corpus { path: path.to_owned(), line: Some(line + 1), message }
}

#[cfg(test)]
mod tests;
