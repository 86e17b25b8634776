//! Request for a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemas::{ColumnSpec, DatasetVersion, Manifest, Vocab};
use store::Store;

use super::DataConfig;
use crate::epoch_plan::{EpochVersions, SegmentSource};
use crate::mixture::Weight;
use crate::shard::cache::ShardCache;
use crate::views::{AnyView, ViewName};

/// Rows of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The training split, shuffled, endless.
    Train,
    /// Rows from the whole validation split, in stored order, once, under a fixed seed.
    Valid {
        /// Maximum number of rows.
        rows: u64,
    },
}

/// Policy for a dataset version with deleted parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingParts {
    /// Fail: the row order would change.
    Refused,
    /// Use the remaining parts.
    LeftOut,
    /// Accept the version, because its rows are not read, or the [`EpochPlan`](crate::epoch_plan) fails when they are.
    Unread,
}

/// Inputs of a plan.
#[derive(Clone, Debug)]
pub struct LoadRequest<'a> {
    /// Prepared folder. For several sources, that of the first.
    pub store: &'a Store,
    /// Manifest of the folder.
    pub manifest: &'a Manifest,
    /// Mixture sources, by name, without those whose weight is 0 for all rows. Empty if the folder above is the only
    /// one.
    pub sources: &'a [SourceRequest<'a>],
    /// The vocabulary.
    pub vocab: Arc<Vocab>,
    /// The dataset version of it that the stream begins with.
    pub dataset_version: DatasetVersion,
    /// Source of the dataset versions of later epochs. Without it, all epochs use the first version.
    pub epoch_versions: Option<Arc<dyn EpochVersions>>,
    /// Source of the segments of a streamed first epoch. Without it, all epochs are shuffled. Mixtures do not have one.
    pub segment_source: Option<Arc<dyn SegmentSource>>,
    /// Requested rows.
    pub rows: Rows,
    /// Policy if a later dataset version has dropped parts of this one.
    pub missing_parts: MissingParts,
    /// The section `[data]`.
    pub data: &'a DataConfig,
    /// The section `[views]`. A plain `original` exists by default.
    pub views: &'a BTreeMap<ViewName, AnyView>,
    /// Columns that are read. Other columns are not made.
    pub wanted: &'a BTreeSet<(ViewName, ColumnSpec)>,
    /// Cache of the shards of remote folders. Without it, they are read from their stores directly.
    pub cache: Option<ShardCache>,
    /// The run's seed.
    pub seed: u64,
    /// Rows of a batch.
    pub rows_per_batch: u64,
}

/// One mixture source of a load request.
#[derive(Clone, Debug)]
pub struct SourceRequest<'a> {
    /// Name in the configuration. The random draws for its samples and the order of its rows depend on it.
    pub name: &'a str,
    /// Share of the rows.
    pub weight: &'a Weight,
    /// Prepared folder of the source.
    pub store: &'a Store,
    /// Manifest of the folder.
    pub manifest: &'a Manifest,
    /// The dataset version of it that the stream begins with.
    pub dataset_version: DatasetVersion,
    /// Source of the dataset versions of later epochs.
    pub follow: Option<Arc<dyn EpochVersions>>,
    /// Policy if a later dataset version has dropped parts of this one.
    pub gone: MissingParts,
}
