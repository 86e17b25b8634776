//! Assignment of data to the epochs of a stream.
//!
//! A prepared folder is a list of dataset versions. An [`EpochPlan`] assigns one dataset version to each epoch. All
//! epochs read the version that the run began with, or each reads the newest at its start ([`EpochVersions`]).
//! Consecutive epochs over one dataset version form an [`EpochSpan`]. If the first epoch is read while it is prepared
//! ([`SegmentSource`]), each of its windows is an epoch span. Numbers of rows, epochs and windows continue across
//! spans, so one number identifies a position. A binary search finds the span of a row, and the [`Sampler`] of the span
//! finds the rest.

mod epoch_span;
mod segment_source;
mod split_snapshot;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use runtime::{CancelToken, starved};
use schemas::{DatasetVersion, Epoch, Shard, Split};

pub(crate) use self::epoch_span::EpochSpan;
use self::segment_source::WindowBuilder;
pub use self::segment_source::{Segment, SegmentSource, segments};
pub use self::split_snapshot::SplitSnapshot;
use crate::error::{Error, Result};
use crate::sampler::{RowRef, Sampler};

/// Source of the dataset version that each epoch of a run reads, and of its missing parts.
pub trait EpochVersions: Debug + Send + Sync {
    /// Waits until another process has decided on `epoch`, if another one decides. Called before
    /// [`snapshot`](Self::snapshot).
    ///
    /// # Errors
    /// [`Error::Stopped`] after a stop, or without a cancel token instead of a wait.
    fn await_decision(&self, _epoch: Epoch, _stop: Option<&CancelToken>) -> Result<()> {
        Ok(())
    }

    /// Returns the data of `epoch`. Called before any row of the epoch is rendered, in order from the second epoch on.
    /// One worker calls it while others that need the answer wait. The answer for an epoch must never change, even
    /// after a kill. Implementations persist the answer before they return it.
    ///
    /// # Errors
    /// Any failure to determine the answer. The stream ends with it.
    fn snapshot(&self, epoch: Epoch) -> Result<Arc<SplitSnapshot>>;

    /// Number of decided epochs, so that readers do not cause a decision. `u64::MAX` if all epochs have one answer.
    /// Skipped epochs are then not asked for.
    fn decided(&self) -> u64;
}

/// Creates the sampler of a split: for all epochs over it, or for one window of a streamed epoch.
type Arrange = dyn Fn(&Split, Option<u64>) -> Sampler + Send + Sync;

/// Epochs of a stream.
pub(crate) struct EpochPlan {
    first: Arc<EpochSpan>,
    known: RwLock<DecidedSpans>,
    /// Lock held while the next window of a streamed epoch, or the next epoch's dataset version, is determined.
    window_builder: Mutex<Option<WindowBuilder>>,
    dataset_versions: Option<Arc<dyn EpochVersions>>,
    arrange: Box<Arrange>,
}

/// Window of a stream.
#[derive(Debug)]
pub(crate) struct DecidedWindow {
    /// First row after the window.
    pub(crate) end_row: u64,
    /// Shards of its row groups, each once, in the order of the row groups. Empty if they are decoded since an earlier
    /// epoch.
    pub(crate) shards: Vec<Shard>,
}

/// Decisions so far.
#[derive(Debug)]
struct DecidedSpans {
    spans: Vec<Arc<EpochSpan>>,
    /// Number of decided epochs of the last span. `None` if it has no end.
    epochs: Option<u64>,
    /// Whether a streamed epoch is not cut to its end.
    grows: bool,
}

impl DecidedSpans {
    fn last(&self) -> &Arc<EpochSpan> {
        self.spans.last().expect("an epoch plan begins with a span")
    }

