//! The prepared folder of a run, or those of its sources: what they promise, and which of it the run reads.

mod begun;
mod streamed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pipeline::epoch_plan::{EpochVersions, SegmentSource, SplitSnapshot};
use pipeline::load::{self, MissingParts, RowFacts, RowOrder, Rows, SourceRequest};
use pipeline::mixture::{self, Mixture, Weight};
use pipeline::prepare::{self, Origin};
use schemas::{DatasetVersion, Effective, Manifest, Vocab};
use store::Store;

use crate::config::Config;
use crate::run::dataset_versions::streamed::StreamedSegments;
use crate::run::dataset_versions::{DatasetVersions, hashes_of};

/// A prepared folder as one run sees it; of a mixture the first, with the others behind it.
pub struct PreparedData {
    /// Its name among the sources of a mixture, and its share of the rows; none where it is all there is.
    source: Option<(String, Weight)>,
    /// The store of the folder.
    pub store: Store,
    /// Its manifest.
    pub manifest: Manifest,
    /// Of the dataset version that the run began with, like all below. Of a mixture with the counts of all its sources, as
    /// the stream begins.
    pub(crate) vocab: Arc<Vocab>,
    pub(crate) dataset_version: DatasetVersion,
    pub(crate) effective: Effective,
    versions: Arc<DatasetVersions>,
    /// Of a run whose first epoch is streamed: its segments.
    streamed: Option<Arc<StreamedSegments>>,
    /// Identifies its training data.
    content: String,
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

/// What a prepared folder is opened by.
#[derive(Clone, Copy)]
struct OpenRequest<'a> {
    config: &'a Config,
    /// The run folder; empty for data that no run reads.
    run: &'a Path,
    purpose: Purpose,
}

