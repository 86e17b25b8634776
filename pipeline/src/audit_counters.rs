//! Counts of one view over batches: hard rules and statistical laws.
//!
//! A view adds its findings in a batch ([`AuditedView`]) to an [`AuditCounters`]. [`audit`](crate::audit) evaluates the
//! counters of all views.

use std::collections::BTreeMap;
use std::fmt;

use schemas::{Batch, BatchIndex, Column, Element, Grid, Vocab};

/// One view of one batch.
#[derive(Clone, Copy, Debug)]
pub struct AuditedView<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) view: &'a str,
    pub(crate) vocab: &'a Vocab,
    /// Occurrences of all ordinary ids in the training split.
    pub(crate) occurrences: u64,
    /// Number of real tokens of each row, if known.
    pub(crate) tokens: Option<&'a [usize]>,
    /// Number of tokens of each row's sample in its plain frame, if that frame is in the batch.
    pub(crate) framed: Option<&'a [usize]>,
    /// Number of copies of a row.
    pub(crate) copies: u32,
    /// Number of the batch's first row in the stream.
    pub(crate) first_row: u64,
}

impl<'a> AuditedView<'a> {
    /// Returns a column of the view, if it is in the batch.
    #[must_use]
    pub fn column<T: Element>(&self, column: Column<T>) -> Option<Grid<'a, T>> {
        self.batch.find(self.view, column).ok().flatten()
    }

    /// The vocabulary.
    #[must_use]
    pub fn vocab(&self) -> &'a Vocab {
        self.vocab
    }

    /// Occurrences of all ordinary ids in the training split.
    #[must_use]
    pub fn occurrences(&self) -> u64 {
        self.occurrences
    }

    /// Number of real tokens of each row, if known.
    #[must_use]
    pub fn tokens(&self) -> Option<&'a [usize]> {
        self.tokens
    }

    /// Number of tokens of each row's sample in its plain frame of `[CLS]` and `[SEP]`, if that frame is in the batch.
    #[must_use]
    pub fn framed(&self) -> Option<&'a [usize]> {
        self.framed
    }

    /// Number of copies of a row.
    #[must_use]
    pub fn copies(&self) -> u32 {
        self.copies
    }

    /// Whether `row` and the row before it in the batch are copies of the same row.
    #[must_use]
    pub fn is_next_copy(&self, row: usize) -> bool {
        row > 0 && !(self.first_row + row as u64).is_multiple_of(u64::from(self.copies))
    }
}

/// Findings of one view.
#[derive(Debug, Default)]
pub struct AuditCounters {
    batch: BatchIndex,
    rules: BTreeMap<&'static str, BrokenRule>,
    laws: BTreeMap<&'static str, ViewLaw>,
}

impl AuditCounters {
    /// Sets the batch of the findings that follow.
    pub(crate) fn begin_batch(&mut self, batch: BatchIndex) {
        self.batch = batch;
    }

    /// Records a broken hard rule and its place.
    pub fn record_violation(&mut self, rule: &'static str, row: usize, column: usize) {
        let batch = self.batch;
        self.rules.entry(rule).or_insert(BrokenRule { times: 0, batch, row, column }).times += 1;
    }

    /// Adds to a statistical law.
    pub fn count(&mut self, what: &'static str, more: ViewLaw) {
        self.laws.entry(what).or_default().add(more);
    }

    /// Returns every law with its counts.
    pub(crate) fn counts(&self) -> impl Iterator<Item = NamedLaw> {
        self.laws.iter().map(|(&what, &law)| NamedLaw { what, law })
    }

    /// Returns the deviations: broken rules, then laws that have drifted.
    pub(crate) fn deviations(&self) -> impl Iterator<Item = String> {
        let broken = self.rules.iter().map(|(rule, broken)| format!("{rule} ({broken})"));
        broken.chain(self.deviating())
    }

    fn deviating(&self) -> impl Iterator<Item = String> {
        self.laws.iter().filter(|(_, law)| law.has_drifted()).map(|(&what, &law)| NamedLaw { what, law }.to_string())
    }

    /// Returns a batch to inspect: that of the first broken rule, or the last one counted.
    pub(crate) fn suspect(&self) -> BatchIndex {
        self.rules.values().map(|broken| broken.batch).min().unwrap_or(self.batch)
    }
}

/// Broken rule: number of violations and place of the first.
#[derive(Clone, Copy, Debug)]
struct BrokenRule {
    times: u64,
    batch: BatchIndex,
    row: usize,
    column: usize,
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { times, batch, row, column } = self;
        write!(f, "{times} times, first in batch {batch}, row {row}, column {column}")
    }
}

/// Sum of random events with its mean and variance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ViewLaw {
    /// Observed sum.
    pub found: f64,
    /// Expected sum.
    pub expected: f64,
    /// Variance of the sum, or an upper bound of it.
    pub variance: f64,
    /// Denominator of the share.
    pub of: f64,
    /// Maximum contribution of a single event.
    pub largest: f64,
}

/// Maximum distance of a sum from its law in standard errors: a false alarm probability of 2 in 10⁹ per check.
const STANDARD_ERRORS: f64 = 6.0;

impl ViewLaw {
    /// Events of the probability `chance`. Each adds `size` to a sum of at most `of`; `found` is the observed sum.
    #[must_use]
    pub fn events(found: f64, chance: f64, of: f64, size: f64) -> Self {
        Self { found, expected: chance * of, variance: chance * (1.0 - chance) * of * size, of, largest: size }
    }

    /// Adds another sum of the same law.
    pub fn add(&mut self, more: Self) {
        self.found += more.found;
        self.expected += more.expected;
        self.variance += more.variance;
        self.of += more.of;
        self.largest = self.largest.max(more.largest);
    }

    /// Whether the sum is too far from its law. Sums of rare events are not normal. Bernstein's inequality therefore
    /// also allows `2 · 6² / 6` times the largest event. A sum without variance has no tolerance for chance.
    fn has_drifted(&self) -> bool {
        let rare = if self.variance > 0.0 { 2.0 * STANDARD_ERRORS * self.largest } else { 0.5 };
        (self.found - self.expected).abs() > STANDARD_ERRORS * self.variance.sqrt() + rare
    }
}

/// Law with its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedLaw {
    /// Name of the share.
    pub what: &'static str,
    /// Sums of the law.
    pub law: ViewLaw,
}

impl fmt::Display for NamedLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ViewLaw { found, expected, variance, of, .. } = self.law;
        let percent = |sum: f64| 100.0 * sum / of.max(1.0);
        let found = percent(found);
        let expected = percent(expected);
        let error = percent(variance.sqrt());
        write!(f, "{}: {found:.3} % of {of:.0}, expected {expected:.3} ± {error:.3}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_events_are_no_drift_and_impossible_ones_are() {
        let law = |found, expected, variance| ViewLaw { found, expected, variance, of: 1000.0, largest: 1.0 };
        assert!(!law(2.0, 0.01, 0.01).has_drifted());
        assert!(law(1.0, 0.0, 0.0).has_drifted());
        assert!(!law(1000.0, 1000.0, 0.0).has_drifted());
        assert!(law(15_900.0, 15_000.0, 12_750.0).has_drifted() && !law(15_600.0, 15_000.0, 12_750.0).has_drifted());
    }
}
