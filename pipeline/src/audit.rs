//! What views promise, counted on the batches that a run learns from.
//!
//! Tests show that a view draws as it says on rows that were made up for it. The audit looks at the real ones: each view
//! adds what it finds in a batch to a [`Tally`], hard rules (no special token is masked, a positive lies inside its
//! window) and laws of chance (80 % become `[MASK]`) alike. A broken rule, or a sum six standard errors from its law, is
//! an error that names the view. Only columns that are in the batch are looked at: a promise about others is not checked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemas::columns::ATTENTION_MASK;
use schemas::manifest::Frame;
use schemas::{Batch, BatchIndex, Column, Element, Grid, Vocab};

use crate::collate::PlannedView;
use crate::error::{Error, Result};
use crate::views::{ORIGINAL, ViewName};

/// Counts over the batches of one plan.
#[derive(Debug)]
pub struct Audit {
    views: Vec<PlannedView>,
    tallies: Vec<Tally>,
    vocab: Arc<Vocab>,
    facts: AuditFacts,
    occurrences: u64,
    batches: u64,
}

/// What an audit has to know of a plan beside its views.
#[derive(Clone, Copy, Debug)]
pub struct AuditFacts {
    /// Adjacent rows made of every sample or piece.
    pub copies: u32,
    /// What stands around the content of a plain row.
    pub frame: Frame,
}

impl Audit {
    /// An audit that has seen nothing. `views` are those that the batches are rendered by.
    #[must_use]
    pub fn new(views: &[PlannedView], vocab: &Arc<Vocab>, facts: AuditFacts) -> Self {
        Self {
            tallies: views.iter().map(|_| Tally::default()).collect(),
            views: views.to_vec(),
            occurrences: vocab.ordinary().iter().map(|&id| vocab.counts()[id as usize]).sum(),
            vocab: Arc::clone(vocab),
            facts,
            batches: 0,
        }
    }

    /// Counts one batch of the plan's.
    pub fn add(&mut self, batch: &Batch) {
        self.batches += 1;
        let tokens: Vec<Option<Vec<usize>>> = (0..self.views.len()).map(|place| self.tokens(batch, place)).collect();
        let plain = self.views.iter().position(|view| view.view.kind() == ORIGINAL);
        let framed = (self.facts.frame == Frame::ClsSep).then_some(plain).flatten();
        for (view, tally) in self.views.iter().zip(&mut self.tallies) {
            tally.batch = batch.index();
            let seen = Seen {
                batch,
                view: &view.name,
                vocab: &self.vocab,
                occurrences: self.occurrences,
                tokens: tokens[view.frame].as_deref(),
                framed: framed.and_then(|place| tokens[place].as_deref()),
                copies: self.facts.copies,
                first_row: batch.first_row().0,
            };
            view.view.audit(&seen, tally);
        }
    }

    /// Real tokens of each row of a frame, if somebody reads an attention mask of it.
    fn tokens(&self, batch: &Batch, frame: usize) -> Option<Vec<usize>> {
        let is_known = |view: &&PlannedView| view.frame == frame && view.wants(ATTENTION_MASK.spec());
        let view = self.views.iter().find(is_known)?;
        Some(match batch.find(&view.name, ATTENTION_MASK).ok()? {
            Some(mask) => (0..mask.rows()).map(|row| mask.row(row).partition_point(|&real| real == 1)).collect(),
            None => vec![view.width; batch.rows()],
        })
    }

    /// Batches counted.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Every law with what was counted, by view.
    pub fn counts(&self) -> impl Iterator<Item = (&ViewName, Count)> {
        let of = |(view, tally)| tally_counts(tally).map(move |count| (view, count));
        self.views.iter().map(|view| &view.name).zip(&self.tallies).flat_map(of)
    }

    /// Whether everything counted is as promised.
    ///
    /// # Errors
    /// [`Error::Drift`] for the first view that broke a rule or is off its law.
    pub fn check(&self) -> Result<()> {
        for (view, tally) in self.views.iter().zip(&self.tallies) {
            let drifts: Vec<String> =
                tally.rules.iter().map(|(rule, broken)| format!("{rule} ({broken})")).chain(tally.drifts()).collect();
            if !drifts.is_empty() {
                let (view, batch, batches) = (view.name.clone(), tally.suspect(), self.batches);
                return Err(Error::Drift { view, drifts: drifts.join("; "), batch, batches });
            }
        }
        Ok(())
    }
}

fn tally_counts(tally: &Tally) -> impl Iterator<Item = Count> {
    tally.laws.iter().map(|(&what, &law)| Count { what, law })
}

/// One view of one batch.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    batch: &'a Batch,
    view: &'a str,
    vocab: &'a Vocab,
    occurrences: u64,
    tokens: Option<&'a [usize]>,
    framed: Option<&'a [usize]>,
    copies: u32,
    first_row: u64,
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
pub struct Tally {
    batch: BatchIndex,
    rules: BTreeMap<&'static str, Broken>,
    laws: BTreeMap<&'static str, Law>,
}

impl Tally {
    /// A hard rule is broken at a place.
    pub fn forbid(&mut self, rule: &'static str, row: usize, column: usize) {
        let batch = self.batch;
        self.rules.entry(rule).or_insert(Broken { times: 0, batch, row, column }).times += 1;
    }

    /// Adds to a law of chance.
    pub fn count(&mut self, what: &'static str, more: Law) {
        self.laws.entry(what).or_default().add(more);
    }

    fn drifts(&self) -> impl Iterator<Item = String> {
        self.laws.iter().filter(|(_, law)| law.has_drifted()).map(|(&what, &law)| Count { what, law }.to_string())
    }

    /// A batch to look at: that of the first broken rule, or the last one counted.
    fn suspect(&self) -> BatchIndex {
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

/// A sum of random events beside its mean and variance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Law {
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

impl Law {
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
pub struct Count {
    /// Whose share it is.
    pub what: &'static str,
    /// The sums.
    pub law: Law,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Law { found, expected, variance, of, .. } = self.law;
        let percent = |sum: f64| 100.0 * sum / of.max(1.0);
        let (found, expected, error) = (percent(found), percent(expected), percent(variance.sqrt()));
        write!(f, "{}: {found:.3} % of {of:.0}, promised {expected:.3} ± {error:.3}", self.what)
    }
}

#[cfg(test)]
mod tests;
