//! The offline half: part ↦ shards, then a fold into the manifest.
//!
//! [`Preparation::plan`] reads and checks everything without writing: what the corpus is now, what the folder was made of,
//! and the *part list* that follows. [`Preparation::run`] writes that list, makes the parts that are not there yet, each
//! by one worker, and folds their commit records into the manifest. A part is made of *segments*, each with a record that is
//! written after its shards; the manifest is written after all records. So a kill at any instant costs at most the
//! segments in the workers' hands. But for the lock and `fingerprints.json`, nothing in the folder depends on the number of workers, on
//! time or on the machine.
//!
//! When files were added, replaced or removed, one more list drops the parts that are no longer true and adds what is new:
//! a *dataset version*. [`Preparation::forget`] begins one that leaves out a document.

mod aggregate;
mod change;
mod commit_record;
mod config;
mod document_table;
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
use telemetry::{Clock, EventKind, Observer};
use tracing::info;

use self::aggregate::Fold;
pub use self::change::DatasetChange;
pub use self::config::PrepareConfig;
pub(crate) use self::document_table::each_length;
pub use self::document_table::{Origin, each_document, ids_like, origins};
pub use self::job::PrepareOptions;
use self::job::{Sample, Work, in_order, long_ones_first};
use self::part_list::Lists;
use self::plan::{Forgetting, Planned};
pub use self::plan::{PrepareMemory, PreparePlan, fits};
use self::progress::{EventSink, Progress};
pub use self::progress::{Stage, Stages};
use self::provisional_manifest::ProvisionalManifest;
pub(crate) use self::reject_stats::RejectStats;
pub(crate) use self::reject_stats::{Complained, noted};
pub use self::summary::PrepareSummary;
pub use self::tail::{PartLists, PendingSegments};
use crate::{Error, Result};

/// Finished parts that wait for the fold, per worker: small reports, so that the fold holds nobody up.
const DEPTH: usize = 4;

/// How often observers hear of progress when no part is finished.
const PULSE: Duration = Duration::from_millis(500);

/// The object that says who works on a folder.
pub const LOCK: &str = "lock";

/// A preparation that can be started: configuration, corpus, tokenizer and folder read and checked.
pub struct Preparation {
    planned: Planned,
    /// The folder that was looked at, if it was there; or another store to prepare into.
    store: Option<Store>,
    /// Whether what stands before the parts had to be written.
    announced: bool,
    /// Who is told which workers make parts.
    hears: Option<PoolStatsCallback>,
}

