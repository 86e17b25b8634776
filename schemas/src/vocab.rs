//! Vocabulary: the tokenizer facts that views need.

use serde::{Deserialize, Serialize};

use crate::alias::AliasTable;

/// Special ids that frames and maskers insert into rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecialIds {
    /// `[PAD]` or `<pad>`.
    pub pad: u32,
    /// `[UNK]` or `<unk>`; byte-level tokenizers may have none.
    pub unk: Option<u32>,
    /// `[CLS]` or `<s>`.
    pub cls: u32,
    /// `[SEP]` or `</s>`.
    pub sep: u32,
    /// `[MASK]` or `<mask>`.
    pub mask: u32,
}

impl SpecialIds {
    /// Returns all special ids.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        [self.pad, self.cls, self.sep, self.mask].into_iter().chain(self.unk)
    }
}

/// A vocabulary with its counts: one entry per id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocab {
    tokens: Vec<String>,
    word_starts: Vec<bool>,
    counts: Vec<u64>,
    special: SpecialIds,
    is_special: Vec<bool>,
    /// Two ranges (first id, length less one) that contain the special ids, with the widest gap between them.
    special_ranges: [(u32, u32); 2],
    ordinary: Vec<u32>,
    unigram: AliasTable,
}

impl Vocab {
    /// Creates a vocabulary from entries in id order. `specials` are the ids that are never masked and never drawn as
    /// random words; they always include those of [`SpecialIds`].
    ///
    /// # Panics
    /// If the three lists differ in length, an id is outside them, or all ids are special.
    #[must_use]
    pub fn new(
        tokens: Vec<String>,
        word_starts: Vec<bool>,
        counts: Vec<u64>,
        special: SpecialIds,
        specials: &[u32],
    ) -> Self {
        assert!(tokens.len() == word_starts.len() && tokens.len() == counts.len(), "one entry per id");
        let mut is_special = vec![false; tokens.len()];
        for id in special.iter().chain(specials.iter().copied()) {
            is_special[id as usize] = true;
        }
        let ordinary = Self::ordinary_ids(&tokens, special, specials);
        assert!(!ordinary.is_empty(), "a vocabulary has ordinary tokens");
        let unigram = AliasTable::new(ordinary.iter().map(|&id| counts[id as usize]));
        let special_ranges = two_ranges(&is_special);
        Self { tokens, word_starts, counts, special, is_special, special_ranges, ordinary, unigram }
    }

    /// Returns the vocabulary with other counts.
    ///
    /// # Panics
    /// If there is not one count per id.
    #[must_use]
    pub fn with_counts(mut self, counts: Vec<u64>) -> Self {
        assert_eq!(counts.len(), self.tokens.len(), "one entry per id");
        self.unigram = AliasTable::new(self.ordinary.iter().map(|&id| counts[id as usize]));
        Self { counts, ..self }
    }

    /// Returns the ids of `tokens` that may replace a token: neither special nor `[unusedN]`, ascending. At least one.
    #[must_use]
    pub fn ordinary_ids(tokens: &[String], special: SpecialIds, specials: &[u32]) -> Vec<u32> {
        let mut never: Vec<u32> = special.iter().chain(specials.iter().copied()).collect();
        never.sort_unstable();
        let is_unused = |token: &str| token.starts_with("[unused") && token.ends_with(']');
        let is_ordinary = |&(id, token): &(u32, &String)| never.binary_search(&id).is_err() && !is_unused(token);
        (0..).zip(tokens).filter(is_ordinary).map(|(id, _)| id).collect()
    }

    /// Returns the vocabulary without counts.
    #[must_use]
    pub fn uncounted(&self) -> Self {
        let unigram = AliasTable::new(self.ordinary.iter().map(|_| 0));
        Self { counts: vec![0; self.counts.len()], unigram, ..self.clone() }
    }

    /// Returns the number of ids.
    #[must_use]
    pub fn size(&self) -> u32 {
        u32::try_from(self.tokens.len()).expect("ids are 32-bit")
    }

    /// Returns the special ids.
    #[must_use]
    pub fn special(&self) -> SpecialIds {
        self.special
    }

    /// Returns true if `id` is never masked.
    #[inline]
    #[must_use]
    pub fn is_special(&self, id: u32) -> bool {
        self.is_special[id as usize]
    }

