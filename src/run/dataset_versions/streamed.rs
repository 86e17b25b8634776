//! Stream of segments from a prepared folder that this or another process is still filling.
//!
//! # What
//! The segments of the part list that the run began with. If the folder is complete, the manifest lists them. Until
//! then, the commit records of its parts list them, and the run waits for the next record. It polls the store with
//! pauses that double up to one second. The epoch ends when the manifest marks the dataset version as complete.
//!
//! # Why the rows do not depend on timing
//! A segment is returned when its record exists, in the order of the list. So the answers are those of a complete
//! folder. Each answer is recorded in `dataset_versions.json` before any row is built from it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pipeline::epoch_plan::{self, Segment, SegmentSource, SplitSnapshot};
use pipeline::prepare::{self, PartLists, PendingSegments};
use pipeline::{Error, Result, load};
use runtime::{CancelToken, starved};
use schemas::{DatasetVersion, Manifest, Shard, Split, manifest};
use store::{LeaseConfig, LeaseStatus, LeaseWatch, Store};

use super::pauses::PollInterval;
use super::{DatasetVersions, other_data};

/// Reads the manifest of a folder, if that dataset version is complete.
///
/// # Errors
/// [`Error::Config`] if a later version superseded it before it was complete; other errors if the manifest is
/// unreadable.
pub(crate) fn published(data: &Store, dataset_version: DatasetVersion) -> Result<Option<Manifest>> {
    if data.head(manifest::NAME)?.is_none() {
        return Ok(None);
    }
    let manifest = load::open(data)?;
    if manifest.newest() < dataset_version {
        return Ok(None);
    }
    if manifest.dataset_version(dataset_version).content.is_empty() {
        let message = format!("dataset version {dataset_version} was superseded before it was complete");
        return Err(Error::Config(format!("{}: {message}; begin a new run (another `run.folder`)", data.place(""))));
    }
    Ok(Some(manifest))
}

/// Segments of one dataset version, in the order in which they are prepared.
#[derive(Debug)]
pub struct StreamedSegments {
    data: Store,
    dataset_version: DatasetVersion,
    parts: u64,
    versions: Arc<DatasetVersions>,
    state: Mutex<State>,
    waiting: Mutex<Waiting>,
    /// Cancelled when the preparation that this process runs has failed.
    failed: OnceLock<CancelToken>,
}

#[derive(Debug)]
struct State {
    /// None once the version is complete.
    pending: Option<PendingSegments>,
    segments: Vec<Segment>,
    shards: Vec<Shard>,
    watch: LeaseWatch,
    /// Process that fills the folder, as last logged. Each process is logged once.
    filler: Option<String>,
    pauses: PollInterval,
    /// Number of part lists at the last check.
    seen_lists: usize,
}

/// Time that workers have spent waiting for segments.
#[derive(Debug, Default)]
struct Waiting {
    before: Duration,
    since: Option<Instant>,
    /// Part of the present wait, or of the last one.
    part: u64,
}

/// Total time that workers have waited for segments, and the part that they wait for.
#[derive(Clone, Copy, Debug)]
pub struct SegmentWait {
    /// Sum of all waits.
    pub waited: Duration,
    /// Part of the present wait, or of the last one.
    pub part: u64,
    /// Number of parts.
    pub parts: u64,
}

impl StreamedSegments {
    /// Creates the segments of a complete version.
    pub(crate) fn complete(
        data: &Store,
        lists: &PartLists,
        versions: Arc<DatasetVersions>,
        manifest: &Manifest,
    ) -> Self {
        let segments = epoch_plan::segments(manifest, versions.first());
        Self::new(data, lists, versions, None, segments)
    }

    /// Creates the segments of a version that is being prepared. `segments` are those known already.
    pub(crate) fn pending(
        data: &Store,
        lists: &PartLists,
        versions: Arc<DatasetVersions>,
        pending: PendingSegments,
        segments: Vec<Segment>,
    ) -> Self {
        Self::new(data, lists, versions, Some(pending), segments)
    }