    /// Returns the epoch span of a row, if its epoch is decided.
    fn find(&self, row: u64) -> Option<&Arc<EpochSpan>> {
        let last = self.last();
        if let Some(epochs) = self.epochs
            && row >= last.first_row + epochs * last.sampler().rows_per_epoch()
        {
            return None;
        }
        let behind = self.spans.partition_point(|span| span.first_row <= row);
        Some(&self.spans[behind - 1])
    }
}

impl Debug for EpochPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EpochPlan")
            .field("known", &self.known)
            .field("dataset_versions", &self.dataset_versions)
            .finish_non_exhaustive()
    }
}

impl EpochPlan {
    /// Creates the epochs over `first`. Without `dataset_versions`, they never end.
    pub(crate) fn new(
        first: Arc<SplitSnapshot>,
        dataset_versions: Option<Arc<dyn EpochVersions>>,
        arrange: impl Fn(&Split, Option<u64>) -> Sampler + Send + Sync + 'static,
    ) -> Self {
        let sampler = arrange(&first.split, None);
        let first = Arc::new(EpochSpan::first(first, sampler));
        let epochs = dataset_versions.is_some().then_some(1);
        let known = DecidedSpans { spans: vec![Arc::clone(&first)], epochs, grows: false };
        Self {
            first,
            known: RwLock::new(known),
            window_builder: Mutex::default(),
            dataset_versions,
            arrange: Box::new(arrange),
        }
    }

    /// Creates an epoch plan whose first epoch is read while it is prepared. The epoch is cut into windows of at least
    /// `window_blocks` row groups, as far as segments are available.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if no window is ready yet, [`Error::Config`] if there will be none. Any failure of the
    /// segment source.
    pub(crate) fn streamed(
        snapshot: &Arc<SplitSnapshot>,
        segments: Arc<dyn SegmentSource>,
        window_blocks: usize,
        dataset_versions: Arc<dyn EpochVersions>,
        arrange: impl Fn(&Split, Option<u64>) -> Sampler + Send + Sync + 'static,
    ) -> Result<Self> {
        let mut window_builder = WindowBuilder::new(segments, window_blocks);
        let window = window_builder.next(None)?;
        let window = window.ok_or_else(|| Error::Config("its training split is empty".to_owned()))?;
        let of = window_of(snapshot, window.split.clone());
        let sampler = arrange(&window.split, Some(0));
        let first = Arc::new(EpochSpan::part(None, window.passes, of, sampler));
        let known = DecidedSpans { spans: vec![Arc::clone(&first)], epochs: Some(1), grows: true };
        let dataset_versions = Some(dataset_versions);
        let arrange = Box::new(arrange);
        let course = Self {
            first,
            known: RwLock::new(known),
            window_builder: Mutex::new(Some(window_builder)),
            dataset_versions,
            arrange,
        };
        match course.cut_all() {
            Ok(()) | Err(Error::Unfinished { .. }) => Ok(course),
            Err(error) => Err(error),
        }
    }

    /// Cuts the available segments of a streamed epoch.
    fn cut_all(&self) -> Result<()> {
        let mut window_builder = self.asking();
        while self.known().grows {
            self.cut(&mut window_builder, None)?;
        }
        Ok(())
    }

    /// Returns the first epoch span.
    #[must_use]
    pub(crate) fn first(&self) -> &EpochSpan {
        &self.first
    }

    /// Returns the known windows of a streamed epoch. Empty for other plans.
    pub(crate) fn parts(&self) -> Vec<Arc<EpochSpan>> {
        self.known().spans.iter().filter(|span| span.is_part()).cloned().collect()
    }

    /// Whether the end of a streamed epoch is not known yet.
    pub(crate) fn grows(&self) -> bool {
        self.known().grows
    }

