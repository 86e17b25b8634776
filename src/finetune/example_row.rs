//! Row of an example, with the meaning of its logits.

use std::ops::Range;

use pipeline::labelled::LabelledRow;

/// Row of an example, and what its logits stand for.
#[derive(Clone, Debug, PartialEq)]
pub struct ExampleRow {
    /// Tokens and target.
    pub row: LabelledRow,
    /// Meaning of its logits.
    pub logits: RowLogits,
}

/// Meaning of the logits of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowLogits {
    /// They predict the example.
    Example,
    /// They predict an answer in a window over the passage.
    Passage {
        /// Position in the row of the first passage token.
        position: usize,
        /// Bytes of each passage token.
        bytes: Vec<Range<usize>>,
        /// Whether this window has the most context of each passage token.
        has_max_context: Vec<bool>,
    },
    /// Those at a position of the row, that of the mask, predict the example.
    Blank(usize),
    /// They predict words: the number of each word, and the position in the row of its first token.
    Words(Vec<(usize, usize)>),
}
