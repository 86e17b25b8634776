//! Replacement of the selected tokens.

use std::hint::select_unpredictable;
use std::ops::Range;

use schemars::JsonSchema;
use schemas::Vocab;
use serde::{Deserialize, Serialize};

use crate::rng::RowAddress;

/// Distribution of random tokens. Special and `[unusedN]` tokens are excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RandomWords {
    /// Uniform.
    #[default]
    Uniform,
    /// In proportion to the frequency in the training split.
    Unigram,
}

impl RandomWords {
    /// Writes a random token to each of `positions`.
    pub(crate) fn write(self, positions: &[u16], vocab: &Vocab, at: &RowAddress<'_>, ids: &mut [i32]) {
        let mut rng = at.rng("words");
        let ordinary = u32::try_from(vocab.ordinary().len()).expect("ids are 32-bit");
        match self {
            Self::Uniform => {
                for &position in positions {
                    ids[usize::from(position)] = vocab.ordinary()[rng.below(ordinary) as usize].cast_signed();
                }
            }
            Self::Unigram => {
                for &position in positions {
                    let id = vocab.unigram(rng.below(ordinary), rng.next_u32());
                    ids[usize::from(position)] = id.cast_signed();
                }
            }
        }
    }
}

/// Number of draws at once.
const DRAWN: usize = 128;

/// Decides for each of `positions[..count]` independently: writes `[MASK]`, and returns the positions of random words.
///
/// Branch-free, since the decisions are unpredictable: the positions of random words are collected after the selected
/// ones.
pub(super) fn each<'a>(
    positions: &'a mut Vec<u16>,
    count: usize,
    [masked, random, _]: [u32; 3],
    vocab: &Vocab,
    at: &RowAddress<'_>,
    ids: &mut [i32],
) -> &'a [u16] {
    let mask = vocab.special().mask.cast_signed();
    positions.resize(2 * count + 1, 0);
    let (chosen, randoms) = positions.split_at_mut(count);
    let mut decisions = at.rng("decisions");
    let mut percents = [0; DRAWN];
    let mut random_count = 0;
    for chosen in chosen.chunks(DRAWN) {
        decisions.fill_below(100, &mut percents[..chosen.len()]);
        for (&position, &percent) in chosen.iter().zip(&percents) {
            let id = &mut ids[usize::from(position)];
            *id = select_unpredictable(percent < masked, mask, *id);
            randoms[random_count] = position;
            random_count += usize::from(percent.wrapping_sub(masked) < random);
        }
    }
    &randoms[..random_count]
}

/// Decides once for each run of adjacent positions among `positions[..count]`, left to right: writes `[MASK]`, and
/// returns the positions of random words.
pub(super) fn runs<'a>(
    positions: &'a mut Vec<u16>,
    count: usize,
    [masked, random, _]: [u32; 3],
    vocab: &Vocab,
    at: &RowAddress<'_>,
    ids: &mut [i32],
) -> &'a [u16] {
    let mut chosen = vec![0_u64; ids.len().div_ceil(64)];
    for &position in &positions[..count] {
        chosen[usize::from(position / 64)] |= 1 << (position % 64);
    }
    positions.truncate(count);
    let mut decisions = at.rng("decisions");
    let mut decisions = decisions.split(100);
    for run in runs_of(&chosen) {
        let percent = decisions.below(100);
        if percent < masked {
            ids[usize::from(run.start)..usize::from(run.end)].fill(vocab.special().mask.cast_signed());
        } else if percent < masked + random {
            positions.extend(run);
        }
    }
    &positions[count..]
}

/// Returns the runs of adjacent bits, ascending.
fn runs_of(bits: &[u64]) -> impl Iterator<Item = Range<u16>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = find(bits, from, false)?;
        let end = find(bits, start, true).unwrap_or(bits.len() * 64);
        from = end;
        let place = |bit: usize| u16::try_from(bit).expect("positions are numbered in 16 bits");
        Some(place(start)..place(end))
    })
}

/// Returns the first bit from `from` on that is set, or clear if `clear`.
fn find(bits: &[u64], from: usize, clear: bool) -> Option<usize> {
    let flip = if clear { u64::MAX } else { 0 };
    let first = (bits.get(from / 64)? ^ flip) >> (from % 64);
    if first != 0 {
        return Some(from + first.trailing_zeros() as usize);
    }
    let (at, word) = (from / 64 + 1..).zip(&bits[from / 64 + 1..]).find(|(_, word)| **word != flip)?;
    Some(at * 64 + (word ^ flip).trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_of_bits_are_those_of_their_sorted_places(places in prop::collection::btree_set(0_u16..400, 0..300)) {
            let mut bits = vec![0_u64; 7];
            for &place in &places {
                bits[usize::from(place / 64)] |= 1 << (place % 64);
            }
            let sorted: Vec<u16> = places.into_iter().collect();
            let expected = sorted.chunk_by(|left, right| left + 1 == *right).map(|run| run[0]..run[run.len() - 1] + 1);
            prop_assert_eq!(runs_of(&bits).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_run_may_end_with_the_last_bit() {
        assert_eq!(runs_of(&[u64::MAX, u64::MAX]).collect::<Vec<_>>(), std::iter::once(0..128).collect::<Vec<_>>());
        assert_eq!(runs_of(&[]).count(), 0);
    }
}
