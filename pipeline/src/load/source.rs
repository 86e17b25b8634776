//! Prepared folder of a stream, and the rows and decoded groups of a batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::epoch_plan::{EpochPlan, EpochSpan};
use crate::sampler::{RowRef, Sampler};
use crate::shard::groups::Held;
use crate::shard::opened::OpenShards;

/// Prepared folder of which a stream has rows.
#[derive(Debug)]
pub(super) struct Source {
    /// Its name; none where it is all there is.
    pub(super) name: Option<String>,
    pub(super) shards: Arc<OpenShards>,
    pub(super) course: EpochPlan,
    /// What was known of data that are streamed when this was planned: an epoch over it that is shuffled.
    pub(super) outline: Option<Sampler>,
    pub(super) seed: u64,
}

impl Source {
    /// How an epoch over all that was known of it is visited.
    pub(super) fn sampler(&self) -> &Sampler {
        self.outline.as_ref().unwrap_or_else(|| self.course.first().sampler())
    }
}

/// Rows that follow one another in a stream, and the stretches of epochs that they lie in.
pub(super) struct RowRefs {
    pub(super) rows: Vec<RowRef>,
    pub(super) stretches: Vec<Arc<EpochSpan>>,
}

impl RowRefs {
    /// Epochs over the split that a row is of.
    pub(super) fn stretch(&self, row: &RowRef) -> &EpochSpan {
        &self.stretches[row.stretch]
    }
}

/// Decoded groups by source, window and block.
#[derive(Debug, Default)]
pub(super) struct HeldGroups(BTreeMap<(usize, u64, usize), Held>);

impl HeldGroups {
    /// Keeps a group.
    pub(super) fn insert(&mut self, source: usize, window: u64, block: usize, group: Held) {
        self.0.insert((source, window, block), group);
    }

    /// The group of a block of the window that a row is of.
    pub(super) fn group(&self, row: &RowRef, block: usize) -> &Held {
        &self.0[&(row.source, row.window, block)]
    }
}
