//! Prepared folder of a stream, and the rows and decoded groups of a batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::epoch_plan::{EpochPlan, EpochSpan};
use crate::sampler::{RowRef, Sampler};
use crate::shard::groups::HeldGroup;
use crate::shard::opened::OpenShards;

/// Prepared folder that contributes rows to a stream.
#[derive(Debug)]
pub(super) struct Source {
    /// Name of the mixture source. `None` for the only folder.
    pub(super) name: Option<String>,
    pub(super) shards: Arc<OpenShards>,
    pub(super) epoch_plan: EpochPlan,
    /// Sampler of a shuffled epoch over the streamed data that was known when this was planned.
    pub(super) outline: Option<Sampler>,
    pub(super) seed: u64,
}

impl Source {
    /// Returns the sampler of an epoch over all data that was known when this was planned.
    pub(super) fn sampler(&self) -> &Sampler {
        self.outline.as_ref().unwrap_or_else(|| self.epoch_plan.first().sampler())
    }
}

/// Consecutive rows of a stream, and their epoch spans.
pub(super) struct RowRefs {
    pub(super) rows: Vec<RowRef>,
    pub(super) spans: Vec<Arc<EpochSpan>>,
}

impl RowRefs {
    /// Returns the epoch span of a row.
    pub(super) fn span(&self, row: &RowRef) -> &EpochSpan {
        &self.spans[row.span]
    }
}

/// Decoded groups by source, window and block.
#[derive(Debug, Default)]
pub(super) struct HeldGroups(BTreeMap<GroupKey, HeldGroup>);

/// Position of a group: source, window and block in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    source: usize,
    window: u64,
    block: usize,
}

impl HeldGroups {
    /// Adds a group.
    pub(super) fn insert(&mut self, source: usize, window: u64, block: usize, group: HeldGroup) {
        self.0.insert(GroupKey { source, window, block }, group);
    }

    /// Returns the group of a block in the window of a row.
    pub(super) fn group(&self, row: &RowRef, block: usize) -> &HeldGroup {
        &self.0[&GroupKey { source: row.source, window: row.window, block }]
    }
}
