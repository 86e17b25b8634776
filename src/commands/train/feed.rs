//! The pipeline as the trainer sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use observe::What;
use observe::training::{AuditReport, GenerationReport};
use pipeline::actor;
use pipeline::audit::{Audit, Watch};
use pipeline::load::{BatchStream, LoadPlan, StreamOptions};
use schemas::{Batch, Generation, RowIndex, Share};
use trainer::ForeignError;
use trainer::training::Data;

use super::phases::Phases;
use crate::control::Phase;
use crate::plan::Plan;

/// Batches that lanes make, audited before they are learnt from.
pub(super) struct Feed {
    plan: Arc<LoadPlan>,
    valid: Option<Arc<LoadPlan>>,
    share: Share,
    /// Where the next batch begins.
    row: RowIndex,
    stream: Option<BatchStream>,
    /// None where batches come again and again: counted twice, they would seem surer than they are.
    watch: Option<Watch>,
    /// The generation of each source's data that its last row is of; none before the first.
    generations: BTreeMap<usize, Generation>,
    remarks: Vec<What>,
    replay: Option<u64>,
    phases: Phases,
}

impl Feed {
    /// A share of the batches of a plan; the first `replay` of them for ever, if that is asked for.
    pub(super) fn new(plan: &Plan, share: Share, replay: Option<u64>, phases: Phases) -> Self {
        let load = plan.load();
        Self {
            plan: Arc::clone(load),
            valid: plan.valid().cloned(),
            share,
            row: RowIndex(0),
            stream: None,
            watch: replay.is_none().then(|| Watch::new(load.audit())),
            generations: BTreeMap::new(),
            remarks: Vec::new(),
            replay,
            phases,
        }
    }
}

impl Data for Feed {
    fn seek(&mut self, rows: RowIndex) -> Result<(), ForeignError> {
        self.row = rows;
        let options = StreamOptions { digests: true, replay: self.replay, ..StreamOptions::default() };
        self.stream = Some(BatchStream::new(&self.plan, rows, self.share, options));
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Batch>, ForeignError> {
        self.phases.enter(Phase::Data);
        let stream = self.stream.as_mut().ok_or("the trainer seeks before it reads")?;
        let batch = match stream.next_or(&self.phases.control.stop()) {
            // What is repeated says where it would stand in the stream.
            actor::Next::Item(batch) if self.replay.is_some() => batch?.starting_at(self.row),
            actor::Next::Item(batch) => batch?,
            actor::Next::Stopped => return Ok(None),
            actor::Next::End => return Err("the endless stream ended".into()),
        };
        if let Some(audit) = self.watch.as_mut().map(|watch| watch.look(&batch)).transpose()?.flatten() {
            self.remarks.extend(remarks(audit));
        }
        self.note_generation(batch.rows() as u64)?;
        self.row.0 += batch.rows() as u64;
        self.phases.enter(Phase::Step);
        Ok(Some(batch))
    }

    fn validation(&mut self) -> Result<Box<dyn Iterator<Item = Result<Batch, ForeignError>> + '_>, ForeignError> {
        let Some(valid) = &self.valid else { return Ok(Box::new(std::iter::empty())) };
        let (batches, phases) = (valid.stream(RowIndex(0), self.share), self.phases.clone());
        Ok(Box::new(batches.map(move |batch| {
            phases.enter(Phase::Validation);
            Ok(batch?)
        })))
    }

    fn epochs(&self, rows: RowIndex) -> Result<f64, ForeignError> {
        Ok(self.plan.epochs(rows)?)
    }

    fn source_epochs(&self, rows: RowIndex) -> Result<BTreeMap<String, f64>, ForeignError> {
        Ok(self.plan.epochs_by_source(rows)?)
    }

    fn remarks(&mut self) -> Vec<What> {
        std::mem::take(&mut self.remarks)
    }
}

impl Feed {
    /// Says where rows begin to be of another generation: `rows` are read next.
    fn note_generation(&mut self, rows: u64) -> Result<(), ForeignError> {
        if self.replay.is_some() {
            return Ok(());
        }
        let generation = |row| self.plan.generation(RowIndex(row));
        let first = self.row.0;
        let sources = self.plan.sources_of(first..first + rows);
        // The last row of each source, in the order of sources.
        let last: BTreeMap<usize, u64> = sources.iter().copied().zip(first..).collect();
        for (source, row) in last {
            let now = generation(row)?;
            if let Some(before) = self.generations.insert(source, now).filter(|before| *before != now) {
                // Few rows, and seldom.
                let own = sources.iter().zip(first..).filter(|(of, _)| **of == source).map(|(_, row)| row);
                let row = own.into_iter().find(|&row| generation(row).is_ok_and(|of| of == now)).unwrap_or(first);
                let source = self.plan.source_names().nth(source).map(str::to_owned);
                let report = GenerationReport { generation: now, before, row: RowIndex(row), source };
                self.remarks.push(What::Generation(report));
            }
        }
        Ok(())
    }
}

/// An audit's laws with what was counted, as events.
fn remarks(audit: &Audit) -> impl Iterator<Item = What> {
    audit.counts().map(|(view, count)| {
        let law = count.law;
        // Shares, to a millionth.
        let share = |sum: f64| (1e6 * sum / law.of.max(1.0)).round() / 1e6;
        What::Audit(AuditReport {
            view: view.clone(),
            what: count.what.to_owned(),
            found: share(law.found),
            promised: share(law.expected),
            error: share(law.variance.sqrt()),
            of: law.of,
        })
    })
}
