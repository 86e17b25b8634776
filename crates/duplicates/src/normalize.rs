//! Normalization of text for comparisons. This is the one definition of a *word* for duplicates and decontamination.
//!
//! 1. The text is cut at every ASCII character that is neither a letter nor a digit: white space, punctuation, symbols,
//!    control characters.
//! 2. Each piece with other characters is converted to Unicode NFKC with full case folding
//!    ([`fold_case`](crate::fold_case)).
//! 3. A word is a maximal run of letters, digits (`char::is_alphanumeric`) and combining marks. All other characters
//!    separate words and are dropped. In scripts without spaces between words (Han, kana, Thai, Lao, Myanmar, Khmer),
//!    each letter is a word.
//!
//! The normalized text is its words, separated by single spaces. `Don't — “Naïve” ﬁle!` becomes `don t naïve file`.

use std::mem::take;
use std::ops::Range;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, is_nfkc_quick};

use crate::case_folding::{fold_case_into, is_unspaced};
use crate::word_hash::{WordHash, hash_word};

/// Maximum memory that is kept from a longer document.
const KEPT_BYTES: usize = 1 << 20;

/// Bytes that are folded at a time, and more up to the next separator.
const FOLDED_BYTES: usize = 1 << 16;

/// Mark of ASCII characters that separate words.
const SEPARATOR: u8 = 0;

/// Mark of bytes of characters that are not ASCII.
const OTHER: u8 = 255;

/// Lowercase form of ASCII letters and digits, or a mark.
const BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte: u8 = 0;
    loop {
        table[byte as usize] = match byte {
            128.. => OTHER,
            _ if byte.is_ascii_alphanumeric() => byte.to_ascii_lowercase(),
            _ => SEPARATOR,
        };
        if byte == 255 {
            break table;
        }
        byte += 1;
    }
};

/// Normalized text of a document.
#[derive(Clone, Copy, Debug)]
pub struct Normalized<'a> {
    /// Words, separated by single spaces.
    pub text: &'a str,
    /// Hash of each word.
    pub words: &'a [u64],
}

impl Normalized<'_> {
    /// Returns the bytes of a run of words in the rest of the text that begins at byte `rest`, a word: `first` words of
    /// the rest are skipped.
    ///
    /// # Panics
    /// If the rest has fewer words.
    pub(crate) fn run_in(&self, rest: usize, first: usize, words: usize) -> Range<usize> {
        let mut spaces = self.text[rest..].match_indices(' ').map(|(at, _)| rest + at);
        let start = if first == 0 { rest } else { spaces.nth(first - 1).expect("the word exists") + 1 };
        start..spaces.nth(words - 1).unwrap_or(self.text.len())
    }
}

/// Normalizer, which reuses its memory.
#[derive(Debug, Default)]
pub struct Normalizer {
    /// UTF-8: each word with a space after it.
    text: Vec<u8>,
    words: Vec<u64>,
    /// Folded piece.
    folded: String,
}

impl Normalizer {
    /// Normalizes a text.
    pub fn normalize(&mut self, text: &str) -> Normalized<'_> {
        self.text.clear();
        self.words.clear();
        // The memory of a longer document is not kept.
        self.text.shrink_to(KEPT_BYTES.max(text.len() + 1));
        self.words.shrink_to(KEPT_BYTES / size_of::<u64>());
        self.folded.shrink_to(KEPT_BYTES);
        self.text.reserve(text.len() + 1);
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            let begin = self.text.len();
            let mut hash = WordHash::new();
            let mut last = 0;
            while at < bytes.len() {
                last = BYTES[usize::from(bytes[at])];
                if matches!(last, SEPARATOR | OTHER) {
                    break;
                }
                self.text.push(last);
                hash.push(last);
                at += 1;
            }
            if last == OTHER {
                self.text.truncate(begin);
                let is_in_piece = |byte: &&u8| BYTES[usize::from(**byte)] != SEPARATOR;
                at = start + bytes[start..].iter().take_while(is_in_piece).count();
                self.push_unicode(&text[start..at]);
            } else if begin < self.text.len() {
                self.words.push(hash.finish());
                self.text.push(b' ');
            }
            at += 1;
        }
        self.text.truncate(self.text.len().saturating_sub(1));
        Normalized { text: std::str::from_utf8(&self.text).expect("made of characters"), words: &self.words }
    }

    fn push_unicode(&mut self, mut piece: &str) {
        let mut folded = take(&mut self.folded);
        while !piece.is_empty() {
            let (first, rest) = piece.split_at(end_of_first(piece));
            fold_case_into(first, &mut folded);
            self.push_characters(&folded);
            piece = rest;
        }
        self.folded = folded;
    }

    fn push_characters(&mut self, folded: &str) {
        let mut start = self.text.len();
        for character in folded.chars() {
            if is_unspaced(character) {
                self.end_word(start);
                start = self.text.len();
                self.push_character(character);
                self.end_word(start);
            } else if character.is_alphanumeric() || is_combining_mark(character) {
                self.push_character(character);
                continue;
            } else {
                self.end_word(start);
            }
            start = self.text.len();
        }
        self.end_word(start);
    }

    fn push_character(&mut self, character: char) {
        self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Ends the word that begins at that byte, if it has a character.
    fn end_word(&mut self, start: usize) {
        if start < self.text.len() {
            self.words.push(hash_word(&self.text[start..]));
            self.text.push(b' ');
        }
    }
}

