//! Masking of tokens to predict.
//!
//! # What
//! Selects positions of a row, replaces most of their tokens and stores the originals as labels.
//!
//! # Why
//! Input of masked language modelling, and of TACO, TaCL's student and the generators of ELECTRA and COCO-LM.
//!
//! # Definition
//! `M ⊆ candidates`. The candidates are the tokens that are not special (`[UNK]` counts as special), or all tokens with
//! `mask_special_tokens = true`. `[CLS]` is no candidate unless `mask_cls = true`.
//!
//! `count` gives the size of M, with `rate_base` counting candidates (`"maskable"`) or all tokens of the row (`"all"`).
//! `"exact"`: `⌊rate · base + ½⌋`, at least 1. `"stochastic_round"`: `⌊rate · base + U⌋`, `U` uniform in `[0, 1)`.
//! `"bernoulli"`: each candidate independently with probability `rate`. Never more than the candidates.
//!
//! `unit` selects the elements of M. `"subword"`: candidates, uniformly without replacement. `"word"`: whole words in
//! random order. `word_budget = "skip"` adds words until M has its size, and skips those that would overshoot (a row
//! that has only longer words stays unmasked). With `"words"`, `count` and `rate` refer to words, at most a quarter of
//! them. `"span"`: runs of words, `span = "tiles"` or `"spanbert"` (lengths and both samplers: [`SpanSampler`]). A word
//! begins at a token without `##` (`WordPiece`) or with the mark of a space (byte-level BPE), and next to any token
//! that is no candidate.
//!
//! `disjoint = true` gives the copies of a row (`data.copies_per_sample = K`) masks that do not overlap. Candidates (or
//! words, or tiles) are shuffled once for all copies, and copy `k` takes the `k`-th slice of the size `τ = |M|`. If
//! `K · τ` exceeds the `n` candidates, `τ = ⌊n / K⌋`. If even `K > n`, the slices have one candidate each, and copy `k`
//! takes slice `k mod n`. If `K · τ ≤ n`, each single mask has the same distribution as without `disjoint`.
//!
//! Each token of M becomes `[MASK]`, a random ordinary token (possibly the same), or stays, with the percentages of
//! `replacement`; all three are predicted. With `unit = "span"` one such decision holds for a whole run of adjacent
//! tokens of M, so that spans which overlap or touch count as one. Random tokens are uniform, or as frequent as in the
//! training split (`random_words = "unigram"`). Replacements are drawn independently for each copy.
//!
//! # Columns
//! `input_ids`; `labels` (the original id on M, −100 elsewhere); `draws` (32 random bits on M, 0 elsewhere: randomness
//! for a generator's samples).
//!
//! # Reference
//! Devlin et al., *BERT*, NAACL 2019, section 3.1. Exact counts over the tokens that may be masked follow the
//! TensorFlow release, up to its base. Bernoulli counts and the skipping of words follow the collators of Hugging Face
//! `transformers`. Those draw random words from the whole vocabulary; this view excludes special and `[unusedN]`
//! tokens. Stochastic rounding over all tokens follows fairseq (Liu et al., *RoBERTa*, 2019), as in COCO-LM (Meng et
//! al., NeurIPS 2021), which never masks `[CLS]`. Counting words follows the released code of TaCL (Su et al., 2022).
//! Disjoint masks: Zheng et al., *Fully-Explored Masked Language Model*, 2020. Random words by frequency: Joshi et al.,
//! *SpanBERT*, TACL 2020. `replacement = [85, 0, 15]` is ELECTRA's, `[100, 0, 0]` COCO-LM's.

use schemars::JsonSchema;
use schemas::columns::{DRAWS, IGNORE, INPUT_IDS, LABELS};
use schemas::{ColumnSpec, Vocab};
use serde::{Deserialize, Serialize};

use super::{ORIGINAL, View, ViewName, ViewSource, rate_doubts};
use crate::audit_counters::{AuditCounters, AuditedView};
use crate::rng::RowAddress;
use crate::row::RowMut;

