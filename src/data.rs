//! The prepared folder of a run: what it promises, and which of it the run reads.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pipeline::Error;
use pipeline::course::{Edition, Generations, Growth};
use pipeline::load::{self, DataConfig, GenerationChoice, GoneParts, RowOrder, Rows};
#[cfg(feature = "train")]
use pipeline::{load::RowFacts, prepare};
use schemas::{Effective, Generation, Manifest, PartId, Vocab};
use store::Store;

use crate::generations::names::{Names, listed};
use crate::generations::streamed::{Streamed, published, refuse_dropped};
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
    /// Of a run whose first epoch is streamed: its segments.
    streamed: Option<Arc<Streamed>>,
    /// One name for the training data that the run began with.
    #[cfg_attr(not(feature = "train"), expect(dead_code, reason = "only a run goes by it"))]
    content: String,
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

/// The parts that a streamed run is validated on are not there.
fn too_few(store: &Store, done: usize, wanted: usize) -> Error {
    let message = format!(
        "{done} of its first {wanted} parts are there, on which a streamed run is validated (`prepare.valid_parts`); run \
         `cloze prepare`, or let it go on"
    );
    Error::Unfinished { place: store.place(""), message }
}

/// Leaves the validation rows of these parts alone.
fn keep_valid(manifest: &mut Manifest, parts: &BTreeSet<PartId>) {
    let entries = manifest.generations.iter_mut().flat_map(|entry| &mut entry.parts);
    entries.filter(|entry| !parts.contains(&entry.id)).for_each(|entry| entry.valid.clear());
}

impl PreparedData {
    /// Opens a prepared folder for the run in the folder `run`, which need not be there yet. A streamed run is validated on
    /// the first `valid_parts` parts; others on all.
    pub(crate) fn open(
        store: Store,
        (config, valid_parts): (&DataConfig, usize),
        run: &Path,
        purpose: Purpose,
    ) -> pipeline::Result<Self> {
        if config.order == RowOrder::Streamed {
            return Self::streamed(store, (config, valid_parts), run, purpose);
        }
        let manifest = load::open(&store)?;
        let generations = RunGenerations::of(run, &store, &Names::Contents(&manifest))?;
        let generation = generations.first();
        let vocab = Arc::new(load::read_vocab(&store, &manifest, generation)?);
        let effective = manifest.effective(generation);
        let content = manifest.generation(generation).content.clone();
        let (generations, choice, streamed, expected) = (Arc::new(generations), config.generations, None, None);
        Ok(Self {
            store,
            manifest,
            vocab,
            generation,
            effective,
            generations,
            streamed,
            content,
            choice,
            purpose,
            expected,
        })
    }

    /// The same for a run whose first epoch reads the folder in the order in which it is filled, as far as it is. Nothing is
    /// taken from what is there of later parts: neither what is counted over all of them, nor which rows are validated on.
    fn streamed(
        store: Store,
        (config, valid_parts): (&DataConfig, usize),
        run: &Path,
        purpose: Purpose,
    ) -> pipeline::Result<Self> {
        let listed = Arc::new(listed(&store)?);
        let generations = Arc::new(RunGenerations::of(run, &store, &Names::Lists(Arc::clone(&listed)))?);
        let generation = generations.first();
        let mut measured = listed.parts(generation);
        measured.truncate(valid_parts.max(1));
        let published = published(&store, generation)?;
        let is_whole = published.is_some();
        let (mut manifest, streamed) = if let Some(manifest) = published {
            let streamed = Streamed::whole(&store, &listed, Arc::clone(&generations), &manifest);
            (manifest, streamed)
        } else {
            refuse_dropped(&listed, generation)?;
            let mut coming = listed.coming(generation)?;
            let told = coming.more()?;
            if coming.done().0 < measured.len() {
                return Err(too_few(&store, coming.done().0, measured.len()));
            }
            let manifest = coming.manifest()?;
            let streamed = Streamed::coming(&store, &listed, Arc::clone(&generations), (coming, told));
            streamed.refuse_to_begin(config.shuffle_blocks)?;
            (manifest, streamed)
        };
        let vocab = load::read_vocab(&store, &manifest, generation)?;
        // What a model is shown beside may be counted.
        #[cfg(feature = "train")]
        let is_of_model = purpose == Purpose::Model;
        #[cfg(not(feature = "train"))]
        let is_of_model = false;
        let vocab = Arc::new(if is_whole && is_of_model { vocab } else { vocab.uncounted() });
        keep_valid(&mut manifest, &measured.into_iter().collect());
        let effective = manifest.effective(generation);
        let (content, choice) = (listed.name(generation), config.generations);
        let (streamed, expected) = (Some(Arc::new(streamed)), None);
        Ok(Self {
            store,
            manifest,
            vocab,
            generation,
            effective,
            generations,
            streamed,
            content,
            choice,
            purpose,
            expected,
        })
    }

    /// What a configuration expects of a folder that is not there, in memory.
    pub(crate) fn expected(store: Store, config: &DataConfig, ids: Ids) -> pipeline::Result<Self> {
        // Nobody reads a row of it, in whatever order.
        let shuffled = DataConfig { order: RowOrder::Shuffled, ..config.clone() };
        Ok(Self { expected: Some(ids), ..Self::open(store, (&shuffled, 1), Path::new(""), Purpose::Look)? })
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
        self.content.clone()
    }

    /// Who gives the segments of a first epoch that is streamed.
    pub(crate) fn comes(&self) -> Option<Arc<dyn Growth>> {
        self.streamed.as_ref().map(|streamed| Arc::clone(streamed) as Arc<dyn Growth>)
    }

    /// The same, to be asked how long it kept anybody waiting.
    #[cfg(feature = "train")]
    pub(crate) fn segments(&self) -> Option<&Arc<Streamed>> {
        self.streamed.as_ref()
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
