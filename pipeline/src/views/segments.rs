//! Row of one or two segments of one document.
//!
//! # What
//! `[CLS] A [SEP] B [SEP]` or `[CLS] A [SEP]`, padded to the width, of the sentences of one sample.
//!
//! # Why
//! These are the rows of ELECTRA: short and long segments, as in fine-tuning, without a task on pairs.
//!
//! # Definition
//! In rows of width `L`, the *target* is `L`, or, with probability `short_rate`, uniform in `5..=L`. The view uses the
//! shortest run of sentences from the first on that has at least target tokens, or all, and assigns them in order. With
//! probability `single_rate` all belong to A. Otherwise A's target is `(target − 3) div 2`. A sentence joins A in three
//! cases: if A is empty; if A then stays below its target; or if B is empty, A is below its target, and a fair coin
//! decides so. All others join B. (So A may continue after a long sentence of B.) A is cut to its first `L − 2` tokens,
//! B to its first `L − |A| − 3`.
//!
//! A sample has at most `L − 3` tokens, whereas the script reads up to `L`. So fewer rows are cut at the end, and some
//! are shorter by a few tokens.
//!
//! # Columns
//! `input_ids`, `token_types` (0 for `[CLS] A [SEP]`, 1 for `B [SEP]`); on demand `attention_mask`, `origin`,
//! `document`.
//!
//! # Reference
//! Clark et al., *ELECTRA*, ICLR 2020, `build_pretraining_dataset.py`.

use schemars::JsonSchema;
use schemas::columns::{INPUT_IDS, TOKEN_TYPES};
use schemas::{ColumnSpec, Sample, Vocab};
use serde::{Deserialize, Serialize};

use super::spans::{Sentences, Span, below, length, write};
use super::{View, ViewName, ViewSource, share_problems};
use crate::rng::{Rng, RowAddress};
use crate::row::RowMut;

/// One or two segments of one document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Segments {
    /// Share of rows with a shorter target length.
    pub short_rate: f64,
    /// Share of rows with one segment, of any length.
    pub single_rate: f64,
}

impl Default for Segments {
    fn default() -> Self {
        Self { short_rate: 0.05, single_rate: 0.1 }
    }
}

impl View for Segments {
    fn of(&self) -> Option<&ViewName> {
        None
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        const { &[INPUT_IDS.spec(), TOKEN_TYPES.spec()] }
    }

    fn needs_sentences(&self) -> bool {
        true
    }

    fn problems(&self) -> Vec<(&'static str, String)> {
        share_problems(&[("short_rate", self.short_rate), ("single_rate", self.single_rate)])
    }

    fn render(&self, source: ViewSource<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>) {
        let width = row.input_ids.len();
        let [a, b] = self.deal(source.sample(), width, &mut at.rng("segments"));
        let a = trim(&a, width - 2);
        let b = trim(&b, (width - 2).saturating_sub(length(&a) + 1));
        write(row, vocab, &a, &b, 1);
    }
}

impl Segments {
    /// Returns the sentences of A and of B.
    fn deal<'a>(&self, sample: &Sample<'a>, width: usize, rng: &mut Rng) -> [Vec<Span<'a>>; 2] {
        let short = rng.chance(self.short_rate);
        let target = if short { 5 + below(rng, width - 4) } else { width };
        let single = rng.chance(self.single_rate);
        let target_a = if single { usize::MAX } else { (target - 3) / 2 };
        let sentences = Sentences::new(sample);
        let [mut a, mut b] = [Vec::new(), Vec::new()];
        let mut length_a = 0;
        for index in 0..sentences.until(0, target) {
            let span = Span::new(sample, sentences.bound(index)..sentences.bound(index + 1), 0);
            let fits = length_a + span.len() < target_a;
            if length_a == 0 || fits || (b.is_empty() && length_a < target_a && rng.chance(0.5)) {
                length_a += span.len();
                a.push(span);
            } else {
                b.push(span);
            }
        }
        [a, b]
    }
}

/// Returns the first `max` tokens.
fn trim<'a>(spans: &[Span<'a>], max: usize) -> Vec<Span<'a>> {
    let mut left = max;
    let cut = spans.iter().map(|span| {
        let kept = span.first(left);
        left -= kept.len();
        kept
    });
    cut.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{StoredSample, assert_share, assert_uniform, frame_rows, segments};
    use crate::views::AnyView;

    fn rows(view: Segments, width: usize, lengths: &[usize], count: u64) -> Vec<[Vec<usize>; 2]> {
        let sample = StoredSample::new(lengths, 10);
        segments(&frame_rows(AnyView::Segments(view), width, &sample.items(None, count)))
    }

    proptest! {
        #[test]
        fn every_token_is_assigned_once_in_order(lengths in prop::collection::vec(1_usize..12, 1..9), room in 2_usize..60) {
            let length: usize = lengths.iter().sum();
            let width = room.max(length) + 3;
            for [a, b] in rows(Segments { short_rate: 0.0, ..Segments::default() }, width, &lengths, 50) {
                prop_assert!(!a.is_empty() && a.is_sorted() && b.is_sorted());
                let mut all = [a, b].concat();
                all.sort_unstable();
                prop_assert_eq!(all, (0..length).collect::<Vec<_>>(), "nothing is cut where all fits");
            }
        }

        #[test]
        fn segments_beyond_the_width_are_cut(lengths in prop::collection::vec(1_usize..40, 1..6), width in 5_usize..40) {
            for [a, b] in rows(Segments::default(), width, &lengths, 50) {
                let frame = if b.is_empty() { 2 } else { 3 };
                prop_assert!(!a.is_empty() && a.len() + b.len() + frame <= width);
            }
        }
    }

    #[test]
    fn one_in_ten_has_one_segment() {
        let rows = rows(Segments { short_rate: 0.0, ..Segments::default() }, 63, &[10; 6], 4000);
        assert_share(rows.iter().filter(|[_, b]| b.is_empty()).count(), 4000, 0.1);
        // A's target is 30: two sentences fit, the third fills it and joins by a coin.
        let double: Vec<usize> = rows.iter().filter(|[_, b]| !b.is_empty()).map(|[a, _]| a.len()).collect();
        assert!(double.iter().all(|length| [20, 30].contains(length)));
        assert_share(double.iter().filter(|&&length| length == 30).count(), double.len(), 0.5);
    }

    #[test]
    fn a_short_sentence_may_join_behind_a_long_one() {
        let rows = rows(Segments { short_rate: 0.0, single_rate: 0.0 }, 20, &[4, 10, 3], 4000);
        // A's target is 8. The coin decides of the ten tokens; if they join B, the last three still fit A.
        let first = (0..4).chain(14..17).collect::<Vec<_>>();
        let second = (0..14).collect::<Vec<_>>();
        assert!(rows.iter().all(|[a, _]| *a == first || *a == second), "{:?}", rows[0]);
        assert_share(rows.iter().filter(|[a, _]| *a == first).count(), 4000, 0.5);
    }

    #[test]
    fn short_targets_are_uniform() {
        let rows = rows(Segments { short_rate: 1.0, single_rate: 1.0 }, 20, &[1; 17], 4000);
        let mut targets = [0; 16];
        for [a, _] in rows {
            targets[a.len() - 5] += 1;
        }
        // All targets from the sample's 17 tokens on contain all tokens.
        assert_eq!(targets[13..], [0; 3]);
        assert_uniform(&targets[..12]);
        assert_share(targets[12] as usize, 4000, 4.0 / 16.0);
    }
}