mod explored;
pub(super) mod positions;
pub(super) mod promise;
pub(super) mod replace;
mod spans;
#[cfg(test)]
mod tests;
mod unit;
mod words;

pub use positions::{Base, Count};
pub use replace::RandomWords;
pub use spans::SpanSampler;
pub use unit::Unit;
pub use words::WordBudget;

use positions::{Budget, Candidates, move_to_front, shuffle};
use promise::Promise;

/// Selects tokens, masks them and stores the originals as labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mask {
    /// View whose rows are masked.
    pub of: ViewName,
    /// Share of `rate_base` that is masked, in `0..=1`.
    pub rate: f64,
    /// Rule for the number of masked tokens.
    pub count: Count,
    /// Number of tokens that `rate` is a share of.
    pub rate_base: Base,
    /// Percentages of `[MASK]`, random and unchanged tokens; their sum is 100.
    pub replacement: [u32; 3],
    /// Distribution of random tokens.
    pub random_words: RandomWords,
    /// Whether special tokens (frame, separators, `[UNK]`) may be masked.
    pub mask_special_tokens: bool,
    /// Whether `[CLS]` may be masked too.
    pub mask_cls: bool,
    /// Unit of masking.
    pub unit: Unit,
    /// Rule for the number of masked words, if `unit` is `"word"`.
    pub word_budget: WordBudget,
    /// Sampling method of spans, if `unit` is `"span"`.
    pub span: SpanSampler,
    /// Whether the masks of the copies of a row are disjoint.
    pub disjoint: bool,
}

impl Default for Mask {
    fn default() -> Self {
        Self {
            of: ORIGINAL.to_owned(),
            rate: 0.15,
            count: Count::Exact,
            rate_base: Base::Maskable,
            replacement: [80, 10, 10],
            random_words: RandomWords::Uniform,
            mask_special_tokens: false,
            mask_cls: false,
            unit: Unit::Subword,
            word_budget: WordBudget::Skip,
            span: SpanSampler::Tiles,
            disjoint: false,
        }
    }
}

impl View for Mask {
    fn of(&self) -> Option<&ViewName> {
        Some(&self.of)
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        const { &[INPUT_IDS.spec(), LABELS.spec(), DRAWS.spec()] }
    }

    fn needs_counts(&self) -> Option<&'static str> {
        (self.random_words == RandomWords::Unigram).then_some("random_words")
    }

    fn needs_copies(&self) -> bool {
        self.disjoint
    }

    fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = self.budget().problems();
        problems.extend(self.candidates().problems());
        if self.replacement.iter().map(|&percent| u64::from(percent)).sum::<u64>() != 100 {
            problems.push(("replacement", format!("{:?} must add up to 100 percent", self.replacement)));
        }
        let counts_words = self.unit == Unit::Word && self.word_budget == WordBudget::Words;
        if counts_words && self.rate > words::SHARE_MAX {
            let message = format!("{} is above {}, the largest share of words masked", self.rate, words::SHARE_MAX);
            problems.push(("rate", message));
        }
        if self.disjoint && self.unit == Unit::Word && self.word_budget == WordBudget::Skip {
            let message = "words skipped by one copy would be likelier in the next; give `word_budget = \"words\"`";
            problems.push(("disjoint", message.into()));
        }
        if self.disjoint && self.unit == Unit::Span && self.span == SpanSampler::Spanbert {
            problems.push(("disjoint", "SpanBERT's spans overlap; give `span = \"tiles\"`".into()));
        }
        problems.extend(self.idle_keys());
        problems
    }

    fn warnings(&self) -> Vec<(&'static str, String)> {
        rate_doubts(self.rate)
    }

    fn render(&self, source: ViewSource<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>) {
        positions::with_memory(|positions| {
            let ids = &row.input_ids[..source.row().tokens];
            self.candidates().find(ids, vocab, positions);
            let count = self.choose(ids, vocab, at, positions);
            label(&positions[..count], row);
            write_draws(&positions[..count], row, at);
            let randoms = match self.unit {
                Unit::Subword | Unit::Word => {
                    replace::each(positions, count, self.replacement, vocab, at, row.input_ids)
                }
                Unit::Span => replace::runs(positions, count, self.replacement, vocab, at, row.input_ids),
            };
            self.random_words.write(randoms, vocab, at, row.input_ids);
        });
    }

    fn audit(&self, seen: &AuditedView<'_>, tally: &mut AuditCounters) {
        let candidates = self.candidates();
        let budget = self.budget();
        let Self { replacement: replace, random_words: words, unit, word_budget, disjoint, .. } = *self;
        promise::audit(Promise { candidates, budget, replace, words, unit, word_budget, disjoint }, seen, tally);
    }
}

