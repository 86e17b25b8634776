//! The prepared folder of a run: what it promises, and which of it the run reads.

use std::path::Path;
use std::sync::Arc;

use pipeline::course::{Edition, Generations};
use pipeline::load::{self, DataConfig, GenerationChoice, GoneParts, Rows};
use schemas::{Effective, Generation, Manifest, Vocab};
use store::Store;

use crate::generations::{RunGenerations, Staying};

/// A prepared folder as one run sees it.
pub(crate) struct PreparedData {
    pub(crate) store: Store,
    pub(crate) manifest: Manifest,
    /// Of the generation that the run began with, like all below.
    pub(crate) vocab: Arc<Vocab>,
    pub(crate) generation: Generation,
    pub(crate) effective: Effective,
    generations: Arc<RunGenerations>,
    choice: GenerationChoice,
    purpose: Purpose,
}

/// What a prepared folder is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A run that would read it.
    Run,
    /// A run that is there, perhaps at its end: whether it reads anything more is not known before its checkpoint is.
    #[cfg(feature = "train")]
    Train,
    /// A model that was made with it: no row is read.
    #[cfg(feature = "train")]
    Model,
}

impl PreparedData {
    /// Opens a prepared folder for the run in the folder `run`, which need not be there yet.
    pub(crate) fn open(store: Store, config: &DataConfig, run: &Path, purpose: Purpose) -> pipeline::Result<Self> {
        let manifest = load::open(&store)?;
        let generations = RunGenerations::of(run, &store, &manifest)?;
        let generation = generations.first();
        let vocab = Arc::new(load::read_vocab(&store, &manifest, generation)?);
        let effective = manifest.effective(generation);
        let (generations, choice) = (Arc::new(generations), config.generations);
        Ok(Self { store, manifest, vocab, generation, effective, generations, choice, purpose })
    }

    /// What becomes of parts that are gone. A run that follows the folder is validated on what is left of the generation
    /// that it began with.
    pub(crate) fn gone(&self, rows: Rows) -> GoneParts {
        match (self.purpose, self.choice) {
            #[cfg(feature = "train")]
            (Purpose::Model, _) => GoneParts::Unread,
            // The course refuses to begin with what is gone, and may have left it behind.
            (_, GenerationChoice::Newest) if rows == Rows::Train => GoneParts::Unread,
            (_, GenerationChoice::Newest) => GoneParts::LeftOut,
            #[cfg(feature = "train")]
            (Purpose::Train, GenerationChoice::First) => GoneParts::Unread,
            (Purpose::Run, GenerationChoice::First) => GoneParts::Refused,
        }
    }

    /// How many rows of the validation split are left, of how many, if some are gone.
    pub(crate) fn valid_left(&self) -> Option<(u64, u64)> {
        let left = Edition::valid(&self.manifest, self.generation).left().split.rows();
        let all = self.effective.valid.rows();
        (left < all).then_some((left, all))
    }

    /// One name for the training data that the run began with.
    #[cfg(feature = "train")]
    pub(crate) fn content(&self) -> String {
        self.manifest.generation(self.generation).content.clone()
    }

    /// Who says what later epochs are over, and whether it is still there.
    pub(crate) fn follow(&self) -> Arc<dyn Generations> {
        let generations = Arc::clone(&self.generations);
        match self.choice {
            GenerationChoice::First => Arc::new(Staying(generations)),
            GenerationChoice::Newest => generations,
        }
    }

    /// Which generations the run reads, to be written down with it.
    #[cfg(feature = "train")]
    pub(crate) fn generations(&self) -> &Arc<RunGenerations> {
        &self.generations
    }

    /// What a run makes of a folder that has grown since it began, in words.
    pub(crate) fn growth(&self) -> Option<String> {
        let (first, newest) = (self.generation, self.manifest.newest());
        let reads = match self.choice {
            GenerationChoice::First => "the run stays with it (`data.generations = \"first\"`)",
            GenerationChoice::Newest => "epochs that begin from now on are over the newest",
        };
        (newest > first).then(|| format!("these are of generation {first} of the folder; {newest} is there, {reads}"))
    }
}
