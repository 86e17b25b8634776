//! Which data each epoch of a stream is over.
//!
//! A prepared folder is a list of generations, and a *course* goes through epochs, each over one of them: all over the one
//! that the run began with, or each over the newest at the time ([`Generations`]). Epochs over one generation that follow
//! one another are a [`Stretch`]. Rows, epochs and windows count on from stretch to stretch, so that a position is still
//! one number: its stretch is found by binary search, the rest by the stretch's [`Sampler`].

mod edition;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use schemas::{Epoch, Generation, SampleAddress, Split};

pub use self::edition::Edition;
use crate::actor::starved;
use crate::error::{Error, Result};
use crate::sampler::{Pick, Sampler};

/// Says which generation each epoch of a run is over, and whether it is still there.
pub trait Generations: Debug + Send + Sync {
    /// The data of `epoch`. It is asked for before any row of the epoch is rendered, epoch by epoch from the second on, by
    /// one lane while others that need it wait. The answer for an epoch must never change, also not after a kill: whoever
    /// answers writes it down first.
    ///
    /// # Errors
    /// Whatever keeps it from answering; the stream ends with it.
    fn of(&self, epoch: Epoch) -> Result<Arc<Edition>>;

    /// How many epochs are decided, so that nothing is decided by looking at them. `u64::MAX` where all have one answer:
    /// then it is not asked for those that are passed over.
    fn decided(&self) -> u64;
}

/// Epochs over one generation that follow one another.
#[derive(Debug)]
pub struct Stretch {
    edition: Arc<Edition>,
    sampler: Sampler,
    first_epoch: Epoch,
    /// Row of the stream and window of the course before which it begins.
    first_row: u64,
    first_window: u64,
}

impl Stretch {
    /// What it is over.
    #[must_use]
    pub fn edition(&self) -> &Edition {
        &self.edition
    }

    /// How its epochs are visited.
    #[must_use]
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// The epoch of a row of the stream, and the row's number in it.
    fn locate(&self, row: u64) -> (Epoch, u64) {
        let (since, per_epoch) = (row - self.first_row, self.sampler.rows_per_epoch());
        (Epoch(self.first_epoch.0 + since / per_epoch), since % per_epoch)
    }

    /// The number of a window of an epoch, counted over the course: what decoded groups are kept by. All windows of a split
    /// that is one window share the first's, so that it stays decoded for as long as the stretch lasts.
    fn window(&self, epoch: Epoch, window: u64) -> u64 {
        if self.sampler.is_resident() {
            return self.first_window;
        }
        self.first_window + (epoch.0 - self.first_epoch.0) * self.sampler.windows_per_epoch() + window
    }

    /// The stretch that follows after `epochs` of this one.
    fn then(&self, epochs: u64, edition: Arc<Edition>, sampler: Sampler) -> Self {
        Self {
            edition,
            sampler,
            first_epoch: Epoch(self.first_epoch.0 + epochs),
            first_row: self.first_row + epochs * self.sampler.rows_per_epoch(),
            first_window: self.first_window + epochs * self.sampler.windows_per_epoch(),
        }
    }
}

/// Rows of the stream that follow one another in one epoch.
#[derive(Debug)]
pub struct Run {
    stretch: Arc<Stretch>,
    epoch: Epoch,
    picks: Vec<Pick>,
}

impl Run {
    /// Its rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Placed<'_>> {
        let placed = |pick| Placed { stretch: &self.stretch, epoch: self.epoch, pick };
        self.picks.iter().copied().map(placed)
    }
}

/// A row of the stream: what it is made of, and where that is.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The stretch whose sampler named it.
    pub stretch: &'a Stretch,
    /// The pass over the data.
    pub epoch: Epoch,
    /// What it is made of.
    pub pick: Pick,
}

