//! Two segments that follow one another, or do not.
//!
//! **What.** `[CLS] A [SEP] B [SEP]`, padded to the width, and whether B is random. A is of the sample; B follows it there
//! or comes from another document.
//!
//! **Why.** What next-sentence prediction reads, and the rows of BERT and of TaCL's continued training.
//!
//! **Definition.** A sample is a run of whole sentences of one document, of `L − 3` tokens at most in rows of width `L`.
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
//! **Columns.** `input_ids`, `token_types` (0 for `[CLS] A [SEP]`, 1 for `B [SEP]`), `is_random` (the label in every cell of
//! the row); on demand `attention_mask`, `origin`, `document`. `origin` counts through the sample, then through the
//! partner.
//!
//! **Reference.** Devlin et al., *BERT*, NAACL 2019, section 3.1 and appendix A.2, `create_pretraining_data.py`; as used by
//! Su et al., *TaCL*, Findings of NAACL 2022.

use std::ops::Range;

use schemas::columns::{INPUT_IDS, IS_RANDOM, TOKEN_TYPES};
use schemas::{ColumnSpec, Sample, Vocab};
use serde::{Deserialize, Serialize};

use super::spans::{Sentences, Span, below, chance, rate_problems, write};
use super::{Source, View, ViewName};
use crate::rng::{Rng, RowAddress};
use crate::row::RowMut;

/// Two segments of one document or of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
        rate_problems(&[("short_rate", self.short_rate), ("random_rate", self.random_rate)])
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
        let target = if chance(rng, self.short_rate) { 2 + below(rng, max - 1) } else { max };
        let sentences = Sentences::of(sample);
        let chunk = sentences.until(0, target);
        let border = if chunk == 1 { 1 } else { 1 + below(rng, chunk - 1) };
        let a = 0..sentences.bound(border);
        let is_random = chance(rng, self.random_rate) || chunk == 1;
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
