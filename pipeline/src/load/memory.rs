//! What of a stream lies in memory at once, and workers that keep it within `data.max_memory_bytes`.

use std::sync::Arc;

use runtime::PoolOptions;
use schemas::sample::id_type;
use schemas::{Problem, RankShard};

use super::LoadPlan;
use super::source::Source;
use super::windows::{narrow_enough, narrower};
use crate::collate::PlannedView;
use crate::epoch_plan::EpochSpan;
use crate::shard::reader::Promise;

impl LoadPlan {
    /// The same plan with as many workers, as deep, as keep what is decoded and in flight within so many bytes. Windows shape
    /// the order of the data: they do not yield.
    pub(super) fn within(mut self) -> Result<Self, Problem> {
        self.workers = self.sparing(self.workers, 1).map_err(|(batches_bytes, groups_bytes)| {
            let message = format!(
                "with one worker of depth 1 decoded row groups take {groups_bytes} bytes and batches {batches_bytes}; \
                 {} are allowed",
                self.max_memory_bytes
            );
            let window_blocks = self.sources.iter().map(|source| source.sampler().window_blocks()).max().unwrap_or(0);
            let hint = format!(
                "raise it, make batches smaller, or, where windows of {window_blocks} row groups are what takes it, lower \
                 `data.shuffle_window_groups`, which changes the order of rows"
            );
            Problem::new("data.max_memory_bytes", message).hint(hint)
        })?;
        Ok(self)
    }

    /// The workers of a share: batches of all shares lie between two of its own, and windows pass so much faster. Of so many
    /// ranks that even one worker of depth 1 reaches into a third window, that worker is what is left.
    pub(super) fn workers_of(&self, share: RankShard) -> PoolOptions {
        let ranks = u64::from(share.ranks());
        let workers = narrow_enough(self.workers, &self.sources, &self.assignment, self.rows_per_batch * ranks);
        self.sparing(workers, ranks).unwrap_or(PoolOptions { workers: 1, queue_depth: 1, ..workers })
    }

    /// As many of these workers, as deep, as stay within the plan's bound where `ranks` share the stream; what one of depth 1
    /// takes, batches and row groups, where that is more.
    fn sparing(&self, mut workers: PoolOptions, ranks: u64) -> Result<PoolOptions, (u64, u64)> {
        loop {
            let (batches, groups) = self.bytes_at_most(workers, ranks);
            if batches.saturating_add(groups) <= self.max_memory_bytes {
                return Ok(workers);
            }
            workers = narrower(workers).ok_or((batches, groups))?;
        }
    }

    /// Bytes of what is alive at once, at most, with these workers for each of so many ranks: batches, and decoded row groups.
    pub(super) fn bytes_at_most(&self, workers: PoolOptions, ranks: u64) -> (u64, u64) {
        let row_bytes: u64 = self.views.iter().map(PlannedView::bytes_per_row).sum();
        let rows = workers.max_items_alive() as u64 * self.rows_per_batch;
        let alive = self.groups_alive_max(workers, ranks);
        let groups = alive.zip(&self.sources).map(|(groups, source)| source.bytes_of(groups, self.promise));
        (rows * row_bytes, groups.sum())
    }

    /// Decoded row groups of each source that are alive at once, at most, with these workers for each of so many ranks.
    pub(super) fn groups_alive_max(&self, workers: PoolOptions, ranks: u64) -> impl Iterator<Item = u64> {
        let rows = workers.max_items_alive() as u64 * self.rows_per_batch * ranks;
        let sources = self.sources.iter().enumerate();
        sources.map(move |(index, source)| source.groups_alive_max(self.assignment.at_most(index, rows)))
    }
}

impl Source {
    /// Decoded row groups of it that are alive at once, at most, in epochs over the dataset version that the stream begins with
    /// and where it passes to one with windows of as many rows. A later dataset version of smaller windows may have three alive,
    /// which then hold less: batches in flight, of so many rows, are never of more than a window that the stream begins with.
    pub(super) fn groups_alive_max(&self, in_flight: u64) -> u64 {
        if let Some(outline) = &self.outline {
            let windows = self.course.parts();
            let sizes =
                |window: &Arc<EpochSpan>| (window.sampler().blocks().len() as u64, window.sampler().rows_per_epoch());
            let first = touched(&windows.iter().map(sizes).collect::<Vec<_>>(), in_flight);
            // Of a later epoch at least as many rows are in each window but the smallest.
            let later = (outline.window_blocks() as u64, outline.window_rows_min());
            return first
                .max(touched(&vec![later; usize::try_from(outline.windows_per_epoch()).unwrap_or(1)], in_flight));
        }
        let sampler = self.course.first().sampler();
        let blocks = sampler.blocks().len() as u64;
        if sampler.is_resident() {
            return blocks;
        }
        // The first of the rows is the last of its window.
        let windows = 1 + in_flight.saturating_sub(1).div_ceil(sampler.window_rows_min()).max(1);
        blocks.min(windows.saturating_mul(sampler.window_blocks() as u64))
    }

    /// Bytes of so many decoded row groups of it, the largest, for full samples.
    pub(super) fn bytes_of(&self, groups: u64, promise: Promise) -> u64 {
        let mut rows: Vec<u32> = self.sampler().blocks().iter().map(|block| block.stored).collect();
        let alive = usize::try_from(groups).unwrap_or(usize::MAX);
        if alive < rows.len() {
            rows.select_nth_unstable_by(alive, |a, b| b.cmp(a));
        }
        let largest: u64 = rows.iter().take(alive).map(|&rows| u64::from(rows)).sum();
        let id_bytes = id_type(promise.vocab_size).primitive_width().unwrap_or(4) as u64;
        // Next to the ids: two offsets, a source, and about two documents of 10 bytes.
        largest * (u64::from(promise.content_max) * id_bytes + 30)
    }
}

/// Row groups of windows that follow one another, at most, of which so many rows that follow one another are: `windows`
/// has the groups and the rows of each.
fn touched(windows: &[(u64, u64)], rows: u64) -> u64 {
    let from = |first: usize| {
        let mut between = 0;
        let mut groups = windows[first].0;
        for &(more, of_it) in &windows[first + 1..] {
            // The first of the rows is the last of the first window.
            if between + 1 >= rows {
                break;
            }
            (groups, between) = (groups + more, between + of_it);
        }
        groups
    };
    (0..windows.len()).map(from).max().unwrap_or(0)
}
