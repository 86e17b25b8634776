//! Statistical audit of views on the batches that a run trains on.
//!
//! Unit tests check views on synthetic rows. The audit checks the real batches. Each view adds its findings for a batch
//! to an [`AuditCounters`]. Findings are hard rules (no special token is masked, a positive lies inside its window) and
//! statistical laws (80 % become `[MASK]`). A broken rule is an error that names the view, and so is a sum more than
//! six standard errors from its law. The audit reads only columns that are in the batch and does not check rules of
//! other columns.

mod watch;

use std::sync::Arc;

use schemas::columns::ATTENTION_MASK;
use schemas::manifest::Frame;
use schemas::{Batch, Vocab};

pub use self::watch::AuditWatch;
use crate::audit_counters::{AuditCounters, AuditedView, NamedLaw};
use crate::collate::PlannedView;
use crate::error::{Error, Result};
use crate::views::{ORIGINAL, ViewName};

/// Counts over the batches of one plan.
#[derive(Debug)]
pub struct Audit {
    views: Vec<PlannedView>,
    tallies: Vec<AuditCounters>,
    vocab: Arc<Vocab>,
    facts: AuditFacts,
    occurrences: u64,
    batches: u64,
}

/// Facts about a plan that an audit needs in addition to its views.
#[derive(Clone, Copy, Debug)]
pub struct AuditFacts {
    /// Adjacent rows made of every sample or piece.
    pub copies: u32,
    /// Special tokens around the content of a plain row.
    pub frame: Frame,
}

impl Audit {
    /// Creates an audit without counts. `views` are the views that render the batches.
    #[must_use]
    pub fn new(views: &[PlannedView], vocab: &Arc<Vocab>, facts: AuditFacts) -> Self {
        Self {
            tallies: views.iter().map(|_| AuditCounters::default()).collect(),
            views: views.to_vec(),
            occurrences: vocab.ordinary().iter().map(|&id| vocab.counts()[id as usize]).sum(),
            vocab: Arc::clone(vocab),
            facts,
            batches: 0,
        }
    }

    /// Counts one batch of the plan.
    pub fn add(&mut self, batch: &Batch) {
        self.batches += 1;
        let tokens: Vec<Option<Vec<usize>>> = (0..self.views.len()).map(|place| self.tokens(batch, place)).collect();
        let plain = self.views.iter().position(|view| view.view.kind() == ORIGINAL);
        let framed = (self.facts.frame == Frame::ClsSep).then_some(plain).flatten();
        for (view, tally) in self.views.iter().zip(&mut self.tallies) {
            tally.begin_batch(batch.index());
            let seen = AuditedView {
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

    /// Returns the number of real tokens of each row of a frame, if its attention mask is read.
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

    /// Returns every law with its counts, by view.
    pub fn counts(&self) -> impl Iterator<Item = (&ViewName, NamedLaw)> {
        let views = self.views.iter().map(|view| &view.name).zip(&self.tallies);
        views.flat_map(|(view, tally)| tally.counts().map(move |count| (view, count)))
    }

    /// Checks all counts against the rules and laws.
    ///
    /// # Errors
    /// [`Error::Drift`] for the first view that broke a rule or is off its law.
    pub fn check(&self) -> Result<()> {
        for (view, tally) in self.views.iter().zip(&self.tallies) {
            let drifts: Vec<String> = tally.deviations().collect();
            if !drifts.is_empty() {
                let view = view.name.clone();
                let batch = tally.suspect();
                let batches = self.batches;
                return Err(Error::Drift { view, drifts: drifts.join("; "), batch, batches });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
