//! Pair of segments, consecutive or random.
//!
//! # What
//! `[CLS] A [SEP] B [SEP]`, padded to the width, and a label: is B random? A is of the sample; B follows it there or
//! comes from another document.
//!
//! # Why
//! Input of next-sentence prediction: the rows of BERT and of TaCL's continued training.
//!
//! # Definition
//! A sample is a run of whole sentences of one document, of at most `L − 3` tokens in rows of width `L`. The *target*
//! is `L − 3`, or, with probability `short_rate`, uniform in `2..=L − 3`. The *chunk* is the shortest run of sentences
//! from the first on that has at least target tokens, or all sentences. It is cut within its last sentence: at the
//! target, or, if it is the whole sample and has no more tokens than the target, after a uniformly drawn token of that
//! sentence. A ends at a uniformly drawn border between two sentences of the chunk, and has at least one sentence. A
//! chunk of one sentence keeps at least two tokens, and its border is between two uniformly drawn tokens.
//!
//! With probability `random_rate` B is random, and the label is 1. B then has as many tokens as the chunk has after A.
//! It begins at a uniformly drawn sentence of the *partner* that has enough tokens from its beginning on (at any such
//! token, if A ends within a sentence). Otherwise B is the rest of the chunk after A, with label 0. The partner is
//! another sample of the shuffle window: of ten drawn samples, the first of another document that is as long as the
//! sample, else the longest of another document. A partner that has no more tokens than B shortens B, to an end within
//! the partner's last sentence, for both labels. If no other document was drawn, the label is 0. A chunk of a single
//! token is a row of A, with label 0.
//!
//! So **lengths do not depend on the label**: they are decided before it. If documents are longer than a row, the ends
//! carry little information too. Both kinds of B begin with a sentence and mostly end within one (in novels, 4.7 % of
//! true B and 3.7 % of random ones end with a full stop). If documents are single sentences, the ends carry more: a
//! true B ends uniformly within its own short sentence, a random one anywhere in its longer partner (in dialogues cut
//! at each paragraph, 18 % and 4 %).
//!
//! Differences from BERT's script:
//! - In the script both kinds of B continue until the row is over-full, and the longer segment is cut at either end. At
//!   the end of a document a true B is shorter than a random one, and a chunk of one sentence is always labelled
//!   random. So lengths reveal the label.
//! - The script starts the next row with the unused rest of a chunk. Here the rest is unused in this epoch and can
//!   return in the next, with other draws.
//! - In the script a partner is any document. Here it is a sample of the window, and seldom a shorter one.
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
use super::{View, ViewName, ViewSource, share_problems};
use crate::rng::{Rng, RowAddress};
use crate::row::RowMut;

/// Pair of segments of one document or of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pair {
    /// Share of rows with a shorter target length.
    pub short_rate: f64,
    /// Share of random second segments, if there is a choice.
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

    fn render(&self, source: ViewSource<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>) {
        let sample = source.sample();
        let mut rng = at.rng("pair");
        let cut = self.cut(sample, row.input_ids.len() - 3, &mut rng);
        let partner = source.partner().filter(|_| !cut.b.is_empty());
        let length = partner.map_or(cut.b.len(), |partner| cut.b.len().min(usable(partner, cut.b.len(), &mut rng)));
        let is_random = rng.chance(self.random_rate);
        let partner = partner.filter(|_| is_random);
        let second = match partner {
            Some(partner) => {
                Span::new(partner, somewhere(partner, length, cut.is_clean, &mut rng), sample.input_ids.len())
            }
            None => Span::new(sample, cut.b.start..cut.b.start + length, 0),
        };
        write(row, vocab, &[Span::new(sample, cut.a, 0)], &[second], 1);
        if let Some(is_random) = row.cells.get(IS_RANDOM) {
            is_random.fill(u8::from(partner.is_some()));
        }
    }
}

