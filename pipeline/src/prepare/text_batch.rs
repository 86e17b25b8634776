//! Batches of short documents that are tokenized together.
//!
//! For a document of a few hundred bytes, the fixed cost (taking a worker, clocks, counters that workers share) equals
//! that of tokenizing part of its text. A batch pays it once for about a hundred documents.

use std::ops::Range;

use crate::Result;
use crate::tokenize::{Texts, Tokenizer};

/// Bytes of text in a batch: the text and its ids stay in the second-level cache.
const BYTES: usize = 32 << 10;

/// Current document and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DocumentRef<'a> {
    pub(super) id: &'a str,
    pub(super) text: &'a str,
    /// Index of its piece within the part.
    pub(super) piece: usize,
    /// First line of the document within the piece, 0-based.
    pub(super) line: u64,
    /// Bytes of the decompressed file, or rows of a Parquet file.
    pub(super) range: Range<u64>,
}

/// Waiting documents and their ids. Buffers are reused.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Texts in the layout of [`Texts`], and their ends.
    texts: String,
    text_ends: Vec<usize>,
    /// Names, concatenated.
    names: String,
    places: Vec<BatchedDocument>,
    ids: Vec<u32>,
    lengths: Vec<usize>,
}

/// Place of a document in the corpus, and the end of its name.
#[derive(Debug)]
struct BatchedDocument {
    piece: usize,
    line: u64,
    range: Range<u64>,
    name_end: usize,
}

impl Batch {
    /// Whether a document is short enough to wait for others. Its name counts too, because it is stored.
    pub(super) fn is_short(document: &DocumentRef<'_>) -> bool {
        document.id.len() + document.text.len() <= BYTES / 8
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the batch has enough text to be tokenized.
    pub(super) fn is_full(&self) -> bool {
        self.texts.len() + self.names.len() >= BYTES
    }

    /// Adds a document.
    pub(super) fn push(&mut self, document: &DocumentRef<'_>) {
        let DocumentRef { id, text, piece, line, ref range } = *document;
        self.texts.push_str(text);
        self.text_ends.push(self.texts.len());
        self.texts.push(Texts::BETWEEN);
        self.names.push_str(id);
        self.places.push(BatchedDocument { piece, line, range: range.clone(), name_end: self.names.len() });
    }

    /// Tokenizes all texts.
    pub(super) fn tokenize(&mut self, tokenizer: &dyn Tokenizer) -> Result<()> {
        let Self { texts, text_ends, ids, lengths, .. } = self;
        tokenizer.encode_texts(Texts::new(texts, text_ends), ids, lengths)
    }

    /// Returns the documents in order, each with its ids.
    pub(super) fn documents(&self) -> impl Iterator<Item = (DocumentRef<'_>, &[u32])> {
        let texts = Texts::new(&self.texts, &self.text_ends);
        let mut name = 0;
        let mut first = 0;
        texts.iter().zip(&self.places).zip(&self.lengths).map(move |((text, place), &length)| {
            let id = &self.names[std::mem::replace(&mut name, place.name_end)..place.name_end];
            let ids = &self.ids[std::mem::replace(&mut first, length)..length];
            (DocumentRef { id, text, piece: place.piece, line: place.line, range: place.range.clone() }, ids)
        })
    }

    /// Number of bytes of all texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.texts.len() - self.places.len()
    }

    /// Number of ids of all documents.
    pub(super) fn tokens(&self) -> u64 {
        self.ids.len() as u64
    }

    /// Removes the documents and keeps the buffers.
    pub(super) fn clear(&mut self) {
        let Self { texts, text_ends, names, places, ids, lengths } = self;
        texts.clear();
        text_ends.clear();
        names.clear();
        places.clear();
        ids.clear();
        lengths.clear();
    }
}