    fn new(
        data: &Store,
        lists: &PartLists,
        versions: Arc<DatasetVersions>,
        pending: Option<PendingSegments>,
        segments: Vec<Segment>,
    ) -> Self {
        let dataset_version = versions.first();
        let shards = segments.iter().flat_map(|segment| segment.shards.clone()).collect();
        let watch = LeaseWatch::new(data, prepare::LOCK, LeaseConfig::default());
        let seen_lists = lists.newest().0 as usize + 1;
        let state = State { pending, segments, shards, watch, filler: None, pauses: PollInterval::begin(), seen_lists };
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

    /// Returns an error if the first window of `window_blocks` row groups, or rows that the run had read, are missing.
    pub(crate) fn refuse_to_begin(&self, window_blocks: usize) -> Result<()> {
        let state = self.state();
        let groups: usize = state.shards.iter().map(|shard| shard.groups.len()).sum();
        if groups >= window_blocks && state.shards.len() as u64 >= self.versions.shards_read() {
            return Ok(());
        }
        Err(self.unfinished(&state, "too few to begin; run `cloze prepare`, or let it continue"))
    }

    /// Sets the token that is cancelled when a preparation of this process fails. Workers then stop waiting for it.
    pub fn fail_with(&self, failed: CancelToken) {
        let _ = self.failed.set(failed);
    }

    /// Total time that workers have waited for segments so far.
    pub fn wait_so_far(&self) -> SegmentWait {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = waiting.since.map_or(Duration::ZERO, |since| since.elapsed());
        SegmentWait { waited: waiting.before + now, part: waiting.part, parts: self.parts }
    }

    /// Checks for new segments, and appends them. At the end, checks that the manifest lists the same segments.
    fn poll(&self, state: &mut State) -> Result<bool> {
        let Some(pending) = &mut state.pending else { return Ok(true) };
        let more = pending.more()?;
        if !more.is_empty() {
            state.shards.extend(more.iter().flat_map(|segment| segment.shards.clone()));
            state.segments.extend(more);
            state.pauses = PollInterval::begin();
            state.watch.restart();
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

    /// Waits until the next poll.
    fn wait(&self, state: &mut State, stop: Option<&CancelToken>) -> Result<()> {
        let Some(stop) = stop else { return Err(self.unfinished(state, "run `cloze prepare`, or let it continue")) };
        self.refuse_dropped(state)?;
        if self.failed.get().is_some_and(CancelToken::is_cancelled) {
            return Err(self.unfinished(state, "the preparation in this process has failed"));
        }
        match state.watch.observe()? {
            LeaseStatus::Abandoned => {
                return Err(
                    self.unfinished(state, "no process prepares it; run `cloze prepare`, then the same command again")
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

    /// Fails if a newer part list has dropped parts of this version.
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

    /// Records the begin of a wait, or its end if `since` is `None`.
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
            if state.pending.is_none() || (state.segments.len() > known && is_read) {
                self.versions.note_read(&state.shards)?;
                return Ok(state.segments[known..].to_vec());
            }
            if !self.poll(state)? {
                self.note(Some((Instant::now(), self.done(state).0)));
                self.wait(state, stop)?;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an error if a later list dropped parts of this version.
pub(crate) fn refuse_dropped(lists: &PartLists, dataset_version: DatasetVersion) -> Result<()> {
    let snapshot =
        SplitSnapshot { dataset_version, split: Split::default(), dropped: lists.dropped_since(dataset_version) };
    match snapshot.refusal() {
        Some(refusal) => Err(Error::Config(format!("{refusal}; begin a new run (another `run.folder`)"))),
        None => Ok(()),
    }
}

impl SegmentSource for StreamedSegments {
    fn segments_after(&self, known: usize, stop: Option<&CancelToken>) -> Result<Vec<Segment>> {
        let found = self.behind_in(&mut self.state(), known, stop);
        self.note(None);
        found
    }

    fn parts(&self) -> u64 {
        self.parts
    }
}