    /// Returns the rows `rows` and appends their epoch spans to `spans`. Waits for rows that are not prepared yet
    /// until `stop` is cancelled.
    ///
    /// # Errors
    /// If a dataset version is unknown or can no longer be read; if a row is not prepared.
    pub(crate) fn rows(
        &self,
        rows: Range<u64>,
        stop: Option<&CancelToken>,
        spans: &mut Vec<Arc<EpochSpan>>,
    ) -> Result<Vec<RowRef>> {
        let mut found = Vec::new();
        let mut row = rows.start;
        while row < rows.end {
            let span = self.span(row, stop)?;
            let (epoch, start) = span.locate(row);
            let end = span.sampler().rows_per_epoch().min(start + rows.end - row);
            let place = spans.len();
            found.extend(span.rows(epoch, start..end).map(|row| RowRef { span: place, ..row }));
            spans.push(span);
            row += end - start;
        }
        Ok(found)
    }

    /// Returns the window of a row, counted over the whole plan. Decoded groups are keyed by it. Returns `None` for a
    /// row that is not decided yet. This function neither decides nor waits.
    pub(crate) fn window(&self, row: u64) -> Option<u64> {
        let span = self.known().find(row).cloned()?;
        let (epoch, start) = span.locate(row);
        span.rows(epoch, start..start + 1).next().map(|row| row.window)
    }

    /// Returns the window of a row whose data is decided; neither decides nor waits.
    pub(crate) fn decided_window(&self, row: u64) -> Option<DecidedWindow> {
        let span = self.known().find(row).cloned()?;
        let (epoch, offset) = span.locate(row);
        let sampler = span.sampler();
        if sampler.is_resident() && epoch != span.first_epoch {
            // Without the order of an epoch that is far ahead.
            let end_row = row - offset + sampler.rows_per_epoch();
            return Some(DecidedWindow { end_row, shards: Vec::new() });
        }
        let (window, end) = sampler.window_at(epoch, offset);
        let mut listed = BTreeSet::new();
        let shards = sampler.window(epoch, window).into_iter().map(|block| sampler.blocks()[block].shard);
        let shards = shards.filter(|&shard| listed.insert(shard));
        Some(DecidedWindow {
            end_row: row - offset + end,
            shards: shards.map(|shard| span.snapshot().split.shards[shard as usize].clone()).collect(),
        })
    }

