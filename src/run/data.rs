//! The prepared folder of a run, or those of its sources: their content, and the part of it that the run reads.

mod begun;
pub mod copy;
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

/// A prepared folder as one run reads it. For a mixture: the first source, which owns the others.
pub struct PreparedData {
    /// Name among the sources of a mixture, and share of the rows. `None` without a mixture.
    source: Option<(String, Weight)>,
    /// Store of the folder.
    pub store: Store,
    /// Manifest of the folder.
    pub manifest: Manifest,
    /// Vocabulary of the dataset version that the run began with; the fields below are of the same version. For a
    /// mixture, its counts combine those of all sources, weighted as at the start of the stream.
    pub(crate) vocab: Arc<Vocab>,
    pub(crate) dataset_version: DatasetVersion,
    pub(crate) effective: Effective,
    versions: Arc<DatasetVersions>,
    /// Segments of a run whose first epoch is streamed.
    streamed: Option<Arc<StreamedSegments>>,
    /// Hash that identifies the training data of the folder.
    content: String,
    purpose: Purpose,
    /// Whether this is the copy in the run folder, which has no rows.
    is_copy: bool,
    /// Tokenizer that the configuration expects, if no prepared folder exists yet.
    pub(crate) expected: Option<ExpectedTokenizer>,
    /// Further sources of the mixture.
    others: Vec<PreparedData>,
}

/// Expected properties of a tokenizer, and the origin of the expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedTokenizer {
    /// Number of ids.
    pub(crate) vocab_size: u32,
    /// Whether text is lowercased.
    pub(crate) lowercase: bool,
    /// Place where the expectation is written.
    pub(crate) says: &'static str,
}

/// Purpose for which a prepared folder is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A run. It may be at its end: before its checkpoint is read, it is unknown whether it reads more rows.
    Run,
    /// A run that begins with the state of another one, whose folder the configuration names.
    Branch,
    /// A plan of a run that is only printed. What a run would refuse is refused.
    DryRun,
    /// Same, for another machine: the devices of this machine do not matter.
    DryRunElsewhere,
    /// A view of rows, which needs no run.
    ReadOnly,
    /// A model that was trained on the data. No row is read.
    Model,
}

impl Purpose {
    /// Whether a run is planned, to start it or to print its plan.
    #[must_use]
    pub fn is_of_run(self) -> bool {
        matches!(self, Self::Run | Self::Branch | Self::DryRun | Self::DryRunElsewhere)
    }
}

/// Parameters for opening a prepared folder.
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

/// Errors that prevent opening the data, each with its configuration key.
pub(crate) type SourceProblems = Vec<(String, pipeline::Error)>;

impl PreparedData {
    /// Opens the data that a configuration names: one folder, or the folder of each source. The run itself need not
    /// exist.
    ///
    /// A model needs no rows. If its folder is gone, the copy in the run folder replaces it.
    ///
    /// # Errors
    /// Returns one error for each folder that cannot be read.
    pub(crate) fn open(
        config: &Config,
        find: impl Fn(&Path) -> pipeline::Result<Store>,
        purpose: Purpose,
    ) -> Result<Self, SourceProblems> {
        let opened = Self::open_folders(config, find, purpose);
        match opened {
            Err(problems) if purpose == Purpose::Model => Self::open_copy(config).ok_or(problems),
            opened => opened,
        }
    }

    fn open_folders(
        config: &Config,
        find: impl Fn(&Path) -> pipeline::Result<Store>,
        purpose: Purpose,
    ) -> Result<Self, SourceProblems> {
        let sources = config.sources_read();
        let request = OpenRequest { config, run: &config.run.folder, purpose };
        if sources.is_empty() {
            let opened = find(&config.data.folder).and_then(|store| match config.data.order {
                RowOrder::Streamed => Self::open_streamed(store, request),
                RowOrder::Shuffled => Self::open_folder(store, None, request),
            });
            return opened.map_err(|error| vec![("data.folder".to_owned(), error)]);
        }
        let mut opened = Vec::new();
        let mut troubles = Vec::new();
        for (name, source) in sources {
            let of = Some((name.to_owned(), source.weight.clone()));
            match find(&source.folder).and_then(|store| Self::open_folder(store, of, request)) {
                Ok(data) => opened.push(data),
                Err(error) => troubles.push((format!("sources.{name}.folder"), error)),
            }
        }
        if troubles.is_empty() { Ok(Self::mixed(opened)) } else { Err(troubles) }
    }

    /// Builds in-memory data as the configuration expects it, for folders that do not exist. No row of it is ever read.
    pub(crate) fn expected(store: &Store, config: &Config, ids: &ExpectedTokenizer) -> pipeline::Result<Self> {
        // Without a version list: the list of a run describes the data that it read.
        let request = OpenRequest { config, run: Path::new(""), purpose: Purpose::ReadOnly };
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
        Ok(Self { source, ..Self::single_source(store, manifest, vocab, versions, content, request.purpose) })
    }

