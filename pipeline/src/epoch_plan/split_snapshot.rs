//! One split of a prepared folder, as one generation of it has it.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{Generation, Manifest, PartId, Split};

/// One split of a folder as a generation has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitSnapshot {
    /// The generation.
    pub generation: Generation,
    /// The shards in effect.
    pub split: Split,
    /// Parts of these that a later generation dropped: their files are gone, or going.
    pub dropped: BTreeMap<PartId, Generation>,
}

impl SplitSnapshot {
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
        if !dropped.is_empty() {
            let read: BTreeSet<PartId> = split.shards.iter().map(|shard| shard.part).collect();
            dropped.retain(|part, _| read.contains(part));
        }
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
