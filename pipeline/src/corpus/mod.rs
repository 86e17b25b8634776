//! Corpus reading: files ↦ parts ↦ documents.
//!
//! The list of parts is a function of the corpus alone, not of threads or machines. A part is one or more *pieces*, a
//! piece a file or a byte range of one. Small files are grouped, large plain ones are cut at document ends.
//!
//! Invalid text is data, not an error: it is repaired or skipped, and counted by [`RejectReason`].

mod bytes;
mod columns;
mod compression;
mod cut;
mod decode;
mod decoder_memory;
mod delimited;
mod delimiter;
mod discover;
mod documents;
mod file_identity;
mod file_names;
mod files;
mod find;
mod format_detect;
mod hidden_names;
mod input_split;
mod inputs;
mod json_array;
mod json_object;
mod json_text;
mod lines;
mod members;
mod memory_budget;
mod object;
mod object_inputs;
mod own_folders;
mod piece_ranges;
mod record;
mod scanner;
mod sniff;
mod window;

use std::ops::Range;

pub use self::compression::without_compression;
pub use self::cut::group;
pub use self::decode::by_name as encoding_by_name;
pub use self::discover::{SkippedFiles, plain_extension};
pub use self::documents::{Complaint, DocumentPlace, Documents, Found};
pub use self::file_identity::FileIdentity;
pub(crate) use self::file_names::{KnownFile, KnownFiles};
pub use self::files::{Corpus, CorpusConfig, InvalidFilePolicy, SniffResult};
pub use self::format_detect::{FileExtensions, FilesOfFormat};
pub use self::hidden_names::is_hidden;
pub use self::input_split::{BytesRead, Part, Piece, PieceEnd, PieceRange, PieceReader, ReadOptions};
pub use self::inputs::InputFile;
pub(crate) use self::memory_budget::COPIES;
pub use self::memory_budget::{MemoryBudget, ResourcesExhausted, Shares};
pub(crate) use self::object::READER_BYTES;
pub use self::record::{RawDocument, Record, RecordBuffers, RejectReason};
pub use self::sniff::{FileCheck, Head};
use crate::Result;

schemas::registry! {
    /// Input format: the layout of documents in files.
    pub enum AnyFormat: Format by name {
        text::WholeFiles,
        text_paragraphs::Paragraphs,
        text_lines::PlainLines,
        jsonl::JsonLines,
        parquet::ParquetRows,
        arrow::IpcRows,
        csv::CommaSeparated,
        tsv::TabSeparated,
        warc::WarcRecords,
        wikipedia_xml::WikipediaPages,
    }
}

impl Default for AnyFormat {
    fn default() -> Self {
        Self::of_kind("text").expect("it is in the table")
    }
}

/// Input format: the layout of documents in files.
pub trait Format: Send + Sync {
    /// Returns the extensions of files that count in folders.
    fn extensions(&self) -> &'static [&'static str];

    /// Returns true if records have fields, which `prepare.text_field` and `prepare.id_field` select.
    fn has_fields(&self) -> bool {
        false
    }

    /// Returns true if positions count rows of a binary file, and not bytes and lines of a text.
    fn has_rows(&self) -> bool {
        false
    }

    /// Checks the beginning of a file before any output is written.
    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck>;

    /// Cuts a file into ranges of about `stride` bytes at document ends. The ranges cover `0..file.bytes`, or the
    /// format's own unit (Parquet: row groups).
    fn pieces(&self, file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>>;

    /// Opens the records of a range returned by `pieces`.
    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>>;

    /// Returns files for the contract tests of the formats.
    #[cfg(test)]
    fn example(&self) -> contract::Example;
}

#[cfg(test)]
mod contract;
#[cfg(test)]
pub(crate) mod tests;