    /// Builds the data of a single, complete folder.
    fn single_source(
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
            is_copy: false,
            expected: None,
            others: Vec::new(),
        }
    }

    /// Combines sources into one. Invalid weights and mismatching sources are reported when the stream is planned.
    fn mixed(mut sources: Vec<Self>) -> Self {
        let others = sources.split_off(1);
        let mut first = sources.remove(0);
        first.others = others;
        let weights: Vec<_> =
            first.all().filter_map(|data| data.source.as_ref()).map(|(name, weight)| (name.as_str(), weight)).collect();
        let vocabs: Vec<Arc<Vocab>> = first.all().map(|data| Arc::clone(&data.vocab)).collect();
        let same_size = vocabs.iter().all(|vocab| vocab.size() == first.vocab.size());
        if let (true, Ok(mixture)) = (same_size, Mixture::new(&weights, 1, 0)) {
            first.vocab = Arc::new(mixture::merge_vocabs(&vocabs, mixture.first_shares()));
        }
        first
    }

    /// Iterates over the folders: the only one, or each source of the mixture in order of name.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// Name among the sources of a mixture.
    pub fn name(&self) -> Option<&str> {
        self.source.as_ref().map(|(name, _)| name.as_str())
    }

    /// Returns the folder of a source, or the only folder.
    pub(crate) fn of_source(&self, name: Option<&str>) -> &Self {
        self.all().find(|data| data.name() == name).expect("a source of this run")
    }

    /// Returns the origins of the documents of a row, as far as the table of origins has them.
    pub fn origins(&self, row: &RowFacts) -> pipeline::Result<BTreeMap<u64, Origin>> {
        let store = &self.of_source(row.of.as_deref()).store;
        prepare::origins(store, row.sample.part, &row.documents.iter().copied().collect())
    }

    /// Requests for the sources of a mixture, for a stream of `rows`. Empty without a mixture.
    pub(crate) fn sources(&self, rows: Rows) -> Vec<SourceRequest<'_>> {
        self.all().filter_map(|data| data.request(rows)).collect()
    }

    fn request(&self, rows: Rows) -> Option<SourceRequest<'_>> {
        let (name, weight) = self.source.as_ref()?;
        let Self { store, manifest, dataset_version, .. } = self;
        let follow = self.followed(rows);
        let gone = self.missing_parts(rows);
        Some(SourceRequest { name, weight, store, manifest, dataset_version: *dataset_version, follow, gone })
    }

    /// Whether the data does not exist yet and stands for the expectation of the configuration.
    pub(crate) fn is_expected(&self) -> bool {
        self.expected.is_some()
    }

    /// Returns the number of training shards that are missing in the folder, and the number of all.
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

    /// Returns the policy of a stream for deleted parts. If a run reads newer versions, it validates on the remaining
    /// rows of the version that it began with.
    pub(crate) fn missing_parts(&self, rows: Rows) -> MissingParts {
        match self.purpose {
            Purpose::Model => MissingParts::Unread,
            // The stream refuses to read deleted parts, unless the run is at its end and reads nothing more.
            Purpose::Run | Purpose::Branch if self.versions.is_pinned() => MissingParts::Unread,
            Purpose::DryRun | Purpose::DryRunElsewhere | Purpose::ReadOnly if self.versions.is_pinned() => {
                MissingParts::Refused
            }
            // The epoch plan also refuses deleted parts, and the run may be past them.
            _ if rows == Rows::Train => MissingParts::Unread,
            _ => MissingParts::LeftOut,
        }
    }

    /// If validation rows were deleted, returns the number of remaining rows and the number of all.
    pub(crate) fn valid_left(&self) -> Option<(u64, u64)> {
        let left = SplitSnapshot::valid(&self.manifest, self.dataset_version).left().split.rows();
        let all = self.effective.valid.rows();
        (left < all).then_some((left, all))
    }

    /// Hash of the training data that the run began with. For a mixture it covers the name and data of each source.
    pub(crate) fn content(&self) -> String {
        if self.source.is_none() {
            return self.content.clone();
        }
        let mut hasher = blake3::Hasher::new();
        for data in self.all() {
            let name = data.name().unwrap_or_default();
            let content = data.content_alone();
            for text in [name, content] {
                hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            }
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Hash of the training data of this folder, without other sources.
    pub(crate) fn content_alone(&self) -> &str {
        &self.content
    }

    /// Source of the segments for a stream of `rows`, if its first epoch is streamed.
    pub(crate) fn segment_source(&self, rows: Rows) -> Option<Arc<dyn SegmentSource>> {
        let streamed = self.streamed.as_ref().filter(|_| rows == Rows::Train)?;
        Some(Arc::clone(streamed) as Arc<dyn SegmentSource>)
    }

    /// Segments of a streamed first epoch, for statistics of the time spent waiting.
    pub fn segments(&self) -> Option<&Arc<StreamedSegments>> {
        self.streamed.as_ref()
    }

    /// Versions that the epochs of a training stream read. Validation always reads the version that the run began with,
    /// so that its metrics are comparable.
    pub(crate) fn followed(&self, rows: Rows) -> Option<Arc<dyn EpochVersions>> {
        (rows == Rows::Train).then(|| self.versions.of_epochs())
    }

    /// Version lists of each folder, to be written to the run folder.
    pub fn versions(&self) -> Vec<Arc<DatasetVersions>> {
        self.all().map(|data| Arc::clone(&data.versions)).collect()
    }

    /// Describes how the run treats a folder that has grown since the run began.
    pub(crate) fn growth(&self) -> Option<String> {
        let first = self.dataset_version;
        let newest = self.manifest.newest();
        let reads = if self.versions.is_pinned() {
            "the run stays with it (`data.version = \"pinned\"`)"
        } else {
            "epochs that begin from now on read the newest"
        };
        (newest > first)
            .then(|| format!("these are of dataset version {first} of the folder; {newest} is there, {reads}"))
    }
}
