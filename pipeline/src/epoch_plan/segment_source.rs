//! First epoch that is read while it is prepared: conversion of the segments of a part list to windows.
//!
//! # What
//! The loader reads the list's parts in order, segment by segment. A window starts with the first segment that is in no
//! window yet. It ends with the segment that brings it to `data.shuffle_window_groups` row groups. The last window
//! contains the remainder. A row therefore depends only on the segments before it and on those of its window. It does
//! not depend on whether later segments are already available.
//!
//! # Why
//! A corpus of a terabyte takes hours to prepare. The order of its part list is drawn with `prepare.seed` before the
//! first part is prepared. The first parts are therefore a fair sample of the corpus, and a run can start with them.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

use runtime::CancelToken;
use schemas::{DatasetVersion, Manifest, PartId, Shard, Split};

use crate::error::Result;

/// Training shards of one segment of a part. Segments without training shards are not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index of its part in the list, from 0.
    pub place: u64,
    /// Shards of the segment, in order.
    pub shards: Vec<Shard>,
}

/// Source of the segments of a part list, in order, as they are committed.
pub trait SegmentSource: Debug + Send + Sync {
    /// Returns the available segments after the first `known`: at least one, or none at the list's end. Waits for the
    /// next segment until `stop` is cancelled. Fails instead of waiting if there is no cancel token. One worker calls
    /// it at a time. The answers must never change, even after a kill.
    ///
    /// # Errors
    /// [`Error::Unfinished`](crate::Error::Unfinished) if the next segment is missing and there is no cancel token,
    /// [`Error::Stopped`](crate::Error::Stopped) after a stop. Any other failure to determine the answer.
    fn segments_after(&self, known: usize, stop: Option<&CancelToken>) -> Result<Vec<Segment>>;

    /// Number of parts of the list.
    fn parts(&self) -> u64;
}

/// Returns the segments of a complete dataset version, in the list's order. The names of the shards of one segment
/// differ only in their last number.
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

/// Returns `train/part-00007-02` for `train/part-00007-02-00.parquet`.
fn stem(shard: &Shard) -> &str {
    shard.path.rsplit_once('-').map_or(shard.path.as_str(), |(stem, _)| stem)
}

/// Complete window of the epoch.
pub(super) struct Closed {
    pub(super) split: Split,
    /// Passes over the data at its end.
    pub(super) passes: f64,
}

/// Cuts the segments of a list into windows.
#[derive(Debug)]
pub(super) struct WindowBuilder {
    segments: Arc<dyn SegmentSource>,
    window_blocks: usize,
    /// Number of received segments, including those that are in no window yet.
    given: usize,
    waiting: VecDeque<Segment>,
    open: Vec<Shard>,
    groups: usize,
    /// Part of the last segment that was cut, and the number of its cut segments.
    place: u64,
    of_place: u64,
}

impl WindowBuilder {
    pub(super) fn new(growth: Arc<dyn SegmentSource>, window_blocks: usize) -> Self {
        let waiting = VecDeque::new();
        let open = Vec::new();
        Self { segments: growth, window_blocks, given: 0, waiting, open, groups: 0, place: 0, of_place: 0 }
    }

    /// Returns the next window, or `None` after the last. Segments received before an interrupted wait are kept.
    pub(super) fn next(&mut self, stop: Option<&CancelToken>) -> Result<Option<Closed>> {
        loop {
            let Some(segment) = self.waiting.pop_front() else {
                let more = self.segments.segments_after(self.given, stop)?;
                if more.is_empty() {
                    return Ok((!self.open.is_empty()).then(|| self.close(1.0)));
                }
                self.given += more.len();
                self.waiting.extend(more);
                continue;
            };
            self.add(segment);
            if self.groups >= self.window_blocks {
                // The code never checks whether the part has more segments, so the result does not depend on what is
                // already available.
                let of_part = self.of_place as f64 / (self.of_place + 1) as f64;
                return Ok(Some(self.close((self.place as f64 + of_part) / self.segments.parts().max(1) as f64)));
            }
        }
    }

    fn add(&mut self, segment: Segment) {
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
