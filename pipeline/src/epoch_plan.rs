//! Which data each epoch of a stream is over.
//!
//! A prepared folder is a list of dataset versions, and a *course* goes through epochs, each over one of them: all over the one
//! that the run began with, or each over the newest at the time ([`EpochVersions`]). Epochs over one dataset version that follow
//! one another are a [`EpochSpan`]; where the first epoch is read while it is prepared ([`SegmentSource`]), each of its windows is one.
//! Rows, epochs and windows count on from stretch to stretch, so that a position is still one number: its stretch is found
//! by binary search, the rest by the stretch's [`Sampler`].

mod epoch_span;
mod segment_source;
mod split_snapshot;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use runtime::{CancelToken, starved};
use schemas::{DatasetVersion, Epoch, Split};

pub(crate) use self::epoch_span::EpochSpan;
use self::segment_source::WindowBuilder;
pub use self::segment_source::{Segment, SegmentSource, segments};
pub use self::split_snapshot::SplitSnapshot;
use crate::error::{Error, Result};
use crate::sampler::{RowRef, Sampler};

/// The dataset version that each epoch of a run reads, and whether all of it is still there.
pub trait EpochVersions: Debug + Send + Sync {
    /// The data of `epoch`. It is asked for before any row of the epoch is rendered, epoch by epoch from the second on, by
    /// one worker while others that need it wait. The answer for an epoch must never change, also not after a kill: whoever
    /// answers writes it down first.
    ///
    /// # Errors
    /// Whatever keeps it from answering; the stream ends with it.
    fn of(&self, epoch: Epoch) -> Result<Arc<SplitSnapshot>>;

    /// How many epochs are decided, so that nothing is decided by looking at them. `u64::MAX` where all have one answer:
    /// then it is not asked for those that are skipped.
    fn decided(&self) -> u64;
}

/// Makes the sampler of a split: of all epochs over it, or of it as that window of a streamed epoch.
type Arrange = dyn Fn(&Split, Option<u64>) -> Sampler + Send + Sync;

/// The epochs of a stream.
pub(crate) struct EpochPlan {
    first: Arc<EpochSpan>,
    known: RwLock<Known>,
    /// Held while the next window of a streamed epoch, or the next epoch's dataset version, is asked for.
    asking: Mutex<Option<WindowBuilder>>,
    dataset_versions: Option<Arc<dyn EpochVersions>>,
    arrange: Box<Arrange>,
}

/// What was decided so far.
#[derive(Debug)]
struct Known {
    stretches: Vec<Arc<EpochSpan>>,
    /// Epochs of the last stretch that are decided; none if it has no end.
    epochs: Option<u64>,
    /// Whether a streamed epoch is not cut to its end.
    grows: bool,
}

impl Known {
    fn last(&self) -> &Arc<EpochSpan> {
        self.stretches.last().expect("a course begins with a stretch")
    }

    /// The stretch of a row, if its epoch is decided.
    fn find(&self, row: u64) -> Option<&Arc<EpochSpan>> {
        let last = self.last();
        if let Some(epochs) = self.epochs
            && row >= last.first_row + epochs * last.sampler().rows_per_epoch()
        {
            return None;
        }
        let behind = self.stretches.partition_point(|stretch| stretch.first_row <= row);
        Some(&self.stretches[behind - 1])
    }
}

impl Debug for EpochPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Course")
            .field("known", &self.known)
            .field("dataset_versions", &self.dataset_versions)
            .finish_non_exhaustive()
    }
}

impl EpochPlan {
    /// The epochs over `first`; without `dataset_versions`, forever.
    pub(crate) fn new(
        first: Arc<SplitSnapshot>,
        dataset_versions: Option<Arc<dyn EpochVersions>>,
        arrange: impl Fn(&Split, Option<u64>) -> Sampler + Send + Sync + 'static,
    ) -> Self {
        let sampler = arrange(&first.split, None);
        let first = Arc::new(EpochSpan::first(first, sampler));
        let epochs = dataset_versions.is_some().then_some(1);
        let known = Known { stretches: vec![Arc::clone(&first)], epochs, grows: false };
        Self {
            first,
            known: RwLock::new(known),
            asking: Mutex::default(),
            dataset_versions,
            arrange: Box::new(arrange),
        }
    }

