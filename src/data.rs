//! The prepared folder of a run: what it promises, and which of it the run reads.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pipeline::course::{Edition, Generations};
use pipeline::load::{self, DataConfig, GenerationChoice, GoneParts, Rows};
#[cfg(feature = "train")]
use pipeline::{load::RowFacts, prepare};
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
    /// Where there is none yet: this is what the configuration expects.
    pub(crate) expected: Option<Ids>,
}

/// The ids of a row's documents, in order; the name that shards have for one that no table knows.
#[cfg(feature = "train")]
pub(crate) fn documents(store: &Store, row: &RowFacts) -> pipeline::Result<Vec<String>> {
    let origins = prepare::origins(store, row.sample.part, &row.documents.iter().copied().collect())?;
    let id = |name: &u64| origins.get(name).map_or_else(|| format!("{name:016x}"), |origin| origin.id.clone());
    Ok(row.documents.iter().map(id).collect())
}

/// What is expected of a tokenizer, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    /// Number of ids.
    pub(crate) vocab_size: u32,
    /// Whether text is lowercased.
    pub(crate) lowercase: bool,
    /// Where that is written.
    pub(crate) says: &'static str,
}

/// What a prepared folder is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A run, perhaps at its end: whether it reads anything more is not known before its checkpoint is.
    Run,
    /// Looking at what a run would be, or at its rows.
    Look,
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
        Ok(Self { store, manifest, vocab, generation, effective, generations, choice, purpose, expected: None })
    }

    /// What a configuration expects of a folder that is not there, in memory.
    pub(crate) fn expected(store: Store, config: &DataConfig, ids: Ids) -> pipeline::Result<Self> {
        Ok(Self { expected: Some(ids), ..Self::open(store, config, Path::new(""), Purpose::Look)? })
    }

    /// Whether there is none yet, and this is what the configuration expects.
    pub(crate) fn is_expected(&self) -> bool {
        self.expected.is_some()
    }

    /// Training shards that are not in the folder, of how many.
    pub(crate) fn missing_shards(&self) -> std::io::Result<(usize, usize)> {
        let shards = &self.effective.train.shards;
        let folders: BTreeSet<&str> = shards.iter().filter_map(|shard| Some(shard.path.rsplit_once('/')?.0)).collect();
        let mut there = BTreeSet::new();
        for folder in folders {
            there.extend(self.store.list(folder)?.into_iter().map(|entry| entry.name));
        }
        Ok((shards.iter().filter(|shard| !there.contains(&shard.path)).count(), shards.len()))
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
            // So does the stream, unless the run is at its end and reads nothing more.
            (Purpose::Run, GenerationChoice::First) => GoneParts::Unread,
            (Purpose::Look, GenerationChoice::First) => GoneParts::Refused,
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
