//! Masking of whole words.

use std::ops::Range;

use schemars::JsonSchema;
use schemas::Vocab;
use serde::{Deserialize, Serialize};

use super::positions::shuffled;
use crate::rng::{Rng, RowAddress};

/// Rule for the number of masked words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WordBudget {
    /// As many words as fill a number of tokens; words that would overshoot are skipped.
    #[default]
    Skip,
    /// A number of words of any length.
    Words,
}

/// Largest share of masked words if words are counted.
pub(super) const SHARE_MAX: f64 = 0.25;

/// Returns [`SHARE_MAX`] of `words`, rounded down.
pub(super) fn share_max(words: usize) -> usize {
    words / 4
}

/// Returns the starts of a row's words among the candidates `positions`, and the end of the last one. Word `w` is
/// `positions[borders[w]..borders[w + 1]]`. A special token is a separate word.
pub(super) fn borders(ids: &[i32], positions: &[u16], vocab: &Vocab) -> Vec<u16> {
    let mut borders = vec![0; positions.len() + 1];
    let mut count = 0;
    // No token can be adjacent to this initial position.
    let mut before = (u16::MAX - 1, false);
    for (index, &position) in (0..).zip(positions) {
        let id = ids[usize::from(position)].cast_unsigned();
        // The range test is cheap and rarely true, so that few ids need the table.
        let special = vocab.is_among_specials(id) && vocab.is_special(id);
        let apart = position != before.0 + 1;
        // Branch-free: starts of words are unpredictable.
        borders[count] = index;
        count += usize::from(apart | special | before.1 | vocab.is_word_start(id));
        before = (position, special);
    }
    borders.truncate(count);
    borders.push(u16::try_from(positions.len()).expect("positions are numbered in 16 bits"));
    borders
}

/// Selects words in random order until they have `size` tokens; skips words that would overshoot.
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

/// Selects the words with the indices `part` in random order.
pub(super) fn select(part: Range<usize>, borders: &[u16], positions: &mut Vec<u16>, at: &RowAddress<'_>) -> usize {
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