    /// The same with a first epoch that is read as it is prepared, in windows of `window_blocks` or more, as far as they are
    /// there.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if no window is there yet, [`Error::Config`] if there will be none; what keeps the segments from
    /// being told.
    pub(crate) fn streamed(
        edition: &Arc<SplitSnapshot>,
        (growth, window_blocks): (Arc<dyn SegmentSource>, usize),
        dataset_versions: Arc<dyn EpochVersions>,
        arrange: impl Fn(&Split, Option<u64>) -> Sampler + Send + Sync + 'static,
    ) -> Result<Self> {
        let mut cutter = WindowBuilder::new(growth, window_blocks);
        let window = cutter.next(None)?;
        let window = window.ok_or_else(|| Error::Config("its training split is empty".to_owned()))?;
        let (of, sampler) = (window_of(edition, window.split.clone()), arrange(&window.split, Some(0)));
        let first = Arc::new(EpochSpan::part(None, window.passes, of, sampler));
        let known = Known { stretches: vec![Arc::clone(&first)], epochs: Some(1), grows: true };
        let (dataset_versions, arrange) = (Some(dataset_versions), Box::new(arrange));
        let course =
            Self { first, known: RwLock::new(known), asking: Mutex::new(Some(cutter)), dataset_versions, arrange };
        match course.cut_all() {
            Ok(()) | Err(Error::Unfinished { .. }) => Ok(course),
            Err(error) => Err(error),
        }
    }

    /// Cuts what is there of a streamed epoch.
    fn cut_all(&self) -> Result<()> {
        let mut cutter = self.asking();
        while self.known().grows {
            self.cut(&mut cutter, None)?;
        }
        Ok(())
    }

    /// The stretch that it begins with.
    #[must_use]
    pub(crate) fn first(&self) -> &EpochSpan {
        &self.first
    }

    /// The windows of a streamed epoch that are known by now; none of others.
    pub(crate) fn parts(&self) -> Vec<Arc<EpochSpan>> {
        self.known().stretches.iter().filter(|stretch| stretch.is_part()).cloned().collect()
    }

    /// Whether a streamed epoch is not known to its end.
    pub(crate) fn grows(&self) -> bool {
        self.known().grows
    }

    /// Returns the rows `rows`, and appends the stretches that they lie in to `stretches`. Rows that are not prepared yet
    /// are waited for until a stop.
    ///
    /// # Errors
    /// If a dataset version is not told, or can no longer be read; if a row is not prepared.
    pub(crate) fn rows(
        &self,
        rows: Range<u64>,
        stop: Option<&CancelToken>,
        stretches: &mut Vec<Arc<EpochSpan>>,
    ) -> Result<Vec<RowRef>> {
        let mut found = Vec::new();
        let mut row = rows.start;
        while row < rows.end {
            let stretch = self.stretch(row, stop)?;
            let (epoch, start) = stretch.locate(row);
            let end = stretch.sampler().rows_per_epoch().min(start + rows.end - row);
            let place = stretches.len();
            found.extend(stretch.rows(epoch, start..end).map(|row| RowRef { stretch: place, ..row }));
            stretches.push(stretch);
            row += end - start;
        }
        Ok(found)
    }

    /// The window of a row, counted over the course: what decoded groups are kept by. None where nobody has come to it yet,
    /// which is neither decided nor waited for by this.
    pub(crate) fn window(&self, row: u64) -> Option<u64> {
        let stretch = self.known().find(row).cloned()?;
        let (epoch, start) = stretch.locate(row);
        stretch.rows(epoch, start..start + 1).next().map(|row| row.window)
    }

