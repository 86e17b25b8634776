//! Stored sample of a shard: a run of token ids, content only.
//!
//! # The shard format, version 1
//!
//! A shard is a Parquet file; each row is one sample with the columns of [`shard_schema`]:
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `input_ids` | `list<uint16>`, or `list<uint32>` above 65,536 ids | content: separators between documents yes, the outer `[CLS]` and `[SEP]` never (frames add them) |
//! | `document_starts` | `list<uint16>` | start of each document's tokens within the row; the first is 0, also for a continued document |
//! | `documents` | `list<uint64>` | [`Document::hash`](crate::Document::hash) of each, as many as `document_starts` |
//! | `source` | `uint16` | position in the part list of the file of the row's first document: the index of its piece |
//! | `sentence_starts` | `list<uint16>` | start of each sentence within the row; the first is 0, also for a continued sentence |
//! | `targets` | `list<int32>` | what a labelled example is to be predicted as, in the form that [`Sample::targets`] describes |
//!
//! `sentence_starts` is there only if the manifest's `pack` keeps sentences, and `targets` only if it has targets. If the manifest's `frame` is `none` (pack
//! `taco`), `input_ids` are whole rows, every document with its own `[CLS]` and `[SEP]`.
//!
//! All items are non-null. Row groups hold at most [`ROWS_PER_GROUP`] rows. `input_ids` is written `BYTE_STREAM_SPLIT`
//! without dictionary, in data pages of version 1 that hold whole rows, zstd level 1; no column has statistics or a
//! page index. A reader must refuse another schema, an id outside the vocabulary, and a file whose length or BLAKE3
//! differs from the manifest's; any Parquet of that schema is read.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::manifest::Frame;
pub use crate::manifest::ROWS_PER_GROUP;

/// Columns of a shard that not every corpus has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionalColumns {
    /// Whether samples store where their sentences begin.
    pub sentences: bool,
    /// Whether samples have targets.
    pub targets: bool,
}

/// Returns the Arrow schema of a shard for a vocabulary of `vocab_size` ids.
#[must_use]
pub fn shard_schema(vocab_size: u32, optional: OptionalColumns) -> SchemaRef {
    let list =
        |name: &str, item: DataType| Field::new(name, DataType::List(Arc::new(Field::new("item", item, false))), false);
    let mut fields = vec![
        list("input_ids", id_type(vocab_size)),
        list("document_starts", DataType::UInt16),
        list("documents", DataType::UInt64),
        Field::new("source", DataType::UInt16, false),
    ];
    fields.extend(optional.sentences.then(|| list("sentence_starts", DataType::UInt16)));
    fields.extend(optional.targets.then(|| list("targets", DataType::Int32)));
    Arc::new(Schema::new(fields))
}

/// Returns the narrowest type that represents every id of the vocabulary.
#[must_use]
pub fn id_type(vocab_size: u32) -> DataType {
    if vocab_size <= 1 << 16 { DataType::UInt16 } else { DataType::UInt32 }
}

/// Token ids as stored, borrowed from a decoded row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenIds<'a> {
    /// A vocabulary of at most 65,536 ids.
    U16(&'a [u16]),
    /// A larger one.
    U32(&'a [u32]),
}

impl<'a> TokenIds<'a> {
    /// Returns the number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::U16(ids) => ids.len(),
            Self::U32(ids) => ids.len(),
        }
    }

    /// Returns true if there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the id at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> u32 {
        match self {
            Self::U16(ids) => u32::from(ids[index]),
            Self::U32(ids) => ids[index],
        }
    }

    /// Returns the ids of `range`.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::U16(ids) => Self::U16(&ids[range]),
            Self::U32(ids) => Self::U32(&ids[range]),
        }
    }

    /// Widens the ids into a batch's buffer of equal length: the only copy of a token between shard and upload.
    pub fn copy_into(&self, target: &mut [i32]) {
        match self {
            Self::U16(ids) => {
                assert_eq!(ids.len(), target.len(), "a row and its source have one length");
                for (slot, &id) in target.iter_mut().zip(*ids) {
                    *slot = i32::from(id);
                }
            }
            Self::U32(ids) => {
                assert_eq!(ids.len(), target.len(), "a row and its source have one length");
                for (slot, &id) in target.iter_mut().zip(*ids) {
                    *slot = id.cast_signed();
                }
            }
        }
    }

    /// Returns the ids in order.
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        (0..self.len()).map(move |index| self.get(index))
    }
}

