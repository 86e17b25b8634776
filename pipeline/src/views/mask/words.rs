//! Whole words.

use std::ops::Range;

use schemars::JsonSchema;
use schemas::Vocab;
use serde::{Deserialize, Serialize};

use super::positions::shuffled;
use crate::rng::{Rng, RowAddress};

/// How many words are masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    let mut borders = vec![0; positions.len() + 1];
    let mut count = 0;
    // No row is so long that a token could come right after this one.
    let mut before = (u16::MAX - 1, false);
    for (index, &position) in (0..).zip(positions) {
        let id = ids[usize::from(position)].cast_unsigned();
        // Hardly any id lies there: the table is asked of few.
        let special = vocab.is_among_specials(id) && vocab.is_special(id);
        let apart = position != before.0 + 1;
        // Written without a branch: where words begin is unpredictable.
        borders[count] = index;
        count += usize::from(apart | special | before.1 | vocab.is_word_start(id));
        before = (position, special);
    }
    borders.truncate(count);
    borders.push(u16::try_from(positions.len()).expect("positions are numbered in 16 bits"));
    borders
}

/// Takes words in random order until they have `size` tokens, skipping those that would overshoot.
pub(super) fn fill(size: usize, borders: &[u16], positions: &mut Vec<u16>, at: &RowAddress<'_>) -> usize {
    let mut rng = at.rng("positions");
    let mut words = in_random_order(borders, &mut rng);
    let mut chosen = Vec::with_capacity(size);
    while chosen.len() < size
        && let Some(word) = words.next()
    {
        if chosen.len() + word.len() <= size {
            chosen.extend_from_slice(&positions[word]);
        }
    }
    *positions = chosen;
    positions.len()
}

/// Takes the words of the numbers `part` in random order.
pub(super) fn take(part: Range<usize>, borders: &[u16], positions: &mut Vec<u16>, at: &RowAddress<'_>) -> usize {
    let mut rng = at.rng("positions");
    let mut chosen = Vec::with_capacity(positions.len());
    for word in in_random_order(borders, &mut rng).skip(part.start).take(part.len()) {
        chosen.extend_from_slice(&positions[word]);
    }
    *positions = chosen;
    positions.len()
}

fn in_random_order(borders: &[u16], rng: &mut Rng) -> impl Iterator<Item = Range<usize>> {
    let words: Vec<(u16, u16)> = borders.windows(2).map(|word| (word[0], word[1])).collect();
    shuffled(words, rng).map(|(begin, end)| usize::from(begin)..usize::from(end))
}