/// Segments of a sample for a true second segment.
struct PairCut {
    a: Range<usize>,
    b: Range<usize>,
    /// True if B begins with a sentence.
    is_clean: bool,
}

impl Pair {
    fn cut(&self, sample: &Sample<'_>, max: usize, rng: &mut Rng) -> PairCut {
        let target = if rng.chance(self.short_rate) { 2 + below(rng, max - 1) } else { max };
        let sentences = Sentences::new(sample);
        let chunk = sentences.until(0, target);
        let last = sentences.bound(chunk - 1);
        let all = sentences.bound(chunk);
        let end = if all > target || chunk < sentences.count() {
            target
        } else {
            // A single sentence keeps at least two tokens, if it has two.
            draw_end(last + usize::from(chunk == 1 && all > 1), all, rng)
        };
        let is_clean = chunk > 1;
        let border = match end {
            _ if is_clean => sentences.bound(1 + below(rng, chunk - 1)),
            2.. => 1 + below(rng, end - 1),
            _ => end,
        };
        PairCut { a: 0..border, b: border..end, is_clean }
    }
}

/// Returns an end after one of the tokens `first..all`, uniformly drawn; `all` if there is none.
fn draw_end(first: usize, all: usize, rng: &mut Rng) -> usize {
    if first < all { first + 1 + below(rng, all - first) } else { all }
}

/// Returns the number of the partner's tokens that may be a second segment. It ends within a sentence, as for a true
/// segment, even if the partner has no more than `wanted`.
fn usable(partner: &Sample<'_>, wanted: usize, rng: &mut Rng) -> usize {
    let sentences = Sentences::new(partner);
    let all = partner.input_ids.len();
    if all > wanted { all } else { draw_end(sentences.bound(sentences.count() - 1), all, rng) }
}

