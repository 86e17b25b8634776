//! Memory of a stream, and the reduction of workers to `data.max_memory_bytes`.

use std::sync::Arc;

use runtime::PoolOptions;
use schemas::sample::id_type;
use schemas::{Problem, RankShard};

use super::LoadPlan;
use super::source::Source;
use super::windows::{limit_to_windows, reduce_workers};
use crate::collate::PlannedView;
use crate::epoch_plan::EpochSpan;
use crate::shard::reader::ShardExpectation;

impl LoadPlan {
    /// Reduces depth and number of workers so that decoded groups and batches in flight fit the limit. Windows
    /// determine the order of the data, so they stay the same.
    pub(super) fn checked(mut self) -> Result<Self, Problem> {
        self.workers = self.sparing(self.workers, 1).map_err(|(batches_bytes, groups_bytes)| {
            let message = format!(
                "with one worker of depth 1 decoded row groups take {groups_bytes} bytes and batches {batches_bytes}; \
                 {} are allowed",
                self.max_memory_bytes
            );
            let window_blocks = self.sources.iter().map(|source| source.sampler().window_blocks()).max().unwrap_or(0);
            let hint = format!(
                "raise it, make batches smaller, or, if windows of {window_blocks} row groups take the memory, lower \
                 `data.shuffle_window_groups`, which changes the order of rows"
            );
            Problem::new("data.max_memory_bytes", message).hint(hint)
        })?;
        Ok(self)
    }

    /// Returns the workers of a rank. Between two batches of one rank lie batches of all others, so a rank moves
    /// through windows faster. If even one worker of depth 1 reaches into a third window, returns that worker.
    pub(super) fn workers_of(&self, share: RankShard) -> PoolOptions {
        let ranks = u64::from(share.ranks());
        let workers = limit_to_windows(self.workers, &self.sources, &self.assignment, self.rows_per_batch * ranks);
        self.sparing(workers, ranks).unwrap_or(PoolOptions { workers: 1, queue_depth: 1, ..workers })
    }

    /// Reduces these workers to the plan's memory limit for `ranks` ranks. If one worker of depth 1 exceeds it, returns
    /// its bytes of batches and of row groups as the error.
    fn sparing(&self, mut workers: PoolOptions, ranks: u64) -> Result<PoolOptions, (u64, u64)> {
        loop {
            let (batches, groups) = self.bytes_at_most(workers, ranks);
            if batches.saturating_add(groups) <= self.max_memory_bytes {
                return Ok(workers);
            }
            workers = reduce_workers(workers).ok_or((batches, groups))?;
        }
    }

    /// Maximum bytes alive at once with these workers on each of `ranks` ranks: batches, and decoded row groups.
    pub(super) fn bytes_at_most(&self, workers: PoolOptions, ranks: u64) -> (u64, u64) {
        let row_bytes: u64 = self.views.iter().map(PlannedView::bytes_per_row).sum();
        let rows = workers.max_items_alive() as u64 * self.rows_per_batch;
        let alive = self.groups_alive_max(workers, ranks);
        let groups = alive.zip(&self.sources).map(|(groups, source)| source.bytes_of(groups, self.expectation));
        (rows * row_bytes, groups.sum())
    }

    /// Maximum decoded row groups of each source alive at once, with these workers on each of `ranks` ranks.
    pub(super) fn groups_alive_max(&self, workers: PoolOptions, ranks: u64) -> impl Iterator<Item = u64> {
        let rows = workers.max_items_alive() as u64 * self.rows_per_batch * ranks;
        let sources = self.sources.iter().enumerate();
        sources.map(move |(index, source)| source.groups_alive_max(self.assignment.at_most(index, rows)))
    }
}

impl Source {
    /// Maximum decoded row groups of this source alive at once. Holds for the first dataset version, and for a
    /// transition to one whose windows have as many rows. A later version with smaller windows may have three windows
    /// alive. These hold less, because batches in flight never exceed one window of the first version.
    pub(super) fn groups_alive_max(&self, in_flight: u64) -> u64 {
        if let Some(outline) = &self.outline {
            let windows = self.epoch_plan.parts();
            let sizes =
                |window: &Arc<EpochSpan>| (window.sampler().blocks().len() as u64, window.sampler().rows_per_epoch());
            let first = touched(&windows.iter().map(sizes).collect::<Vec<_>>(), in_flight);
            // In a later epoch, each window except the smallest has at least as many rows.
            let later = (outline.window_blocks() as u64, outline.window_rows_min());
            return first
                .max(touched(&vec![later; usize::try_from(outline.windows_per_epoch()).unwrap_or(1)], in_flight));
        }
        let sampler = self.epoch_plan.first().sampler();
        let blocks = sampler.blocks().len() as u64;
        if sampler.is_resident() {
            return blocks;
        }
        // Worst case: the first of the rows is the last of its window.
        let windows = 1 + in_flight.saturating_sub(1).div_ceil(sampler.window_rows_min()).max(1);
        blocks.min(windows.saturating_mul(sampler.window_blocks() as u64))
    }

    /// Maximum bytes of `groups` decoded row groups of this source, for full samples.
    pub(super) fn bytes_of(&self, groups: u64, promise: ShardExpectation) -> u64 {
        let mut rows: Vec<u32> = self.sampler().blocks().iter().map(|block| block.stored).collect();
        let alive = usize::try_from(groups).unwrap_or(usize::MAX);
        if alive < rows.len() {
            rows.select_nth_unstable_by(alive, |a, b| b.cmp(a));
        }
        let largest: u64 = rows.iter().take(alive).map(|&rows| u64::from(rows)).sum();
        let id_bytes = id_type(promise.vocab_size).primitive_width().unwrap_or(4) as u64;
        // Per sample in addition to the ids: two offsets, a source, and about two documents of 10 bytes.
        largest * (u64::from(promise.content_max) * id_bytes + 30)
    }
}

/// Maximum number of row groups in consecutive windows that `rows` consecutive rows touch. `windows` contains the
/// groups and the rows of each window.
fn touched(windows: &[(u64, u64)], rows: u64) -> u64 {
    let from = |first: usize| {
        let mut between = 0;
        let mut groups = windows[first].0;
        for &(more, of_it) in &windows[first + 1..] {
            // Worst case: the first of the rows is the last of the first window.
            if between + 1 >= rows {
                break;
            }
            (groups, between) = (groups + more, between + of_it);
        }
        groups
    };
    (0..windows.len()).map(from).max().unwrap_or(0)
}
