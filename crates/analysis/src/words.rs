//! Words of a row: tokens up to the next one that begins a word.

use std::ops::Range;

use schemas::Vocab;

/// Word of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowWord {
    /// Positions of its tokens.
    pub range: Range<usize>,
    /// Text, in the spelling of the tokenizer.
    pub text: String,
}

/// Returns the words of a row, without special tokens.
pub(crate) fn words(vocab: &Vocab, ids: &[u32]) -> Vec<RowWord> {
    let mut words: Vec<RowWord> = Vec::new();
    let mut is_inside = false;
    for (at, &id) in ids.iter().enumerate() {
        if vocab.is_special(id) {
            is_inside = false;
            continue;
        }
        let text = piece(vocab.token(id));
        match words.last_mut().filter(|_| is_inside && !vocab.is_word_start(id)) {
            Some(word) => {
                word.range.end = at + 1;
                word.text += text;
            }
            None => words.push(RowWord { range: at..at + 1, text: text.to_owned() }),
        }
        is_inside = true;
    }
    words
}

/// Returns the text of a token without the marks of WordPiece, byte-level BPE and `SentencePiece`.
fn piece(token: &str) -> &str {
    let token = token.strip_prefix("##").unwrap_or(token);
    token.trim_start_matches(['Ġ', '▁'])
}
