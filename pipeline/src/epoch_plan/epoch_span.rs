//! Epochs, or a window of the first one, over one set of shards.

use std::ops::Range;
use std::sync::Arc;

use schemas::Epoch;

use super::split_snapshot::SplitSnapshot;
use crate::sampler::{RowRef, Sampler};

/// Epochs over one dataset version that follow one another; of a streamed epoch, a window.
#[derive(Debug)]
pub(crate) struct EpochSpan {
    edition: Arc<SplitSnapshot>,
    sampler: Sampler,
    pub(super) first_epoch: Epoch,
    /// Row of the stream and window of the course before which it begins.
    pub(super) first_row: u64,
    first_window: u64,
    /// Of a streamed epoch: passes over the data before it, and behind it.
    part_of_epoch: Option<Range<f64>>,
}

impl EpochSpan {
    /// All epochs from the stream's first row on.
    pub(super) fn first(edition: Arc<SplitSnapshot>, sampler: Sampler) -> Self {
        Self { edition, sampler, first_epoch: Epoch(0), first_row: 0, first_window: 0, part_of_epoch: None }
    }

    /// What it is over.
    #[must_use]
    pub(crate) fn edition(&self) -> &SplitSnapshot {
        &self.edition
    }

    /// How its epochs are visited.
    #[must_use]
    pub(crate) fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Whether it is a part of an epoch.
    pub(super) fn is_part(&self) -> bool {
        self.part_of_epoch.is_some()
    }

    /// The epoch of a row of the stream, and the row's number in it, or in the window that it is.
    pub(super) fn locate(&self, row: u64) -> (Epoch, u64) {
        let (since, per_epoch) = (row - self.first_row, self.sampler.rows_per_epoch());
        (Epoch(self.first_epoch.0 + since / per_epoch), since % per_epoch)
    }

    /// Number of passes over the data in the first `rows` rows of the stream, the last of which it has.
    pub(super) fn passes(&self, rows: u64) -> f64 {
        let since = (rows - self.first_row) as f64 / self.sampler.rows_per_epoch() as f64;
        match &self.part_of_epoch {
            None => self.first_epoch.0 as f64 + since,
            Some(part) => part.start + since * (part.end - part.start),
        }
    }

    /// The number of a window of an epoch, counted over the course: what decoded groups are kept by. All windows of a split
    /// that is one window share the first's, so that it stays decoded for as long as the stretch lasts.
    pub(super) fn window(&self, epoch: Epoch, window: u64) -> u64 {
        if self.sampler.is_resident() {
            return self.first_window;
        }
        self.first_window + (epoch.0 - self.first_epoch.0) * self.sampler.windows_per_epoch() + window
    }

    /// The number of the window `window` of the course in its epoch.
    pub(crate) fn window_in_epoch(&self, epoch: Epoch, window: u64) -> u64 {
        if self.sampler.is_resident() { 0 } else { window - self.window(epoch, 0) }
    }

    /// Returns the rows `rows` of an epoch, with windows counted over the course.
    pub(super) fn rows(&self, epoch: Epoch, rows: Range<u64>) -> impl Iterator<Item = RowRef> {
        let rows = self.sampler.rows(epoch, rows);
        rows.into_iter().map(move |row| RowRef { window: self.window(epoch, row.window), ..row })
    }

    /// The stretch that follows after `epochs` of this one.
    pub(super) fn then(&self, epochs: u64, edition: Arc<SplitSnapshot>, sampler: Sampler) -> Self {
        Self {
            edition,
            sampler,
            first_epoch: Epoch(self.first_epoch.0 + epochs),
            first_row: self.first_row + epochs * self.sampler.rows_per_epoch(),
            first_window: self.first_window + epochs * self.sampler.windows_per_epoch(),
            part_of_epoch: None,
        }
    }

    /// A window of the streamed epoch 0, behind `before`, and as many passes over the data after it.
    pub(super) fn part(before: Option<&Self>, passes: f64, edition: Arc<SplitSnapshot>, sampler: Sampler) -> Self {
        let begins = before.and_then(|before| before.part_of_epoch.as_ref()).map_or(0.0, |part| part.end);
        Self {
            edition,
            sampler,
            first_epoch: Epoch(0),
            first_row: before.map_or(0, |before| before.first_row + before.sampler.rows_per_epoch()),
            first_window: before.map_or(0, |before| before.first_window + 1),
            part_of_epoch: Some(begins..passes),
        }
    }
}