/// Who is told which workers make parts, when they do.
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
    /// Reads the corpus' outline, the tokenizer and the folder, and refuses what cannot work. Writes nothing.
    pub fn plan(config: &PrepareConfig) -> Result<Self> {
        let store = plan::existing(config)?;
        Ok(Self { planned: Planned::of(config, store.as_ref())?, store, announced: false, hears: None })
    }

    /// The same for a store that is not the configuration's folder.
    pub fn plan_in(config: &PrepareConfig, store: &Store) -> Result<Self> {
        Ok(Self {
            planned: Planned::of(config, Some(store))?,
            store: Some(store.clone()),
            announced: false,
            hears: None,
        })
    }

    /// The same, telling somebody which workers make parts.
    #[must_use]
    pub fn telling(mut self, hears: PoolStatsCallback) -> Self {
        self.hears = Some(hears);
        self
    }

    /// The numbers of the plan.
    #[must_use]
    pub fn describe(&self) -> PreparePlan {
        self.planned.describe()
    }

    /// Makes what is missing. Returns what was found and done.
    pub fn run(self, options: PrepareOptions, clock: &Clock, observer: &mut dyn Observer) -> Result<PrepareSummary> {
        // A stop that nobody can ask for.
        let (_stopper, stop) = cancel_pair();
        self.run_until(&stop, options, clock, observer)
    }

    /// The same until a stop is asked for, which ends it with [`Error::Stopped`] once no worker works any more.
    pub fn run_until(
        mut self,
        stop: &CancelToken,
        options: PrepareOptions,
        clock: &Clock,
        observer: &mut dyn Observer,
    ) -> Result<PrepareSummary> {
        let voice = EventSink { clock, observer };
        if options.null_writer {
            return self.make(None, (options, stop), voice);
        }
        let (store, lock) = self.enter()?;
        self.write_list(&store)?;
        self.make(Some((store, lock)), (options, stop), voice)
    }

    /// Leaves a document out of the corpus forever, and makes the parts that hold it again without it. If it is forgotten
    /// already, makes what is missing; the dataset version that says so comes back next to what was done.
    pub fn forget(
        mut self,
        document: &str,
        clock: &Clock,
        observer: &mut dyn Observer,
    ) -> Result<(PrepareSummary, Option<DatasetVersion>)> {
        let nothing = "there is no prepared corpus here; run `cloze prepare`, then forget";
        let nothing = || Error::Config(format!("{}: {nothing}", self.planned.config.folder.display()));
        let store = self.store.clone().ok_or_else(nothing)?;
        // Looked for before the folder is taken: a wrong name changes nothing.
        plan::forget(&self.planned, &store, document)?;
        let (store, lock) = self.enter()?;
        let before = match plan::forget(&self.planned, &store, document)? {
            Forgetting::Before(dataset_version) => Some(dataset_version),
            Forgetting::Now(next) => {
                self.planned.next = Some(*next);
                None
            }
        };
        self.write_list(&store)?;
        let voice = EventSink { clock, observer };
        let (_stopper, stop) = cancel_pair();
        Ok((self.make(Some((store, lock)), (PrepareOptions::default(), &stop), voice)?, before))
    }

    /// Takes the folder for this process, removes what a kill left, and plans again if somebody has written meanwhile.
    fn enter(&mut self) -> Result<(Store, Lock)> {
        let store = match &self.store {
            Some(store) => store.clone(),
            None => Store::folder(&self.planned.config.folder)?,
        };
        let lock =
            Lock::take(&store, LOCK, Holder::this_process(), LeaseConfig::default()).map_err(|error| match error {
                LockError::Held { place, holder } => Error::Locked { path: place.into(), holder: holder.to_string() },
                LockError::Io(error) => error.into(),
            })?;
        // From here on nothing is changed but by the holder of the lock.
        let store = lock.guard(&store);
        for name in store.sweep()? {
            info!(name, "removed the remains of an interrupted run");
        }
        if Lists::read(&store)? != self.planned.lists {
            self.planned = Planned::of(&self.planned.config, Some(&store))?;
        }
        Ok((store, lock))
    }

    /// Writes the list that the corpus asks for, before any part of it, and before it what all parts have in common.
    fn write_list(&mut self, store: &Store) -> Result<()> {
        self.announced = ProvisionalManifest::write(store, &self.planned.config, self.planned.tokenizer.facts())?;
        if let Some((list, _)) = &self.planned.next {
            self.planned.lists.append(store, list.clone())?;
        }
        self.planned.seen.write(store)
    }

    /// Makes the parts that are not there, then publishes all that are in effect.
    fn make(
        self,
        target: Option<(Store, Lock)>,
        (options, stop): (PrepareOptions, &CancelToken),
        mut voice: EventSink<'_>,
    ) -> Result<PrepareSummary> {
        let began = Instant::now();
        let (description, warnings) = (self.planned.describe(), self.planned.warnings());
        let lists = if target.is_some() { self.planned.lists.clone() } else { self.planned.coming() };
        let Planned { config, corpus, tokenizer, settings, part_bytes, .. } = self.planned;
        let tasks = if options.in_order { in_order(&lists) } else { long_ones_first(&lists, part_bytes) };
        let settings = settings.digest();
        let progress = Arc::new(Progress::new(tasks.iter().map(|task| &task.part)));
        let work =
            Arc::new(Work { config, corpus, tokenizer, sample: Sample::default(), settings, tasks, options, target });
        let workers = work.config.workers();
        let mut results = {
            let (work, progress) = (Arc::clone(&work), Arc::clone(&progress));
            let workers = PoolOptions { name: "prepare", item: "part", workers, queue_depth: DEPTH * workers };
            WorkPool::new(work.tasks.len() as u64, workers, move |index, stop| {
                let task = &work.tasks[usize::try_from(index).expect("parts are in memory")];
                part::make(&work, task, &progress, stop)
            })
        };
        let dataset_version = lists.newest();
        voice.say(EventKind::PrepareStart(description.start(dataset_version)));
        for warning in warnings {
            voice.say(EventKind::Warning(warning));
        }
        let gauges = results.stats();
        if let Some(hears) = self.hears {
            hears(gauges.clone());
        }
        let vocab_size = work.tokenizer.facts().tokens.len();
        let mut fold = Fold::new(&work.corpus, work.config.max_bad_lines, vocab_size);
        loop {
            if stop.is_cancelled() {
                return Err(Error::Stopped);
            }
            match results.next_timeout(PULSE)? {
                Poll::Item(outcome) => {
                    let done = outcome.done();
                    fold.add(outcome)?;
                    voice.say(EventKind::PartDone(done));
                }
                Poll::Pending => {}
                Poll::End => break,
            }
            voice.say(EventKind::PrepareProgress(progress.after(began.elapsed())));
            // What is known of a part before it is done: a corpus of dirt is not read to its end.
            progress.judge(work.config.max_bad_lines)?;
        }
        drop(results);
        assert_eq!(fold.parts.len(), work.tasks.len(), "every part in effect is folded");
        if let Err(error) = fold.judge(&work.config.inputs) {
            // Of a corpus that never had a document nothing stays; of one that had, what was published does.
            let never = fold.report().documents == 0 && lists.iter().count() == 1;
            if let Some(store) = work.store().filter(|_| never) {
                gc::withdraw(store)?;
            }
            return Err(error);
        }
        let published = aggregate::publish(&work, &lists, &fold)?;
        let removed = match &work.target {
            Some((store, _)) => gc::remove_others(store, &fold.objects)?,
            None => 0,
        };
        let written = self.announced || published || removed > 0;
        let nothing_to_do = work.target.is_some() && fold.made == 0 && !written;
        let change = description.change;
        let done = Done { dataset_version, change, progress: &progress, gauges, nothing_to_do };
        let summary = summarize(&work, &fold, &done, began);
        voice.say(EventKind::PrepareEnd(summary.end(work.place())));
        Ok(summary)
    }
}

/// What a run did next to its fold.
struct Done<'a> {
    dataset_version: DatasetVersion,
    change: Option<DatasetChange>,
    progress: &'a Progress,
    gauges: PoolStats,
    nothing_to_do: bool,
}

fn summarize(work: &Work, fold: &Fold<'_>, done: &Done<'_>, began: Instant) -> PrepareSummary {
    let sum = |split: fn(&PartEntry) -> &[Shard]| {
        fold.shards(split).fold((0, 0), |(rows, tokens), shard| (rows + shard.rows, tokens + shard.tokens))
    };
    let (train, valid) = (sum(|part| &part.train), sum(|part| &part.valid));
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
        workers: done.gauges.workers(),
        fold: WorkerStats { name: "fold".to_owned(), ..done.gauges.reader() },
        elapsed: began.elapsed(),
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
