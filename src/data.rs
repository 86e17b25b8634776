//! The prepared folder of a run, or those of its sources: what they promise, and which of it the run reads.

mod begun;
mod streamed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pipeline::course::{Edition, Generations, Growth};
use pipeline::load::{self, DataConfig, GenerationChoice, GoneParts, RowFacts, RowOrder, Rows, SourceRequest};
use pipeline::mixture::{self, Mixture, Weight};
use pipeline::prepare::{self, Origin};
use schemas::{Effective, Generation, Manifest, Vocab};
use store::Store;

use crate::config::Config;
use crate::generations::names::Names;
use crate::generations::streamed::Streamed;
use crate::generations::{RunGenerations, Staying};

/// A prepared folder as one run sees it; of a mixture the first, with the others behind it.
pub struct PreparedData {
    /// Its name among the sources of a mixture, and its share of the rows; none where it is all there is.
    source: Option<(String, Weight)>,
    /// The store of the folder.
    pub store: Store,
    /// Its manifest.
    pub manifest: Manifest,
    /// Of the generation that the run began with, like all below. Of a mixture with the counts of all its sources, as the
    /// stream begins.
    pub(crate) vocab: Arc<Vocab>,
    pub(crate) generation: Generation,
    pub(crate) effective: Effective,
    generations: Arc<RunGenerations>,
    /// Of a run whose first epoch is streamed: its segments.
    streamed: Option<Arc<Streamed>>,
    /// One name for its training data.
    content: String,
    choice: GenerationChoice,
    purpose: Purpose,
    /// Where there is none yet: this is what the configuration expects.
    pub(crate) expected: Option<Ids>,
    /// The sources of a mixture behind this one.
    others: Vec<PreparedData>,
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
pub enum Purpose {
    /// A run, perhaps at its end: whether it reads anything more is not known before its checkpoint is.
    Run,
    /// Looking at what a run would be, or at its rows.
    Look,
    /// A model that was made with it: no row is read.
    Model,
}

/// What keeps data from being opened, each with the key that names them.
pub(crate) type Troubles = Vec<(String, pipeline::Error)>;

impl PreparedData {
    /// Opens what a configuration names for its run, which need not be there yet: one folder, or that of each source.
    ///
    /// # Errors
    /// Of each folder why it cannot be read.
    pub(crate) fn open(
        config: &Config,
        find: impl Fn(&Path) -> pipeline::Result<Store>,
        purpose: Purpose,
    ) -> Result<Self, Troubles> {
        let sources = config.sources_read();
        let run = &config.run.folder;
        if sources.is_empty() {
            let opened = find(&config.data.folder).and_then(|store| match config.data.order {
                RowOrder::Streamed => Self::streamed(store, (&config.data, config.prepare.valid_parts), run, purpose),
                RowOrder::Shuffled => Self::folder(store, (&config.data, run), None, purpose),
            });
            return opened.map_err(|error| vec![("data.folder".to_owned(), error)]);
        }
        let (mut opened, mut troubles) = (Vec::new(), Vec::new());
        for (name, source) in sources {
            let of = Some((name.to_owned(), source.weight.clone()));
            match find(&source.folder).and_then(|store| Self::folder(store, (&config.data, run), of, purpose)) {
                Ok(data) => opened.push(data),
                Err(error) => troubles.push((format!("sources.{name}.folder"), error)),
            }
        }
        if troubles.is_empty() { Ok(Self::mixed(opened)) } else { Err(troubles) }
    }

    /// What a configuration expects of folders that are not there, in memory. Nobody reads a row of it, in whatever order.
    pub(crate) fn expected(store: &Store, config: &Config, ids: &Ids) -> pipeline::Result<Self> {
        // Nobody's list: that of a run is of the data that it read.
        let nowhere = Path::new("");
        let of = |source| {
            let data = Self::folder(store.clone(), (&config.data, nowhere), source, Purpose::Look)?;
            Ok(Self { expected: Some(ids.clone()), ..data })
        };
        let sources = config.sources_read();
        let sources = sources.into_iter().map(|(name, source)| of(Some((name.to_owned(), source.weight.clone()))));
        let opened = sources.collect::<pipeline::Result<Vec<_>>>()?;
        if opened.is_empty() { of(None) } else { Ok(Self::mixed(opened)) }
    }

    fn folder(
        store: Store,
        (config, run): (&DataConfig, &Path),
        source: Option<(String, Weight)>,
        purpose: Purpose,
    ) -> pipeline::Result<Self> {
        let manifest = load::open(&store).map_err(|error| begun::or_half_prepared(&store, error))?;
        let name = source.as_ref().map(|(name, _)| name.as_str());
        let generations = RunGenerations::of(run, &store, &Names::Contents(&manifest), name)?;
        let generation = generations.first();
        let vocab = load::read_vocab(&store, &manifest, generation)?;
        let content = manifest.generation(generation).content.clone();
        let by = (config.generations, purpose);
        Ok(Self { source, ..Self::alone((store, manifest, vocab), Arc::new(generations), content, by) })
    }

    /// A folder by itself, all of which is there.
    fn alone(
        (store, manifest, vocab): (Store, Manifest, Vocab),
        generations: Arc<RunGenerations>,
        content: String,
        (choice, purpose): (GenerationChoice, Purpose),
    ) -> Self {
        let generation = generations.first();
        Self {
            source: None,
            store,
            effective: manifest.effective(generation),
            manifest,
            vocab: Arc::new(vocab),
            generation,
            generations,
            streamed: None,
            content,
            choice,
            purpose,
            expected: None,
            others: Vec::new(),
        }
    }

