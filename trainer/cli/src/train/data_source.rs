//! Data source of the trainer: batches of the pipeline.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cloze::plan::Plan;
use cloze::run::control::Phase;
use cloze::run::data::PreparedData;
use cloze::run::dataset_versions::streamed::{SegmentWait, StreamedSegments};
use cloze::run::fault_injection::{FaultInjector, Kill};
use pipeline::audit::{Audit, AuditWatch};
use pipeline::exposure::{ConsumedRows, Exposure, RowOutcome};
use pipeline::load::{BadRow, BadRows, BatchStream, Contention, LatencyInjection, LoadPlan, RowPolicy, StreamOptions};
use runtime::NextItem;
use schemas::{Batch, DatasetVersion, RankShard, RowIndex};
use telemetry::EventKind;
use telemetry::training::{AuditReport, BadRowReport, DatasetVersionReport, StarvedReport};
use trainer::training::{Data, ProcessGroup};
use trainer_plan::ForeignError;

use super::run_phase::Phases;

/// Minimum seconds of a wait for a batch that is reported.
const STARVED_MIN: f64 = 0.05;

/// Records of the rows of a run.
pub(super) struct RowRecords {
    /// Rows that cannot be made.
    pub(super) bad_rows: Arc<dyn BadRows>,
    /// Consumed rows, by document.
    pub(super) exposure: Arc<Mutex<Exposure>>,
}

/// Batches of the workers, audited before the trainer receives them.
pub(super) struct DataSource {
    plan: Arc<LoadPlan>,
    /// Prepared data, with the ids of documents.
    data: Arc<PreparedData>,
    valid: Option<Arc<LoadPlan>>,
    /// First row of the next batch.
    row: RowIndex,
    stream: Option<BatchStream>,
    /// `None` if batches repeat, because repeated samples would make the audit too confident.
    watch: Option<AuditWatch>,
    /// Dataset version of the last row of each source. No entry before the first row.
    dataset_versions: BTreeMap<usize, DatasetVersion>,
    remarks: Vec<EventKind>,
    replay: Option<u64>,
    row_policy: RowPolicy,
    /// Share of the stream of this rank.
    share: RankShard,
    bad_rows: Arc<dyn BadRows>,
    max_bad_rows: u64,
    micro_batch_size: u64,
    /// Bad rows of this rank that rank 0 does not know yet.
    found: Vec<BadRow>,
    /// Latency to inject, for the check of a profile.
    pub(super) latency_injection: Option<LatencyInjection>,
    pub(super) contention: Contention,
    exposure: Arc<Mutex<Exposure>>,
    /// Fault injector, which may kill this process before a step.
    faults: Option<Arc<FaultInjector>>,
    global_batch_size: u64,
    phases: Phases,
    /// Segments of data that is still being prepared, with the wait time of the workers.
    segments: Option<Arc<StreamedSegments>>,
}

impl DataSource {
    /// Creates the source of this rank's share of a plan's batches. With `replay`, the first `replay` batches repeat.
    pub(super) fn new(
        plan: &Plan,
        replay: Option<u64>,
        records: RowRecords,
        faults: Option<&Arc<FaultInjector>>,
        phases: Phases,
        share: RankShard,
    ) -> Self {
        let load = plan.load();
        Self {
            plan: Arc::clone(load),
            data: Arc::clone(plan.data()),
            valid: plan.valid().cloned(),
            row: RowIndex(0),
            stream: None,
            watch: replay.is_none().then(|| AuditWatch::new(load.audit())),
            dataset_versions: BTreeMap::new(),
            remarks: Vec::new(),
            replay,
            row_policy: RowPolicy {
                bad_rows: Some(Arc::clone(&records.bad_rows)),
                counts_documents: replay.is_none(),
                faults: faults.map(|faults| Arc::clone(faults) as _),
                ..RowPolicy::default()
            },
            share,
            bad_rows: records.bad_rows,
            max_bad_rows: plan.config().data.max_bad_rows,
            micro_batch_size: plan.train().train.micro_batch_size,
            found: Vec::new(),
            latency_injection: None,
            contention: Contention::default(),
            exposure: records.exposure,
            faults: faults.cloned(),
            global_batch_size: plan.train().train.global_batch_size,
            phases,
            segments: plan.data().segments().cloned(),
        }
    }
}

