//! Preparation by several processes: `cloze prepare plan`, any number of `cloze prepare run`, `cloze prepare finalize`.
//!
//! # What
//! The first step writes the part list. Each process of the second makes a share of the parts: those of an index, or
//! those that it leases. The last step reads the commit records and writes the manifest.
//!
//! # Why
//! Schedulers start processes, restart them, and start them twice. The parts do not depend on any of it, so every split
//! of the work gives the same bytes.
//!
//! # Definition
//! Share `i` of `n` consists of the parts whose position modulo `n` is `i`, longest parts first. A lease belongs to one
//! part; see [`leases`].

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use runtime::CancelToken;
use store::{LeaseContender, Lock, Store};
use telemetry::preparation::PrepareStart;
use telemetry::{Clock, EventKind, Observer};
use tracing::info;

use super::config::PrepareConfig;
use super::duplicate_fold;
use super::fingerprints::Fingerprints;
use super::folder_lock::lock_folder;
use super::job::{PartAccess, PrepareJob, PrepareOptions, Task, long_ones_first};
use super::leases;
use super::part_list::VersionLists;
use super::part_pool::{PartPool, PoolStatsCallback};
use super::plan::{self, check_settings};
use super::planned_inputs::{self, PlannedInputs};
use super::progress::EventSink;
use super::signatures;
use super::summary::PrepareSummary;
use super::text_tools::TextTools;
use super::verdicts::VerdictDigests;
use crate::corpus::{Corpus, Part};
use crate::{Error, Result};

/// Time without a heartbeat after which leases expire that have no configured time.
const USUAL_EXPIRY: Duration = Duration::from_secs(60);

/// Parts that a process makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Every `count`-th part, from part `index` on.
    Index {
        /// 0-based index of the share.
        index: u64,
        /// Number of shares.
        count: NonZeroU64,
    },
    /// All parts that no other process makes at the moment, until all exist.
    Leases {
        /// Time without a heartbeat after which the lease of another process expires.
        expiry: Duration,
    },
}

/// Result of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareSummary {
    /// Parts of the share. With leases: all parts in effect.
    pub parts: u64,
    /// Parts of the share that this process made.
    pub parts_made: u64,
    /// Wall time.
    pub elapsed: Duration,
}

/// Planned folder that this process helps to prepare.
pub struct SharedPreparation {
    config: PrepareConfig,
    store: Store,
    lists: VersionLists,
    tools: TextTools,
    verdicts: VerdictDigests,
    settings: String,
    part_bytes: u64,
}

impl std::fmt::Debug for SharedPreparation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedPreparation").field("config", &self.config).finish_non_exhaustive()
    }
}

impl SharedPreparation {
    /// Opens the configured folder, which must have a part list of the same settings.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if nothing is planned there.
    pub fn open(config: &PrepareConfig) -> Result<Self> {
        match plan::existing(config)? {
            Some(store) => Self::open_in(config, &store),
            None => Err(unplanned(&config.folder.display().to_string())),
        }
    }

    /// Opens a planned folder in that store.
    pub fn open_in(config: &PrepareConfig, store: &Store) -> Result<Self> {
        config.check()?;
        let lists = VersionLists::read(store)?;
        let Some(found) = lists.settings() else { return Err(unplanned(&store.place(""))) };
        let part_bytes = found.part_bytes().unwrap_or_default();
        let tools = TextTools::load(config)?;
        check_settings(found, &tools.settings(config, part_bytes), store)?;
        let verdicts = VerdictDigests::read(store, found, &lists)?;
        let settings = found.digest();
        Ok(Self { config: config.clone(), store: store.clone(), lists, tools, verdicts, settings, part_bytes })
    }

