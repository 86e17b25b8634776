//! Preparation of the pipeline: conversion of corpus parts to shards, and aggregation into the manifest.
//!
//! [`Preparation::plan`] reads and checks everything without writing: the current corpus, the inputs of the existing
//! folder, and the resulting *part list*. [`Preparation::run`] writes that list and makes the missing parts, each on
//! one worker. It then aggregates their commit records into the manifest. A part consists of *segments*. The record of
//! a segment is written after its shards, and the manifest after all records. A kill therefore costs at most the
//! segments in progress. Except for the lock and `fingerprints.json`, the folder does not depend on the number of
//! workers, on time or on the machine.
//!
//! If files were added, replaced or removed, one more list drops the outdated parts and adds new ones: a *dataset
//! version*. [`Preparation::forget_document`] creates one that omits a document.

mod aggregate;
mod change;
mod commit_record;
mod config;
mod document_table;
mod duplicate_ids;
mod fingerprints;
mod gc;
mod job;
mod part;
mod part_list;
mod plan;
mod progress;
mod provisional_manifest;
mod reject_stats;
mod segment;
mod split_writer;
mod summary;
mod tail;
mod text_batch;
mod text_stats;

use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::{CancelToken, Poll, PoolOptions, PoolStats, WorkPool, WorkerStats, cancel_pair};
use schemas::manifest::PartEntry;
use schemas::{DatasetVersion, Shard};
use store::{Holder, LeaseConfig, Lock, LockError, Store};
use telemetry::training::Warning;
use telemetry::{Clock, EventKind, Observer};
use tracing::{info, warn};

use self::aggregate::Aggregate;
pub use self::change::DatasetChange;
pub use self::config::PrepareConfig;
pub(crate) use self::document_table::each_length;
pub use self::document_table::{Origin, each_document, ids_like, origins};
pub use self::job::PrepareOptions;
use self::job::{PrepareJob, Sample, in_order, long_ones_first};
pub use self::part_list::valid_fraction;
use self::part_list::{ReadableLists, VersionLists};
use self::plan::{ForgetPlan, Planned};
pub use self::plan::{PrepareMemory, PreparePlan, fits};
use self::progress::{EventSink, Progress};
pub use self::progress::{Stage, Stages};
use self::provisional_manifest::ProvisionalManifest;
pub(crate) use self::provisional_manifest::vocab_to_parquet;
pub(crate) use self::reject_stats::RejectStats;
pub(crate) use self::reject_stats::{RejectsOfReason, noted};
pub use self::summary::PrepareSummary;
pub use self::tail::{PartLists, PendingSegments};
use crate::{Error, Result};

/// Finished parts in the queue before aggregation, per worker. Reports are small, so workers do not wait for the
/// aggregation.
const DEPTH: usize = 4;

/// Interval of progress events while no part is finished.
const PULSE: Duration = Duration::from_millis(500);

/// Name of the lock object, which identifies the process that works on a folder.
pub const LOCK: &str = "lock";

/// Preparation that is ready to start: configuration, corpus, tokenizer and folder are read and checked.
pub struct Preparation {
    planned: Planned,
    /// Existing folder, or another store to prepare into.
    store: Option<Store>,
    /// Whether the provisional manifest had to be written.
    announced: bool,
    /// Callback that receives the worker statistics.
    hears: Option<PoolStatsCallback>,
}

/// Callback that receives the worker statistics when the workers start.
pub type PoolStatsCallback = Box<dyn FnOnce(PoolStats) + Send>;

impl std::fmt::Debug for Preparation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Preparation").field("config", &self.planned.config).finish_non_exhaustive()
    }
}

/// Plans and runs in one step.
pub fn run(
    config: &PrepareConfig,
    options: PrepareOptions,
    clock: &Clock,
    observer: &mut dyn Observer,
) -> Result<PrepareSummary> {
    Preparation::plan(config)?.run(options, clock, observer)
}

impl Preparation {
    /// Reads the corpus' outline, the tokenizer and the folder, and rejects invalid combinations. Writes nothing.
    pub fn plan(config: &PrepareConfig) -> Result<Self> {
        let store = plan::existing(config)?;
        Ok(Self { planned: Planned::new(config, store.as_ref())?, store, announced: false, hears: None })
    }

    /// Plans a preparation into a store other than the configuration's folder.
    pub fn plan_in(config: &PrepareConfig, store: &Store) -> Result<Self> {
        Ok(Self {
            planned: Planned::new(config, Some(store))?,
            store: Some(store.clone()),
            announced: false,
            hears: None,
        })
    }

    /// Sets the callback that receives the worker statistics.
    #[must_use]
    pub fn telling(mut self, hears: PoolStatsCallback) -> Self {
        self.hears = Some(hears);
        self
    }

    /// Returns the numbers of the plan.
    #[must_use]
    pub fn describe(&self) -> PreparePlan {
        self.planned.describe()
    }

