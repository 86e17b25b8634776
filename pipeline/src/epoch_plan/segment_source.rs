//! A first epoch that is read while it is prepared: from the segments of a part list to windows.
//!
//! # What
//! The list's parts are read in its order, segment by segment. A window is what segments come to from the first on that
//! is in no window yet, up to and with the one that gives it `data.shuffle_window_groups` row groups; the last window is what is
//! left. So what a row is made of is a function of the segments before it and of its own window's, and the same whether
//! those behind are there or not.
//!
//! # Why
//! A corpus of a terabyte takes hours to prepare. Its part list is drawn with `prepare.seed` before its first part, so
//! that the first parts are a fair sample of it: a run may as well begin with them.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

use runtime::CancelToken;
use schemas::{DatasetVersion, Manifest, PartId, Shard, Split};

use crate::error::Result;

/// The training shards of one segment of a part; of segments that have some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which of the list's parts it is of, counted from 0.
    pub place: u64,
    /// Its shards, in order.
    pub shards: Vec<Shard>,
}

/// Gives the segments of a part list in its order, as they are committed.
pub trait SegmentSource: Debug + Send + Sync {
    /// The segments behind the first `known`, as far as they are there: at least one, or none at the list's end. Until the
    /// next is there it waits, for as long as nobody asks for a stop; where no stop can be asked for, it fails. Asked by one
    /// worker at a time. The answers must never change, also not after a kill.
    ///
    /// # Errors
    /// [`Error::Unfinished`](crate::Error::Unfinished) where the next segment is not there and is not waited for,
    /// [`Error::Stopped`](crate::Error::Stopped) after a stop; whatever else keeps it from answering.
    fn behind(&self, known: usize, stop: Option<&CancelToken>) -> Result<Vec<Segment>>;

    /// Parts of the list.
    fn parts(&self) -> u64;
}

/// The segments of a dataset version that is whole, in the list's order: shards of one segment are those whose names differ in
/// their last number only.
#[must_use]
pub fn segments(manifest: &Manifest, dataset_version: DatasetVersion) -> Vec<Segment> {
    let so_far = &manifest.dataset_versions[..=dataset_version.0 as usize];
    let dropped: BTreeSet<PartId> = so_far.iter().flat_map(|entry| &entry.dropped).copied().collect();
    let parts = so_far.iter().flat_map(|entry| &entry.parts).filter(|part| !dropped.contains(&part.id));
    let mut segments = Vec::new();
    for (place, part) in (0..).zip(parts) {
        let of_one = part.train.chunk_by(|one, next| stem(one) == stem(next));
        segments.extend(of_one.map(|shards| Segment { place, shards: shards.to_vec() }));
    }
    segments
}

/// `train/part-00007-02` of `train/part-00007-02-00.parquet`.
fn stem(shard: &Shard) -> &str {
    shard.path.rsplit_once('-').map_or(shard.path.as_str(), |(stem, _)| stem)
}

/// A window of the epoch.
pub(super) struct Closed {
    pub(super) split: Split,
    /// Passes over the data behind it.
    pub(super) passes: f64,
}

/// Cuts the segments of a list into windows.
#[derive(Debug)]
pub(super) struct WindowBuilder {
    growth: Arc<dyn SegmentSource>,
    window_blocks: usize,
    /// Segments that were given, of which some are in no window yet.
    given: usize,
    waiting: VecDeque<Segment>,
    open: Vec<Shard>,
    groups: usize,
    /// The part of the last segment that was cut, and how many of its segments were.
    place: u64,
    of_place: u64,
}

impl WindowBuilder {
    pub(super) fn new(growth: Arc<dyn SegmentSource>, window_blocks: usize) -> Self {
        let (waiting, open) = (VecDeque::new(), Vec::new());
        Self { growth, window_blocks, given: 0, waiting, open, groups: 0, place: 0, of_place: 0 }
    }

    /// The next window; none behind the last. What a wait was given before it was ended is not lost.
    pub(super) fn next(&mut self, stop: Option<&CancelToken>) -> Result<Option<Closed>> {
        loop {
            let Some(segment) = self.waiting.pop_front() else {
                let more = self.growth.behind(self.given, stop)?;
                if more.is_empty() {
                    return Ok((!self.open.is_empty()).then(|| self.close(1.0)));
                }
                self.given += more.len();
                self.waiting.extend(more);
                continue;
            };
            self.take(segment);
            if self.groups >= self.window_blocks {
                // Whether more of this part follows is not known yet, and never looked at, so that it makes no difference.
                let of_part = self.of_place as f64 / (self.of_place + 1) as f64;
                return Ok(Some(self.close((self.place as f64 + of_part) / self.growth.parts().max(1) as f64)));
            }
        }
    }

    fn take(&mut self, segment: Segment) {
        self.of_place = if segment.place == self.place { self.of_place + 1 } else { 1 };
        self.place = segment.place;
        self.groups += segment.shards.iter().map(|shard| shard.groups.len()).sum::<usize>();
        self.open.extend(segment.shards);
    }

    fn close(&mut self, passes: f64) -> Closed {
        self.groups = 0;
        Closed { split: Split { shards: std::mem::take(&mut self.open) }, passes }
    }
}
