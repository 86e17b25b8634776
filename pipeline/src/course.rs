//! Which data each epoch of a stream is over.
//!
//! A prepared folder is a list of generations, and a *course* goes through epochs, each over one of them: all over the one
//! that the run began with, or each over the newest at the time ([`Generations`]). Epochs over one generation that follow
//! one another are a [`Stretch`]. Rows, epochs and windows count on from stretch to stretch, so that a position is still
//! one number: its stretch is found by binary search, the rest by the stretch's [`Sampler`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use schemas::{Epoch, Generation, Manifest, PartId, SampleAddress, Split};

use crate::actor::starved;
use crate::error::{Error, Result};
use crate::sampler::{Pick, Sampler};

/// One split of a folder as a generation has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edition {
    /// The generation.
    pub generation: Generation,
    /// The shards in effect.
    pub split: Split,
    /// Parts of these that a later generation dropped: their files are gone, or going.
    pub dropped: BTreeMap<PartId, Generation>,
}

impl Edition {
    /// The training split.
    #[must_use]
    pub fn train(manifest: &Manifest, generation: Generation) -> Self {
        Self::of(manifest, generation, manifest.effective(generation).train)
    }

    /// The validation split.
    #[must_use]
    pub fn valid(manifest: &Manifest, generation: Generation) -> Self {
        Self::of(manifest, generation, manifest.effective(generation).valid)
    }

    fn of(manifest: &Manifest, generation: Generation, split: Split) -> Self {
        let mut dropped = manifest.dropped_since(generation);
        dropped.retain(|part, _| split.shards.iter().any(|shard| shard.part == *part));
        Self { generation, split, dropped }
    }

    /// What is left of it: the parts that no later generation dropped.
    #[must_use]
    pub fn left(mut self) -> Self {
        self.split.shards.retain(|shard| !self.dropped.contains_key(&shard.part));
        self.dropped.clear();
        self
    }

    /// Why nothing can be read of it, if nothing can: which parts a later generation dropped.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let by = self.dropped.values().max()?;
        let shown: Vec<String> = self.dropped.keys().take(5).map(ToString::to_string).collect();
        let more = self.dropped.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (s, shown) = (if self.dropped.len() > 1 { "s" } else { "" }, shown.join(", "));
        Some(format!(
            "the run reads generation {} of the folder, and generation {by} dropped part{s} {shown}{more} of it",
            self.generation
        ))
    }
}

/// Says which generation each epoch of a run is over.
pub trait Generations: Debug + Send + Sync {
    /// The data of `epoch`. It is asked for before any row of the epoch is rendered, epoch by epoch from the second on, by
    /// one lane while others that need it wait. The answer for an epoch must never change, also not after a kill: whoever
    /// answers writes it down first.
    ///
    /// # Errors
    /// Whatever keeps it from answering; the stream ends with it.
    fn of(&self, epoch: Epoch) -> Result<Arc<Edition>>;
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
    pub fn rows(&self) -> impl Iterator<Item = Placed<'_>> {
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

    /// The window of a row, counted over the course: what decoded groups are kept by.
    ///
    /// # Errors
    /// As [`runs`](Self::runs).
    pub(crate) fn window(&self, row: u64) -> Result<u64> {
        let stretch = self.stretch(row)?;
        let (epoch, start) = stretch.locate(row);
        let picked = stretch.sampler.picks(epoch, start..start + 1);
        Ok(stretch.window(epoch, picked[0].window))
    }

    /// How many passes over the data the first `rows` rows are, which somebody has seen already.
    ///
    /// # Errors
    /// As [`runs`](Self::runs).
    pub(crate) fn epochs(&self, rows: u64) -> Result<f64> {
        // The last of them: whether the next row begins another stretch is decided when it is needed.
        let Some(last) = rows.checked_sub(1) else { return Ok(0.0) };
        let stretch = self.stretch(last)?;
        let since = (rows - stretch.first_row) as f64 / stretch.sampler.rows_per_epoch() as f64;
        Ok(stretch.first_epoch.0 as f64 + since)
    }

    /// The stretch that a row is in. Whoever comes first to an epoch that is not decided asks for it.
    fn stretch(&self, row: u64) -> Result<Arc<Stretch>> {
        let mut found = self.known().find(row).cloned();
        if found.is_none() {
            let _asking = starved(|| self.asking.lock().unwrap_or_else(PoisonError::into_inner));
            found = self.known().find(row).cloned();
            while found.is_none() {
                self.decide()?;
                found = self.known().find(row).cloned();
            }
        }
        let stretch = found.expect("it was decided");
        match stretch.edition.refusal() {
            None => Ok(stretch),
            Some(refusal) => Err(Error::Config(format!("{refusal}; {REFUSED_HINT}"))),
        }
    }

    /// Decides one more epoch. Only one thread at a time comes here.
    fn decide(&self) -> Result<()> {
        let generations = self.generations.as_ref().expect("a course that has an end asks for more");
        let (last, epochs) = {
            let known = self.known();
            (Arc::clone(known.last()), known.epochs.expect("its end is known"))
        };
        let epoch = Epoch(last.first_epoch.0 + epochs);
        let edition = generations.of(epoch)?;
        if edition.split.rows() == 0 {
            let generation = edition.generation;
            return Err(Error::Config(format!("generation {generation} of the folder has nothing left to train on")));
        }
        let next = (edition.generation != last.edition.generation).then(|| {
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
