//! Byte-pair merges (Sennrich et al. 2016): repeatedly joins the most frequent pair of neighbours into one token.
//!
//! # Why not the crate's trainer
//! The crate keeps 32 bytes per character of every word and a hash set per pair, some 600 bytes a word. It counts pairs
//! in 32 bits and visits words in the order of a hash map. Here a character takes four bytes, a pair a list of the
//! words that may contain it, and counts have 64 bits. The merges are the same, in the same order (tests compare the
//! two).
//!
//! # Definition
//! The next pair is the one with the highest count; of equal ones that of the lower ids, the left one first. A pair is
//! replaced from left to right. Merging ends when the vocabulary is full, or when no pair is frequent enough. If two
//! pairs form the same token, the token keeps its first id. Its later pairs are then merged in the order in which their
//! words were found; the crate leaves that order to chance.
//!
//! # Memory
//! Four bytes per character and four to eight for each pair of neighbours, of all distinct words; 24 per word, some 200
//! per distinct pair. English has few pairs. Long, distinct words (hexadecimal numbers, phrases without spaces) have
//! pairs that take a multiple of the words' memory. So all of it is counted and limited.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::config::TokenizerConfig;
use super::count::Budget;
use super::pairs::{IdPair, Pairs};
use super::word_counts::WordCounts;
use crate::Result;

/// Tokens by id, and the merged pairs, in order.
pub(super) struct Merged {
    pub(super) tokens: Vec<String>,
    pub(super) merges: Vec<[String; 2]>,
}

/// Bytes of memory for each word. The next constants: for each counted pair, each candidate, and each word listed with
/// a candidate.
const WORD_BYTES: u64 = 24;
const COUNT_BYTES: u64 = 48;
const CANDIDATE_BYTES: u64 = 160;
const LISTED_BYTES: u64 = 8;

/// Number of words whose pairs are counted between two checks of the memory.
const WORDS_TOGETHER: u32 = 1024;

/// Merges pairs of the words' characters into tokens after the `leading` ones. Characters that are not among these are
/// omitted. Returns an error if the memory exceeds the budget.
pub(super) fn merge_pairs(
    config: &TokenizerConfig,
    words: &WordCounts,
    leading: Vec<String>,
    budget: Budget,
) -> Result<Merged> {
    let vocabulary = Vocabulary::new(config.kind.prefix(), leading);
    let mut text = Text::with_room(words);
    for (word, count) in words.iter() {
        text.push(vocabulary.characters(word), count);
    }
    let mut merger = Merger { vocabulary, text, ..Merger::default() };
    merger.begin(budget)?;
    while merger.vocabulary.tokens.len() < config.vocab_size as usize {
        let Some(candidate) = merger.next() else { break };
        if candidate.count < config.min_frequency.max(1) {
            break;
        }
        merger.merge(candidate);
        budget.allow_pairs(merger.held())?;
    }
    Ok(merger.into_merged())
}

/// Tokens with ids.
#[derive(Default)]
struct Vocabulary {
    prefix: &'static str,
    tokens: Vec<String>,
    ids: BTreeMap<String, u32>,
}

impl Vocabulary {
    fn new(prefix: &'static str, leading: Vec<String>) -> Self {
        let mut vocabulary = Self { prefix, ..Self::default() };
        for token in leading {
            vocabulary.id(token);
        }
        vocabulary
    }

    /// Returns the id of a token, and assigns one if it has none.
    fn id(&mut self, token: String) -> u32 {
        let next = u32::try_from(self.tokens.len()).expect("there are few ids");
        let id = *self.ids.entry(token.clone()).or_insert(next);
        if id == next {
            self.tokens.push(token);
        }
        id
    }

    /// Returns the ids of the characters of a word that have one.
    fn characters<'a>(&'a self, word: &'a str) -> impl Iterator<Item = u32> + 'a {
        word.chars().enumerate().filter_map(|(at, character)| {
            let alone = *self.ids.get(character.encode_utf8(&mut [0; 4]) as &str)?;
            if at == 0 || self.prefix.is_empty() {
                return Some(alone);
            }
            self.ids.get(&format!("{}{character}", self.prefix)).copied()
        })
    }

    /// Returns the token of a merged pair.
    fn joined(&self, (left, right): IdPair) -> String {
        let [left, right] = [left, right].map(|id| self.tokens[id as usize].as_str());
        format!("{left}{}", right.strip_prefix(self.prefix).unwrap_or(right))
    }
}

/// All words as ids, in one buffer.
#[derive(Default)]
struct Text {
    ids: Vec<u32>,
    words: Vec<Word>,
}

#[derive(Clone, Copy)]
struct Word {
    begin: usize,
    length: u32,
    count: u64,
}

impl Text {
    /// Creates an empty text with the exact capacity for these words.
    fn with_room(words: &WordCounts) -> Self {
        let characters = words.iter().map(|(word, _)| word.chars().count()).sum();
        Self { ids: Vec::with_capacity(characters), words: Vec::with_capacity(words.len()) }
    }

    /// Adds a word; a word without two neighbours has nothing to merge and is omitted.
    fn push(&mut self, ids: impl Iterator<Item = u32>, count: u64) {
        let begin = self.ids.len();
        self.ids.extend(ids);
        match self.ids.len() - begin {
            0 | 1 => self.ids.truncate(begin),
            length => {
                let length = u32::try_from(length).expect("a word is shorter than 4 GiB");
                self.words.push(Word { begin, length, count });
            }
        }
    }