impl OpenRequest<'_> {
    /// The dataset versions that the run reads of a prepared folder.
    fn versions(
        &self,
        store: &Store,
        source: Option<&str>,
        order: RowOrder,
        hashes: &[String],
    ) -> pipeline::Result<Arc<DatasetVersions>> {
        let choice = self.config.data.version;
        Ok(Arc::new(DatasetVersions::open(self.run, store, source, order, choice, hashes)?))
    }
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
        let request = OpenRequest { config, run: &config.run.folder, purpose };
        if sources.is_empty() {
            let opened = find(&config.data.folder).and_then(|store| match config.data.order {
                RowOrder::Streamed => Self::open_streamed(store, request),
                RowOrder::Shuffled => Self::open_folder(store, None, request),
            });
            return opened.map_err(|error| vec![("data.folder".to_owned(), error)]);
        }
        let (mut opened, mut troubles) = (Vec::new(), Vec::new());
        for (name, source) in sources {
            let of = Some((name.to_owned(), source.weight.clone()));
            match find(&source.folder).and_then(|store| Self::open_folder(store, of, request)) {
                Ok(data) => opened.push(data),
                Err(error) => troubles.push((format!("sources.{name}.folder"), error)),
            }
        }
        if troubles.is_empty() { Ok(Self::mixed(opened)) } else { Err(troubles) }
    }

    /// What a configuration expects of folders that are not there, in memory. Nobody reads a row of it, in whatever order.
    pub(crate) fn expected(store: &Store, config: &Config, ids: &Ids) -> pipeline::Result<Self> {
        // No list of versions: that of a run is of the data that it read.
        let request = OpenRequest { config, run: Path::new(""), purpose: Purpose::Look };
        let of = |source| {
            let data = Self::open_folder(store.clone(), source, request)?;
            Ok(Self { expected: Some(ids.clone()), ..data })
        };
        let sources = config.sources_read();
        let sources = sources.into_iter().map(|(name, source)| of(Some((name.to_owned(), source.weight.clone()))));
        let opened = sources.collect::<pipeline::Result<Vec<_>>>()?;
        if opened.is_empty() { of(None) } else { Ok(Self::mixed(opened)) }
    }

    /// Opens a prepared folder whose rows are shuffled.
    fn open_folder(store: Store, source: Option<(String, Weight)>, request: OpenRequest<'_>) -> pipeline::Result<Self> {
        let manifest = load::open(&store).map_err(|error| begun::or_half_prepared(&store, error))?;
        let name = source.as_ref().map(|(name, _)| name.as_str());
        let versions = request.versions(&store, name, RowOrder::Shuffled, &hashes_of(&manifest))?;
        let dataset_version = versions.first();
        let vocab = load::read_vocab(&store, &manifest, dataset_version)?;
        let content = manifest.dataset_version(dataset_version).content.clone();
        Ok(Self { source, ..Self::alone(store, manifest, vocab, versions, content, request.purpose) })
    }

    /// A folder by itself, all of which is there.
    fn alone(
        store: Store,
        manifest: Manifest,
        vocab: Vocab,
        versions: Arc<DatasetVersions>,
        content: String,
        purpose: Purpose,
    ) -> Self {
        let dataset_version = versions.first();
        Self {
            source: None,
            store,
            effective: manifest.effective(dataset_version),
            manifest,
            vocab: Arc::new(vocab),
            dataset_version,
            versions,
            streamed: None,
            content,
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
        let Self { store, manifest, dataset_version, .. } = self;
        let (follow, gone) = (self.followed(rows), self.missing_parts(rows));
        Some(SourceRequest { name, weight, store, manifest, dataset_version: *dataset_version, follow, gone })
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

    /// What a stream does with parts that were deleted. A run that reads newer versions is validated on what is left of the
    /// version that it began with.
    pub(crate) fn missing_parts(&self, rows: Rows) -> MissingParts {
        match self.purpose {
            Purpose::Model => MissingParts::Unread,
            // The stream refuses to read deleted parts, unless the run is at its end and reads nothing more.
            Purpose::Run if self.versions.is_pinned() => MissingParts::Unread,
            Purpose::Look if self.versions.is_pinned() => MissingParts::Refused,
            // So does the epoch plan, which may be past them.
            Purpose::Run | Purpose::Look if rows == Rows::Train => MissingParts::Unread,
            Purpose::Run | Purpose::Look => MissingParts::LeftOut,
        }
    }

    /// How many rows of the validation split are left, of how many, if some are gone.
    pub(crate) fn valid_left(&self) -> Option<(u64, u64)> {
        let left = SplitSnapshot::valid(&self.manifest, self.dataset_version).left().split.rows();
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

    /// One name for the training data of this folder, whatever is next to it.
    pub(crate) fn content_alone(&self) -> &str {
        &self.content
    }

    /// Who gives the segments of a first epoch that is streamed, of a stream of `rows`.
    pub(crate) fn comes(&self, rows: Rows) -> Option<Arc<dyn SegmentSource>> {
        let streamed = self.streamed.as_ref().filter(|_| rows == Rows::Train)?;
        Some(Arc::clone(streamed) as Arc<dyn SegmentSource>)
    }

    /// The same, to be asked how long it kept anybody waiting.
    pub fn segments(&self) -> Option<&Arc<StreamedSegments>> {
        self.streamed.as_ref()
    }

    /// The versions that the epochs of a training stream read. Validation reads the version that the run began with, so that
    /// its metrics compare.
    pub(crate) fn followed(&self, rows: Rows) -> Option<Arc<dyn EpochVersions>> {
        (rows == Rows::Train).then(|| self.versions.of_epochs())
    }

    /// The versions that the run reads, of each folder, to be written with it.
    pub fn versions(&self) -> Vec<Arc<DatasetVersions>> {
        self.all().map(|data| Arc::clone(&data.versions)).collect()
    }

    /// What a run makes of a folder that has grown since it began, in words.
    pub(crate) fn growth(&self) -> Option<String> {
        let (first, newest) = (self.dataset_version, self.manifest.newest());
        let reads = if self.versions.is_pinned() {
            "the run stays with it (`data.version = \"pinned\"`)"
        } else {
            "epochs that begin from now on are over the newest"
        };
        (newest > first)
            .then(|| format!("these are of dataset version {first} of the folder; {newest} is there, {reads}"))
    }
}
