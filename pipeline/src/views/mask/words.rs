//! Whole words.

use std::ops::Range;

use schemas::Vocab;
use serde::{Deserialize, Serialize};

use super::positions::shuffle;
use crate::rng::RowAddress;

/// How many words are masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WordBudget {
    /// As many as fill a number of tokens; one that would overshoot is skipped.
    #[default]
    Skip,
    /// A number of words, however long.
    Words,
}

/// The largest share of words that is masked where words are counted.
pub(super) const SHARE_MAX: f64 = 0.25;

/// [`SHARE_MAX`] of `words`, rounded down.
pub(super) fn share_max(words: usize) -> usize {
    words / 4
}

/// Where the words of a row begin among the candidates `positions`, and behind the last one where it ends: word `w` is
/// `positions[borders[w]..borders[w + 1]]`. A special token is a word by itself.
pub(super) fn borders(ids: &[i32], positions: &[u16], vocab: &Vocab) -> Vec<u16> {
    let id = |position: u16| ids[usize::from(position)].cast_unsigned();
    let continues = |before: u16, position: u16| {
        let specials = vocab.is_special(id(before)) || vocab.is_special(id(position));
        before + 1 == position && !specials && !vocab.is_word_start(id(position))
    };
    let mut borders = Vec::with_capacity(positions.len() + 1);
    let mut before = None;
    for (index, &position) in (0..).zip(positions) {
        if !before.is_some_and(|before| continues(before, position)) {
            borders.push(index);
        }
        before = Some(position);
    }
    borders.push(u16::try_from(positions.len()).expect("positions are numbered in 16 bits"));
    borders
}

/// Takes words in random order until they have `size` tokens, skipping those that would overshoot.
pub(super) fn fill(size: usize, borders: &[u16], positions: &mut Vec<u16>, at: &RowAddress<'_>) -> usize {
    let words = in_random_order(borders, borders.len() - 1, at);
    let mut chosen = Vec::with_capacity(size);
    for word in words {
        if chosen.len() + word.len() <= size {
            chosen.extend_from_slice(&positions[word]);
        }
    }
    *positions = chosen;
    positions.len()
}

/// Takes the words of the numbers `part` in random order.
pub(super) fn take(part: Range<usize>, borders: &[u16], positions: &mut Vec<u16>, at: &RowAddress<'_>) -> usize {
    let words = in_random_order(borders, part.end, at);
    *positions = words[part].iter().flat_map(|word| &positions[word.clone()]).copied().collect();
    positions.len()
}

/// The words, the first `count` of which are a uniform choice in random order.
fn in_random_order(borders: &[u16], count: usize, at: &RowAddress<'_>) -> Vec<Range<usize>> {
    let mut words: Vec<_> = borders.windows(2).map(|word| usize::from(word[0])..usize::from(word[1])).collect();
    shuffle(&mut words, count, &mut at.rng("positions"));
    words
}