/// One stored sample, or a piece of one, borrowed from a decoded row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Content tokens.
    pub input_ids: TokenIds<'a>,
    /// Start of each document, counted from the *stored* sample's first token.
    pub document_starts: &'a [u16],
    /// 64-bit document hashes, as many as `document_starts`.
    pub documents: &'a [u64],
    /// Start of each sentence, counted from the *stored* sample's first token; empty if sentences are not kept.
    pub sentence_starts: &'a [u16],
    /// Target of a labelled example; empty if there is none:
    ///
    /// - a class: its number;
    /// - a score: the bits of the float32;
    /// - an answer span: its first and last token, counted from the first content token, or −1 and −1 without answer;
    /// - classes of tokens: a number for each content token, or [`IGNORE`](crate::columns::IGNORE).
    pub targets: &'a [i32],
    /// Frame tokens around the content.
    pub frame: Frame,
    /// Index, within the part, of the piece of the stored sample's first document.
    pub source: u16,
    /// Offset of this piece within the stored sample; 0 for a whole sample.
    pub offset: u16,
}

impl<'a> Sample<'a> {
    /// Returns the piece of the sample in `range`, counted from this piece's first token.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Sample<'a> {
        let start = u16::try_from(range.start).expect("a sample has fewer than 65,536 tokens");
        Sample { input_ids: self.input_ids.slice(range), offset: self.offset + start, ..*self }
    }

    /// Returns the hash of the document that owns token `index` of this piece. A separator belongs to the document
    /// before it.
    #[must_use]
    pub fn document(&self, index: usize) -> u64 {
        let stored = usize::from(self.offset) + index;
        let after = self.document_starts.partition_point(|&start| usize::from(start) <= stored);
        self.documents[after.saturating_sub(1)]
    }

    /// Returns the hashes of the documents that own this piece's tokens, in order.
    #[must_use]
    pub fn own_documents(&self) -> &'a [u64] {
        let begun_by = |stored: usize| self.document_starts.partition_point(|&start| usize::from(start) <= stored);
        let first = usize::from(self.offset);
        let tokens = self.input_ids.len();
        if tokens == 0 { &[] } else { &self.documents[begun_by(first).saturating_sub(1)..begun_by(first + tokens - 1)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_keeps_its_documents() {
        let ids = [5_u16, 6, 3, 7, 8, 9];
        let whole = Sample {
            input_ids: TokenIds::U16(&ids),
            document_starts: &[0, 3],
            documents: &[100, 200],
            sentence_starts: &[],
            targets: &[],
            frame: Frame::ClsSep,
            source: 0,
            offset: 0,
        };
        let documents =
            |sample: Sample<'_>| (0..sample.input_ids.len()).map(|i| sample.document(i)).collect::<Vec<_>>();
        assert_eq!(documents(whole), [100, 100, 100, 200, 200, 200]);
        assert_eq!(documents(whole.slice(2..5)), [100, 200, 200]);
        assert_eq!(documents(whole.slice(2..5).slice(1..3)), [200, 200]);
        for (start, end) in (0..=ids.len()).flat_map(|start| (start..=ids.len()).map(move |end| (start, end))) {
            let piece = whole.slice(start..end);
            let mut owners = documents(piece);
            owners.dedup();
            assert_eq!(piece.own_documents(), owners, "{start}..{end}");
        }
    }

    #[test]
    fn ids_are_as_narrow_as_the_vocabulary_allows() {
        assert_eq!(id_type(65_536), DataType::UInt16);
        assert_eq!(id_type(65_537), DataType::UInt32);
    }
}
