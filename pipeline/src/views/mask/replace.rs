//! What the chosen tokens become.

use schemars::JsonSchema;
use schemas::Vocab;
use serde::{Deserialize, Serialize};

use crate::rng::RowAddress;

/// Where random tokens come from. None is special or an `[unusedN]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RandomWords {
    /// All are equally likely.
    #[default]
    Uniform,
    /// Each is as likely as it is frequent in the training split.
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

/// Decides for each of `positions[..count]` by itself: writes `[MASK]`, and returns those that become random words.
///
/// Written without a branch, since none could be predicted: the positions of random words are gathered behind the
/// chosen ones.
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
    let mut decisions = decisions.split(100);
    let mut random_count = 0;
    for &mut position in chosen {
        let percent = decisions.below(100);
        let id = &mut ids[usize::from(position)];
        *id = if percent < masked { mask } else { *id };
        randoms[random_count] = position;
        random_count += usize::from((masked..masked + random).contains(&percent));
    }
    &randoms[..random_count]
}

/// Decides once for each run of adjacent positions among `positions[..count]`, left to right: writes `[MASK]`, and
/// returns the positions that become random words.
pub(super) fn runs<'a>(
    positions: &'a mut Vec<u16>,
    count: usize,
    [masked, random, _]: [u32; 3],
    vocab: &Vocab,
    at: &RowAddress<'_>,
    ids: &mut [i32],
) -> &'a [u16] {
    positions.truncate(count);
    positions.sort_unstable();
    let mut decisions = at.rng("decisions");
    let mut decisions = decisions.split(100);
    let mut randoms = Vec::new();
    for run in positions.chunk_by(|&left, &right| left + 1 == right) {
        let percent = decisions.below(100);
        if percent < masked {
            ids[usize::from(run[0])..][..run.len()].fill(vocab.special().mask.cast_signed());
        } else if percent < masked + random {
            randoms.extend_from_slice(run);
        }
    }
    positions.extend_from_slice(&randoms);
    &positions[count..]
}