/// Returns the end of the part of a piece that is folded first. It is before a separator, which combines with nothing.
fn end_of_first(piece: &str) -> usize {
    let is_separator = |character: char| {
        let is_of_word = character.is_alphanumeric() || is_combining_mark(character);
        !is_of_word && is_nfkc_quick(std::iter::once(character)) == IsNormalized::Yes
    };
    let mut ends = piece.char_indices().skip_while(|&(at, _)| at < FOLDED_BYTES);
    ends.find(|&(_, character)| is_separator(character)).map_or(piece.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normalized(text: &str) -> String {
        let mut normalizer = Normalizer::default();
        let found = normalizer.normalize(text);
        assert_eq!(found.text.split(' ').filter(|word| !word.is_empty()).count(), found.words.len());
        found.text.to_owned()
    }

    #[test]
    fn words_are_as_defined() {
        for (text, expected) in [
            ("Don't — “Naïve” ﬁle!", "don t naïve file"),
            ("well @-@ known , 1 @,@ 000", "well known 1 000"),
            ("well-known, 1,000", "well known 1 000"),
            ("Ｆｕｌｌ width², e\u{301}te\u{301}", "full width2 été"),
            ("中文 text漢字3 カナ", "中 文 text 漢 字 3 カ ナ"),
            ("नमस्ते ΣΑΣ", "नमस्ते σασ"),
            ("σας ΣΤΡΑΣΣΕ, Straße STRAẞE", "σασ στρασσε strasse strasse"),
            ("a\u{a0}b…c\u{200b}d", "a b c d"),
            ("  \n\t!?", ""),
            ("", ""),
        ] {
            assert_eq!(normalized(text), expected, "{text:?}");
        }
    }

    /// A text without ASCII separators is folded in several parts.
    #[test]
    fn a_long_piece_has_the_words_of_its_sentences() {
        let sentence = "Die Straße—für ΣΟΦΟΣ。";
        let words = normalized(sentence);
        assert_eq!(normalized(&sentence.repeat(9000)), vec![&*words; 9000].join(" "));
    }

    #[test]
    fn a_run_of_words_is_found_in_the_text() {
        let mut normalizer = Normalizer::default();
        let text = normalizer.normalize("One two, three four");
        let run = |first, words| &text.text[text.run_in(0, first, words)];
        assert_eq!([run(0, 2), run(1, 2), run(2, 2)], ["one two", "two three", "three four"]);
        assert_eq!((run(0, 4), run(3, 1)), ("one two three four", "four"));
        let second = text.run_in(0, 1, 1).start;
        assert_eq!(&text.text[text.run_in(second, 1, 2)], "three four", "counted from the second word");
    }

    proptest! {
        /// Case, punctuation, white space and composition do not matter, and a normalized text stays as it is.
        #[test]
        fn equal_texts_for_readers_are_equal(text in "\\PC{0,40}", words in "[a-z]{1,4}( [a-z]{1,4}){0,6}") {
            let once = normalized(&text);
            prop_assert_eq!(&normalized(&once), &once);
            // The capital of the dotless ı is that of i.
            if !text.contains('ı') {
                prop_assert_eq!(&normalized(&text.to_uppercase()), &once);
                prop_assert_eq!(&normalized(&text.to_lowercase()), &once);
            }
            prop_assert_eq!(normalized(&words.to_uppercase().replace(' ', " ,\n")), words.clone());
            prop_assert_eq!(normalized(&format!("“{words}”")), words);
        }
    }
}