    fn word(&self, number: u32) -> (&[u32], u64) {
        let Word { begin, length, count } = self.words[number as usize];
        (&self.ids[begin..begin + length as usize], count)
    }

    /// Replaces a pair in a word, from left to right, and reports removed and new pairs: with -1 and 1.
    fn replace(&mut self, number: u32, (left, right): IdPair, id: u32, mut tell: impl FnMut(IdPair, i64)) {
        let word = &mut self.words[number as usize];
        let ids = &mut self.ids[word.begin..word.begin + word.length as usize];
        let mut from = 0;
        let mut to = 0;
        while from < ids.len() {
            if ids[from] != left || ids.get(from + 1) != Some(&right) {
                ids[to] = ids[from];
                (from, to) = (from + 1, to + 1);
                continue;
            }
            if let Some(before) = to.checked_sub(1).map(|before| ids[before]) {
                tell((before, left), -1);
                tell((before, id), 1);
            }
            if let Some(&behind) = ids.get(from + 2) {
                tell((right, behind), -1);
                tell((id, behind), 1);
            }
            ids[to] = id;
            (from, to) = (from + 2, to + 1);
        }
        word.length = u32::try_from(to).expect("no longer than it was");
    }
}

/// Candidate for the next merge: a previous count, and words that contained it. The field order is the sort order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    count: u64,
    pair: Reverse<IdPair>,
    /// Number of the merge that created it.
    since: Reverse<usize>,
    words: Vec<u32>,
}

#[derive(Default)]
struct Merger {
    vocabulary: Vocabulary,
    text: Text,
    counts: Pairs<i64>,
    candidates: BinaryHeap<Candidate>,
    /// New pairs of the current merge, and the words that contain them.
    fresh: Pairs<Vec<u32>>,
    /// Number of words listed with pairs.
    listed: u64,
    merges: Vec<IdPair>,
}

impl Merger {
    /// Returns the approximate bytes of memory.
    fn held(&self) -> u64 {
        let ids = self.text.ids.capacity() * size_of::<u32>();
        ids as u64
            + self.text.words.len() as u64 * WORD_BYTES
            + self.counts.len() as u64 * COUNT_BYTES
            + (self.candidates.len() + self.fresh.len()) as u64 * CANDIDATE_BYTES
            + self.listed * LISTED_BYTES
    }

    /// Counts the pairs of all words.
    fn begin(&mut self, budget: Budget) -> Result<()> {
        for number in 0..u32::try_from(self.text.words.len()).expect("a tally numbers words by 32 bits") {
            let (ids, count) = self.text.word(number);
            for pair in ids.windows(2) {
                let pair = (pair[0], pair[1]);
                *self.counts.entry(pair) += count.cast_signed();
                self.listed += note(self.fresh.entry(pair), number);
            }
            if number % WORDS_TOGETHER == 0 {
                budget.allow_pairs(self.held())?;
            }
        }
        self.queue();
        budget.allow_pairs(self.held())
    }

    /// Returns the pair with the highest count.
    fn next(&mut self) -> Option<Candidate> {
        loop {
            let mut candidate = self.candidates.pop()?;
            let now = u64::try_from(*self.counts.entry(candidate.pair.0)).unwrap_or(0);
            if candidate.count == now {
                return Some(candidate);
            }
            // Other merges have reduced its count since then.
            candidate.count = now;
            self.candidates.push(candidate);
        }
    }

    fn merge(&mut self, Candidate { pair: Reverse(pair), words, .. }: Candidate) {
        let id = self.vocabulary.id(self.vocabulary.joined(pair));
        self.merges.push(pair);
        self.listed -= words.len() as u64;
        for number in words {
            let count = self.text.words[number as usize].count.cast_signed();
            self.text.replace(number, pair, id, |pair, change| {
                *self.counts.entry(pair) += change * count;
                if change > 0 {
                    self.listed += note(self.fresh.entry(pair), number);
                }
            });
        }
        self.queue();
    }

    /// Makes candidates of the new pairs.
    fn queue(&mut self) {
        let since = Reverse(self.merges.len());
        for (pair, words) in self.fresh.drain() {
            if let Ok(count @ 1..) = u64::try_from(*self.counts.entry(pair)) {
                self.candidates.push(Candidate { count, pair: Reverse(pair), since, words });
            } else {
                self.listed -= words.len() as u64;
            }
        }
    }

    fn into_merged(self) -> Merged {
        // A pair that was merged twice gets its last position, as in the crate.
        let last: BTreeMap<IdPair, usize> = self.merges.iter().copied().zip(0..).collect();
        let is_last = |(at, pair): &(usize, &IdPair)| last[*pair] == *at;
        let text = |id: u32| self.vocabulary.tokens[id as usize].clone();
        let merges = self.merges.iter().enumerate().filter(is_last);
        let merges = merges.map(|(_, &(left, right))| [text(left), text(right)]).collect();
        Merged { merges, tokens: self.vocabulary.tokens }
    }
}

/// Adds a word once; words come in order. Returns the number of words added.
fn note(words: &mut Vec<u32>, number: u32) -> u64 {
    let is_new = words.last() != Some(&number);
    if is_new {
        words.push(number);
    }
    u64::from(is_new)
}

#[cfg(test)]
mod tests;