    /// Returns true if `id` is in one of the two ranges of special ids. Needs no table, for many ids at once. An id
    /// outside the ranges is not special.
    #[inline]
    #[must_use]
    pub fn is_among_specials(&self, id: u32) -> bool {
        let [a, b] = self.special_ranges;
        (id.wrapping_sub(a.0) <= a.1) | (id.wrapping_sub(b.0) <= b.1)
    }

    /// Returns the text of a token, as the tokenizer writes it (`##ing`, `Ġthe`).
    #[must_use]
    pub fn token(&self, id: u32) -> &str {
        &self.tokens[id as usize]
    }

    /// Returns true if a word begins at this token.
    #[must_use]
    pub fn is_word_start(&self, id: u32) -> bool {
        self.word_starts[id as usize]
    }

    /// Returns the occurrences of each id in the training split.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the ids that may replace a token: neither special nor `[unusedN]`, ascending.
    #[must_use]
    pub fn ordinary(&self) -> &[u32] {
        &self.ordinary
    }

    /// Draws an ordinary id in proportion to its count (uniform without counts), from a uniform number below
    /// `ordinary().len()` and 32 random bits.
    #[inline]
    #[must_use]
    pub fn unigram(&self, number: u32, coin: u32) -> u32 {
        self.ordinary[self.unigram.pick(number, coin) as usize]
    }

    /// Returns the id of a token.
    #[must_use]
    pub fn id(&self, token: &str) -> Option<u32> {
        self.tokens.iter().position(|known| known == token).and_then(|index| u32::try_from(index).ok())
    }

    /// Returns the natural logarithm of each id's share of the training split, with add-one smoothing for zero counts.
    #[must_use]
    pub fn unigram_log_probabilities(&self) -> Vec<f64> {
        let total: f64 = self.counts.iter().map(|&count| count as f64 + 1.0).sum();
        self.counts.iter().map(|&count| ((count as f64 + 1.0) / total).ln()).collect()
    }
}

/// Returns two ranges that contain all special ids, with the widest gap between them, each as first id and length less
/// one.
fn two_ranges(is_special: &[bool]) -> [(u32, u32); 2] {
    let ids: Vec<u32> = (0..).zip(is_special).filter(|(_, special)| **special).map(|(id, _)| id).collect();
    let widest = (1..ids.len()).max_by_key(|&at| ids[at] - ids[at - 1]).unwrap_or(0);
    let range = |ids: &[u32]| ids.first().map(|&first| (first, ids[ids.len() - 1] - first));
    let whole = range(&ids).expect("there are special ids");
    [range(&ids[..widest]).unwrap_or(whole), range(&ids[widest..]).unwrap_or(whole)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_words_are_neither_special_nor_unused() {
        let tokens = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[extra]", "the", "##s"];
        let special = SpecialIds { pad: 0, unk: Some(2), cls: 3, sep: 4, mask: 5 };
        let vocab = Vocab::new(tokens.map(String::from).to_vec(), vec![true; 9], vec![1; 9], special, &[6]);
        assert_eq!(vocab.ordinary(), [7, 8]);
        assert!(vocab.is_special(6) && !vocab.is_special(1));
    }

    #[test]
    fn special_ids_lie_among_specials_and_few_others_do() {
        let vocab = |special: SpecialIds, specials: &[u32]| {
            let tokens: Vec<String> = (0..300).map(|id| format!("w{id}")).collect();
            Vocab::new(tokens, vec![true; 300], vec![1; 300], special, specials)
        };
        let bert = SpecialIds { pad: 0, unk: Some(100), cls: 101, sep: 102, mask: 103 };
        let roberta = SpecialIds { pad: 1, unk: Some(3), cls: 0, sep: 2, mask: 299 };
        let one = SpecialIds { pad: 7, unk: None, cls: 7, sep: 7, mask: 7 };
        for (special, specials, expected) in
            [(bert, &[][..], 5), (roberta, &[], 5), (one, &[], 1), (roberta, &[150], 152), (bert, &[5], 10)]
        {
            let vocab = vocab(special, specials);
            assert!((0..300).all(|id| !vocab.is_special(id) || vocab.is_among_specials(id)), "{special:?}");
            assert_eq!((0..300).filter(|&id| vocab.is_among_specials(id)).count(), expected, "{special:?}");
        }
    }
}