    /// Makes the missing parts. Returns a summary.
    pub fn run(self, options: PrepareOptions, clock: &Clock, observer: &mut dyn Observer) -> Result<PrepareSummary> {
        // This token is never cancelled.
        let (_stopper, stop) = cancel_pair();
        self.run_until(&stop, options, clock, observer)
    }

    /// Runs until `stop` is cancelled. Then returns [`Error::Stopped`] after all workers have ended.
    pub fn run_until(
        mut self,
        stop: &CancelToken,
        options: PrepareOptions,
        clock: &Clock,
        observer: &mut dyn Observer,
    ) -> Result<PrepareSummary> {
        let voice = EventSink { clock, observer };
        if options.null_writer {
            return self.make(None, options, stop, voice);
        }
        let (store, lock) = self.acquire_lock()?;
        self.write_list(&store)?;
        self.make(Some((store, lock)), options, stop, voice)
    }

    /// Removes a document from the corpus permanently and remakes the parts that contain it. If it is already
    /// forgotten, makes missing parts and returns the dataset version that removed it.
    pub fn forget_document(
        mut self,
        document: &str,
        clock: &Clock,
        observer: &mut dyn Observer,
    ) -> Result<(PrepareSummary, Option<DatasetVersion>)> {
        let nothing = "there is no prepared corpus here; run `cloze prepare`, then forget";
        let nothing = || Error::Config(format!("{}: {nothing}", self.planned.config.folder.display()));
        let store = self.store.clone().ok_or_else(nothing)?;
        // Searched before the folder is locked: a wrong id changes nothing.
        plan::plan_forget(&self.planned, &store, document)?;
        let (store, lock) = self.acquire_lock()?;
        let before = match plan::plan_forget(&self.planned, &store, document)? {
            ForgetPlan::Before(dataset_version) => Some(dataset_version),
            ForgetPlan::Now(next) => {
                self.planned.next = Some(*next);
                None
            }
        };
        self.write_list(&store)?;
        let voice = EventSink { clock, observer };
        let (_stopper, stop) = cancel_pair();
        Ok((self.make(Some((store, lock)), PrepareOptions::default(), &stop, voice)?, before))
    }

    /// Locks the folder, removes remains of a kill, and plans again if another process has written to it.
    fn acquire_lock(&mut self) -> Result<(Store, Lock)> {
        let store = match &self.store {
            Some(store) => store.clone(),
            None => remote_store::open_path(&self.planned.config.folder)?,
        };
        let lock =
            Lock::acquire(&store, LOCK, Holder::this_process(), LeaseConfig::default()).map_err(
                |error| match error {
                    LockError::Held { place, holder } => {
                        Error::Locked { path: place.into(), holder: holder.to_string() }
                    }
                    LockError::Io(error) => error.into(),
                },
            )?;
        // From here on, only the holder of the lock changes the folder.
        let store = lock.guard(&store);
        for name in store.sweep()? {
            info!(name, "prepare: removed the remains of an interrupted run");
        }
        let ReadableLists { lists, damaged } = VersionLists::read_undamaged(&store)?;
        if lists != self.planned.lists || damaged != self.planned.damaged {
            self.planned = Planned::new(&self.planned.config, Some(&store))?;
        }
        Ok((store, lock))
    }

    /// Writes the provisional manifest, then the new part list, before any part of the list.
    fn write_list(&mut self, store: &Store) -> Result<()> {
        self.announced = ProvisionalManifest::write(store, &self.planned.config, self.planned.tokenizer.facts())?;
        if let Some((list, _)) = &self.planned.next {
            match self.planned.damaged.take() {
                Some(damaged) => {
                    self.planned.lists.replace(store, list.clone())?;
                    warn!(file = store.place(&damaged.name), "prepare: damaged part list, remade from the corpus");
                }
                None => self.planned.lists.append(store, list.clone())?,
            }
        }
        self.planned.fingerprints.write(store)
    }

