//! Short documents that are tokenized together.
//!
//! A document of a few hundred bytes costs as much for what is done once for each (taking a worker, clocks, counters
//! that workers share) as for some of its tokens. Here that is done once for a hundred of them.

use std::ops::Range;

use crate::Result;
use crate::tokenize::{Texts, Tokenizer};

/// Text that is tokenized together: it and its ids stay in the second-level cache.
const BYTES: usize = 32 << 10;

/// A document in hand, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DocumentRef<'a> {
    pub(super) id: &'a str,
    pub(super) text: &'a str,
    /// Index of its piece within the part.
    pub(super) piece: usize,
    /// The line on which it begins, 0-based, within the piece.
    pub(super) line: u64,
    /// Bytes of the decompressed file, or rows of a Parquet file.
    pub(super) range: Range<u64>,
}

/// Documents that wait, and their ids: in memory that is kept for the next ones.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Their texts, as [`Texts`] has them, and where each ends.
    texts: String,
    text_ends: Vec<usize>,
    /// Their names, one behind the other.
    names: String,
    places: Vec<Place>,
    ids: Vec<u32>,
    lengths: Vec<usize>,
}

/// Where a document stands in the corpus, and where its name ends.
#[derive(Debug)]
struct Place {
    piece: usize,
    line: u64,
    range: Range<u64>,
    name_end: usize,
}

impl Batch {
    /// Whether a document is short enough to wait for others: its name is held, too.
    pub(super) fn is_short(document: &DocumentRef<'_>) -> bool {
        document.id.len() + document.text.len() <= BYTES / 8
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether there is enough for it to be tokenized.
    pub(super) fn is_full(&self) -> bool {
        self.texts.len() + self.names.len() >= BYTES
    }

    /// Takes in a document.
    pub(super) fn push(&mut self, document: &DocumentRef<'_>) {
        let DocumentRef { id, text, piece, line, ref range } = *document;
        self.texts.push_str(text);
        self.text_ends.push(self.texts.len());
        self.texts.push(Texts::BETWEEN);
        self.names.push_str(id);
        self.places.push(Place { piece, line, range: range.clone(), name_end: self.names.len() });
    }

    /// Makes ids of all texts.
    pub(super) fn tokenize(&mut self, tokenizer: &dyn Tokenizer) -> Result<()> {
        let Self { texts, text_ends, ids, lengths, .. } = self;
        tokenizer.encode_texts(Texts::new(texts, text_ends), ids, lengths)
    }

    /// The documents in order, each with its ids.
    pub(super) fn documents(&self) -> impl Iterator<Item = (DocumentRef<'_>, &[u32])> {
        let texts = Texts::new(&self.texts, &self.text_ends);
        let (mut name, mut first) = (0, 0);
        texts.iter().zip(&self.places).zip(&self.lengths).map(move |((text, place), &length)| {
            let id = &self.names[std::mem::replace(&mut name, place.name_end)..place.name_end];
            let ids = &self.ids[std::mem::replace(&mut first, length)..length];
            (DocumentRef { id, text, piece: place.piece, line: place.line, range: place.range.clone() }, ids)
        })
    }

    /// Bytes of all texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.texts.len() - self.places.len()
    }

    /// The ids of all documents.
    pub(super) fn tokens(&self) -> u64 {
        self.ids.len() as u64
    }

    /// Forgets the documents, and keeps their memory.
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
