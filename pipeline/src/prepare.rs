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
mod commit_memory;
mod commit_record;
mod config;
mod document_table;
mod dry_run;
mod duplicate_fold;
mod duplicate_ids;
mod estimate;
mod fingerprints;
mod first_use;
mod folder_lock;
mod gc;
mod job;
mod json_lines;
mod leases;
mod list_proof;
mod listing;
mod numbered_parts;
mod part;
mod part_check;
mod part_list;
mod part_objects;
mod part_pool;
mod partners;
mod pending_commit;
mod plan;
mod planned_format;
mod planned_inputs;
mod progress;
mod provisional_manifest;
mod reject_stats;
mod removal;
mod removal_config;
mod removed_documents;
mod requests;
mod segment;
mod shared;
mod sign;
mod signatures;
mod split_writer;
mod summary;
mod tail;
mod test_sets;
mod text_batch;
mod text_rules;
mod text_stats;
mod text_tools;
mod unusable_part;
mod verdicts;
mod verify;

use std::collections::BTreeSet;

pub use filters::AnyFilter;
use runtime::{CancelToken, cancel_pair};
use schemas::{DatasetVersion, PartId};
use store::{Lock, Store};
use telemetry::{Clock, EventKind, Observer};
use tracing::{info, warn};

pub use self::change::DatasetChange;
pub use self::config::PrepareConfig;
pub(crate) use self::document_table::each_length;
pub use self::document_table::{Origin, each_document, ids_like, origins};
pub use self::estimate::CorpusEstimate;
use self::fingerprints::Fingerprints;
pub use self::folder_lock::LOCK;
use self::folder_lock::lock_folder;
pub use self::job::PrepareOptions;
use self::job::{PartAccess, PrepareJob, in_order, long_ones_first};
pub use self::part_list::valid_fraction;
use self::part_list::{ReadableLists, VersionLists};
use self::part_pool::PartPool;
pub use self::part_pool::PoolStatsCallback;
pub use self::plan::{DuplicatesCost, PrepareMemory, PreparePlan, fits};
use self::plan::{ForgetPlan, Planned};
use self::planned_inputs::PlannedInputs;
use self::progress::EventSink;
pub use self::progress::{Stage, Stages};
use self::provisional_manifest::ProvisionalManifest;
pub(crate) use self::provisional_manifest::vocab_to_parquet;
pub(crate) use self::reject_stats::RejectStats;
pub(crate) use self::reject_stats::{RejectsOfReason, noted};
pub use self::removal_config::{DecontaminationConfig, DuplicatesConfig, TestSetConfig, TestSplit};
pub use self::shared::{Share, ShareSummary, SharedPreparation};
pub use self::summary::PrepareSummary;
pub use self::tail::{PartLists, PendingSegments};
pub use self::text_rules::FilteredDocument;
pub use self::verify::{FolderCheck, FolderProblem, verify};
use crate::corpus::{Corpus, KnownFiles, Part};
use crate::{Error, Result};

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

/// Finds the files of a corpus, with the names that the prepared folder has for them.
pub fn open_corpus(config: &PrepareConfig) -> Result<Corpus> {
    let store = plan::existing(config)?;
    // A folder that cannot be read names no file.
    let lists = store.as_ref().and_then(|store| VersionLists::read_undamaged(store).ok()).map(|found| found.lists);
    let known = match (store, lists) {
        (Some(store), Some(lists)) => Fingerprints::read(&store)?.known_files(&lists),
        _ => KnownFiles::new(),
    };
    Corpus::open_known(&config.corpus(), &known)
}

impl Preparation {
    /// Reads the corpus' outline, the tokenizer and the folder, and rejects invalid combinations. Writes nothing.
    pub fn plan(config: &PrepareConfig) -> Result<Self> {
        Self::with(config, plan::existing(config)?)
    }

    /// Plans a preparation into a store other than the configuration's folder.
    pub fn plan_in(config: &PrepareConfig, store: &Store) -> Result<Self> {
        Self::with(config, Some(store.clone()))
    }

    /// Plans a run that writes nothing, as if there was no folder. [`PrepareOptions::null_writer`] must be set.
    pub fn plan_dry(config: &PrepareConfig) -> Result<Self> {
        Self::with(config, None)
    }

    fn with(config: &PrepareConfig, store: Option<Store>) -> Result<Self> {
        Ok(Self { planned: Planned::new(config, store.as_ref())?, store, announced: false, hears: None })
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
        let (store, _lock) = self.acquire_lock()?;
        self.write_list(&store)?;
        self.make(Some(store), options, stop, voice)
    }

    /// Writes the plan for processes that share the parts ([`SharedPreparation`]), and makes none. Returns the numbers
    /// of the plan.
    pub fn write_plan(mut self, clock: &Clock, observer: &mut dyn Observer) -> Result<PreparePlan> {
        let mut voice = EventSink { clock, observer };
        for warning in self.planned.warnings() {
            voice.emit(EventKind::Warning(warning));
        }
        let (store, _lock) = self.acquire_lock()?;
        self.write_list(&store)?;
        PlannedInputs::new(&self.planned.corpus)?.write(&store)?;
        Ok(self.planned.describe())
    }