impl Placed<'_> {
    /// Its window, counted over the course: see `Course::window`.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.stretch.window(self.epoch, self.pick.window)
    }

    /// The sample that it is made of.
    #[must_use]
    pub fn address(&self) -> SampleAddress {
        let first = self.stretch.sampler.blocks()[self.pick.block].first;
        let row = u32::try_from(self.pick.row).expect("a row group is small");
        SampleAddress { row: first.row + row, ..first }
    }
}

/// Makes the sampler of a split.
type Arrange = dyn Fn(&Split) -> Sampler + Send + Sync;

/// The epochs of a stream.
pub(crate) struct Course {
    first: Arc<Stretch>,
    known: RwLock<Known>,
    /// Held while the next epoch's generation is asked for.
    asking: Mutex<()>,
    generations: Option<Arc<dyn Generations>>,
    arrange: Box<Arrange>,
}

/// What was decided so far.
#[derive(Debug)]
struct Known {
    stretches: Vec<Arc<Stretch>>,
    /// Epochs of the last stretch that are decided; none if it has no end.
    epochs: Option<u64>,
}

impl Known {
    fn last(&self) -> &Arc<Stretch> {
        self.stretches.last().expect("a course begins with a stretch")
    }

    /// The stretch of a row, if its epoch is decided.
    fn find(&self, row: u64) -> Option<&Arc<Stretch>> {
        let last = self.last();
        if let Some(epochs) = self.epochs
            && row >= last.first_row + epochs * last.sampler.rows_per_epoch()
        {
            return None;
        }
        let behind = self.stretches.partition_point(|stretch| stretch.first_row <= row);
        Some(&self.stretches[behind - 1])
    }
}

impl Debug for Course {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Course")
            .field("known", &self.known)
            .field("generations", &self.generations)
            .finish_non_exhaustive()
    }
}

impl Course {
    /// The epochs over `first`; without `generations`, for ever.
    pub(crate) fn new(
        first: Arc<Edition>,
        generations: Option<Arc<dyn Generations>>,
        arrange: impl Fn(&Split) -> Sampler + Send + Sync + 'static,
    ) -> Self {
        let sampler = arrange(&first.split);
        let first = Arc::new(Stretch { edition: first, sampler, first_epoch: Epoch(0), first_row: 0, first_window: 0 });
        let known = Known { stretches: vec![Arc::clone(&first)], epochs: generations.is_some().then_some(1) };
        Self { first, known: RwLock::new(known), asking: Mutex::default(), generations, arrange: Box::new(arrange) }
    }

    /// The stretch that it begins with.
    #[must_use]
    pub(crate) fn first(&self) -> &Stretch {
        &self.first
    }

