//! Prepared folders of a stream, one or the sources of a mixture: their rows, decoded groups, epochs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use runtime::CancelToken;
use schemas::{DatasetVersion, RowIndex};

use super::LoadPlan;
use super::source::{HeldGroups, RowRefs};
use crate::epoch_plan::EpochSpan;
use crate::error::{Error, Result};
use crate::sampler::RowRef;
use crate::shard::groups::{Groups, WorkerIndex};

impl LoadPlan {
    /// Returns the rows `rows` of the stream. Waits for rows that are not prepared yet until a stop.
    pub(super) fn row_refs(&self, rows: Range<u64>, stop: Option<&CancelToken>) -> Result<RowRefs> {
        let assigned = self.assignment.assign(rows);
        let mut of_sources = Vec::new();
        let mut spans = Vec::new();
        for (source, rows) in self.sources.iter().zip(&assigned.rows) {
            let rows = source.epoch_plan.rows(rows.clone(), stop, &mut spans);
            // A failure over one of several folders names the folder.
            let rows = rows.map_err(|error| match (&source.name, error) {
                (Some(name), Error::Config(message)) => Error::Config(format!("source `{name}`: {message}")),
                (_, error) => error,
            });
            of_sources.push(rows?.into_iter());
        }
        let next = |source: u16| {
            let source = usize::from(source);
            let row = of_sources[source].next().expect("a source gives as many rows as are assigned to it");
            RowRef { source, ..row }
        };
        Ok(RowRefs { rows: assigned.sources.into_iter().map(next).collect(), spans })
    }

    /// Returns the groups that the rows need, window by window. If partners are drawn from a window, returns all of its
    /// groups.
    pub(super) fn load_groups(&self, groups: &Groups, refs: &RowRefs, worker: WorkerIndex) -> Result<HeldGroups> {
        let mut needed: BTreeMap<(usize, u64), (&EpochSpan, BTreeSet<usize>)> = BTreeMap::new();
        for row in &refs.rows {
            let new = || (refs.span(row), BTreeSet::new());
            let (span, blocks) = needed.entry((row.source, row.window)).or_insert_with(new);
            if self.pairs && blocks.is_empty() {
                let window = span.window_in_epoch(row.epoch, row.window);
                blocks.extend(span.sampler().window(row.epoch, window));
            }
            blocks.insert(row.block);
        }
        let mut held = HeldGroups::default();
        for ((source, window), (span, blocks)) in needed {
            let blocks: Vec<_> = blocks.into_iter().map(|block| (block, span.sampler().blocks()[block])).collect();
            let found = groups.get(source, &span.snapshot().split, window, &blocks, worker)?;
            for (block, group) in found {
                held.insert(source, window, block, group);
            }
        }
        Ok(held)
    }

    /// Frees the windows of each source that no row from `row` on uses.
    pub(super) fn release_before(&self, groups: &Groups, row: u64) {
        for (source, (of, before)) in self.sources.iter().zip(self.assignment.rows_before(row)).enumerate() {
            // If the next row is not decided or not prepared yet, no worker has reached it.
            if let Some(window) = of.epoch_plan.window(before) {
                groups.release_before(source, window);
            }
        }
    }

    /// Returns the source of each of the rows `rows`, as an index into [`source_names`](Self::source_names). 0 for a
    /// single folder.
    #[must_use]
    pub fn sources_of(&self, rows: Range<u64>) -> Vec<usize> {
        self.assignment.assign(rows).sources.into_iter().map(usize::from).collect()
    }

    /// Returns the number of passes over the data in the first `rows` rows of the stream. For a mixture, over all
    /// sources together.
    ///
    /// # Errors
    /// If the dataset version of an epoch is unknown or can no longer be read.
    pub fn epochs(&self, rows: RowIndex) -> Result<f64> {
        let before = self.assignment.rows_before(rows.0);
        if let ([source], [rows]) = (&self.sources[..], &before[..]) {
            return source.epoch_plan.epochs(*rows);
        }
        let mut seen = 0.0;
        let mut all = 0.0;
        for (source, rows) in self.sources.iter().zip(before) {
            let of_epoch = source.epoch_plan.first().sampler().rows_per_epoch() as f64;
            seen += source.epoch_plan.epochs(rows)? * of_epoch;
            all += of_epoch;
        }
        Ok(seen / all)
    }

    /// Returns the number of passes over each mixture source in the first `rows` rows of the stream. Empty for a single
    /// folder.
    ///
    /// # Errors
    /// As [`epochs`](Self::epochs).
    pub fn epochs_by_source(&self, rows: RowIndex) -> Result<BTreeMap<String, f64>> {
        let before = self.assignment.rows_before(rows.0);
        let named =
            self.sources.iter().zip(before).filter_map(|(source, rows)| Some((source.name.clone()?, source, rows)));
        named.map(|(name, source, rows)| Ok((name, source.epoch_plan.epochs(rows)?))).collect()
    }

    /// Returns the same numbers for the first dataset version in all epochs. Decides nothing.
    #[must_use]
    pub fn planned_epochs(&self, rows: RowIndex) -> BTreeMap<String, f64> {
        let before = self.assignment.rows_before(rows.0);
        let named = self.sources.iter().zip(before).filter_map(|(source, rows)| {
            let per_epoch = source.epoch_plan.first().sampler().rows_per_epoch();
            Some((source.name.clone()?, rows as f64 / per_epoch as f64))
        });
        named.collect()
    }

    /// Returns the dataset version of a row in the folder of its source.
    ///
    /// # Errors
    /// If it is unknown or can no longer be read.
    pub fn dataset_version(&self, row: RowIndex) -> Result<DatasetVersion> {
        let assigned = self.assignment.assign(row.0..row.0 + 1);
        let source = usize::from(assigned.sources[0]);
        self.sources[source].epoch_plan.dataset_version(assigned.rows[source].start)
    }

    /// Returns the row after the last row whose data is decided. `None` if all rows are decided.
    ///
    /// # Errors
    /// If the dataset version of an epoch is unknown or can no longer be read.
    pub fn rows_decided(&self) -> Result<Option<RowIndex>> {
        let mut first: Option<u64> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let decided = source.epoch_plan.rows_decided()?.and_then(|row| self.assignment.row_of(index, row));
            first = first.into_iter().chain(decided).min();
        }
        Ok(first.map(RowIndex))
    }
}
