//! Two segments that follow one another, or do not.
//!
//! # What
//! `[CLS] A [SEP] B [SEP]`, padded to the width, and whether B is random. A is of the sample; B follows it there
//! or comes from another document.
//!
//! # Why
//! What next-sentence prediction reads, and the rows of BERT and of TaCL's continued training.
//!
//! # Definition
//! A sample is a run of whole sentences of one document, of `L − 3` tokens at most in rows of width `L`.
//! The *target* is `L − 3`, or, with probability `short_rate`, uniform in `2..=L − 3`. The *chunk* is the fewest sentences
//! from the first on that have so many tokens, or all. It is cut at a uniformly drawn border between two of its
//! sentences: A, of one sentence at least, and the rest.
//!
//! With probability `random_rate`, and always if the chunk is a single sentence, B is random: from a uniformly drawn
//! sentence of the *partner* on, the fewest sentences that have `target − |A|` tokens, at least one; the label is 1.
//! Otherwise B is the rest of the chunk, with label 0. The partner is another sample of the shuffle window, drawn up to
//! ten times until its document differs. If none does, B is the rest; a single sentence is then cut between two
//! uniformly drawn tokens, with label 0 (one token alone stays a row of A).
//!
//! While A and B have more than `L − 3` tokens together, the longer one (B, if equal) loses one from its front or its
//! back, by a fair coin for each.
//!
//! This departs from BERT's script in one place: the script gives the unused rest of a chunk back, to be the beginning
//! of the next one. Here it is unused in this epoch and returns in the next, with other draws.
//!
//! # Columns
//! `input_ids`, `token_types` (0 for `[CLS] A [SEP]`, 1 for `B [SEP]`), `is_random` (the label in every cell of
//! the row); on demand `attention_mask`, `origin`, `document`. `origin` counts through the sample, then through the
//! partner.
//!
//! # Reference
//! Devlin et al., *BERT*, NAACL 2019, section 3.1 and appendix A.2, `create_pretraining_data.py`; as used by
//! Su et al., *TaCL*, Findings of NAACL 2022.

use std::ops::Range;

use schemars::JsonSchema;
use schemas::columns::{INPUT_IDS, IS_RANDOM, TOKEN_TYPES};
use schemas::{ColumnSpec, Sample, Vocab};
use serde::{Deserialize, Serialize};

use super::spans::{Sentences, Span, below, write};
use super::{Source, View, ViewName, share_problems};
use crate::rng::{Rng, RowAddress};
use crate::row::RowMut;

/// Two segments of one document or of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pair {
    /// Share of rows with a shorter target.
    pub short_rate: f64,
    /// Share of random second segments, where there is a choice.
    pub random_rate: f64,
}

impl Default for Pair {
    fn default() -> Self {
        Self { short_rate: 0.1, random_rate: 0.5 }
    }
}

impl View for Pair {
    fn of(&self) -> Option<&ViewName> {
        None
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        const { &[INPUT_IDS.spec(), TOKEN_TYPES.spec(), IS_RANDOM.spec()] }
    }

    fn samples(&self) -> usize {
        2
    }

    fn needs_sentences(&self) -> bool {
        true
    }

    fn problems(&self) -> Vec<(&'static str, String)> {
        share_problems(&[("short_rate", self.short_rate), ("random_rate", self.random_rate)])
    }

    fn render(&self, source: Source<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>) {
        let sample = source.sample();
        let mut rng = at.rng("pair");
        let max = row.input_ids.len() - 3;
        let (mut a, mut b, partner) = self.cut(sample, source.partner(), max, &mut rng);
        truncate(&mut a, &mut b, max, &mut rng);
        let second = match partner {
            Some(partner) => Span::new(partner, b, sample.input_ids.len()),
            None => Span::new(sample, b, 0),
        };
        write(row, vocab, &[Span::new(sample, a, 0)], &[second]);
        if let Some(is_random) = row.cells.get(IS_RANDOM) {
            is_random.fill(u8::from(partner.is_some()));
        }
    }
}

impl Pair {
    /// A of the sample, B of the sample or of the partner, if that is returned. Both may be too long.
    fn cut<'a>(
        &self,
        sample: &Sample<'_>,
        partner: Option<&'a Sample<'a>>,
        max: usize,
        rng: &mut Rng,
    ) -> (Range<usize>, Range<usize>, Option<&'a Sample<'a>>) {
        let target = if rng.chance(self.short_rate) { 2 + below(rng, max - 1) } else { max };
        let sentences = Sentences::of(sample);
        let chunk = sentences.until(0, target);
        let border = if chunk == 1 { 1 } else { 1 + below(rng, chunk - 1) };
        let a = 0..sentences.bound(border);
        let is_random = rng.chance(self.random_rate) || chunk == 1;
        if let Some(partner) = partner.filter(|_| is_random) {
            let others = Sentences::of(partner);
            let first = below(rng, others.count());
            let last = others.until(first, target.saturating_sub(a.end));
            return (a, others.bound(first)..others.bound(last), Some(partner));
        }
        let end = sentences.bound(chunk);
        let border = if chunk > 1 || end < 2 { a.end } else { 1 + below(rng, end - 1) };
        (0..border, border..end, None)
    }
}