    /// Makes parts again, such as those in which [`verify()`] found damage, and writes damaged objects of no part again.
    ///
    /// # Errors
    /// [`Error::Config`] if the inputs are not those of the folder: a repair adds no dataset version.
    pub fn remake(
        mut self,
        parts: &BTreeSet<PartId>,
        clock: &Clock,
        observer: &mut dyn Observer,
    ) -> Result<PrepareSummary> {
        let voice = EventSink { clock, observer };
        let (_stopper, stop) = cancel_pair();
        let (store, _lock) = self.acquire_lock()?;
        if let (Some((_, change)), None) = (&self.planned.next, &self.planned.damaged) {
            return Err(Error::Config(format!(
                "{}: `prepare.inputs` differ from what was prepared ({change}); restore them, or run `cloze prepare`",
                store.place("")
            )));
        }
        self.write_list(&store)?;
        for entry in store.list("parts")? {
            if part_objects::part_of(&entry.name).is_some_and(|part| parts.contains(&part)) {
                store.delete(&entry.name)?;
            }
        }
        let mut damaged = Vec::new();
        if let Some(settings) = self.planned.lists.settings().filter(|settings| settings.removes_duplicates()) {
            let settings = settings.digest();
            for (_, part) in self.planned.lists.in_effect().into_values() {
                if signatures::delete_damaged(&store, &settings, part)? {
                    damaged.push(part.clone());
                }
            }
        }
        self.make_with(Some(store), PrepareOptions::default(), &stop, voice, damaged)
    }

    /// Removes a document from the corpus permanently and remakes the parts that contain it. If it is already
    /// forgotten, makes missing parts and returns the dataset version that removed it. With `may_be_absent`, the document
    /// can be one that no part contains: a removed duplicate, or one that arrives later.
    pub fn forget_document(
        mut self,
        document: &str,
        may_be_absent: bool,
        clock: &Clock,
        observer: &mut dyn Observer,
    ) -> Result<(PrepareSummary, Option<DatasetVersion>)> {
        let nothing = "there is no prepared corpus here; run `cloze prepare`, then forget";
        let nothing = || Error::Config(format!("{}: {nothing}", self.planned.config.folder.display()));
        let store = self.store.clone().ok_or_else(nothing)?;
        // Searched before the folder is locked: a wrong id changes nothing.
        plan::plan_forget(&self.planned, &store, document, may_be_absent)?;
        let (store, _lock) = self.acquire_lock()?;
        let before = match plan::plan_forget(&self.planned, &store, document, may_be_absent)? {
            ForgetPlan::Before(dataset_version) => Some(dataset_version),
            ForgetPlan::Now(next) => {
                self.planned.next = Some(*next);
                None
            }
        };
        self.write_list(&store)?;
        let voice = EventSink { clock, observer };
        let (_stopper, stop) = cancel_pair();
        Ok((self.make(Some(store), PrepareOptions::default(), &stop, voice)?, before))
    }

    /// Locks the folder, removes remains of a kill, and plans again if another process has written to it.
    fn acquire_lock(&mut self) -> Result<(Store, Lock)> {
        let store = match &self.store {
            Some(store) => store.clone(),
            None => remote_store::open_path(&self.planned.config.folder)?,
        };
        let (store, lock) = lock_folder(&store)?;
        leases::refuse_live(&store)?;
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
        self.announced = ProvisionalManifest::write(store, &self.planned.config, self.planned.tools.tokenizer.facts())?;
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
        store: Option<Store>,
        options: PrepareOptions,
        stop: &CancelToken,
        voice: EventSink<'_>,
    ) -> Result<PrepareSummary> {
        self.make_with(store, options, stop, voice, Vec::new())
    }

    /// Makes the missing parts, and the signatures of the parts `unsigned`, then publishes all parts in effect.
    fn make_with(
        self,
        store: Option<Store>,
        options: PrepareOptions,
        stop: &CancelToken,
        mut voice: EventSink<'_>,
        unsigned: Vec<Part>,
    ) -> Result<PrepareSummary> {
        let description = self.planned.describe();
        let warnings = self.planned.warnings();
        let lists = if store.is_some() { self.planned.lists.clone() } else { self.planned.coming() };
        let Planned { config, corpus, tools, settings, part_bytes, .. } = self.planned;
        let tasks = if options.in_order { in_order(&lists) } else { long_ones_first(&lists, part_bytes) };
        let settings = settings.digest();
        let work = PrepareJob::new(config, corpus, tools, settings, tasks, options, store, PartAccess::Make)?;
        voice.emit(EventKind::PrepareStart(description.start(lists.newest())));
        for warning in warnings {
            voice.emit(EventKind::Warning(warning));
        }
        duplicate_fold::sign_parts(&work, unsigned, stop, &mut voice)?;
        let verdicts = duplicate_fold::compare_documents(&work, &lists, stop, &mut voice)?;
        work.verdicts.set(verdicts).expect("set once");
        let mut pool = PartPool::new(&work);
        pool.run(stop, &mut voice, self.hears)?;
        pool.refuse_unusable()?;
        pool.publish(&lists, description.change, self.announced, &mut voice)
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
