//! Conversion of a chunk to ids by tables alone, without a cache or other state.
//!
//! # Budget
//! 20 ns for a token of English (a walk through a trie of a quarter of a megabyte), 9 ns for one of Chinese.

use tokenizers::Model as _;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;

use super::cache_slot::KEY_BYTES;
use super::characters::{Character, Characters};
use super::trie::Trie;

/// WordPiece with BERT's normalizer.
pub(super) struct Vocabulary {
    characters: Characters,
    /// True if letters are converted to lower case.
    folds: bool,
    /// First pieces of words, and continuation pieces.
    beginnings: Trie,
    continuations: Trie,
    unknown: u32,
    /// Maximum characters of a word that is split.
    characters_max: usize,
    /// Words listed by [`whole_words`](Self::whole_words).
    common: Vec<String>,
}

impl Vocabulary {
    /// Builds the tables, or returns the reason why there are none.
    pub(super) fn new(model: &WordPiece, normalizer: BertNormalizer) -> Result<Self, String> {
        let mut vocabulary: Vec<(String, u32)> = model.get_vocab().into_iter().collect();
        vocabulary.sort_unstable_by_key(|(_, id)| *id);
        let unknown = model.token_to_id(&model.unk_token).ok_or("its unknown token is not in its vocabulary")?;
        let prefix = model.continuing_subword_prefix.as_str();
        let all = || vocabulary.iter().map(|(token, id)| (token.as_bytes(), *id));
        let behind = |(token, id): (_, u32)| <[u8]>::strip_prefix(token, prefix.as_bytes()).map(|rest| (rest, id));
        let beginnings = Trie::new(all().collect());
        let continuations = Trie::new(all().filter_map(behind).collect());
        let folds = normalizer.lowercase;
        let is_chunk = |token: &str| {
            let is_word =
                token.bytes().all(|byte| byte.is_ascii_alphanumeric() && !(folds && byte.is_ascii_uppercase()));
            let is_mark = token.len() == 1 && token.as_bytes()[0].is_ascii_punctuation();
            (1..=KEY_BYTES).contains(&token.len()) && (is_word || is_mark)
        };
        let common = vocabulary.iter().map(|(token, _)| token).filter(|token| is_chunk(token)).cloned().collect();
        Ok(Self {
            characters: Characters::new(normalizer),
            folds,
            beginnings,
            continuations,
            unknown,
            characters_max: model.max_input_chars_per_word,
            common,
        })
    }

    /// Returns the effect on a character.
    #[inline]
    pub(super) fn character(&self, character: char) -> Character<'_> {
        self.characters.classify(character, |alone| self.id_alone(alone))
    }

    /// Returns the id of a word of one character, which may be the unknown token.
    pub(super) fn id_alone(&self, character: &str) -> u32 {
        let mut ids = Vec::new();
        self.append_word(character.as_bytes(), &mut ids);
        debug_assert_eq!(ids.len(), 1);
        ids[0]
    }

    pub(super) fn folds(&self) -> bool {
        self.folds
    }

    /// Returns ASCII words and marks of the vocabulary that are chunks, with their ids. Low ids come first: they are
    /// the frequent ones.
    pub(super) fn whole_words(&self) -> impl Iterator<Item = (&str, Vec<u32>)> {
        self.common.iter().map(|word| {
            let mut ids = Vec::new();
            self.append_word(word.as_bytes(), &mut ids);
            (word.as_str(), ids)
        })
    }

    /// Appends the ids of a chunk. Returns false if only the crate can encode it. `word` is a work buffer.
    pub(super) fn append(&self, chunk: &str, word: &mut Vec<u8>, ids: &mut Vec<u32>) -> bool {
        let before = ids.len();
        // A longer word has more characters than any word that is split.
        let bytes_max = self.characters_max.saturating_mul(4);
        let put = |word: &mut Vec<u8>, text: &[u8]| {
            if word.len() <= bytes_max {
                word.extend_from_slice(text);
            }
        };
        word.clear();
        for character in chunk.chars() {
            match self.character(character) {
                Character::Kept => put(word, character.encode_utf8(&mut [0; 4]).as_bytes()),
                Character::Mapped(text) => put(word, text),
                Character::Gone => {}
                Character::White => self.end_word(word, ids),
                Character::SeparateWord(id) => {
                    self.end_word(word, ids);
                    ids.push(id);
                }
                Character::Unknown => {
                    ids.truncate(before);
                    return false;
                }
            }
        }
        self.end_word(word, ids);
        true
    }

    #[inline]
    fn end_word(&self, word: &mut Vec<u8>, ids: &mut Vec<u32>) {
        if !word.is_empty() {
            self.append_word(word, ids);
            word.clear();
        }
    }

    /// Appends the ids of a normalized word: the longest first piece, then the longest continuation, and so on; or the
    /// unknown token.
    #[inline]
    pub(super) fn append_word(&self, word: &[u8], ids: &mut Vec<u32>) {
        let before = ids.len();
        let mut rest = word;
        let mut trie = &self.beginnings;
        while !rest.is_empty() {
            let Some((length, id)) = trie.longest(rest) else {
                ids.truncate(before);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            (rest, trie) = (&rest[length..], &self.continuations);
        }
        let is_long = word.len() > self.characters_max;
        if is_long && word.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() > self.characters_max {
            ids.truncate(before);
            ids.push(self.unknown);
        }
    }
}
