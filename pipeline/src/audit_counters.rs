//! What is counted of a view, batch by batch: rules that must hold and laws of chance.
//!
//! A view fills a [`AuditCounters`] with what it finds of itself in a batch ([`Seen`]); [`audit`](crate::audit) asks all of them
//! and judges.

use std::collections::BTreeMap;
use std::fmt;

use schemas::{Batch, BatchIndex, Column, Element, Grid, Vocab};

/// One view of one batch.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) view: &'a str,
    pub(crate) vocab: &'a Vocab,
    /// Occurrences of all ordinary ids in the training split.
    pub(crate) occurrences: u64,
    /// Real tokens of each row, if known.
    pub(crate) tokens: Option<&'a [usize]>,
    /// Tokens of each row's sample in its plain frame, if that is in the batch.
    pub(crate) framed: Option<&'a [usize]>,
    /// How many copies there are of a row.
    pub(crate) copies: u32,
    /// The number of the batch's first row in the stream.
    pub(crate) first_row: u64,
}

impl<'a> Seen<'a> {
    /// A column of the view, if it is in the batch.
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

    /// Real tokens of each row, if known.
    #[must_use]
    pub fn tokens(&self) -> Option<&'a [usize]> {
        self.tokens
    }

    /// Tokens of each row's sample in its plain frame of `[CLS]` and `[SEP]`, if that is in the batch.
    #[must_use]
    pub fn framed(&self) -> Option<&'a [usize]> {
        self.framed
    }

    /// How many copies there are of a row.
    #[must_use]
    pub fn copies(&self) -> u32 {
        self.copies
    }

    /// Whether `row` and the row before it in the batch are copies of one.
    #[must_use]
    pub fn is_next_copy(&self, row: usize) -> bool {
        row > 0 && !(self.first_row + row as u64).is_multiple_of(u64::from(self.copies))
    }
}

/// What one view was found to do.
#[derive(Debug, Default)]
pub struct AuditCounters {
    batch: BatchIndex,
    rules: BTreeMap<&'static str, Broken>,
    laws: BTreeMap<&'static str, ViewLaw>,
}

impl AuditCounters {
    /// What follows is found in `batch`.
    pub(crate) fn enter(&mut self, batch: BatchIndex) {
        self.batch = batch;
    }

    /// A hard rule is broken at a place.
    pub fn forbid(&mut self, rule: &'static str, row: usize, column: usize) {
        let batch = self.batch;
        self.rules.entry(rule).or_insert(Broken { times: 0, batch, row, column }).times += 1;
    }

    /// Adds to a law of chance.
    pub fn count(&mut self, what: &'static str, more: ViewLaw) {
        self.laws.entry(what).or_default().add(more);
    }

    /// Every law with what was counted.
    pub(crate) fn counts(&self) -> impl Iterator<Item = NamedLaw> {
        self.laws.iter().map(|(&what, &law)| NamedLaw { what, law })
    }

    /// What is not as promised: broken rules, then laws that have drifted.
    pub(crate) fn drifts(&self) -> impl Iterator<Item = String> {
        let broken = self.rules.iter().map(|(rule, broken)| format!("{rule} ({broken})"));
        broken.chain(self.drifted())
    }

    fn drifted(&self) -> impl Iterator<Item = String> {
        self.laws.iter().filter(|(_, law)| law.has_drifted()).map(|(&what, &law)| NamedLaw { what, law }.to_string())
    }

    /// A batch to look at: that of the first broken rule, or the last one counted.
    pub(crate) fn suspect(&self) -> BatchIndex {
        self.rules.values().map(|broken| broken.batch).min().unwrap_or(self.batch)
    }
}

/// A broken rule: how often, and where first.
#[derive(Clone, Copy, Debug)]
struct Broken {
    times: u64,
    batch: BatchIndex,
    row: usize,
    column: usize,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { times, batch, row, column } = self;
        write!(f, "{times} times, first in batch {batch}, row {row}, column {column}")
    }
}

/// A sum of random events next to its mean and variance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ViewLaw {
    /// What was found.
    pub found: f64,
    /// What is found on average.
    pub expected: f64,
    /// The variance of the sum, or more than it.
    pub variance: f64,
    /// What the sums are a share of.
    pub of: f64,
    /// What a single event adds, at most.
    pub largest: f64,
}

/// How far a sum may be from its law: a chance of 2 in 10⁹ for each look.
const STANDARD_ERRORS: f64 = 6.0;

impl ViewLaw {
    /// Events of the probability `chance`, each of which adds `size` to a sum of at most `of`; `found` is that sum.
    #[must_use]
    pub fn events(found: f64, chance: f64, of: f64, size: f64) -> Self {
        Self { found, expected: chance * of, variance: chance * (1.0 - chance) * of * size, of, largest: size }
    }

    /// Adds what was found elsewhere.
    pub fn add(&mut self, more: Self) {
        self.found += more.found;
        self.expected += more.expected;
        self.variance += more.variance;
        self.of += more.of;
        self.largest = self.largest.max(more.largest);
    }

    /// Events that are rare together keep no normal law: two times the square of 6 of them, over 6, may come by chance
    /// too (Bernstein's inequality). What has no variance has no excuse.
    fn has_drifted(&self) -> bool {
        let rare = if self.variance > 0.0 { 2.0 * STANDARD_ERRORS * self.largest } else { 0.5 };
        (self.found - self.expected).abs() > STANDARD_ERRORS * self.variance.sqrt() + rare
    }
}

/// A law by its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedLaw {
    /// Whose share it is.
    pub what: &'static str,
    /// The sums.
    pub law: ViewLaw,
}

impl fmt::Display for NamedLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ViewLaw { found, expected, variance, of, .. } = self.law;
        let percent = |sum: f64| 100.0 * sum / of.max(1.0);
        let (found, expected, error) = (percent(found), percent(expected), percent(variance.sqrt()));
        write!(f, "{}: {found:.3} % of {of:.0}, promised {expected:.3} ± {error:.3}", self.what)
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
