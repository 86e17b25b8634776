//! Parts and pieces of the input, and the state of reading a piece.

use std::cmp::Ordering;
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use encoding_rs::Encoding;
use schemas::PartId;
use serde::{Deserialize, Serialize};

use super::memory_budget::MemoryBudget;
use super::record::{Record, RecordBuffers};
use crate::Result;

/// Range of a file and its weight in bytes on disk.
pub type PieceRange = (Range<u64>, u64);

/// File, or a range of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Name of the file.
    pub name: String,
    /// Length of the whole file.
    pub bytes: u64,
    /// Bytes, or row groups of a Parquet file.
    #[serde(with = "range")]
    pub range: Range<u64>,
}

impl Piece {
    /// Returns the location of a 0-based line: `path`, and the line counted from the beginning of the piece in the
    /// file.
    #[must_use]
    pub fn describe(&self, path: &dyn Display, line: u64) -> String {
        match (self.range.start, line + 1) {
            (0, line) => format!("{path}:{line}"),
            (start, line) => format!("{path}, line {line} from byte {start} on"),
        }
    }
}

/// Orders pieces by file, then by start.
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

/// Part of the input: the unit that one worker turns into shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Number of the part, never reused.
    pub id: PartId,
    /// Bytes on disk.
    pub bytes: u64,
    /// Pieces of the part, in order.
    pub pieces: Vec<Piece>,
}

/// Reading options of the `[prepare]` section.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Field or column of the text.
    pub text_field: String,
    /// Field or column of the document id.
    pub id_field: Option<String>,
    /// Encoding of text files; `None` for UTF-8.
    pub encoding: Option<&'static Encoding>,
    /// Maximum bytes of a document that fits into memory.
    pub max_document_bytes: u64,
    /// Bytes above which a document that does not fit is skipped; `None` if it is an error.
    pub skip_above_bytes: Option<u64>,
    /// Memory budget of documents and files.
    pub memory_budget: MemoryBudget,
    /// Counter of the bytes read.
    pub bytes_read: BytesRead,
}

impl ReadOptions {
    /// Returns the same options without the counter: for bytes that are read again later.
    #[must_use]
    pub fn uncounted(&self) -> Self {
        Self { bytes_read: BytesRead::default(), ..self.clone() }
    }
}

/// Counter of the file bytes read so far; clones share the count.
#[derive(Clone, Debug, Default)]
pub struct BytesRead {
    own: Arc<AtomicU64>,
    /// Parent counter, which includes this one.
    whole: Option<Arc<AtomicU64>>,
}

impl BytesRead {
    /// Returns a child counter, whose bytes are counted here too.
    #[must_use]
    pub fn part(&self) -> Self {
        Self { own: Arc::default(), whole: Some(Arc::clone(&self.own)) }
    }

    /// Adds bytes to this counter and its parents.
    pub fn add(&self, bytes: u64) {
        self.own.fetch_add(bytes, atomic::Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.fetch_add(bytes, atomic::Ordering::Relaxed);
        }
    }

    /// Returns the bytes so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.own.load(atomic::Ordering::Relaxed)
    }
}

/// Reader of the records of a piece, in order.
pub trait PieceReader: Send {
    /// Returns the next record, or `None` after the last. Text and id may reuse the memory in `spare`.
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>>;

    /// Skips all records up to `to`, the end of a record. [`reached`](Self::reached) is then the same as after reading
    /// them. Called only before the first record.
    fn skip(&mut self, to: u64) -> Result<()>;

    /// Returns the current position.
    fn reached(&self) -> PieceEnd;
}

/// Position in a piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieceEnd {
    /// Bytes of the decompressed file, or rows of a Parquet file, up to here.
    pub to: u64,
    /// Lines (or rows) of the piece before it.
    pub lines: u64,
    /// BLAKE3 of the input read so far: decompressed text, or for a Parquet file the raw bytes of the columns that are
    /// read, of every row group that was begun.
    pub blake3: String,
}

/// Serializes ranges as pairs: `[0, 4096]`.
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
