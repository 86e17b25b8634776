//! A prepared folder that a run reads in the order in which it is filled, by this process or another, here or elsewhere.
//!
//! # What
//! The segments of the part list that the run began with. Those of a folder that is whole are in its manifest; until it
//! is, they are told by the records of its parts, and the next one is waited for: the store is asked again and again, ever
//! more seldom up to once a second. The epoch ends when the manifest says that the dataset version is whole.
//!
//! # Why nothing depends on when
//! A segment is told once its record is there, in the order of the list, so that the answers are those that a finished
//! folder gives. What was told is written down before anything is made of it (`dataset_versions.json`).

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pipeline::epoch_plan::{self, Segment, SegmentSource, SplitSnapshot};
use pipeline::prepare::{self, PartLists, PendingSegments};
use pipeline::{Error, Result, load};
use runtime::{CancelToken, starved};
use schemas::{DatasetVersion, Manifest, Shard, Split, manifest};
use store::{LeaseConfig, LeaseStatus, LeaseWatch, Store};

use super::pauses::Pauses;
use super::{DatasetVersions, other_data};

/// The manifest of a folder, if that dataset version of it is whole.
///
/// # Errors
/// If it was superseded before it was, or the manifest cannot be read.
pub(crate) fn published(data: &Store, dataset_version: DatasetVersion) -> Result<Option<Manifest>> {
    if data.stat(manifest::NAME)?.is_none() {
        return Ok(None);
    }
    let manifest = load::open(data)?;
    if manifest.newest() < dataset_version {
        return Ok(None);
    }
    if manifest.dataset_version(dataset_version).content.is_empty() {
        let message = format!("dataset version {dataset_version} was superseded before it was whole");
        return Err(Error::Config(format!("{}: {message}; begin a new run (another `run.folder`)", data.place(""))));
    }
    Ok(Some(manifest))
}

/// The segments of one dataset version, as they come.
#[derive(Debug)]
pub struct StreamedSegments {
    data: Store,
    dataset_version: DatasetVersion,
    parts: u64,
    versions: Arc<DatasetVersions>,
    state: Mutex<State>,
    waiting: Mutex<Waiting>,
    /// Closed when the preparation that this process runs has failed.
    failed: OnceLock<CancelToken>,
}

#[derive(Debug)]
struct State {
    /// None once the version is complete.
    pending: Option<PendingSegments>,
    told: Vec<Segment>,
    shards: Vec<Shard>,
    watch: LeaseWatch,
    /// Who was seen to fill the folder, so that it is said once.
    filler: Option<String>,
    pauses: Pauses,
    /// Number of part lists at the last look.
    seen_lists: usize,
}

/// Time that workers have spent waiting for segments.
#[derive(Debug, Default)]
struct Waiting {
    before: Duration,
    since: Option<Instant>,
    /// The part that is waited for, or was last.
    part: u64,
}

/// How long workers have waited for segments so far, and for which part.
#[derive(Clone, Copy, Debug)]
pub struct SegmentWait {
    /// Time of all waits.
    pub waited: Duration,
    /// The part of the present wait, or of the last one.
    pub part: u64,
    /// Number of parts.
    pub parts: u64,
}

impl StreamedSegments {
    /// Segments of a version that is complete.
    pub(crate) fn complete(
        data: &Store,
        lists: &PartLists,
        versions: Arc<DatasetVersions>,
        manifest: &Manifest,
    ) -> Self {
        let told = epoch_plan::segments(manifest, versions.first());
        Self::new(data, lists, versions, None, told)
    }

    /// Segments of a version that is being prepared, after those that were `told` already.
    pub(crate) fn pending(
        data: &Store,
        lists: &PartLists,
        versions: Arc<DatasetVersions>,
        pending: PendingSegments,
        told: Vec<Segment>,
    ) -> Self {
        Self::new(data, lists, versions, Some(pending), told)
    }

    fn new(
        data: &Store,
        lists: &PartLists,
        versions: Arc<DatasetVersions>,
        pending: Option<PendingSegments>,
        told: Vec<Segment>,
    ) -> Self {
        let dataset_version = versions.first();
        let shards = told.iter().flat_map(|segment| segment.shards.clone()).collect();
        let watch = LeaseWatch::of(data, prepare::LOCK, LeaseConfig::default());
        let seen_lists = lists.newest().0 as usize + 1;
        let state = State { pending, told, shards, watch, filler: None, pauses: Pauses::begin(), seen_lists };
        Self {
            data: data.clone(),
            dataset_version,
            parts: lists.parts(dataset_version).len() as u64,
            versions,
            state: Mutex::new(state),
            waiting: Mutex::default(),
            failed: OnceLock::new(),
        }
    }

    /// That a first window of so many row groups is there, and all that the run had read.
    pub(crate) fn refuse_to_begin(&self, window_blocks: usize) -> Result<()> {
        let state = self.state();
        let groups: usize = state.shards.iter().map(|shard| shard.groups.len()).sum();
        if groups >= window_blocks && state.shards.len() as u64 >= self.versions.shards_read() {
            return Ok(());
        }
        Err(self.unfinished(&state, "too few to begin with; run `cloze prepare`, or let it go on"))
    }

