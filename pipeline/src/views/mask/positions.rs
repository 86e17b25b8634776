//! Which tokens may be chosen, how many are, and choosing one by one.

use std::cell::RefCell;
use std::ops::Range;

use schemars::JsonSchema;
use schemas::Vocab;
use serde::{Deserialize, Serialize};

use crate::rng::{Rng, RowAddress};
use crate::views::share_problems;

/// How the number of chosen tokens comes about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// The same number in every row of a length: rounded half up, at least 1.
    #[default]
    Exact,
    /// Each token by itself; words and spans are given as many tokens as that many coins say.
    Bernoulli,
    /// Rounded up with the probability of the fraction: right on average, sometimes none.
    StochasticRound,
}

/// What the rate is a share of. Bernoulli counts always regard the tokens that may be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// The tokens that may be chosen.
    #[default]
    Maskable,
    /// All tokens of the row, specials included, padding not.
    All,
}

thread_local! {
    /// One row's worth of working memory, kept by each thread.
    static POSITIONS: RefCell<Vec<u16>> = RefCell::default();
}

/// Lends the thread's working memory: what the row before left in it is overwritten.
pub(crate) fn with_memory<R>(work: impl FnOnce(&mut Vec<u16>) -> R) -> R {
    POSITIONS.with_borrow_mut(work)
}

/// Which tokens may be chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates {
    pub(crate) specials: bool,
    pub(crate) cls: bool,
}

impl Candidates {
    pub(crate) fn problems(self) -> Option<(&'static str, String)> {
        let message = "`[CLS]` is a special token, and none is masked; give `specials = true` too";
        (self.cls && !self.specials).then(|| ("cls", message.into()))
    }

    /// Whether one is.
    #[inline]
    pub(super) fn admit(self, id: i32, vocab: &Vocab) -> bool {
        (self.specials && (self.cls || id != vocab.special().cls.cast_signed()))
            || !vocab.is_special(id.cast_unsigned())
    }

    /// Their positions, ascending. Written without a branch: which tokens are special is unpredictable.
    pub(crate) fn find(self, ids: &[i32], vocab: &Vocab, positions: &mut Vec<u16>) {
        let spared = if self.cls { -1 } else { vocab.special().cls.cast_signed() };
        positions.clear();
        positions.resize(ids.len() + 1, 0);
        let mut count = 0;
        for (position, &id) in (0..).zip(ids) {
            positions[count] = position;
            count += usize::from((self.specials && id != spared) | !vocab.is_special(id.cast_unsigned()));
        }
        positions.truncate(count);
    }
}

/// How many are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) rate: f64,
    pub(crate) count: Count,
    pub(crate) base: Base,
}

impl Budget {
    pub(crate) fn problems(self) -> Vec<(&'static str, String)> {
        share_problems(&[("rate", self.rate)])
    }

    /// Brings the chosen of `positions`, of a row of `tokens`, to the front; says how many they are.
    pub(crate) fn take(self, tokens: usize, positions: &mut [u16], at: &RowAddress<'_>) -> usize {
        if self.count == Count::Bernoulli {
            return self.take_each(positions, at);
        }
        let size = self.size(tokens, positions.len(), at);
        shuffle(positions, size, &mut at.rng("positions"));
        size
    }

    /// How many of `candidates` are chosen in a row of `tokens`.
    pub(crate) fn size(self, tokens: usize, candidates: usize, at: &RowAddress<'_>) -> usize {
        let base = self.base(tokens, candidates);
        let wanted = match self.count {
            Count::Exact => share(self.rate, base, HALF).max(1),
            Count::StochasticRound => share(self.rate, base, at.rng("count").fraction()),
            Count::Bernoulli => {
                let mut rng = at.rng("count");
                (0..candidates).filter(|_| rng.chance(self.rate)).count()
            }
        };
        wanted.min(candidates)
    }

    /// What the rate is a share of in a row of `tokens`.
    pub(super) fn base(self, tokens: usize, candidates: usize) -> usize {
        match self.base {
            Base::Maskable => candidates,
            Base::All => tokens,
        }
    }

    /// Each of `positions` by itself, whatever `count` says.
    pub(crate) fn take_each(self, positions: &mut [u16], at: &RowAddress<'_>) -> usize {
        let mut rng = at.rng("positions");
        let mut count = 0;
        for index in 0..positions.len() {
            positions[count] = positions[index];
            count += usize::from(rng.chance(self.rate));
        }
        count
    }
}

/// Half a unit, with a margin that keeps a half a half where a product falls just below it in binary.
pub(super) const HALF: f64 = 0.5 + 1e-9;

/// `⌊rate · base + up⌋`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a row's length, and positive")]
pub(super) fn share(rate: f64, base: usize, up: f64) -> usize {
    (rate * base as f64 + up).floor() as usize
}

/// Brings a uniform choice of `count` things to the front, in random order: the first steps of a Fisher–Yates shuffle.
pub(crate) fn shuffle<T>(things: &mut [T], count: usize, rng: &mut Rng) {
    let len = u32::try_from(things.len()).expect("a row has fewer than 65,536 tokens");
    let mut draws = rng.split(len);
    for (chosen, left) in (0..count).zip((1..=len).rev()) {
        things.swap(chosen, chosen + draws.below(left) as usize);
    }
}

/// The things in random order, each drawn when it is asked for: what [`shuffle`] brings to the front.
pub(super) fn shuffled<T: Clone>(mut things: Vec<T>, rng: &mut Rng) -> impl Iterator<Item = T> {
    let len = u32::try_from(things.len()).expect("a row has fewer than 65,536 tokens");
    let mut draws = rng.split(len);
    (0..things.len()).zip((1..=len).rev()).map(move |(next, left)| {
        things.swap(next, next + draws.below(left) as usize);
        things[next].clone()
    })
}

/// Moves a part of `positions` to their front; says how long it is.
pub(super) fn bring_to_front(positions: &mut [u16], part: Range<usize>) -> usize {
    let len = part.len();
    positions.copy_within(part, 0);
    len
}
