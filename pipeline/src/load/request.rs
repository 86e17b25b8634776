//! What a stream is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemas::{ColumnSpec, DatasetVersion, Manifest, Vocab};
use store::Store;

use super::DataConfig;
use crate::epoch_plan::{EpochVersions, SegmentSource};
use crate::mixture::Weight;
use crate::views::{AnyView, ViewName};

/// Which rows a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The training split, shuffled, without end.
    Train,
    /// Rows from all over the validation split, in stored order, once, under a seed of their own.
    Valid {
        /// At most this many.
        rows: u64,
    },
}

/// What a stream does with a dataset version of which parts were deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingParts {
    /// Nothing: rows would be other rows than before.
    Refused,
    /// What is left of it.
    LeftOut,
    /// All of it: nobody will read a row, or the [`EpochPlan`](crate::epoch_plan) refuses whoever does.
    Unread,
}

/// What a plan is made of.
#[derive(Clone, Debug)]
pub struct LoadRequest<'a> {
    /// The prepared folder; that of the first source, where there are several.
    pub store: &'a Store,
    /// Its manifest.
    pub manifest: &'a Manifest,
    /// The sources of a mixture, by name, none of a weight that is 0 for all rows; nothing where the folder above is all
    /// there is.
    pub sources: &'a [SourceRequest<'a>],
    /// The vocabulary.
    pub vocab: Arc<Vocab>,
    /// The dataset version of it that the stream begins with.
    pub dataset_version: DatasetVersion,
    /// Who says which dataset versions later epochs are over, and whether they are still there; without, all are over that one.
    pub follow: Option<Arc<dyn EpochVersions>>,
    /// Who gives the segments of a first epoch that is streamed; without, all epochs are shuffled. No mixture has one.
    pub growth: Option<Arc<dyn SegmentSource>>,
    /// Which rows.
    pub rows: Rows,
    /// What to do where a later dataset version has dropped parts of that one.
    pub gone: MissingParts,
    /// The section `[data]`.
    pub data: &'a DataConfig,
    /// The section `[views]`. A plain `original` is there without being written.
    pub views: &'a BTreeMap<ViewName, AnyView>,
    /// The columns that somebody reads; no other is made.
    pub wanted: &'a BTreeSet<(ViewName, ColumnSpec)>,
    /// The run's seed.
    pub seed: u64,
    /// Rows of a batch.
    pub rows_per_batch: u64,
}

/// One source of a mixture, as a stream is asked for it.
#[derive(Clone, Debug)]
pub struct SourceRequest<'a> {
    /// Its name in the configuration. What is drawn for its samples and the order of its rows depend on it.
    pub name: &'a str,
    /// Its share of the rows.
    pub weight: &'a Weight,
    /// Its prepared folder.
    pub store: &'a Store,
    /// The folder's manifest.
    pub manifest: &'a Manifest,
    /// The dataset version of it that the stream begins with.
    pub dataset_version: DatasetVersion,
    /// Who says which dataset versions later epochs are over.
    pub follow: Option<Arc<dyn EpochVersions>>,
    /// What to do where a later dataset version has dropped parts of that one.
    pub gone: MissingParts,
}
