//! The file in a run folder that records which dataset version each epoch reads.

use pipeline::load::RowOrder;
use pipeline::prepare::PartLists;
use pipeline::{Error, Result};
use schemas::{DatasetVersion, Epoch, Manifest, Sealed, Shard, Split};
use serde::{Deserialize, Serialize};
use store::Store;

/// Name of the file if there is one prepared folder.
pub(super) const NAME: &str = "dataset_versions.json";

/// Returns the name of the file for a source of a mixture, or for the only prepared folder.
pub(crate) fn list_name(source: Option<&str>) -> String {
    source.map_or_else(|| NAME.to_owned(), |source| format!("dataset_versions/{source}.json"))
}

/// Content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionList {
    /// Number of decided epochs.
    pub(super) epochs: u64,
    /// Spans of epochs over one version, in order; the first begins with epoch 0.
    pub(super) spans: Vec<VersionSpan>,
    /// Prefix of the first epoch that the run has read, if that epoch is streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) streamed: Option<ReadPrefix>,
}

/// Consecutive epochs over one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionSpan {
    /// The first epoch of the span.
    pub(super) epoch: Epoch,
    pub(super) dataset_version: DatasetVersion,
    /// Hash that identifies the data: see [`hashes_of`] and [`PartLists::hashes`].
    pub(super) content: String,
}

/// The first training shards of a part list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadPrefix {
    /// Number of shards.
    pub(super) shards: u64,
    /// Hash of the data of these shards.
    content: String,
}

impl ReadPrefix {
    pub(super) fn new(shards: Vec<Shard>) -> Self {
        Self { shards: shards.len() as u64, content: Split { shards }.content() }
    }

    /// Whether these shards, all or the first of them, begin with the prefix.
    pub(super) fn begins(&self, shards: &[Shard]) -> bool {
        let count = usize::try_from(self.shards).unwrap_or(usize::MAX);
        shards.get(..count).is_some_and(|first| Self::new(first.to_vec()) == *self)
    }
}

impl Sealed for VersionList {
    const FORMAT: &'static str = "cloze dataset versions of a run";
    const VERSION: u32 = 2;
    const PRETTY: bool = true;
}

impl VersionList {
    /// Creates the list of a run that begins with the newest version. Each version has its hash in `hashes`.
    pub(super) fn new(order: RowOrder, hashes: &[String]) -> Self {
        let streamed = (order == RowOrder::Streamed).then(|| ReadPrefix::new(Vec::new()));
        let mut list = Self { epochs: 0, spans: Vec::new(), streamed };
        list.push(newest_of(hashes), hashes);
        list
    }

    /// Reads the list of a run, if it exists.
    pub(super) fn read(run: &Store, name: &str) -> Result<Option<Self>> {
        let Some((bytes, _)) = run.get_with_stat(name)? else { return Ok(None) };
        let refuse = |error: &dyn std::fmt::Display| {
            let fix = "it records which data the run reads; restore it, or begin a new run (another `run.folder`)";
            Error::Config(format!("{}: {error}; {fix}", run.place(name)))
        };
        let list = Self::unseal(&bytes).map_err(|error| refuse(&error))?;
        let is_whole = list.epochs > 0 && list.spans.first().is_some_and(|first| first.epoch == Epoch(0));
        if is_whole { Ok(Some(list)) } else { Err(refuse(&"the list does not begin with epoch 0")) }
    }

    pub(super) fn write(&self, run: &Store, name: &str) -> Result<()> {
        run.put(name, &self.seal())?;
        Ok(())
    }

    /// Whether the epochs of `earlier` have the same versions in this list.
    pub(super) fn continues(&self, earlier: &Self) -> bool {
        let is_same = |epoch| self.version_at(Epoch(epoch)) == earlier.version_at(Epoch(epoch));
        self.epochs >= earlier.epochs && self.streamed == earlier.streamed && (0..earlier.epochs).all(is_same)
    }

    /// Version of epoch 0.
    pub(super) fn first(&self) -> DatasetVersion {
        self.spans[0].dataset_version
    }

    /// Version of an epoch, if it is decided.
    pub(super) fn version_at(&self, epoch: Epoch) -> Option<DatasetVersion> {
        let behind = self.spans.partition_point(|span| span.epoch <= epoch);
        (epoch.0 < self.epochs).then(|| self.spans[behind - 1].dataset_version)
    }

    /// Decides the version of the next epoch.
    pub(super) fn push(&mut self, dataset_version: DatasetVersion, hashes: &[String]) {
        if self.spans.last().is_none_or(|last| last.dataset_version != dataset_version) {
            let content = hashes[dataset_version.0 as usize].clone();
            self.spans.push(VersionSpan { epoch: Epoch(self.epochs), dataset_version, content });
        }
        self.epochs += 1;
    }

    /// Row order that the run began with.
    pub(super) fn order(&self) -> RowOrder {
        if self.streamed.is_some() { RowOrder::Streamed } else { RowOrder::Shuffled }
    }

    /// Fails if the run began with another row order.
    pub(super) fn check_order(&self, order: RowOrder) -> Result<()> {
        if self.order() == order {
            return Ok(());
        }
        let began = if self.streamed.is_some() { "streamed" } else { "shuffled" };
        Err(Error::Config(format!(
            "the run began with `data.order = \"{began}\"`; set that, or begin a new run (another `run.folder`)"
        )))
    }

    /// Fails if the run read data with other hashes.
    pub(super) fn check_hashes(&self, hashes: &[String], data: &Store) -> Result<()> {
        let is_known = |span: &&VersionSpan| hashes.get(span.dataset_version.0 as usize) == Some(&span.content);
        match self.spans.iter().find(|span| !is_known(span)) {
            None => Ok(()),
            Some(other) => Err(other_data(other.dataset_version, data)),
        }
    }

    /// Fails if the folder no longer has the shards that the run read of a streamed epoch.
    pub(super) fn check_read(&self, manifest: &Manifest, data: &Store) -> Result<()> {
        let (Some(read), first) = (&self.streamed, self.first()) else { return Ok(()) };
        // Dropped parts are reported by name when they would be read.
        let is_dropped = !manifest.dropped_since(first).is_empty();
        let is_same = is_dropped || read.begins(&manifest.effective(first).train.shards);
        if is_same { Ok(()) } else { Err(other_data(first, data)) }
    }
}

/// Returns the hash of the training data of each version, in order. It is known when a version is complete.
pub(crate) fn hashes_of(manifest: &Manifest) -> Vec<String> {
    manifest.dataset_versions.iter().map(|entry| entry.content.clone()).collect()
}

/// Reads the part lists of a prepared folder.
///
/// # Errors
/// [`Error::Unfinished`] if there are none.
pub(crate) fn part_lists(data: &Store) -> Result<PartLists> {
    PartLists::read(data)?.ok_or_else(|| Error::Unfinished {
        place: data.place(""),
        message: "no part list found, and a streamed run requires one; run `cloze prepare`, or change `data.folder`"
            .to_owned(),
    })
}

/// Returns the newest of the versions that have these hashes.
fn newest_of(hashes: &[String]) -> DatasetVersion {
    DatasetVersion(u32::try_from(hashes.len() - 1).expect("versions are few"))
}

pub(super) fn other_data(dataset_version: DatasetVersion, data: &Store) -> Error {
    Error::Config(format!(
        "{}: the run read dataset version {dataset_version} with other data than is here now; set the folder that it read, or begin \
         a new run (another `run.folder`)",
        data.place("")
    ))
}
