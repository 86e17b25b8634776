//! Loss of a step: `Σ_objective w · Σ_term λ · S / N`.
//!
//! `N` is the sum of a term's counts over all micro-batches of the step, computed on the host before the first kernel
//! runs. So every position of a step has the same weight for any split into micro-batches. A mean of means would favour
//! the positions of micro-batches that have few.

use tch::Tensor;
use trainer_plan::objectives::Normalize;

use crate::objectives::Term;

/// Terms of one objective for each micro-batch of a step, and the factors of their sums.
#[derive(Debug)]
pub(crate) struct Counts {
    // [micro-batch][term], of this rank.
    terms: Vec<Vec<Term>>,
    // [term], over all micro-batches of all ranks.
    totals: Vec<f64>,
    micro_batches: f64,
    normalize: Normalize,
    weight: f64,
}

impl Counts {
    /// Collects the terms of one objective of weight `weight`, one list per micro-batch.
    ///
    /// # Panics
    /// If a count is negative or not finite, or if micro-batches differ in their number of terms.
    #[must_use]
    pub(crate) fn new(terms: Vec<Vec<Term>>, normalize: Normalize, weight: f64) -> Self {
        let mut totals = vec![0.0; terms.first().map_or(0, Vec::len)];
        for terms in &terms {
            assert_eq!(terms.len(), totals.len(), "an objective has the same terms in every micro-batch");
            for (total, Term { name, count, .. }) in totals.iter_mut().zip(terms) {
                assert!(
                    count.is_finite() && *count >= 0.0,
                    "term `{name}`: the count {count} is not a finite number of at least 0"
                );
                *total += count;
            }
        }
        let micro_batches = terms.len() as f64;
        Self { terms, totals, micro_batches, normalize, weight }
    }

    /// Returns whether the objective adds nothing to the step's loss: it has no weight, or no positions on any rank.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.weight == 0.0 || self.totals.iter().all(|total| *total == 0.0)
    }

    /// Returns the values to be summed over ranks: the count of each term, and the number of micro-batches.
    pub(crate) fn totals(&mut self) -> impl Iterator<Item = &mut f64> {
        self.totals.iter_mut().chain([&mut self.micro_batches])
    }

    /// Returns the terms of one micro-batch.
    #[must_use]
    pub(crate) fn terms(&self, micro_batch: usize) -> &[Term] {
        &self.terms[micro_batch]
    }

    /// Returns the factor of the sum of term `term` of micro-batch `micro_batch`; 0 if the term has no positions.
    #[must_use]
    pub(crate) fn factor(&self, micro_batch: usize, term: usize) -> f64 {
        let this = &self.terms[micro_batch][term];
        let count = match self.normalize {
            Normalize::Step => self.totals[term],
            Normalize::MicroBatch => this.count * self.micro_batches,
        };
        if this.count > 0.0 { self.weight * this.weight / count } else { 0.0 }
    }

    /// Returns the contribution of micro-batch `micro_batch` to the step's loss; `None` if there is none.
    #[must_use]
    pub(crate) fn loss(&self, micro_batch: usize, sums: &[Tensor]) -> Option<Tensor> {
        assert_eq!(sums.len(), self.terms[micro_batch].len(), "an objective gives one sum per term");
        let factors = (0..sums.len()).map(|term| self.factor(micro_batch, term));
        sums.iter()
            .zip(factors)
            .filter(|(_, factor)| *factor != 0.0)
            .map(|(sum, factor)| sum * factor)
            .reduce(|a, b| a + b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(normalize: Normalize, counts: &[f64]) -> Counts {
        let terms = |&count: &f64| vec![Term { name: "", weight: 2.0, count }];
        Counts::new(counts.iter().map(terms).collect(), normalize, 0.5)
    }

    fn assert_near(got: [f64; 2], expected: [f64; 2]) {
        assert!(got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-12), "{got:?}");
    }

    #[test]
    fn positions_have_the_same_weight_in_every_micro_batch() {
        let step = counts(Normalize::Step, &[1.0, 3.0]);
        assert_near([step.factor(0, 0), step.factor(1, 0)], [0.25, 0.25]);
        let micro = counts(Normalize::MicroBatch, &[1.0, 3.0]);
        assert_near([micro.factor(0, 0), micro.factor(1, 0)], [0.5, 1.0 / 6.0]);
    }

    #[test]
    fn totals_include_other_ranks() {
        let mut step = counts(Normalize::Step, &[1.0, 3.0]);
        let mut micro = counts(Normalize::MicroBatch, &[1.0, 3.0]);
        for counts in [&mut step, &mut micro] {
            counts.totals().for_each(|total| *total *= 2.0);
        }
        assert_near([step.factor(0, 0), step.factor(1, 0)], [0.125, 0.125]);
        assert_near([micro.factor(0, 0), micro.factor(1, 0)], [0.25, 0.5 / 6.0]);
    }

    #[test]
    fn terms_without_positions_give_no_loss() {
        let step = counts(Normalize::Step, &[0.0, 0.0]);
        assert!(step.loss(0, &[Tensor::from(f32::NAN)]).is_none());
    }
}
