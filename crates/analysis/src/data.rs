//! Tokenized data of an analysis. Ids are without the frame of a row (`[CLS]` and `[SEP]`); the model adds it.

/// Kind of data that an analysis reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataKind {
    /// Rows of a text.
    Rows,
    /// Pairs of texts or words.
    Pairs,
    /// Sentences of the command line.
    Sentences,
}

/// Data of an analysis: empty lists for the kinds that it does not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnalysisData {
    /// Rows of a text, by document. No row is empty.
    pub rows: Vec<TextRow>,
    /// Pairs of texts or words, in the order of their file.
    pub pairs: Vec<EncodedPair>,
    /// Sentences of the command line.
    pub sentences: Vec<EncodedSentence>,
}

/// Consecutive tokens of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRow {
    /// Number of the document. Rows of one document share it.
    pub document: usize,
    /// Ids.
    pub ids: Vec<u32>,
}

/// Pair of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPair {
    /// Line or row of the file, from 1.
    pub line: u64,
    /// Ids of the first text.
    pub first: Vec<u32>,
    /// Ids of the second text.
    pub second: Vec<u32>,
}

/// Sentence with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedSentence {
    /// Text.
    pub text: String,
    /// Ids.
    pub ids: Vec<u32>,
}