impl Mask {
    /// Returns the keys that were set but have no effect in combination with the others.
    fn idle_keys(&self) -> Vec<(&'static str, String)> {
        let usual = Self::default();
        let rules = [
            (self.unit != Unit::Word && self.word_budget != usual.word_budget, "word_budget", "`unit = \"word\"`"),
            (self.unit != Unit::Span && self.span != usual.span, "span", "`unit = \"span\"`"),
            (
                self.count == Count::Bernoulli && self.rate_base != usual.rate_base,
                "rate_base",
                "a count other than `bernoulli`",
            ),
        ];
        let idle = rules.into_iter().filter(|(is_idle, ..)| *is_idle);
        idle.map(|(_, key, needs)| (key, format!("it means something only with {needs}"))).collect()
    }
}

impl Mask {
    fn candidates(&self) -> Candidates {
        Candidates { specials: self.mask_special_tokens, cls: self.mask_cls }
    }

    fn budget(&self) -> Budget {
        Budget { rate: self.rate, count: self.count, base: self.rate_base }
    }

    /// Moves the selected candidates to the front of `positions`; returns their number.
    fn choose(&self, ids: &[i32], vocab: &Vocab, at: &RowAddress<'_>, positions: &mut Vec<u16>) -> usize {
        // Draws that are divided among the copies use an address that all copies share.
        let shared = if self.disjoint { &at.shared() } else { at };
        let part = |size, of| if self.disjoint { explored::part(size, of, at) } else { 0..size };
        let budget = self.budget();
        let tokens = ids.len();
        if self.unit == Unit::Subword {
            if !self.disjoint {
                return budget.select(tokens, positions, at);
            }
            let chosen = part(budget.size(tokens, positions.len(), shared), positions.len());
            shuffle(positions, chosen.end, &mut shared.rng("positions"));
            return move_to_front(positions, chosen);
        }
        let borders = words::borders(ids, positions, vocab);
        let words = borders.len() - 1;
        let size = || budget.size(tokens, positions.len(), shared);
        match (self.unit, self.word_budget, self.span) {
            (Unit::Word, WordBudget::Words, _) => {
                let size = budget.size(words, words, shared).min(words::share_max(words));
                words::select(part(size, words), &borders, positions, shared)
            }
            (Unit::Word, WordBudget::Skip, _) => words::fill(size(), &borders, positions, shared),
            (_, _, SpanSampler::Tiles) => spans::take_tiles(part(size(), positions.len()), &borders, positions, shared),
            (_, _, SpanSampler::Spanbert) => spans::fill(size(), &borders, positions, shared),
        }
    }
}

/// Writes the original ids of the selected positions, if labels are read.
pub(super) fn label(chosen: &[u16], row: &mut RowMut<'_>) {
    let Some(labels) = row.cells.get(LABELS) else { return };
    labels.fill(IGNORE);
    for &position in chosen {
        labels[usize::from(position)] = row.input_ids[usize::from(position)];
    }
}

/// Writes a random word to each selected position, indexed by the position, if draws are read.
fn write_draws(chosen: &[u16], row: &mut RowMut<'_>, at: &RowAddress<'_>) {
    let Some(draws) = row.cells.get(DRAWS) else { return };
    let rng = at.rng("draws");
    draws.fill(0);
    for &position in chosen {
        draws[usize::from(position)] = rng.word(position.into()).cast_signed();
    }
}