    /// Sources as one. What is wrong with their weights, or does not fit, is found by who plans the stream.
    fn mixed(mut sources: Vec<Self>) -> Self {
        let others = sources.split_off(1);
        let mut first = sources.remove(0);
        first.others = others;
        let weights: Vec<_> =
            first.all().filter_map(|data| data.source.as_ref()).map(|(name, weight)| (name.as_str(), weight)).collect();
        let vocabs: Vec<Arc<Vocab>> = first.all().map(|data| Arc::clone(&data.vocab)).collect();
        let alike = vocabs.iter().all(|vocab| vocab.size() == first.vocab.size());
        if let (true, Ok(mixture)) = (alike, Mixture::new(&weights, 1, 0)) {
            first.vocab = Arc::new(mixture::blend(&vocabs, mixture.first_shares()));
        }
        first
    }

    /// The folders: it alone, or each source of the mixture, by name.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// Its name among the sources of a mixture.
    pub fn name(&self) -> Option<&str> {
        self.source.as_ref().map(|(name, _)| name.as_str())
    }

    /// The folder of a source, or the only one.
    pub(crate) fn of_source(&self, name: Option<&str>) -> &Self {
        self.all().find(|data| data.name() == name).expect("a source of this run")
    }

    /// Where the documents of a row come from, of those that a table knows.
    pub fn origins(&self, row: &RowFacts) -> pipeline::Result<BTreeMap<u64, Origin>> {
        let store = &self.of_source(row.of.as_deref()).store;
        prepare::origins(store, row.sample.part, &row.documents.iter().copied().collect())
    }

    /// The sources of a mixture, for a stream of `rows`; nothing where one folder is all there is.
    pub(crate) fn sources(&self, rows: Rows) -> Vec<SourceRequest<'_>> {
        self.all().filter_map(|data| data.request(rows)).collect()
    }

    fn request(&self, rows: Rows) -> Option<SourceRequest<'_>> {
        let (name, weight) = self.source.as_ref()?;
        let Self { store, manifest, generation, .. } = self;
        let (follow, gone) = (self.followed(rows), self.gone(rows));
        Some(SourceRequest { name, weight, store, manifest, generation: *generation, follow, gone })
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

    /// Rows of the validation split, of all folders together.
    pub(crate) fn valid_rows(&self) -> u64 {
        self.all().map(|data| data.effective.valid.rows()).sum()
    }

    /// What becomes of parts that are gone. A run that follows the folder is validated on what is left of the generation
    /// that it began with.
    pub(crate) fn gone(&self, rows: Rows) -> GoneParts {
        match (self.purpose, self.choice) {
            // The course refuses to begin with what is gone, and may have left it behind.
            (purpose, GenerationChoice::Newest) if purpose == Purpose::Model || rows == Rows::Train => {
                GoneParts::Unread
            }
            (_, GenerationChoice::Newest) => GoneParts::LeftOut,
            // So does the stream, unless the run is at its end and reads nothing more.
            (Purpose::Model | Purpose::Run, GenerationChoice::First) => GoneParts::Unread,
            (Purpose::Look, GenerationChoice::First) => GoneParts::Refused,
        }
    }

    /// How many rows of the validation split are left, of how many, if some are gone.
    pub(crate) fn valid_left(&self) -> Option<(u64, u64)> {
        let left = Edition::valid(&self.manifest, self.generation).left().split.rows();
        let all = self.effective.valid.rows();
        (left < all).then_some((left, all))
    }

    /// One name for the training data that the run began with; of a mixture for all of it, with the names of its sources.
    pub(crate) fn content(&self) -> String {
        if self.source.is_none() {
            return self.content.clone();
        }
        let mut hasher = blake3::Hasher::new();
        for data in self.all() {
            let (name, content) = (data.name().unwrap_or_default(), data.content_alone());
            for text in [name, content] {
                hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            }
        }
        hasher.finalize().to_hex().to_string()
    }

    /// One name for the training data of this folder, whatever is beside it.
    pub(crate) fn content_alone(&self) -> &str {
        &self.content
    }

    /// Who gives the segments of a first epoch that is streamed, of a stream of `rows`.
    pub(crate) fn comes(&self, rows: Rows) -> Option<Arc<dyn Growth>> {
        let streamed = self.streamed.as_ref().filter(|_| rows == Rows::Train)?;
        Some(Arc::clone(streamed) as Arc<dyn Growth>)
    }

    /// The same, to be asked how long it kept anybody waiting.
    pub fn segments(&self) -> Option<&Arc<Streamed>> {
        self.streamed.as_ref()
    }

    /// Who says what later epochs of a stream of `rows` are over, and whether it is still there. Validation stays with the
    /// generation that the run began with, so that its figures compare.
    pub(crate) fn followed(&self, rows: Rows) -> Option<Arc<dyn Generations>> {
        let generations = Arc::clone(&self.generations);
        (rows == Rows::Train).then(|| match self.choice {
            GenerationChoice::First => Arc::new(Staying(generations)) as Arc<dyn Generations>,
            GenerationChoice::Newest => generations,
        })
    }

    /// Which generations the run reads, of each folder, to be written down with it.
    pub fn generations(&self) -> Vec<Arc<RunGenerations>> {
        self.all().map(|data| Arc::clone(&data.generations)).collect()
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