/// Takes tokens from the ends of the longer segment until both have `max` together.
fn truncate(a: &mut Range<usize>, b: &mut Range<usize>, max: usize, rng: &mut Rng) {
    let mut coins = rng.split(2);
    while a.len() + b.len() > max {
        let longer = if a.len() > b.len() { &mut *a } else { &mut *b };
        match coins.below(2) {
            0 => longer.start += 1,
            _ => longer.end -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Stored, assert_share, assert_uniform, frame_rows, segments};
    use crate::views::AnyView;

    fn rows(pair: Pair, width: usize, sample: &Stored, partner: Option<&Stored>) -> Vec<([Vec<usize>; 2], u8)> {
        let batch = frame_rows(AnyView::Pair(pair), width, &sample.items(partner, 4000));
        let labels = batch.column("view", IS_RANDOM).expect("made");
        (0..).zip(segments(&batch)).map(|(row, segments)| (segments, labels.row(row)[0])).collect()
    }

    fn is_run(origins: &[usize]) -> bool {
        origins.windows(2).all(|pair| pair[0] + 1 == pair[1])
    }

    proptest! {
        #[test]
        fn segments_are_runs_that_fit(
            lengths in prop::collection::vec(1_usize..12, 1..9), others in prop::collection::vec(1_usize..12, 1..9), room in 2_usize..60, lonely: bool,
        ) {
            let width = room.max(lengths.iter().sum()) + 3;
            let (sample, partner) = (Stored::new(&lengths, 10), Stored::new(&others, 100));
            let length: usize = lengths.iter().sum();
            let batch = frame_rows(AnyView::Pair(Pair { short_rate: 0.4, ..Pair::default() }), width, &sample.items((!lonely).then_some(&partner), 30));
            let ids = batch.column("view", INPUT_IDS).expect("made");
            let labels = batch.column("view", IS_RANDOM).expect("made");
            for (row, [a, b]) in segments(&batch).into_iter().enumerate() {
                let label = labels.row(row)[0];
                prop_assert!(!a.is_empty() && a.len() + b.len() <= width - 3, "{a:?} {b:?}");
                prop_assert!(is_run(&a) && is_run(&b) && a[a.len() - 1] < length);
                prop_assert!(!b.is_empty() || length == 1 && label == 0);
                let expected = [&[2][..], &vec![0; a.len()], &[3], &vec![0; b.len()], if b.is_empty() { &[] } else { &[3] }].concat();
                let specials: Vec<i32> = ids.row(row).iter().map(|&id| if id < 5 { id } else { 0 }).collect();
                prop_assert_eq!(&specials[..expected.len()], &expected[..]);
                prop_assert!(specials[expected.len()..].iter().all(|&id| id == 0));
                if label == 1 {
                    prop_assert!(!lonely && b.iter().all(|&origin| origin >= length));
                } else {
                    prop_assert!(a[0] == 0 && b.first().is_none_or(|&first| first == a.len()), "B follows A");
                    prop_assert!(lonely || lengths.len() > 1, "a single sentence has a random partner");
                }
            }
        }
    }

    #[test]
    fn half_of_the_pairs_are_random_and_borders_are_uniform() {
        let (sample, partner) = (Stored::new(&[10; 6], 10), Stored::new(&[10; 6], 100));
        let rows = rows(Pair { short_rate: 0.0, ..Pair::default() }, 63, &sample, Some(&partner));
        assert_share(rows.iter().filter(|(_, label)| *label == 1).count(), 4000, 0.5);
        let (mut borders, mut firsts) = ([0; 5], [0; 6]);
        for ([a, b], label) in &rows {
            assert_eq!(a.len() % 10, 0, "whole sentences fill the row");
            borders[a.len() / 10 - 1] += 1;
            if *label == 1 {
                firsts[(b[0] - 60) / 10] += 1;
                assert!(a.len() + b.len() == 60 || b.last() == Some(&119), "up to the target, or to the end");
            }
        }
        assert_uniform(&borders);
        assert_uniform(&firsts);
    }

    #[test]
    fn some_targets_are_short() {
        let (sample, partner) = (Stored::new(&[1; 60], 10), Stored::new(&[1; 60], 100));
        let pair = |short_rate| Pair { short_rate, random_rate: 0.0 };
        let length = |([a, b], _): &([Vec<usize>; 2], u8)| a.len() + b.len();
        let usual = rows(pair(0.1), 63, &sample, Some(&partner));
        // A short target is the longest in one of 59 cases.
        assert_share(usual.iter().filter(|row| length(row) < 60).count(), 4000, 0.1 * 58.0 / 59.0);
        let mut targets = [0; 59];
        for row in rows(pair(1.0), 63, &sample, Some(&partner)) {
            targets[length(&row) - 2] += 1;
        }
        assert_uniform(&targets);
    }

    #[test]
    fn the_longer_segment_is_cut_at_both_ends_alike() {
        let (sample, partner) = (Stored::new(&[20, 20], 10), Stored::new(&[61], 100));
        let rows = rows(Pair { short_rate: 0.0, random_rate: 1.0 }, 43, &sample, Some(&partner));
        let mut fronts = 0;
        for ([a, b], label) in &rows {
            assert_eq!((a.len(), b.len(), *label), (20, 20, 1));
            assert_eq!(a[0], 0, "B was longer, then as long");
            fronts += b[0] - 40;
        }
        assert_share(fronts, 41 * 4000, 0.5);
    }

    #[test]
    fn a_lonely_sentence_is_cut_anywhere() {
        let sample = Stored::new(&[30], 10);
        let mut borders = [0; 29];
        for ([a, b], label) in rows(Pair::default(), 63, &sample, None) {
            assert_eq!((a.len() + b.len(), label), (30, 0));
            borders[a.len() - 1] += 1;
        }
        assert_uniform(&borders);
    }
}