    /// What the rows `rows` are made of, epoch by epoch.
    ///
    /// # Errors
    /// If a generation is not told, or can no longer be read.
    pub(crate) fn runs(&self, rows: Range<u64>) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        let mut row = rows.start;
        while row < rows.end {
            let stretch = self.stretch(row)?;
            let (epoch, start) = stretch.locate(row);
            let end = stretch.sampler.rows_per_epoch().min(start + rows.end - row);
            let picks = stretch.sampler.picks(epoch, start..end);
            runs.push(Run { stretch, epoch, picks });
            row += end - start;
        }
        Ok(runs)
    }

    /// The window of a row, counted over the course: what decoded groups are kept by. None where nobody has come to its
    /// epoch yet, which then is not decided for this.
    pub(crate) fn window(&self, row: u64) -> Option<u64> {
        let stretch = self.known().find(row).cloned()?;
        let (epoch, start) = stretch.locate(row);
        let picked = stretch.sampler.picks(epoch, start..start + 1);
        Some(stretch.window(epoch, picked[0].window))
    }

    /// How many passes over the data the first `rows` rows are, which somebody has seen already.
    ///
    /// # Errors
    /// As [`runs`](Self::runs).
    pub(crate) fn epochs(&self, rows: u64) -> Result<f64> {
        // The last of them: whether the next row begins another stretch is decided when it is needed.
        let Some(last) = rows.checked_sub(1) else { return Ok(0.0) };
        // Nothing is read, so it does not matter whether it is still there: a run that is at its end may say so.
        let stretch = self.stretch_of(last)?;
        let since = (rows - stretch.first_row) as f64 / stretch.sampler.rows_per_epoch() as f64;
        Ok(stretch.first_epoch.0 as f64 + since)
    }

    /// Behind the last row of which it is decided what it is made of, if there is one.
    ///
    /// # Errors
    /// As [`runs`](Self::runs).
    pub(crate) fn rows_decided(&self) -> Result<Option<u64>> {
        let Some(generations) = &self.generations else { return Ok(None) };
        let end = generations.decided();
        if end == u64::MAX {
            return Ok(None);
        }
        let _asking = starved(|| self.asking.lock().unwrap_or_else(PoisonError::into_inner));
        loop {
            let (last, epochs) = {
                let known = self.known();
                (Arc::clone(known.last()), known.epochs.expect("its end is known"))
            };
            let row = last.first_row + epochs * last.sampler.rows_per_epoch();
            if last.first_epoch.0 + epochs >= end {
                return Ok(Some(row));
            }
            self.decide(row)?;
        }
    }

    /// The stretch that a row is in, which can be read.
    fn stretch(&self, row: u64) -> Result<Arc<Stretch>> {
        let stretch = self.stretch_of(row)?;
        match stretch.edition.refusal() {
            None => Ok(stretch),
            Some(refusal) => Err(Error::Config(format!("{refusal}; {REFUSED_HINT}"))),
        }
    }

    /// The stretch that a row is in. Whoever comes first to an epoch that is not decided asks for it.
    fn stretch_of(&self, row: u64) -> Result<Arc<Stretch>> {
        let mut found = self.known().find(row).cloned();
        if found.is_none() {
            let _asking = starved(|| self.asking.lock().unwrap_or_else(PoisonError::into_inner));
            found = self.known().find(row).cloned();
            while found.is_none() {
                self.decide(row)?;
                found = self.known().find(row).cloned();
            }
        }
        Ok(found.expect("it was decided"))
    }

    /// The generation that a row is of.
    ///
    /// # Errors
    /// As [`runs`](Self::runs).
    pub(crate) fn generation(&self, row: u64) -> Result<Generation> {
        Ok(self.stretch_of(row)?.edition.generation)
    }

    /// Decides one more epoch, or up to that of `row` where all have one answer. Only one thread at a time comes here.
    fn decide(&self, row: u64) -> Result<()> {
        let generations = self.generations.as_ref().expect("a course that has an end asks for more");
        let (last, epochs) = {
            let known = self.known();
            (Arc::clone(known.last()), known.epochs.expect("its end is known"))
        };
        let alike = generations.decided() == u64::MAX;
        let epochs = if alike { (row - last.first_row) / last.sampler.rows_per_epoch() } else { epochs };
        let edition = generations.of(Epoch(last.first_epoch.0 + epochs))?;
        if edition.split.rows() == 0 {
            let generation = edition.generation;
            return Err(Error::Config(format!("generation {generation} of the folder has nothing left to train on")));
        }
        // What was dropped meanwhile makes another of a generation: one that is refused.
        let is_other = edition.generation != last.edition.generation || edition.dropped != last.edition.dropped;
        let next = is_other.then(|| {
            let sampler = (self.arrange)(&edition.split);
            Arc::new(last.then(epochs, edition, sampler))
        });
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.epochs = Some(if next.is_some() { 1 } else { epochs + 1 });
        known.stretches.extend(next);
        Ok(())
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one can do about parts that are gone.
pub(crate) const REFUSED_HINT: &str = "begin a new run (another `run.folder`), which reads the newest generation; \
                                       `train.init` can give it this run's weights";
