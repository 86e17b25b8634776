//! Parts and pieces: the nouns, and what reading one comes to.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::record::Record;
use crate::Result;

/// A range of a file and its weight in bytes on disk.
pub type PieceRange = (Range<u64>, u64);

/// A file, or a range of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Index of the file among [`Corpus::files`](super::Corpus::files).
    pub source: u32,
    /// The file's name.
    pub name: String,
    /// Bytes, or row groups of a Parquet file.
    pub range: Range<u64>,
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

/// What the records of a piece are read by: the `[prepare]` section's share of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Where a structured record has its text.
    pub text_field: String,
    /// Where it has its name.
    pub id_field: Option<String>,
    /// Longest document.
    pub document_bytes_max: u64,
}

/// The records of a piece, in order.
pub trait PieceReader: Send {
    /// The next record; none behind the last.
    fn next(&mut self) -> Result<Option<Record>>;

    /// Passes over all records up to `to`, where one of them ended: what was [reached](Self::reached) is then what it
    /// would be had they been read. Called before the first record only.
    fn skip(&mut self, to: u64) -> Result<()>;

    /// How far the reading is.
    fn reached(&self) -> Reached;
}

/// How far a piece was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reached {
    /// Bytes of the decompressed file, or rows of a Parquet file, up to here.
    pub to: u64,
    /// Lines (or rows) of the piece before it.
    pub lines: u64,
    /// BLAKE3 of what was read of the piece: decompressed text; of a Parquet file the raw bytes of the columns that are
    /// read, of every row group that was begun.
    pub blake3: String,
}
