//! Words that a tokenizer has no token for: what of a text is lost on it.

use std::collections::BTreeMap;

use crate::Result;
use crate::tokenize::Tokenizer;

/// Words of a segment that are looked at: a corpus in a foreign script is told of within a second.
const LOOKED_AT: u64 = 20_000;

/// Different ones that are counted at a time.
const COUNTED: usize = 1000;

/// Those that are kept of a segment.
const KEPT: usize = 20;

/// Letters of a word that are shown.
const LETTERS: usize = 40;

/// Counts over one segment. What is counted is a function of its text.
#[derive(Debug, Default)]
pub(super) struct Unknowns {
    looked_at: u64,
    words: BTreeMap<String, u64>,
}

impl Unknowns {
    /// Looks at a document in which something became that id.
    pub(super) fn look(&mut self, text: &str, tokenizer: &dyn Tokenizer, unknown: u32) -> Result<()> {
        let left = usize::try_from(LOOKED_AT - self.looked_at).unwrap_or(usize::MAX);
        for word in text.split_whitespace().take(left) {
            self.looked_at += 1;
            if !tokenizer.ids(word)?.contains(&unknown) {
                continue;
            }
            let mut is_told = false;
            // A character that is foreign by itself says more than the word that it stands in.
            for character in word.chars().take(LETTERS) {
                let mut buffer = [0; 4];
                let letter: &str = character.encode_utf8(&mut buffer);
                if tokenizer.ids(letter)?.contains(&unknown) {
                    self.count(letter);
                    is_told = true;
                }
            }
            if !is_told {
                self.count(&word.chars().take(LETTERS).collect::<String>());
            }
        }
        Ok(())
    }

    fn count(&mut self, word: &str) {
        if let Some(count) = self.words.get_mut(word) {
            *count += 1;
        } else if self.words.len() < COUNTED {
            self.words.insert(word.to_owned(), 1);
        }
    }

    /// The most frequent ones.
    pub(super) fn into_most_frequent(self) -> Vec<(String, u64)> {
        most_frequent(self.words, KEPT)
    }
}

/// The most frequent words first; of equally frequent ones the first of the alphabet.
pub(super) fn most_frequent(words: BTreeMap<String, u64>, count: usize) -> Vec<(String, u64)> {
    let mut words: Vec<_> = words.into_iter().collect();
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    words.truncate(count);
    words
}
