//! One split of a prepared folder in one dataset version.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{DatasetVersion, Manifest, PartId, Split};

/// One split of a folder in one dataset version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitSnapshot {
    /// The dataset version.
    pub dataset_version: DatasetVersion,
    /// Shards in effect.
    pub split: Split,
    /// Parts of the split that a later dataset version dropped. Their files are deleted, or will be.
    pub dropped: BTreeMap<PartId, DatasetVersion>,
}

impl SplitSnapshot {
    /// The training split.
    #[must_use]
    pub fn train(manifest: &Manifest, dataset_version: DatasetVersion) -> Self {
        Self::new(manifest, dataset_version, manifest.effective(dataset_version).train)
    }

    /// The validation split.
    #[must_use]
    pub fn valid(manifest: &Manifest, dataset_version: DatasetVersion) -> Self {
        Self::new(manifest, dataset_version, manifest.effective(dataset_version).valid)
    }

    fn new(manifest: &Manifest, dataset_version: DatasetVersion, split: Split) -> Self {
        let mut dropped = manifest.dropped_since(dataset_version);
        if !dropped.is_empty() {
            let read: BTreeSet<PartId> = split.shards.iter().map(|shard| shard.part).collect();
            dropped.retain(|part, _| read.contains(part));
        }
        Self { dataset_version, split, dropped }
    }

    /// Returns the remainder: the parts that no later dataset version dropped.
    #[must_use]
    pub fn left(mut self) -> Self {
        self.split.shards.retain(|shard| !self.dropped.contains_key(&shard.part));
        self.dropped.clear();
        self
    }

    /// Returns the reason why the split cannot be read, if any: the parts that a later dataset version dropped.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let by = self.dropped.values().max()?;
        let shown: Vec<String> = self.dropped.keys().take(5).map(ToString::to_string).collect();
        let more = self.dropped.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let s = if self.dropped.len() > 1 { "s" } else { "" };
        let shown = shown.join(", ");
        Some(format!(
            "the run reads dataset version {} of the folder, and dataset version {by} dropped part{s} {shown}{more} of it",
            self.dataset_version
        ))
    }
}