impl Data for DataSource {
    fn seek(&mut self, rows: RowIndex) -> Result<(), ForeignError> {
        self.row = rows;
        self.phases.control.board().resume(rows.0, rows.0 / self.global_batch_size);
        self.exposure().reset();
        let replay = self.replay;
        let row_policy = self.row_policy.clone();
        let Self { latency_injection, contention, .. } = *self;
        let options = StreamOptions { digests: true, replay, policy: row_policy, latency_injection, contention };
        let stream = BatchStream::new(&self.plan, rows, self.share, options);
        self.phases.control.board().workers(stream.worker_stats());
        self.stream = Some(stream);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Batch>, ForeignError> {
        self.phases.begin(Phase::Data);
        if let Some(faults) = &self.faults
            && self.row.0.is_multiple_of(self.global_batch_size)
        {
            faults.reach(Kill::Step(self.row.0 / self.global_batch_size))?;
        }
        let stream = self.stream.as_mut().ok_or("the trainer seeks before it reads")?;
        let asked = Instant::now();
        let waited_before = self.segments.as_ref().map(|segments| segments.wait_so_far().waited);
        let requests = self.phases.control.requests();
        let batch = match stream.next_or_cancelled(&requests.wakeup()) {
            // A repeated batch gets the row numbers of its position in the stream.
            NextItem::Item(batch) if self.replay.is_some() => batch?.starting_at(self.row),
            NextItem::Item(batch) => batch?,
            NextItem::Cancelled => {
                requests.has_woken();
                return Ok(None);
            }
            NextItem::End => return Err("the endless stream ended".into()),
        };
        let bad_rows = stream.bad_rows();
        if !self.share.is_first() {
            self.found.extend(bad_rows.iter().cloned());
        }
        self.remarks.extend(bad_rows.into_iter().map(left_out));
        let documents = stream.documents();
        self.exposure().give(documents);
        if let Some(audit) = self.watch.as_mut().map(|watch| watch.check(&batch)).transpose()?.flatten() {
            self.remarks.extend(audit_events(audit));
        }
        if let Some((before, segments)) = waited_before.zip(self.segments.as_ref()) {
            self.remarks.extend(starved(before, segments, asked.elapsed()));
        }
        self.note_dataset_version(batch.first_row().0..batch.first_row().0 + batch.rows() as u64)?;
        self.row.0 += batch.rows() as u64;
        self.phases.begin(Phase::Step);
        Ok(Some(batch))
    }

    fn validation(&mut self) -> Result<Box<dyn Iterator<Item = Result<Batch, ForeignError>> + '_>, ForeignError> {
        let Some(valid) = &self.valid else { return Ok(Box::new(std::iter::empty())) };
        let batches = valid.stream(RowIndex(0), self.share);
        self.phases.control.set_phase(Phase::Validation);
        self.phases.control.board().validation(Some(batches.worker_stats()));
        Ok(Box::new(ValidationBatches { batches, phases: self.phases.clone() }))
    }

    fn epochs(&self, rows: RowIndex) -> Result<f64, ForeignError> {
        Ok(self.plan.epochs(rows)?)
    }

    fn source_epochs(&self, rows: RowIndex) -> Result<BTreeMap<String, f64>, ForeignError> {
        Ok(self.plan.epochs_by_source(rows)?)
    }

    fn consumed(&mut self, end: RowIndex, trained: bool, ranks: &dyn ProcessGroup) -> Result<(), ForeignError> {
        self.phases.control.board().consumed(end.0, end.0 / self.global_batch_size);
        self.row = end;
        if self.share.ranks() > 1 {
            self.exchange(end, ranks)?;
        }
        let fate = if trained { RowOutcome::Trained } else { RowOutcome::Skipped };
        Ok(self.exposure().consume(end, fate)?)
    }

    fn documents(&mut self, row: RowIndex) -> Result<Vec<String>, ForeignError> {
        let facts = self.plan.row(&self.plan.groups(), row)?;
        let origins = self.data.origins(&facts)?;
        // A document without an entry is named by its number in the shard.
        let id = |name: &u64| origins.get(name).map_or_else(|| format!("{name:016x}"), |origin| origin.id.clone());
        Ok(facts.documents.iter().map(id).collect())
    }

    fn remarks(&mut self) -> Vec<EventKind> {
        std::mem::take(&mut self.remarks)
    }
}

/// Batches of a validation. They end early if a stop is requested.
struct ValidationBatches {
    batches: BatchStream,
    phases: Phases,
}