    /// From now on nobody waits for a preparation of this process that has failed, which closes `failed`.
    pub fn fail_with(&self, failed: CancelToken) {
        let _ = self.failed.set(failed);
    }

    /// How long workers have waited for segments until now.
    pub fn wait_so_far(&self) -> SegmentWait {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = waiting.since.map_or(Duration::ZERO, |since| since.elapsed());
        SegmentWait { waited: waiting.before + now, part: waiting.part, parts: self.parts }
    }

    /// Whether anything more is there; then it is told next. At the end, that the manifest says the same.
    fn look(&self, state: &mut State) -> Result<bool> {
        let Some(pending) = &mut state.pending else { return Ok(true) };
        let more = pending.more()?;
        if !more.is_empty() {
            state.shards.extend(more.iter().flat_map(|segment| segment.shards.clone()));
            state.told.extend(more);
            state.pauses = Pauses::begin();
            state.watch.begin_anew();
            return Ok(true);
        }
        let (done, all) = pending.done();
        if done < all {
            return Ok(false);
        }
        let Some(manifest) = published(&self.data, self.dataset_version)? else { return Ok(false) };
        let whole = Split { shards: state.shards.clone() };
        if whole.content() != manifest.effective(self.dataset_version).train.content() {
            return Err(other_data(self.dataset_version, &self.data));
        }
        state.pending = None;
        Ok(true)
    }

    /// Waits until it is worth another look.
    fn wait(&self, state: &mut State, stop: Option<&CancelToken>) -> Result<()> {
        let Some(stop) = stop else { return Err(self.unfinished(state, "run `cloze prepare`, or let it go on")) };
        self.refuse_dropped(state)?;
        if self.failed.get().is_some_and(CancelToken::is_cancelled) {
            return Err(self.unfinished(state, "its preparation, in this process, has failed"));
        }
        match state.watch.look()? {
            LeaseStatus::Deserted => {
                return Err(
                    self.unfinished(state, "nobody prepares it; run `cloze prepare`, then the same command again")
                );
            }
            LeaseStatus::Held(filler) if state.filler.as_ref() != Some(&filler) => {
                let (done, all) = self.done(state);
                let place = self.data.place("");
                tracing::info!(%place, part = done, parts = all, by = %filler, "waiting for the next part to be prepared");
                state.filler = Some(filler);
            }
            LeaseStatus::Held(_) | LeaseStatus::Idle => {}
        }
        let pause = state.pauses.next_pause();
        if starved(|| stop.is_cancelled_within(pause)) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// A list that came since may have dropped what is waited for.
    fn refuse_dropped(&self, state: &mut State) -> Result<()> {
        let lists = self.data.list("versions")?.len();
        if lists == state.seen_lists {
            return Ok(());
        }
        state.seen_lists = lists;
        match PartLists::read(&self.data)? {
            Some(lists) => refuse_dropped(&lists, self.dataset_version),
            None => Ok(()),
        }
    }

    fn done(&self, state: &State) -> (u64, u64) {
        let done = state.pending.as_ref().map_or(self.parts, |pending| pending.done().0 as u64);
        (done, self.parts)
    }

    fn unfinished(&self, state: &State, why: &str) -> Error {
        let (done, all) = self.done(state);
        let message = format!("{done} of the {all} parts of dataset version {} are there; {why}", self.dataset_version);
        Error::Unfinished { place: self.data.place(""), message }
    }

    /// Notes that it is waited, or no longer.
    fn note(&self, since: Option<(Instant, u64)>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = waiting.since.take() {
            waiting.before += before.elapsed();
        }
        if let Some((since, part)) = since {
            (waiting.since, waiting.part) = (Some(since), part);
        }
    }

    fn behind_in(&self, state: &mut State, known: usize, stop: Option<&CancelToken>) -> Result<Vec<Segment>> {
        loop {
            let is_read = state.shards.len() as u64 >= self.versions.shards_read();
            if state.pending.is_none() || (state.told.len() > known && is_read) {
                self.versions.note_read(&state.shards)?;
                return Ok(state.told[known..].to_vec());
            }
            if !self.look(state)? {
                self.note(Some((Instant::now(), self.done(state).0)));
                self.wait(state, stop)?;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses to read parts that a later list dropped.
pub(crate) fn refuse_dropped(lists: &PartLists, dataset_version: DatasetVersion) -> Result<()> {
    let edition =
        SplitSnapshot { dataset_version, split: Split::default(), dropped: lists.dropped_since(dataset_version) };
    match edition.refusal() {
        Some(refusal) => Err(Error::Config(format!("{refusal}; begin a new run (another `run.folder`)"))),
        None => Ok(()),
    }
}

impl SegmentSource for StreamedSegments {
    fn behind(&self, known: usize, stop: Option<&CancelToken>) -> Result<Vec<Segment>> {
        let found = self.behind_in(&mut self.state(), known, stop);
        self.note(None);
        found
    }

    fn parts(&self) -> u64 {
        self.parts
    }
}