    /// Makes the parts of a share. Returns when all of them exist.
    ///
    /// # Errors
    /// [`Error::UnusableFile`] after all other parts if files cannot be used; [`Error::Stopped`] if `stop` is cancelled.
    pub fn run(
        self,
        share: Share,
        options: PrepareOptions,
        stop: &CancelToken,
        clock: &Clock,
        observer: &mut dyn Observer,
        hears: Option<PoolStatsCallback>,
    ) -> Result<ShareSummary> {
        let began = Instant::now();
        self.refuse_uncompared()?;
        let _live = self.hold_share(share)?;
        let (tasks, access) = self.share(share);
        let corpus = self.corpus(&tasks)?;
        let dataset_version = self.lists.newest();
        let store = self.store.clone();
        let lists = self.lists.clone();
        let work = self.job(store.clone(), corpus, tasks, options, access)?;
        let start = PrepareStart {
            files: work.corpus.files().len() as u64,
            bytes: work.tasks.iter().map(|task| task.part.bytes).sum(),
            parts: work.tasks.len() as u64,
            workers: work.config.workers() as u64,
            text_bytes_max: work.config.max_memory_bytes,
            dataset_version,
            tokenized_by: work.tools.tokenizer.implementation_name().to_owned(),
            ..PrepareStart::default()
        };
        let mut voice = EventSink { clock, observer };
        voice.emit(EventKind::PrepareStart(start));
        let mut pool = PartPool::new(&work);
        pool.run(stop, &mut voice, hears)?;
        while let (PartAccess::Lease(contender), 1..) = (&work.access, pool.left()) {
            info!(parts = pool.left(), "prepare: waiting for parts that other processes make");
            thread::sleep(contender.terms().heartbeat_interval);
            pool.run(stop, &mut voice, None)?;
        }
        pool.refuse_unusable()?;
        // The folder may have been deleted meanwhile.
        if VersionLists::read(&store)? != lists {
            let message = "the part list changed while this share was made; run the same command again".to_owned();
            return Err(Error::Unfinished { place: store.place(""), message });
        }
        Ok(ShareSummary { parts: work.tasks.len() as u64, parts_made: pool.made(), elapsed: began.elapsed() })
    }

    /// Writes the manifest. All parts must exist.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if parts are missing.
    pub fn finalize(self, stop: &CancelToken, clock: &Clock, observer: &mut dyn Observer) -> Result<PrepareSummary> {
        self.refuse_uncompared()?;
        let (guarded, _lock): (Store, Lock) = lock_folder(&self.store)?;
        if VersionLists::read(&guarded)? != self.lists {
            let message =
                "the part list changed during `finalize`; run `cloze prepare run`, then `finalize`".to_owned();
            return Err(Error::Unfinished { place: guarded.place(""), message });
        }
        let tasks = long_ones_first(&self.lists, self.part_bytes);
        // Only the places of rejected lines need the files, and they have the names.
        let corpus = Corpus::with_files(&self.config.corpus(), Vec::new());
        let lists = self.lists.clone();
        let work = self.job(guarded, corpus, tasks, PrepareOptions::default(), PartAccess::Read)?;
        let mut voice = EventSink { clock, observer };
        let mut pool = PartPool::new(&work);
        pool.run(stop, &mut voice, None)?;
        pool.refuse_missing()?;
        let store = work.store().expect("the folder is the target");
        match leases::refuse_live(store) {
            Ok(()) => store.sweep()?.iter().for_each(|name| info!(name, "prepare: removed the remains of a kill")),
            // Processes at work need their temporary files.
            Err(Error::Locked { .. }) => {}
            Err(error) => return Err(error),
        }
        pool.publish(&lists, None, false, &mut voice)
    }

    /// Makes the signatures of a share, for the removal of duplicates. If those of all parts exist then, compares all
    /// documents. Returns whether they are compared.
    ///
    /// # Errors
    /// [`Error::Config`] if duplicates stay.
    pub fn sign(self, share: Share, stop: &CancelToken, clock: &Clock, observer: &mut dyn Observer) -> Result<bool> {
        if self.config.duplicates.is_none() {
            return Err(Error::Config("`prepare.duplicates` is not set, so no documents are compared; add the section, or run `cloze prepare run`".to_owned()));
        }
        let _live = self.hold_share(share)?;
        let (tasks, access) = self.share(share);
        let corpus = self.corpus(&tasks)?;
        let lists = self.lists.clone();
        let store = self.store.clone();
        let work = self.job(store.clone(), corpus, tasks, PrepareOptions::default(), access)?;
        let mut voice = EventSink { clock, observer };
        let own = work.tasks.iter().map(|task| task.part.clone()).collect();
        duplicate_fold::sign_parts(&work, own, stop, &mut voice)?;
        let signed: BTreeSet<String> = store.list(signatures::FOLDER)?.into_iter().map(|entry| entry.name).collect();
        // The record of a part is written last.
        let is_signed = |part: &Part| signed.contains(&signatures::record_name(part));
        if !lists.in_effect().into_values().all(|(_, part)| is_signed(part)) {
            return Ok(false);
        }
        // One process compares; the others wait for it.
        let contender = LeaseContender::new(&store, leases::terms(USUAL_EXPIRY));
        loop {
            let lease = contender.try_acquire(&leases::comparison_name()).map_err(std::io::Error::from)?;
            if lease.is_some() {
                duplicate_fold::compare_documents(&work, &lists, stop, &mut voice)?;
                return Ok(true);
            }
            thread::sleep(contender.terms().heartbeat_interval);
        }
    }

