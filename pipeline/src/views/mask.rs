//! Masked tokens to predict.
//!
//! **What.** Chooses positions of a row, hides most of them and remembers what was there.
//!
//! **Why.** Masked language modelling; the row that TACO, TaCL's student and the generators of ELECTRA and COCO-LM read.
//!
//! **Definition.** `M ⊆ candidates`, the candidates being the tokens that are not special (`[UNK]` counts as special), or
//! all tokens with `specials = true`. `count = "exact"`: `|M| = ⌊rate · base + ½⌋`, at least 1 and at most the number of
//! candidates, uniformly without replacement, `base` counting candidates (`"maskable"`) or all tokens of the row
//! (`"all"`). `count = "bernoulli"`: each candidate by itself with probability `rate`. Each token of M becomes `[MASK]`,
//! a random ordinary token (perhaps the same), or stays, with the percentages of `replace`; all three are predicted.
//!
//! **Columns.** `input_ids`; `labels` (the original id on M, −100 elsewhere).
//!
//! **Reference.** Devlin et al., *BERT*, NAACL 2019, section 3.1. Exact counts over the tokens that may be masked are
//! those of the TensorFlow release up to its base; Bernoulli counts those of `DataCollatorForLanguageModeling` in
//! Hugging Face `transformers`, which draws random words from the whole vocabulary where we leave out special and
//! `[unusedN]` tokens.

use std::cell::RefCell;

use schemas::columns::{IGNORE, INPUT_IDS, LABELS};
use schemas::{ColumnSpec, Vocab};
use serde::{Deserialize, Serialize};

use super::{ORIGINAL, Source, View, ViewName};
use crate::rng::{Rng, RowAddress};
use crate::row::RowMut;

/// Chooses, hides and labels tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mask {
    /// The view whose rows are masked.
    pub of: ViewName,
    /// Share of `base` that is masked, in `0..=1`.
    pub rate: f64,
    /// How the number of masked tokens comes about.
    pub count: Count,
    /// What `rate` is a share of.
    pub base: Base,
    /// Percentages of `[MASK]`, random and unchanged; they add up to 100.
    pub replace: [u32; 3],
    /// Whether special tokens (frame, separators, `[UNK]`) may be masked.
    pub specials: bool,
}

/// How the number of masked tokens comes about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// The same number in every row of a length: rounded half up, at least 1.
    #[default]
    Exact,
    /// Each token by itself.
    Bernoulli,
}

/// What the rate is a share of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// The tokens that may be masked.
    #[default]
    Maskable,
    /// All tokens of the row, specials included, padding not.
    All,
}

impl Default for Mask {
    fn default() -> Self {
        Self {
            of: ORIGINAL.to_owned(),
            rate: 0.15,
            count: Count::Exact,
            base: Base::Maskable,
            replace: [80, 10, 10],
            specials: false,
        }
    }
}

impl View for Mask {
    fn of(&self) -> Option<&ViewName> {
        Some(&self.of)
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        const { &[INPUT_IDS.spec(), LABELS.spec()] }
    }

    fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if !(0.0..=1.0).contains(&self.rate) {
            problems.push(("rate", format!("{} is not a share; give a number from 0 to 1", self.rate)));
        }
        if self.replace.iter().map(|&percent| u64::from(percent)).sum::<u64>() != 100 {
            problems.push(("replace", format!("{:?} must add up to 100 percent", self.replace)));
        }
        problems
    }

    fn render(&self, source: Source<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>) {
        POSITIONS.with_borrow_mut(|positions| {
            self.candidates(&row.input_ids[..source.row().tokens], vocab, positions);
            let count = match self.count {
                Count::Exact => self.take_exact(row.tokens, positions, &mut at.rng("positions")),
                Count::Bernoulli => self.take_bernoulli(positions, &mut at.rng("positions")),
            };
            label(&positions[..count], row);
            self.replace(positions, count, vocab, at, row.input_ids);
        });
    }
}

thread_local! {
    /// One row's worth of working memory, kept by each thread.
    static POSITIONS: RefCell<Vec<u16>> = RefCell::default();
}

impl Mask {
    /// The positions that may be masked, ascending. Written without a branch: which tokens are special is unpredictable.
    fn candidates(&self, ids: &[i32], vocab: &Vocab, positions: &mut Vec<u16>) {
        positions.clear();
        positions.resize(ids.len() + 1, 0);
        let mut count = 0;
        for (position, &id) in (0..).zip(ids) {
            positions[count] = position;
            count += usize::from(self.specials | !vocab.is_special(id.cast_unsigned()));
        }
        positions.truncate(count);
    }

    /// Brings the chosen positions to the front: the first steps of a Fisher–Yates shuffle.
    fn take_exact(&self, tokens: usize, positions: &mut [u16], rng: &mut Rng) -> usize {
        let base = match self.base {
            Base::Maskable => positions.len(),
            Base::All => tokens,
        };
        let count = share(self.rate, base).max(1).min(positions.len());
        let len = u32::try_from(positions.len()).expect("a row has fewer than 65,536 tokens");
        let mut draws = rng.split(len);
        for (chosen, left) in (0..count).zip((1..=len).rev()) {
            positions.swap(chosen, chosen + draws.below(left) as usize);
        }
        count
    }

    fn take_bernoulli(&self, positions: &mut [u16], rng: &mut Rng) -> usize {
        // In units of 2^-32, so that a rate of 1 takes every word.
        let bound = self.rate * 4_294_967_296.0;
        let mut count = 0;
        for index in 0..positions.len() {
            positions[count] = positions[index];
            count += usize::from(f64::from(rng.next_u32()) < bound);
        }
        count
    }

    /// Replaces the ids of `positions[..count]`. The first pass is written without a branch, since none could be
    /// predicted; it gathers the positions of random words behind the chosen ones.
    fn replace(&self, positions: &mut Vec<u16>, count: usize, vocab: &Vocab, at: &RowAddress<'_>, ids: &mut [i32]) {
        let [masked, random, _] = self.replace;
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
        let mut words = at.rng("words");
        for &position in &randoms[..random_count] {
            let word = words.below(u32::try_from(vocab.ordinary().len()).expect("ids are 32-bit"));
            ids[usize::from(position)] = vocab.ordinary()[word as usize].cast_signed();
        }
    }
}

/// Notes the original ids of the chosen positions, where somebody reads labels.
fn label(chosen: &[u16], row: &mut RowMut<'_>) {
    let Some(labels) = row.cells.get(LABELS) else { return };
    labels.fill(IGNORE);
    for &position in chosen {
        labels[usize::from(position)] = row.input_ids[usize::from(position)];
    }
}

/// `rate · base`, rounded half up. The margin keeps a half a half where the product falls just below it in binary.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a row's length, and positive")]
fn share(rate: f64, base: usize) -> usize {
    (rate * base as f64 + 0.5 + 1e-9).floor() as usize
}