/// Returns `length` tokens of `partner`, from a uniformly drawn sentence on that has at least `length` tokens after its
/// beginning, or from such a token. The partner must have `length` tokens.
fn somewhere(partner: &Sample<'_>, length: usize, is_clean: bool, rng: &mut Rng) -> Range<usize> {
    let latest = partner.input_ids.len() - length;
    let first = if is_clean {
        let sentences = Sentences::new(partner);
        let fit = (1..sentences.count()).take_while(|&index| sentences.bound(index) <= latest).count();
        sentences.bound(below(rng, fit + 1))
    } else {
        below(rng, latest + 1)
    };
    first..first + length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schemas::{Epoch, SampleAddress};

    use super::*;
    use crate::rng::Key;
    use crate::testing::{StoredSample, assert_same_law, assert_share, assert_uniform, frame_rows, segments};
    use crate::views::AnyView;

    fn rows(
        pair: Pair,
        width: usize,
        sample: &StoredSample,
        partner: Option<&StoredSample>,
    ) -> Vec<([Vec<usize>; 2], u8)> {
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
            let sample = StoredSample::new(&lengths, 10);
            let partner = StoredSample::new(&others, 100);
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
                }
            }
        }
    }

    #[test]
    fn half_of_the_pairs_are_random_and_borders_are_uniform() {
        let sample = StoredSample::new(&[10; 6], 10);
        let partner = StoredSample::new(&[10; 6], 100);
        let rows = rows(Pair { short_rate: 0.0, ..Pair::default() }, 63, &sample, Some(&partner));
        assert_share(rows.iter().filter(|(_, label)| *label == 1).count(), 4000, 0.5);
        let mut borders = [0; 5];
        let mut ends = [0; 10];
        let mut firsts = [0; 6];
        for ([a, b], label) in &rows {
            assert_eq!(a.len() % 10, 0, "A is whole sentences");
            borders[a.len() / 10 - 1] += 1;
            ends[a.len() + b.len() - 51] += 1;
            // For an A of one sentence, only the first two sentences of the partner have enough tokens after their
            // beginning.
            if *label == 1 && a.len() == 50 {
                firsts[(b[0] - 60) / 10] += 1;
            }
            assert!(*label == 0 || (b[0] - 60).is_multiple_of(10), "B begins with a sentence");
        }
        assert_uniform(&borders);
        assert_uniform(&ends);
        assert_uniform(&firsts);
    }

    /// Tests lengths and ends on a corpus of short and long documents.
    #[test]
    fn lengths_and_ends_say_nothing_of_the_label() {
        let mut drawn = Key::new(1, Epoch(0), "", "test").row(SampleAddress::numbered(0), 0);
        // As packing does: whole sentences, of 4 to 23 tokens, as long as they fit.
        let mut stored = |max_seq_len: usize, first_id: u16| {
            let mut lengths = Vec::new();
            let mut sum = 0;
            loop {
                let length = 4 + below(&mut drawn, 20);
                sum += length;
                if sum > max_seq_len {
                    return StoredSample::new(&lengths, first_id);
                }
                lengths.push(length);
            }
        };
        let mut totals = Vec::new();
        let mut firsts = Vec::new();
        let mut ends = Vec::new();
        for case in 0..400 {
            let sample = stored(if case % 2 == 0 { 40 } else { 125 }, 10);
            let partner = stored(if case % 3 == 0 { 40 } else { 125 }, 100);
            let items = sample.items_at(Some(&partner), 40 * case..40 * (case + 1));
            let batch = frame_rows(AnyView::Pair(Pair::default()), 128, &items);
            let labels = batch.column("view", IS_RANDOM).expect("made");
            for (row, [a, b]) in segments(&batch).into_iter().enumerate() {
                let is_random = labels.row(row)[0] == 1;
                totals.push((a.len() + b.len(), is_random));
                firsts.push((a.len(), is_random));
                let (of, base) = if is_random { (&partner, sample.len()) } else { (&sample, 0) };
                ends.push((usize::from(b.last().is_some_and(|&last| of.ends_at(last - base))), is_random));
            }
        }
        assert_same_law(&totals);
        assert_same_law(&firsts);
        // The mean sentence length is 13.5 tokens.
        let share = |label| {
            let of: Vec<usize> =
                ends.iter().filter(|(_, is_random)| *is_random == label).map(|(end, _)| *end).collect();
            of.iter().sum::<usize>() as f64 / of.len() as f64
        };
        assert!((share(true) - share(false)).abs() < 0.04, "{} and {}", share(true), share(false));
    }

    #[test]
    fn some_targets_are_short() {
        let sample = StoredSample::new(&[1; 60], 10);
        let partner = StoredSample::new(&[1; 60], 100);
        let pair = |short_rate| Pair { short_rate, random_rate: 0.0 };
        let length = |([a, b], _): &([Vec<usize>; 2], u8)| a.len() + b.len();
        let usual = rows(pair(0.1), 63, &sample, Some(&partner));
        // A short target equals the maximum in one of 59 cases.
        assert_share(usual.iter().filter(|row| length(row) < 60).count(), 4000, 0.1 * 58.0 / 59.0);
        let mut targets = [0; 59];
        for row in rows(pair(1.0), 63, &sample, Some(&partner)) {
            targets[length(&row) - 2] += 1;
        }
        assert_uniform(&targets);
    }

    #[test]
    fn single_sentence_is_cut_uniformly() {
        let sample = StoredSample::new(&[30], 10);
        let partner = StoredSample::new(&[10, 21], 100);
        let mut ends = [0; 29];
        let mut firsts = [0; 31];
        let mut random = 0;
        for ([a, b], label) in rows(Pair { short_rate: 0.0, ..Pair::default() }, 63, &sample, Some(&partner)) {
            ends[a.len() + b.len() - 2] += 1;
            random += usize::from(label);
            if label == 1 && b.len() == 1 {
                firsts[b[0] - 30] += 1;
            }
        }
        assert_uniform(&ends);
        assert_uniform(&firsts);
        assert_share(random, 4000, 0.5);
    }
}