    /// Shows processes that would remove the temporary files of this one that it is at work. Shares by index need this;
    /// the leases of parts show it too.
    pub(super) fn hold_share(&self, share: Share) -> Result<Option<Lock>> {
        let Share::Index { index, count } = share else { return Ok(None) };
        let contender = LeaseContender::new(&self.store, leases::terms(USUAL_EXPIRY));
        Ok(contender.try_acquire(&leases::share_name(index, count.get())).map_err(std::io::Error::from)?)
    }

    /// Returns the parts of a share, longest first, and how they are accessed.
    fn share(&self, share: Share) -> (Vec<Task>, PartAccess) {
        let tasks = long_ones_first(&self.lists, self.part_bytes);
        match share {
            Share::Index { index, count } => {
                let own = (0..).zip(tasks).filter(|(at, _)| *at % count == index);
                (own.map(|(_, task)| task).collect(), PartAccess::MakeShare)
            }
            Share::Leases { expiry } => {
                (tasks, PartAccess::Lease(LeaseContender::new(&self.store, leases::terms(expiry))))
            }
        }
    }

    /// Refuses to make parts before all documents are compared.
    fn refuse_uncompared(&self) -> Result<()> {
        if self.lists.in_effect().keys().all(|&part| self.verdicts.get(part).is_some()) {
            return Ok(());
        }
        let message =
            "its documents are not compared yet; run `cloze prepare signatures` for all shares first".to_owned();
        Err(Error::Unfinished { place: self.store.place(""), message })
    }

    /// Returns the corpus with the files of these tasks, from the plan if it names their places.
    fn corpus(&self, tasks: &[Task]) -> Result<Corpus> {
        let pieces = tasks.iter().flat_map(|task| &task.part.pieces);
        let names: BTreeSet<&str> = pieces.map(|piece| piece.name.as_str()).collect();
        let fingerprints = Fingerprints::read(&self.store)?;
        let planned = PlannedInputs::read(&self.store)?;
        if let Some(files) = planned.open(&names, &fingerprints)? {
            return Ok(Corpus::with_files(&self.config.corpus(), files));
        }
        let corpus = Corpus::open_known(&self.config.corpus(), &fingerprints.known_files(&self.lists))?;
        planned.refuse_missing(&names, &corpus)?;
        // A local corpus at another place may have other times; an object has a version.
        for file in names.iter().filter_map(|name| corpus.file(name)) {
            if file.is_object() {
                planned_inputs::refuse_changed(file, &fingerprints)?;
            } else {
                planned.refuse_other_copy(file, &fingerprints)?;
            }
        }
        Ok(corpus)
    }

    fn job(
        self,
        store: Store,
        corpus: Corpus,
        tasks: Vec<Task>,
        options: PrepareOptions,
        access: PartAccess,
    ) -> Result<Arc<PrepareJob>> {
        let Self { config, tools, verdicts, settings, .. } = self;
        let job = PrepareJob::new(config, corpus, tools, settings, tasks, options, Some(store), access)?;
        job.verdicts.set(verdicts).expect("set once");
        Ok(job)
    }
}

fn unplanned(place: &str) -> Error {
    let message = "nothing is planned here; run `cloze prepare plan` first".to_owned();
    Error::Unfinished { place: place.to_owned(), message }
}