    /// Returns the number of passes over the data in the first `rows` rows.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) fn epochs(&self, rows: u64) -> Result<f64> {
        // Only the last row counts: a new span for the next row is decided when it is needed.
        let Some(last) = rows.checked_sub(1) else { return Ok(0.0) };
        // No data is read, so missing parts do not matter: a finished run can still report its epochs.
        Ok(self.span_of(last, None)?.passes(rows))
    }

    /// Returns the row after the last row whose data is decided. `None` if there is no such limit.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) fn rows_decided(&self) -> Result<Option<u64>> {
        let Some(dataset_versions) = &self.dataset_versions else { return Ok(None) };
        let end = dataset_versions.decided();
        if end == u64::MAX && !self.grows() {
            return Ok(None);
        }
        let mut window_builder = self.asking();
        loop {
            let (last, epochs, grows) = {
                let known = self.known();
                (Arc::clone(known.last()), known.epochs.expect("its end is known"), known.grows)
            };
            let row = last.first_row + epochs * last.sampler().rows_per_epoch();
            if !grows && end == u64::MAX {
                // The missing data arrived after the first check.
                return Ok(None);
            }
            if !grows && last.first_epoch.0 + epochs >= end {
                return Ok(Some(row));
            }
            match self.decide(row, &mut window_builder, None) {
                Err(Error::Unfinished { .. }) => return Ok(Some(row)),
                decided => decided?,
            }
        }
    }

    /// Returns the epoch span of a row. Its parts are readable.
    fn span(&self, row: u64, stop: Option<&CancelToken>) -> Result<Arc<EpochSpan>> {
        let span = self.span_of(row, stop)?;
        match span.snapshot().refusal() {
            None => Ok(span),
            Some(refusal) => Err(Error::Config(format!("{refusal}; {REFUSED_HINT}"))),
        }
    }

    /// Returns the epoch span of a row. The first caller that reaches an undecided row decides it.
    fn span_of(&self, row: u64, stop: Option<&CancelToken>) -> Result<Arc<EpochSpan>> {
        let mut found = self.known().find(row).cloned();
        if found.is_none() {
            let mut window_builder = self.asking();
            found = self.known().find(row).cloned();
            while found.is_none() {
                self.decide(row, &mut window_builder, stop)?;
                found = self.known().find(row).cloned();
            }
        }
        Ok(found.expect("it was decided"))
    }

    /// Returns the dataset version of a row.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) fn dataset_version(&self, row: u64) -> Result<DatasetVersion> {
        Ok(self.span_of(row, None)?.snapshot().dataset_version)
    }

    /// Decides one more window of a streamed epoch, or one more epoch. If all epochs have one answer, decides up to the
    /// epoch of `row`. The lock admits one thread at a time.
    fn decide(&self, row: u64, window_builder: &mut Option<WindowBuilder>, stop: Option<&CancelToken>) -> Result<()> {
        if self.known().grows {
            return self.cut(window_builder, stop);
        }
        let dataset_versions = self.dataset_versions.as_ref().expect("a finite plan has a version source");
        let (last, epochs) = {
            let known = self.known();
            (Arc::clone(known.last()), known.epochs.expect("its end is known"))
        };
        let all_same = dataset_versions.decided() == u64::MAX && !last.is_part();
        let epochs = if all_same { (row - last.first_row) / last.sampler().rows_per_epoch() } else { epochs };
        let epoch = Epoch(last.first_epoch.0 + epochs);
        dataset_versions.await_decision(epoch, stop)?;
        let snapshot = dataset_versions.snapshot(epoch)?;
        if snapshot.split.rows() == 0 {
            let dataset_version = snapshot.dataset_version;
            return Err(Error::Config(format!(
                "dataset version {dataset_version} of the folder has nothing left to train on"
            )));
        }
        // Parts dropped since then change the dataset version, so it is refused.
        let before = last.snapshot();
        let is_other =
            last.is_part() || snapshot.dataset_version != before.dataset_version || snapshot.dropped != before.dropped;
        let next = is_other.then(|| {
            let sampler = (self.arrange)(&snapshot.split, None);
            Arc::new(last.continued(epochs, snapshot, sampler))
        });
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.epochs = Some(if next.is_some() { 1 } else { epochs + 1 });
        known.spans.extend(next);
        Ok(())
    }

    /// Cuts one more window of a streamed epoch, or records its end.
    fn cut(&self, window_builder: &mut Option<WindowBuilder>, stop: Option<&CancelToken>) -> Result<()> {
        let window = window_builder.as_mut().expect("what grows is cut").next(stop)?;
        let last = Arc::clone(self.known().last());
        let next = window.map(|window| {
            let number = self.known().spans.len() as u64;
            let sampler = (self.arrange)(&window.split, Some(number));
            let snapshot = window_of(last.snapshot(), window.split);
            Arc::new(EpochSpan::part(Some(&last), window.passes, snapshot, sampler))
        });
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.grows = next.is_some();
        known.spans.extend(next);
        Ok(())
    }

    fn asking(&self) -> MutexGuard<'_, Option<WindowBuilder>> {
        starved(|| self.window_builder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn known(&self) -> RwLockReadGuard<'_, DecidedSpans> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the shards of a window, with the dataset version that the part list results in.
fn window_of(snapshot: &SplitSnapshot, split: Split) -> Arc<SplitSnapshot> {
    Arc::new(SplitSnapshot { dataset_version: snapshot.dataset_version, split, dropped: snapshot.dropped.clone() })
}

/// Hint for missing parts.
pub(crate) const REFUSED_HINT: &str = "begin a new run (another `run.folder`), which reads the newest dataset version; \
                                       `train.init_from` can give it this run's weights";
