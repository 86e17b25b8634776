//! Where documents come from: files ↦ parts ↦ documents.
//!
//! The list of parts is a function of the corpus alone: never of threads or machines. A part is one or more *pieces*,
//! a piece a file or a byte range of one. Small files are grouped, large plain ones are cut where a document ends.
//!
//! Dirty text is data, not an error: it is repaired or skipped, and counted by [`RejectReason`].

mod bytes;
mod cut;
mod decode;
mod discover;
mod documents;
mod files;
mod find;
mod format_detect;
mod input_split;
mod inputs;
mod lines;
mod memory_budget;
mod record;
mod sniff;
mod window;

use std::ops::Range;

pub use self::cut::group;
pub use self::decode::by_name as encoding_by_name;
pub use self::discover::{PassedOver, plain_extension};
pub use self::documents::{Complaint, Documents, Found, Place};
pub use self::files::{Corpus, CorpusConfig, InvalidFilePolicy, SortedOut};
pub use self::format_detect::Endings;
pub use self::input_split::{BytesRead, Part, Piece, PieceRange, PieceReader, Reached, Reading};
pub use self::inputs::{FileIdentity, InputFile};
pub(crate) use self::memory_budget::COPIES;
pub use self::memory_budget::{MemoryBudget, ResourcesExhausted, Shares};
pub use self::record::{RawDocument, Record, RejectReason, Spare};
pub use self::sniff::{Fitness, Head};
use crate::Result;

schemas::registry! {
    /// Every way in which documents lie in files.
    pub enum AnyFormat: Format by name {
        text::WholeFiles,
        text_paragraphs::Paragraphs,
        text_lines::PlainLines,
        jsonl::JsonLines,
        parquet::ParquetRows,
    }
}

impl Default for AnyFormat {
    fn default() -> Self {
        Self::of_kind("text").expect("it is in the table")
    }
}

/// A way in which documents lie in files.
pub trait Format: Send + Sync {
    /// Extensions that count in folders.
    fn extensions(&self) -> &'static [&'static str];

    /// Whether its records have fields, of which `prepare.text_field` and `prepare.id_field` name two.
    fn has_fields(&self) -> bool {
        false
    }

    /// Whether a part could use that file: asked before anything is written.
    fn check(&self, file: &InputFile, reading: &Reading) -> Result<Fitness>;

    /// Cuts a file into ranges of about `stride` bytes at places where a document ends. They cover `0..file.bytes`, or
    /// what the format counts in (Parquet: row groups).
    fn pieces(&self, file: &InputFile, stride: u64, reading: &Reading) -> Result<Vec<PieceRange>>;

    /// The records of a range that it cut.
    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &Reading) -> Result<Box<dyn PieceReader>>;

    /// Files for the contract of this family.
    #[cfg(test)]
    fn example(&self) -> contract::Example;
}

#[cfg(test)]
mod contract;
#[cfg(test)]
pub(crate) mod tests;
