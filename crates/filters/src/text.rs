//! Units of a text: characters, words, lines, sentence ends.
//!
//! A *word* is a run of characters without white space. A *line* ends with a line feed. A *character* is a Unicode scalar
//! value, as in Python.

use duplicates::fold_case;
use foldhash::fast::FixedState;
use unicode_normalization::char::is_combining_mark;

/// Set with a fixed hash function. Nothing iterates over it.
#[expect(clippy::disallowed_types, reason = "faster than a tree, and nothing iterates over it")]
pub(crate) type Seen<T> = std::collections::HashSet<T, FixedState>;

/// Map with a fixed hash function. Nothing iterates over it.
#[expect(clippy::disallowed_types, reason = "faster than a tree, and nothing iterates over it")]
pub(crate) type Index<K, V> = std::collections::HashMap<K, V, FixedState>;

/// Maximum length of the text that the rules about repetition examine. It bounds the memory of their tables.
pub(crate) const MAX_EXAMINED_BYTES: usize = 4 << 20;

/// Number of characters.
pub(crate) fn characters(text: &str) -> u64 {
    text.chars().count() as u64
}

/// Share of a part, 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Lines that are not blank, without white space at their ends.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty())
}

/// Whether a word has a letter or digit, so that it is not punctuation only.
pub(crate) fn is_wordlike(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

/// Whether a character is part of a word, not punctuation: a letter, a digit or a mark on one.
pub(crate) fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || is_combining_mark(character)
}

/// Returns the word without punctuation at its ends.
pub(crate) fn bare(word: &str) -> &str {
    word.trim_matches(|character: char| !is_of_word(character))
}

/// Maximum length of a word, relative to its folded form, in bytes. A mathematical letter has four bytes for one of ASCII.
const MAX_FOLDING: usize = 4;

/// Stop words, which are found in any case and Unicode form.
pub(crate) struct StopWords {
    words: Seen<String>,
    /// Length of the longest one in bytes.
    longest: usize,
}

impl StopWords {
    pub(crate) fn new(words: &[String]) -> Self {
        let words: Seen<String> = words.iter().map(|word| fold_case(word)).collect();
        Self { longest: words.iter().map(String::len).max().unwrap_or(0), words }
    }

    /// Returns the folded form of a stop word, with punctuation around it or not. Returns `None` for other words.
    pub(crate) fn find(&self, word: &str) -> Option<&str> {
        let word = bare(word);
        if word.len() > self.longest * MAX_FOLDING {
            return None;
        }
        if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return self.words.get(word).map(String::as_str);
        }
        self.words.get(&fold_case(word)).map(String::as_str)
    }
}

/// Whether a line ends with an ellipsis.
pub(crate) fn ends_with_ellipsis(line: &str) -> bool {
    line.ends_with('…') || line.ends_with("...")
}

/// Whether the character ends a sentence, in any of the common scripts.
pub(crate) fn is_sentence_end(character: char) -> bool {
    matches!(
        character,
        '.' | '!'
            | '?'
            | '…'
            | '‼'
            | '⁇'
            | '⁈'
            | '⁉'
            | '。'
            | '！'
            | '？'
            | '．'
            | '｡'
            | '।'
            | '॥'
            | '؟'
            | '۔'
            | '։'
            | '።'
            | '။'
            | '។'
    )
}

/// Whether the character is a closing quotation mark or bracket, which can follow the end of a sentence.
pub(crate) fn is_closing(character: char) -> bool {
    matches!(character, '"' | '\'' | '”' | '’' | '»' | '」' | '』' | ')' | ']')
}

/// Returns the text up to at most `most` bytes, at a character boundary.
pub(crate) fn front(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// Counts sentences: runs of [sentence ends](is_sentence_end) with closing marks after them, before white space or the end
/// of the text. The rest after the last one counts if it has a letter or digit.
pub(crate) fn sentences(text: &str) -> u64 {
    let mut count = 0;
    let mut is_open = false;
    let mut has_ended = false;
    for character in text.chars() {
        if is_sentence_end(character) {
            has_ended = is_open;
        } else if character.is_whitespace() {
            count += u64::from(has_ended);
            is_open &= !has_ended;
            has_ended = false;
        } else if !(has_ended && is_closing(character)) {
            // East Asian sentences follow each other without white space.
            let is_next = has_ended && !character.is_ascii() && character.is_alphanumeric();
            count += u64::from(is_next);
            is_open = is_open || character.is_alphanumeric();
            has_ended = false;
        }
    }
    count + u64::from(is_open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_before_white_space() {
        let cases = [
            ("", 0),
            ("...", 0),
            ("one", 1),
            ("One. Two! Three? ", 3),
            ("He said \"no.\" (Yes.) 3.5 is a number.", 3),
            ("Wait... what?!", 2),
            ("这是一句。这是二句！还有", 3),
        ];
        for (text, expected) in cases {
            assert_eq!(sentences(text), expected, "{text}");
        }
    }

    #[test]
    fn stop_words_are_found_in_any_case_and_form() {
        let list = ["τους", "über", "fußball", "में", "the"].map(str::to_owned);
        let words = StopWords::new(&list);
        let found =
            ["ΤΟΥΣ,", "U\u{308}BER", "FUSSBALL", "(FUẞBALL)", "में।", "“The”", "𝐭𝐡𝐞"].map(|word| words.find(word));
        let expected = ["τουσ", "über", "fussball", "fussball", "में", "the", "the"].map(Some);
        assert_eq!(found, expected);
        assert_eq!(["", "uber", "then", "—"].map(|word| words.find(word)), [None; 4]);
    }

    #[test]
    fn a_front_ends_at_a_character() {
        assert_eq!([front("aé中", 9), front("aé中", 3), front("aé中", 2), front("", 1)], ["aé中", "aé", "a", ""]);
    }
}
