//! Replacement of some tokens by random ones.
//!
//! # What
//! Selects positions of a row and writes a random token to each.
//!
//! # Why
//! Control for objectives that detect or correct replacements: it shows their effect without a network that makes the
//! replacements plausible (COCO-LM's Table 3, "w. Random Replacements").
//!
//! # Definition
//! Positions are selected as by `mask` with subwords; `rate`, `count`, `rate_base`, `mask_special_tokens` and
//! `mask_cls` have the same meaning. Each selected token becomes a uniformly drawn ordinary token (neither special nor
//! `[unusedN]`), possibly the same.
//!
//! # Columns
//! `input_ids`; `labels` (the original id at the selected positions, −100 elsewhere); `replaced` (1 for ids that differ
//! from the original's, 0 elsewhere).
//!
//! # Reference
//! Meng et al., *COCO-LM*, NeurIPS 2021, section 5.3.

use schemars::JsonSchema;
use schemas::columns::{INPUT_IDS, LABELS, REPLACED};
use schemas::{ColumnSpec, Vocab};
use serde::{Deserialize, Serialize};

use super::mask::positions::{Budget, Candidates, with_memory};
use super::mask::promise::{self, Promise};
use super::mask::{Base, Count, RandomWords, Unit, WordBudget, label};
use super::{ORIGINAL, View, ViewName, ViewSource, rate_doubts};
use crate::audit_counters::{AuditCounters, AuditedView};
use crate::rng::RowAddress;
use crate::row::RowMut;

/// Replaces tokens by random ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Corrupt {
    /// View whose rows are corrupted.
    pub of: ViewName,
    /// Share of `rate_base` that is replaced, in `0..=1`.
    pub rate: f64,
    /// Rule for the number of replaced tokens.
    pub count: Count,
    /// Number of tokens that `rate` is a share of.
    pub rate_base: Base,
    /// Whether special tokens may be replaced.
    pub mask_special_tokens: bool,
    /// Whether `[CLS]` may be replaced too.
    pub mask_cls: bool,
}

impl Default for Corrupt {
    fn default() -> Self {
        Self {
            of: ORIGINAL.to_owned(),
            rate: 0.15,
            count: Count::Exact,
            rate_base: Base::Maskable,
            mask_special_tokens: false,
            mask_cls: false,
        }
    }
}

impl View for Corrupt {
    fn of(&self) -> Option<&ViewName> {
        Some(&self.of)
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        const { &[INPUT_IDS.spec(), LABELS.spec(), REPLACED.spec()] }
    }

    fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = self.budget().problems();
        problems.extend(self.candidates().problems());
        problems
    }

    fn warnings(&self) -> Vec<(&'static str, String)> {
        rate_doubts(self.rate)
    }

    fn render(&self, source: ViewSource<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>) {
        let tokens = source.row().tokens;
        with_memory(|positions| {
            self.candidates().find(&row.input_ids[..tokens], vocab, positions);
            let count = self.budget().select(tokens, positions, at);
            label(&positions[..count], row);
            RandomWords::Uniform.write(&positions[..count], vocab, at, row.input_ids);
        });
        if let Some(replaced) = row.cells.get(REPLACED) {
            for (slot, (new, old)) in replaced.iter_mut().zip(row.input_ids.iter().zip(source.row().input_ids)) {
                *slot = u8::from(new != old);
            }
        }
    }

    fn audit(&self, seen: &AuditedView<'_>, tally: &mut AuditCounters) {
        let random = Promise {
            candidates: self.candidates(),
            budget: self.budget(),
            replace: [0, 100, 0],
            words: RandomWords::Uniform,
            unit: Unit::Subword,
            word_budget: WordBudget::Skip,
            disjoint: false,
        };
        promise::audit(random, seen, tally);
    }
}

impl Corrupt {
    fn candidates(&self) -> Candidates {
        Candidates { specials: self.mask_special_tokens, cls: self.mask_cls }
    }

    fn budget(&self) -> Budget {
        Budget { rate: self.rate, count: self.count, base: self.rate_base }
    }
}

#[cfg(test)]
mod tests {
    use schemas::columns::IGNORE;

    use super::*;
    use crate::views::AnyView;
    use crate::views::contract::{assert_uniform, column, render};

    #[test]
    fn chosen_tokens_become_any_ordinary_one_and_the_rest_stays() {
        let view = Corrupt { mask_special_tokens: true, rate_base: Base::All, ..Corrupt::default() };
        let batch = render(&AnyView::Corrupt(view), 502, &vec![vec![150; 498]; 400]);
        let ids = column(&batch, INPUT_IDS);
        let labels = column(&batch, LABELS);
        let replaced = column(&batch, REPLACED);
        let mut words = vec![0.0; 200];
        for ((row, labels), replaced) in ids.chunks(502).zip(labels.chunks(502)).zip(replaced.chunks(502)) {
            assert_eq!(labels.iter().filter(|&&label| label != IGNORE).count(), 75);
            for (at, &label) in labels.iter().enumerate() {
                let original = match at {
                    0 => 2,
                    499 => 3,
                    500.. => 0,
                    _ => 150,
                };
                assert_eq!(replaced[at], u8::from(row[at] != original));
                if label == IGNORE {
                    assert_eq!(row[at], original);
                } else {
                    assert_eq!((label, at > 0), (original, true), "`[CLS]` is spared");
                    words[usize::try_from(row[at]).expect("an id")] += 1.0;
                }
            }
        }
        assert!(words[..5].iter().all(|&count| count == 0.0), "no special is drawn");
        assert_uniform(&words[5..], 400.0 * 75.0 / 195.0);
    }

    #[test]
    fn a_share_is_a_share() {
        let keys = |view: Corrupt| view.problems().into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(keys(Corrupt { rate: 1.5, mask_cls: true, ..Corrupt::default() }), ["rate", "mask_cls"]);
    }
}
