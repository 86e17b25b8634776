//! Splitting of text into raw words, and of a raw word into the words to train on.
//!
//! # Idea
//! The crate's normalizer and pre-tokenizer take some 2 µs a word and 40 bytes per byte of text. So text is cut into
//! *raw words* first, at positions that neither of them looks across. Raw words are counted, and the crate splits each
//! distinct one once, at the end.
//!
//! # Invariants
//! - The words of a line are those of its raw words, in order: the counts are those of splitting by the crate line by
//!   line (tests compare the two).
//! - The class of a character in either family comes from the crate (`Characters`, `Classes`), never from a separate
//!   table.

use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    NormalizedString, Normalizer as _, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _,
};

use super::word_counts::WordCounts;
use crate::tokenize::{Character, Characters, Classes, first_pre_token};
use crate::{Error, Result};

/// Text splitter of a family.
pub(super) trait Split: Send + Sync {
    /// Counts the raw words of a text.
    fn count(&self, text: &str, raw: &mut WordCounts);

    /// Passes the words of a raw word to `put`.
    fn words(&self, raw: &str, put: &mut dyn FnMut(&str)) -> Result<()>;
}

/// BERT's splitter: a raw word ends before white space or a character that is a separate word (punctuation, Chinese).
/// The normalizer processes single characters, except for the order of marks, which never involves such a character.
pub(super) struct BertSplit {
    normalizer: BertNormalizer,
    characters: Characters,
    /// Roles of the ASCII characters.
    ascii: [Role; 128],
}

/// Effect of a character on the current raw word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Goes,
    Ends,
    Stands,
}

impl BertSplit {
    pub(super) fn new(lowercase: bool) -> Self {
        let normalizer = BertNormalizer::new(true, true, None, lowercase);
        let mut split = Self { normalizer, characters: Characters::new(normalizer), ascii: [Role::Goes; 128] };
        split.ascii = std::array::from_fn(|code| split.role(char::from(u8::try_from(code).expect("ASCII"))));
        split
    }

    fn classify(&self, character: char) -> Character<'_> {
        // Ids of words are not needed.
        self.characters.classify(character, |_| 0)
    }

    fn role(&self, character: char) -> Role {
        match self.classify(character) {
            Character::White => Role::Ends,
            Character::SeparateWord(_) => Role::Stands,
            Character::Kept | Character::Mapped(_) | Character::Gone | Character::Unknown => Role::Goes,
        }
    }

    /// Returns the role and the length in bytes of the character that begins at `at`.
    #[inline]
    fn at(&self, text: &str, at: usize) -> (Role, usize) {
        match self.ascii.get(usize::from(text.as_bytes()[at])) {
            Some(&role) => (role, 1),
            None => text[at..].chars().next().map_or((Role::Ends, 1), |wide| (self.role(wide), wide.len_utf8())),
        }
    }

    /// Splits a raw word into words with the crate.
    fn split_by_crate(&self, raw: &str, put: &mut dyn FnMut(&str)) -> tokenizers::Result<()> {
        let mut normalized = NormalizedString::from(raw);
        self.normalizer.normalize(&mut normalized)?;
        let mut words = PreTokenizedString::from(normalized);
        BertPreTokenizer.pre_tokenize(&mut words)?;
        let splits = words.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
        for (word, ..) in splits {
            put(word);
        }
        Ok(())
    }
}

impl Split for BertSplit {
    fn count(&self, text: &str, raw: &mut WordCounts) {
        let mut begin = 0;
        let mut at = 0;
        while at < text.len() {
            let (role, length) = self.at(text, at);
            let end = at + length;
            if role != Role::Goes {
                if begin < at {
                    raw.add(&text[begin..at], 1);
                }
                if role == Role::Stands {
                    raw.add(&text[at..end], 1);
                }
                begin = end;
            }
            at = end;
        }
        if begin < at {
            raw.add(&text[begin..], 1);
        }
    }

    fn words(&self, raw: &str, put: &mut dyn FnMut(&str)) -> Result<()> {
        let mut word = Vec::with_capacity(raw.len());
        for character in raw.chars() {
            match self.classify(character) {
                Character::Kept => word.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                Character::Mapped(written) => word.extend_from_slice(written),
                Character::Gone => {}
                Character::White | Character::SeparateWord(_) | Character::Unknown => {
                    return self.split_by_crate(raw, put).map_err(|error| unsplittable(&error));
                }
            }
        }
        if !word.is_empty() {
            put(&String::from_utf8_lossy(&word));
        }
        Ok(())
    }
}

/// Splitter of the byte-level families: raw words are the matches of GPT-2's regular expression in a line, and a word
/// is its bytes, each written as a character.
pub(super) struct ByteSplit {
    classes: &'static Classes,
    /// Written form of each byte.
    written: [char; 256],
}

impl ByteSplit {
    pub(super) fn new() -> Result<Self> {
        let mut written = ['\0'; 256];
        // Characters that cover all bytes that occur in UTF-8: ASCII, all continuation bytes, and every leading byte.
        // Other bytes never occur.
        let beginnings = (0xC2..=0xF4_u32).filter_map(|lead| {
            char::from_u32(match lead {
                0xC2..=0xDF => (lead & 0x1F) << 6,
                0xE0 => 0x800,
                0xE1..=0xEF => (lead & 0x0F) << 12,
                0xF0 => 0x1_0000,
                _ => (lead & 0x07) << 18,
            })
        });
        for character in ('\0'..='\u{BF}').chain(beginnings) {
            let text = character.to_string();
            let mut split = PreTokenizedString::from(text.as_str());
            ByteLevel::new(false, true, false).pre_tokenize(&mut split).map_err(|error| unsplittable(&error))?;
            let splits = split.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
            let letters = splits.into_iter().flat_map(|(word, ..)| word.chars().collect::<Vec<_>>());
            text.bytes().zip(letters).for_each(|(byte, letter)| written[usize::from(byte)] = letter);
        }
        Ok(Self { classes: Classes::of_the_crate(), written })
    }
}

impl Split for ByteSplit {
    fn count(&self, text: &str, raw: &mut WordCounts) {
        // One line at a time: the split of white space at its end depends on the line.
        for line in text.split_inclusive('\n') {
            let mut rest = line;
            while !rest.is_empty() {
                let (word, tail) = rest.split_at(first_pre_token(self.classes, rest.as_bytes()));
                raw.add(word, 1);
                rest = tail;
            }
        }
    }

    fn words(&self, raw: &str, put: &mut dyn FnMut(&str)) -> Result<()> {
        put(&raw.bytes().map(|byte| self.written[usize::from(byte)]).collect::<String>());
        Ok(())
    }
}

fn unsplittable(error: &tokenizers::Error) -> Error {
    Error::UnusableCorpus(format!("the corpus cannot be split into words: {error}"))
}

#[cfg(test)]
mod tests;