impl Iterator for ValidationBatches {
    type Item = Result<Batch, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.batches.next_or_cancelled(&self.phases.control.stop()) {
            NextItem::Item(batch) => {
                self.phases.begin(Phase::Validation);
                Some(batch.map_err(Into::into))
            }
            NextItem::End | NextItem::Cancelled => None,
        }
    }
}

impl Drop for ValidationBatches {
    fn drop(&mut self) {
        self.phases.control.board().validation(None);
    }
}

impl DataSource {
    fn exposure(&self) -> MutexGuard<'_, Exposure> {
        self.exposure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the consumed rows of all ranks to rank 0, which has the records of the run.
    fn exchange(&mut self, end: RowIndex, ranks: &dyn ProcessGroup) -> Result<(), ForeignError> {
        let bad = std::mem::take(&mut self.found);
        let own = ConsumedRows { rows: self.exposure().take_given(end), bad };
        let all = ranks.gather("documents of rows", &own.to_json())?;
        if !self.share.is_first() {
            return Ok(());
        }
        let mut rows = Vec::new();
        for bytes in &all {
            let theirs = ConsumedRows::from_json(bytes)?;
            rows.extend(theirs.rows);
            for bad in theirs.bad {
                // Each rank has checked its own rows only.
                bad.check_limit(self.max_bad_rows, self.bad_rows.count(), self.micro_batch_size)?;
                self.bad_rows.leave_out(&bad)?;
                self.remarks.push(left_out(bad));
            }
        }
        rows.sort_by_key(|row| row.row);
        self.exposure().give(rows);
        Ok(())
    }

    /// Reports the first row of a new dataset version among these rows.
    fn note_dataset_version(&mut self, rows: Range<u64>) -> Result<(), ForeignError> {
        if self.replay.is_some() {
            return Ok(());
        }
        let dataset_version = |row| self.plan.dataset_version(RowIndex(row));
        let first = rows.start;
        let sources = self.plan.sources_of(rows);
        // The last row of each source, in the order of sources.
        let last: BTreeMap<usize, u64> = sources.iter().copied().zip(first..).collect();
        for (source, row) in last {
            let now = dataset_version(row)?;
            if let Some(before) = self.dataset_versions.insert(source, now).filter(|before| *before != now) {
                // A linear search is enough: there are few rows, and version changes are rare.
                let own = sources.iter().zip(first..).filter(|(of, _)| **of == source).map(|(_, row)| row);
                let row = own.into_iter().find(|&row| dataset_version(row).is_ok_and(|of| of == now)).unwrap_or(first);
                let source = self.plan.source_names().nth(source).map(str::to_owned);
                let report = DatasetVersionReport { dataset_version: now, before, row: RowIndex(row), source };
                self.remarks.push(EventKind::DatasetVersion(report));
            }
        }
        Ok(())
    }
}

/// Returns a starvation event if a batch waited for the preparation. `before` is the wait time of the workers up to
/// then.
fn starved(before: Duration, segments: &StreamedSegments, asked: Duration) -> Option<EventKind> {
    let SegmentWait { waited, part, parts } = segments.wait_so_far();
    // Workers may have waited while the trainer had batches, so the wait is at most that of the trainer.
    let seconds = waited.saturating_sub(before).min(asked).as_secs_f64();
    (seconds >= STARVED_MIN)
        .then(|| EventKind::Starved(StarvedReport { by: "prepare".to_owned(), seconds, part, parts }))
}

/// Returns the event of a row that cannot be made.
fn left_out(bad: BadRow) -> EventKind {
    let BadRow { row, why } = bad;
    EventKind::BadRow(BadRowReport {
        row: row.row,
        source: row.of,
        sample: row.sample.to_string(),
        shard: row.shard,
        group: row.group,
        row_in_group: row.row_in_group as u64,
        documents: row.documents.iter().map(|document| format!("{document:016x}")).collect(),
        why,
    })
}

/// Returns the expected and counted rates of an audit as events.
fn audit_events(audit: &Audit) -> impl Iterator<Item = EventKind> {
    audit.counts().map(|(view, count)| {
        let law = count.law;
        // Rounded to 1e-6.
        let share = |sum: f64| (1e6 * sum / law.of.max(1.0)).round() / 1e6;
        EventKind::Audit(AuditReport {
            view: view.clone(),
            what: count.what.to_owned(),
            found: share(law.found),
            promised: share(law.expected),
            error: share(law.variance.sqrt()),
            of: law.of,
        })
    })
}