    /// Number of passes over the data in the first `rows` rows, which somebody has seen already.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) fn epochs(&self, rows: u64) -> Result<f64> {
        // The last of them: whether the next row begins another stretch is decided when it is needed.
        let Some(last) = rows.checked_sub(1) else { return Ok(0.0) };
        // Nothing is read, so it does not matter whether it is still there: a run that is at its end may say so.
        Ok(self.stretch_of(last, None)?.passes(rows))
    }

    /// Behind the last row of which it is decided what it is made of, if there is one.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) fn rows_decided(&self) -> Result<Option<u64>> {
        let Some(dataset_versions) = &self.dataset_versions else { return Ok(None) };
        let end = dataset_versions.decided();
        if end == u64::MAX && !self.grows() {
            return Ok(None);
        }
        let mut cutter = self.asking();
        loop {
            let (last, epochs, grows) = {
                let known = self.known();
                (Arc::clone(known.last()), known.epochs.expect("its end is known"), known.grows)
            };
            let row = last.first_row + epochs * last.sampler().rows_per_epoch();
            if !grows && end == u64::MAX {
                // What was missing came since it was first asked.
                return Ok(None);
            }
            if !grows && last.first_epoch.0 + epochs >= end {
                return Ok(Some(row));
            }
            match self.decide(row, &mut cutter, None) {
                Err(Error::Unfinished { .. }) => return Ok(Some(row)),
                decided => decided?,
            }
        }
    }

    /// The stretch that a row is in, which can be read.
    fn stretch(&self, row: u64, stop: Option<&CancelToken>) -> Result<Arc<EpochSpan>> {
        let stretch = self.stretch_of(row, stop)?;
        match stretch.edition().refusal() {
            None => Ok(stretch),
            Some(refusal) => Err(Error::Config(format!("{refusal}; {REFUSED_HINT}"))),
        }
    }

    /// The stretch that a row is in. Whoever comes first to what is not decided asks for it.
    fn stretch_of(&self, row: u64, stop: Option<&CancelToken>) -> Result<Arc<EpochSpan>> {
        let mut found = self.known().find(row).cloned();
        if found.is_none() {
            let mut cutter = self.asking();
            found = self.known().find(row).cloned();
            while found.is_none() {
                self.decide(row, &mut cutter, stop)?;
                found = self.known().find(row).cloned();
            }
        }
        Ok(found.expect("it was decided"))
    }

    /// The dataset version that a row is of.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) fn dataset_version(&self, row: u64) -> Result<DatasetVersion> {
        Ok(self.stretch_of(row, None)?.edition().dataset_version)
    }

    /// Decides one more window of a streamed epoch; or one more epoch, or up to that of `row` where all have one answer. Only
    /// one thread at a time comes here.
    fn decide(&self, row: u64, cutter: &mut Option<WindowBuilder>, stop: Option<&CancelToken>) -> Result<()> {
        if self.known().grows {
            return self.cut(cutter, stop);
        }
        let dataset_versions = self.dataset_versions.as_ref().expect("a course that has an end asks for more");
        let (last, epochs) = {
            let known = self.known();
            (Arc::clone(known.last()), known.epochs.expect("its end is known"))
        };
        let alike = dataset_versions.decided() == u64::MAX && !last.is_part();
        let epochs = if alike { (row - last.first_row) / last.sampler().rows_per_epoch() } else { epochs };
        let edition = dataset_versions.of(Epoch(last.first_epoch.0 + epochs))?;
        if edition.split.rows() == 0 {
            let dataset_version = edition.dataset_version;
            return Err(Error::Config(format!(
                "dataset version {dataset_version} of the folder has nothing left to train on"
            )));
        }
        // What was dropped meanwhile makes another of a dataset version: one that is refused.
        let before = last.edition();
        let is_other =
            last.is_part() || edition.dataset_version != before.dataset_version || edition.dropped != before.dropped;
        let next = is_other.then(|| {
            let sampler = (self.arrange)(&edition.split, None);
            Arc::new(last.then(epochs, edition, sampler))
        });
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.epochs = Some(if next.is_some() { 1 } else { epochs + 1 });
        known.stretches.extend(next);
        Ok(())
    }

    /// Cuts one more window of a streamed epoch, or notes its end.
    fn cut(&self, cutter: &mut Option<WindowBuilder>, stop: Option<&CancelToken>) -> Result<()> {
        let window = cutter.as_mut().expect("what grows is cut").next(stop)?;
        let last = Arc::clone(self.known().last());
        let next = window.map(|window| {
            let number = self.known().stretches.len() as u64;
            let sampler = (self.arrange)(&window.split, Some(number));
            let edition = window_of(last.edition(), window.split);
            Arc::new(EpochSpan::part(Some(&last), window.passes, edition, sampler))
        });
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.grows = next.is_some();
        known.stretches.extend(next);
        Ok(())
    }

    fn asking(&self) -> MutexGuard<'_, Option<WindowBuilder>> {
        starved(|| self.asking.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A window's shards, of the dataset version that a list leads to.
fn window_of(edition: &SplitSnapshot, split: Split) -> Arc<SplitSnapshot> {
    Arc::new(SplitSnapshot { dataset_version: edition.dataset_version, split, dropped: edition.dropped.clone() })
}

/// What one can do about parts that are gone.
pub(crate) const REFUSED_HINT: &str = "begin a new run (another `run.folder`), which reads the newest dataset_version; \
                                       `train.init_from` can give it this run's weights";
