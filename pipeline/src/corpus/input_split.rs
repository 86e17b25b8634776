//! Parts and pieces: the nouns, and what reading one comes to.

use std::cmp::Ordering;
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use encoding_rs::Encoding;
use schemas::PartId;
use serde::{Deserialize, Serialize};

use super::memory_budget::MemoryBudget;
use super::record::{Record, Spare};
use crate::Result;

/// A range of a file and its weight in bytes on disk.
pub type PieceRange = (Range<u64>, u64);

/// A file, or a range of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// The file's name.
    pub name: String,
    /// The length of the whole file.
    pub bytes: u64,
    /// Bytes, or row groups of a Parquet file.
    #[serde(with = "range")]
    pub range: Range<u64>,
}

impl Piece {
    /// Where a line of it is, in words: of that path, and counted from where the piece begins in the file; lines are 0-based.
    #[must_use]
    pub fn words(&self, path: &dyn Display, line: u64) -> String {
        match (self.range.start, line + 1) {
            (0, line) => format!("{path}:{line}"),
            (start, line) => format!("{path}, line {line} from byte {start} on"),
        }
    }
}

/// By file, then from its beginning on.
impl Ord for Piece {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |piece: &Self| (piece.range.start, piece.range.end, piece.bytes);
        self.name.cmp(&other.name).then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for Piece {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The unit of preparing: what one worker turns into shards at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its number, never used for another.
    pub id: PartId,
    /// Bytes on disk.
    pub bytes: u64,
    /// What it consists of, in order.
    pub pieces: Vec<Piece>,
}

/// What the records of a piece are read by: the `[prepare]` section's share of it.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Where a structured record has its text.
    pub text_field: String,
    /// Where it has its name.
    pub id_field: Option<String>,
    /// What the bytes of text are; none for UTF-8.
    pub encoding: Option<&'static Encoding>,
    /// Longest document.
    pub max_document_bytes: u64,
    /// Where it may lie in memory.
    pub room: MemoryBudget,
    /// Who counts.
    pub bytes_read: BytesRead,
}

/// Bytes of files that were read, while they are read; clones count together.
#[derive(Clone, Debug, Default)]
pub struct BytesRead {
    own: Arc<AtomicU64>,
    /// Who counts the same and more.
    whole: Option<Arc<AtomicU64>>,
}

impl BytesRead {
    /// Its own counter, whose bytes are counted here too.
    #[must_use]
    pub fn part(&self) -> Self {
        Self { own: Arc::default(), whole: Some(Arc::clone(&self.own)) }
    }

    /// Counts more.
    pub fn add(&self, bytes: u64) {
        self.own.fetch_add(bytes, atomic::Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.fetch_add(bytes, atomic::Ordering::Relaxed);
        }
    }

    /// All until now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.own.load(atomic::Ordering::Relaxed)
    }
}

/// The records of a piece, in order.
pub trait PieceReader: Send {
    /// The next record; none behind the last. Its text and name may lie in what is to spare.
    fn next(&mut self, spare: &mut Spare) -> Result<Option<Record>>;

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

/// Ranges as pairs: `[0, 4096]`.
mod range {
    use std::ops::Range;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(range: &Range<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        [range.start, range.end].serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Range<u64>, D::Error> {
        let [start, end] = <[u64; 2]>::deserialize(deserializer)?;
        Ok(start..end)
    }
}