    /// Makes the missing parts, then publishes all parts in effect.
    fn make(
        self,
        target: Option<(Store, Lock)>,
        options: PrepareOptions,
        stop: &CancelToken,
        mut voice: EventSink<'_>,
    ) -> Result<PrepareSummary> {
        let began = Instant::now();
        let description = self.planned.describe();
        let warnings = self.planned.warnings();
        let lists = if target.is_some() { self.planned.lists.clone() } else { self.planned.coming() };
        let Planned { config, corpus, tokenizer, settings, part_bytes, .. } = self.planned;
        let tasks = if options.in_order { in_order(&lists) } else { long_ones_first(&lists, part_bytes) };
        let settings = settings.digest();
        let progress = Arc::new(Progress::new(tasks.iter().map(|task| &task.part)));
        let work = Arc::new(PrepareJob {
            config,
            corpus,
            tokenizer,
            sample: Sample::default(),
            settings,
            tasks,
            options,
            target,
        });
        let workers = work.config.workers();
        let mut results = {
            let work = Arc::clone(&work);
            let progress = Arc::clone(&progress);
            let workers = PoolOptions { name: "prepare", item: "part", workers, queue_depth: DEPTH * workers };
            WorkPool::new(work.tasks.len() as u64, workers, move |index, stop| {
                let task = &work.tasks[usize::try_from(index).expect("parts are in memory")];
                part::make(&work, task, &progress, stop)
            })
        };
        let dataset_version = lists.newest();
        voice.emit(EventKind::PrepareStart(description.start(dataset_version)));
        for warning in warnings {
            voice.emit(EventKind::Warning(warning));
        }
        let worker_stats = results.stats();
        if let Some(hears) = self.hears {
            hears(worker_stats.clone());
        }
        let vocab_size = work.tokenizer.facts().tokens.len();
        let mut fold = Aggregate::new(&work.corpus, work.config.max_bad_lines, vocab_size);
        loop {
            if stop.is_cancelled() {
                return Err(Error::Stopped);
            }
            match results.next_timeout(PULSE)? {
                Poll::Item(outcome) => {
                    let done = outcome.done();
                    fold.add(outcome)?;
                    voice.emit(EventKind::PartDone(done));
                }
                Poll::Pending => {}
                Poll::End => break,
            }
            voice.emit(EventKind::PrepareProgress(progress.at(began.elapsed())));
            // Checked before a part is complete, so that an invalid corpus is rejected early.
            progress.check_rejects(work.config.max_bad_lines)?;
        }
        drop(results);
        assert_eq!(fold.parts.len(), work.tasks.len(), "every part in effect is folded");
        if let Err(error) = fold.check_rejects(&work.config.inputs) {
            // A corpus that never had a document leaves nothing behind. Published dataset versions stay.
            let never = fold.report().documents == 0 && lists.iter().count() == 1;
            if let Some(store) = work.store().filter(|_| never) {
                gc::remove(store)?;
            }
            return Err(error);
        }
        let published = aggregate::publish(&work, &lists, &fold)?;
        if published {
            duplicate_ids(&work, &fold)?.into_iter().for_each(|warning| voice.emit(EventKind::Warning(warning)));
        }
        let removed = match &work.target {
            Some((store, _)) => gc::remove_others(store, &fold.objects)?,
            None => 0,
        };
        let written = self.announced || published || removed > 0;
        let nothing_to_do = work.target.is_some() && fold.made == 0 && !written;
        let change = description.change;
        let done = RunResults { dataset_version, change, progress: &progress, worker_stats, nothing_to_do };
        let summary = summarize(&work, &fold, &done, began);
        voice.emit(EventKind::PrepareEnd(summary.end(work.place())));
        Ok(summary)
    }
}

/// Returns a warning if documents share their id. Equal texts share it if no field has the ids.
fn duplicate_ids(work: &PrepareJob, fold: &Aggregate<'_>) -> Result<Option<Warning>> {
    let config = &work.config;
    let Some((store, id_field)) = work.store().zip(config.id_field.as_ref()) else { return Ok(None) };
    if !config.format.has_fields() {
        return Ok(None);
    }
    let found = duplicate_ids::find(store, &fold.parts.keys().copied().collect())?;
    Ok(found.map(|found| found.warning(id_field, &config.format)))
}

/// Results of a run in addition to the aggregate.
struct RunResults<'a> {
    dataset_version: DatasetVersion,
    change: Option<DatasetChange>,
    progress: &'a Progress,
    worker_stats: PoolStats,
    nothing_to_do: bool,
}

fn summarize(work: &PrepareJob, fold: &Aggregate<'_>, done: &RunResults<'_>, began: Instant) -> PrepareSummary {
    let sum = |split: fn(&PartEntry) -> &[Shard]| {
        fold.shards(split).fold((0, 0), |(rows, tokens), shard| (rows + shard.rows, tokens + shard.tokens))
    };
    let train = sum(|part| &part.train);
    let valid = sum(|part| &part.valid);
    let content = u64::from(work.config.packing.content(work.config.max_seq_len));
    let shards = fold.shards(|part| &part.train).chain(fold.shards(|part| &part.valid));
    PrepareSummary {
        dataset_version: done.dataset_version,
        change: done.change,
        pack: work.config.packing.kind(),
        corpus: fold.report(),
        lines: fold.lines,
        parts_made: fold.made,
        parts_skipped: fold.skipped,
        nothing_to_do: done.nothing_to_do,
        bytes_read: done.progress.bytes_read() + work.corpus.reading().bytes_read.get(),
        text_bytes_made: done.progress.text_bytes(),
        rows: if work.target.is_some() { train.0 + valid.0 } else { fold.rows_made },
        stored_tokens: train.1 + valid.1,
        shard_bytes: shards.map(|shard| shard.bytes).sum(),
        train,
        valid,
        tokens_capacity: (train.0 + valid.0) * content,
        stages: fold.stages,
        workers: done.worker_stats.workers(),
        fold: WorkerStats { name: "fold".to_owned(), ..done.worker_stats.reader() },
        elapsed: began.elapsed(),
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
