//! Epochs, or one window of the first epoch, over one set of shards.

use std::ops::Range;
use std::sync::Arc;

use schemas::Epoch;

use super::split_snapshot::SplitSnapshot;
use crate::sampler::{RowRef, Sampler};

/// Consecutive epochs over one dataset version, or one window of a streamed epoch.
#[derive(Debug)]
pub(crate) struct EpochSpan {
    snapshot: Arc<SplitSnapshot>,
    sampler: Sampler,
    pub(super) first_epoch: Epoch,
    /// First row of the stream and first window of the plan in this span.
    pub(super) first_row: u64,
    first_window: u64,
    /// Passes over the data before and after this window of a streamed epoch.
    part_of_epoch: Option<Range<f64>>,
}

impl EpochSpan {
    /// Creates the span of all epochs from the stream's first row on.
    pub(super) fn first(snapshot: Arc<SplitSnapshot>, sampler: Sampler) -> Self {
        Self { snapshot, sampler, first_epoch: Epoch(0), first_row: 0, first_window: 0, part_of_epoch: None }
    }

    /// Returns the split snapshot of the span.
    #[must_use]
    pub(crate) fn snapshot(&self) -> &SplitSnapshot {
        &self.snapshot
    }

    /// Returns the sampler of the span's epochs.
    #[must_use]
    pub(crate) fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Whether it is a part of an epoch.
    pub(super) fn is_part(&self) -> bool {
        self.part_of_epoch.is_some()
    }

    /// Returns the epoch of a row of the stream, and the row's number in the epoch or window.
    pub(super) fn locate(&self, row: u64) -> (Epoch, u64) {
        let since = row - self.first_row;
        let per_epoch = self.sampler.rows_per_epoch();
        (Epoch(self.first_epoch.0 + since / per_epoch), since % per_epoch)
    }

    /// Returns the passes over the data in the first `rows` rows of the stream. The last of them lies in this span.
    pub(super) fn passes(&self, rows: u64) -> f64 {
        let since = (rows - self.first_row) as f64 / self.sampler.rows_per_epoch() as f64;
        match &self.part_of_epoch {
            None => self.first_epoch.0 as f64 + since,
            Some(part) => part.start + since * (part.end - part.start),
        }
    }

    /// Returns the number of a window of an epoch, counted over the whole plan. Decoded groups are keyed by it. If the
    /// split is one window, all epochs share the first number, so that it stays decoded for the whole span.
    pub(super) fn window(&self, epoch: Epoch, window: u64) -> u64 {
        if self.sampler.is_resident() {
            return self.first_window;
        }
        self.first_window + (epoch.0 - self.first_epoch.0) * self.sampler.windows_per_epoch() + window
    }

    /// Returns the number of the plan's window `window` within its epoch.
    pub(crate) fn window_in_epoch(&self, epoch: Epoch, window: u64) -> u64 {
        if self.sampler.is_resident() { 0 } else { window - self.window(epoch, 0) }
    }

    /// Returns the rows `rows` of an epoch, with windows counted over the whole plan.
    pub(super) fn rows(&self, epoch: Epoch, rows: Range<u64>) -> impl Iterator<Item = RowRef> {
        let rows = self.sampler.rows(epoch, rows);
        rows.into_iter().map(move |row| RowRef { window: self.window(epoch, row.window), ..row })
    }

    /// Creates the span that follows after `epochs` of this one.
    pub(super) fn continued(&self, epochs: u64, snapshot: Arc<SplitSnapshot>, sampler: Sampler) -> Self {
        Self {
            snapshot,
            sampler,
            first_epoch: Epoch(self.first_epoch.0 + epochs),
            first_row: self.first_row + epochs * self.sampler.rows_per_epoch(),
            first_window: self.first_window + epochs * self.sampler.windows_per_epoch(),
            part_of_epoch: None,
        }
    }

    /// Creates a window of the streamed epoch 0 after `before`. After it, `passes` passes over the data are complete.
    pub(super) fn part(before: Option<&Self>, passes: f64, snapshot: Arc<SplitSnapshot>, sampler: Sampler) -> Self {
        let begins = before.and_then(|before| before.part_of_epoch.as_ref()).map_or(0.0, |part| part.end);
        Self {
            snapshot,
            sampler,
            first_epoch: Epoch(0),
            first_row: before.map_or(0, |before| before.first_row + before.sampler.rows_per_epoch()),
            first_window: before.map_or(0, |before| before.first_window + 1),
            part_of_epoch: Some(begins..passes),
        }
    }
}
