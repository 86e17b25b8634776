//! Selection of single tokens: candidates, their number, and the draw.

use std::cell::RefCell;
use std::ops::Range;

use schemars::JsonSchema;
use schemas::Vocab;
use serde::{Deserialize, Serialize};

use crate::rng::{Rng, RowAddress, digit, draws_per_word, words_of};
use crate::views::share_problems;

/// Rule for the number of selected tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// The same number in every row of a length: rounded half up, at least 1.
    #[default]
    Exact,
    /// Each token independently. For words and spans, the number of tokens is that of as many coin flips.
    Bernoulli,
    /// Rounded up with the probability of the fractional part: unbiased, sometimes 0.
    StochasticRound,
}

/// Base of the rate. Bernoulli counts always use the tokens that may be selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// Tokens that may be selected.
    #[default]
    Maskable,
    /// All tokens of the row, including special tokens, excluding padding.
    All,
}

thread_local! {
    /// Working memory for one row, kept by each thread.
    static POSITIONS: RefCell<Vec<u16>> = RefCell::default();
}

/// Calls `work` with the thread's working memory, which contains data of the previous row.
pub(crate) fn with_memory<R>(work: impl FnOnce(&mut Vec<u16>) -> R) -> R {
    POSITIONS.with_borrow_mut(work)
}

/// Filter for the tokens that may be selected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates {
    pub(crate) specials: bool,
    pub(crate) cls: bool,
}

impl Candidates {
    pub(crate) fn problems(self) -> Option<(&'static str, String)> {
        let message = "`[CLS]` is a special token, and none is masked; set `mask_special_tokens = true` too";
        (self.cls && !self.specials).then(|| ("mask_cls", message.into()))
    }

    /// Returns true if the token may be selected.
    #[inline]
    pub(super) fn admits(self, id: i32, vocab: &Vocab) -> bool {
        (self.specials && (self.cls || id != vocab.special().cls.cast_signed()))
            || !vocab.is_special(id.cast_unsigned())
    }

    /// Writes the positions of the candidates, ascending.
    ///
    /// Nearly all tokens are candidates. If a run of tokens has none in the ranges of special ids, the whole run is
    /// written without a dependency on the earlier count.
    pub(crate) fn find(self, ids: &[i32], vocab: &Vocab, positions: &mut Vec<u16>) {
        positions.resize(ids.len() + 1, 0);
        let mut count = 0;
        for (first, run) in (0..).step_by(RUN).zip(ids.chunks(RUN)) {
            let among = |any, &id: &i32| any | u32::from(vocab.is_among_specials(id.cast_unsigned()));
            if run.iter().fold(0, among) == 0 {
                positions[count..count + run.len()].iter_mut().zip(first..).for_each(|(slot, at)| *slot = at);
                count += run.len();
            } else {
                count = self.find_each(first, run, vocab, positions, count);
            }
        }
        positions.truncate(count);
    }

    /// Branch-free: special tokens are unpredictable.
    fn find_each(self, first: u16, ids: &[i32], vocab: &Vocab, positions: &mut [u16], mut count: usize) -> usize {
        let spared = if self.cls { -1 } else { vocab.special().cls.cast_signed() };
        for (position, &id) in (first..).zip(ids) {
            positions[count] = position;
            count += usize::from((self.specials && id != spared) | !vocab.is_special(id.cast_unsigned()));
        }
        count
    }
}

/// Number of tokens that are checked together.
const RUN: usize = 16;

/// Number of tokens to select.
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

    /// Moves the selected elements of `positions`, of a row of `tokens`, to the front; returns their number.
    pub(crate) fn select(self, tokens: usize, positions: &mut [u16], at: &RowAddress<'_>) -> usize {
        if self.count == Count::Bernoulli {
            return self.take_each(positions, at);
        }
        let size = self.size(tokens, positions.len(), at);
        shuffle(positions, size, &mut at.rng("positions"));
        size
    }

    /// Returns the number of selected `candidates` in a row of `tokens`.
    pub(crate) fn size(self, tokens: usize, candidates: usize, at: &RowAddress<'_>) -> usize {
        let base = self.base(tokens, candidates);
        let wanted = match self.count {
            Count::Exact => share(self.rate, base, HALF).max(1),
            Count::StochasticRound => share(self.rate, base, at.rng("count").fraction()),
            Count::Bernoulli => {
                let mut rng = at.rng("count");
                let below = words_of(self.rate);
                (0..candidates).filter(|_| u64::from(rng.next_u32()) < below).count()
            }
        };
        wanted.min(candidates)
    }

    /// Returns the base of the rate in a row of `tokens`.
    pub(super) fn base(self, tokens: usize, candidates: usize) -> usize {
        match self.base {
            Base::Maskable => candidates,
            Base::All => tokens,
        }
    }

    /// Selects each of `positions` independently, for any `count`.
    pub(crate) fn take_each(self, positions: &mut [u16], at: &RowAddress<'_>) -> usize {
        let mut rng = at.rng("positions");
        let below = words_of(self.rate);
        let mut words = [0; WORDS];
        let mut count = 0;
        let mut first = 0;
        while first < positions.len() {
            let drawn = (positions.len() - first).min(WORDS);
            rng.fill(&mut words);
            for (index, &word) in (first..).zip(&words[..drawn]) {
                positions[count] = positions[index];
                count += usize::from(u64::from(word) < below);
            }
            first += drawn;
        }
        count
    }
}

/// Maximum number of words drawn at once.
const WORDS: usize = 64;

/// One half, with a margin that corrects a product just below one half in binary.
pub(super) const HALF: f64 = 0.5 + 1e-9;

/// Returns `⌊rate · base + up⌋`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a row's length, and positive")]
pub(super) fn share(rate: f64, base: usize, up: f64) -> usize {
    (rate * base as f64 + up).floor() as usize
}

/// Moves a uniform choice of `count` elements to the front, in random order: the first steps of a Fisher–Yates shuffle.
/// The draws are those of [`Rng::split`], many words at a time.
pub(crate) fn shuffle<T>(things: &mut [T], count: usize, rng: &mut Rng) {
    let len = u32::try_from(things.len()).expect("a row has fewer than 65,536 tokens");
    let per_word = draws_per_word(len) as usize;
    let mut words = [0; WORDS];
    let mut chosen = 0;
    let mut left = len;
    while chosen < count {
        let drawn = (count - chosen).div_ceil(per_word).min(WORDS);
        rng.fill(&mut words[..drawn]);
        for &word in &words[..drawn] {
            let mut rest = word;
            for _ in 0..per_word.min(count - chosen) {
                let ahead;
                (ahead, rest) = digit(rest, left);
                things.swap(chosen, chosen + ahead as usize);
                (chosen, left) = (chosen + 1, left - 1);
            }
        }
    }
}

/// Returns the elements in random order, each drawn on demand, in the order of [`shuffle`].
pub(super) fn shuffled<T: Clone>(mut things: Vec<T>, rng: &mut Rng) -> impl Iterator<Item = T> {
    let len = u32::try_from(things.len()).expect("a row has fewer than 65,536 tokens");
    let mut draws = rng.split(len);
    (0..things.len()).zip((1..=len).rev()).map(move |(next, left)| {
        things.swap(next, next + draws.below(left) as usize);
        things[next].clone()
    })
}

/// Moves a part of `positions` to the front; returns its length.
pub(super) fn move_to_front(positions: &mut [u16], part: Range<usize>) -> usize {
    let len = part.len();
    positions.copy_within(part, 0);
    len
}
