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
use crate::shard::groups::Groups;

impl LoadPlan {
    /// Returns the rows `rows` of the stream. Rows that are not prepared yet are waited for until a stop.
    pub(super) fn row_refs(&self, rows: Range<u64>, stop: Option<&CancelToken>) -> Result<RowRefs> {
        let assigned = self.assignment.assign(rows);
        let (mut of_sources, mut stretches) = (Vec::new(), Vec::new());
        for (source, rows) in self.sources.iter().zip(&assigned.rows) {
            let rows = source.course.rows(rows.clone(), stop, &mut stretches);
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
        Ok(RowRefs { rows: assigned.sources.into_iter().map(next).collect(), stretches })
    }

    /// The groups that the rows need, window by window: all of a window where partners are drawn from it.
    pub(super) fn hold(&self, groups: &Groups, refs: &RowRefs, worker: (usize, usize)) -> Result<HeldGroups> {
        let mut needed: BTreeMap<(usize, u64), (&EpochSpan, BTreeSet<usize>)> = BTreeMap::new();
        for row in &refs.rows {
            let new = || (refs.stretch(row), BTreeSet::new());
            let (stretch, blocks) = needed.entry((row.source, row.window)).or_insert_with(new);
            if self.pairs && blocks.is_empty() {
                let window = stretch.window_in_epoch(row.epoch, row.window);
                blocks.extend(stretch.sampler().window(row.epoch, window));
            }
            blocks.insert(row.block);
        }
        let mut held = HeldGroups::default();
        for ((source, window), (stretch, blocks)) in needed {
            let blocks: Vec<_> = blocks.into_iter().map(|block| (block, stretch.sampler().blocks()[block])).collect();
            let found = groups.get(source, &stretch.edition().split, window, &blocks, worker)?;
            for (block, group) in found {
                held.insert(source, window, block, group);
            }
        }
        Ok(held)
    }

    /// Frees the windows of each source that no row from `row` on is of.
    pub(super) fn release_before(&self, groups: &Groups, row: u64) {
        for (source, (of, before)) in self.sources.iter().zip(self.assignment.before(row)).enumerate() {
            // Where what comes next is not decided or not prepared yet, no worker has come to it either.
            if let Some(window) = of.course.window(before) {
                groups.release_before(source, window);
            }
        }
    }

    /// The source of each of the rows `rows`: its place among [`source_names`](Self::source_names), 0 where there are none.
    #[must_use]
    pub fn sources_of(&self, rows: Range<u64>) -> Vec<usize> {
        self.assignment.assign(rows).sources.into_iter().map(usize::from).collect()
    }

    /// Number of passes over the data in the first `rows` rows of the stream; of a mixture, over all its sources together.
    ///
    /// # Errors
    /// If the dataset version of an epoch is not told, or can no longer be read.
    pub fn epochs(&self, rows: RowIndex) -> Result<f64> {
        let before = self.assignment.before(rows.0);
        if let ([source], [rows]) = (&self.sources[..], &before[..]) {
            return source.course.epochs(*rows);
        }
        let (mut seen, mut all) = (0.0, 0.0);
        for (source, rows) in self.sources.iter().zip(before) {
            let of_epoch = source.course.first().sampler().rows_per_epoch() as f64;
            seen += source.course.epochs(rows)? * of_epoch;
            all += of_epoch;
        }
        Ok(seen / all)
    }

    /// Number of passes over each source of a mixture in the first `rows` rows of the stream; nothing where one folder is
    /// all there is.
    ///
    /// # Errors
    /// As [`epochs`](Self::epochs).
    pub fn epochs_by_source(&self, rows: RowIndex) -> Result<BTreeMap<String, f64>> {
        let before = self.assignment.before(rows.0);
        let named =
            self.sources.iter().zip(before).filter_map(|(source, rows)| Some((source.name.clone()?, source, rows)));
        named.map(|(name, source, rows)| Ok((name, source.course.epochs(rows)?))).collect()
    }

    /// The same over the data that the stream begins with, whatever later epochs are over: nothing is decided by it.
    #[must_use]
    pub fn planned_epochs(&self, rows: RowIndex) -> BTreeMap<String, f64> {
        let before = self.assignment.before(rows.0);
        let named = self.sources.iter().zip(before).filter_map(|(source, rows)| {
            let per_epoch = source.course.first().sampler().rows_per_epoch();
            Some((source.name.clone()?, rows as f64 / per_epoch as f64))
        });
        named.collect()
    }

    /// The dataset version that a row is of, of the folder of its source.
    ///
    /// # Errors
    /// If it is not told, or can no longer be read.
    pub fn dataset_version(&self, row: RowIndex) -> Result<DatasetVersion> {
        let assigned = self.assignment.assign(row.0..row.0 + 1);
        let source = usize::from(assigned.sources[0]);
        self.sources[source].course.dataset_version(assigned.rows[source].start)
    }

    /// Behind the last row of which it is decided what it is made of. None if all are, forever.
    ///
    /// # Errors
    /// If the dataset version of an epoch is not told, or can no longer be read.
    pub fn rows_decided(&self) -> Result<Option<RowIndex>> {
        let mut first: Option<u64> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let decided = source.course.rows_decided()?.and_then(|row| self.assignment.row_of(index, row));
            first = first.into_iter().chain(decided).min();
        }
        Ok(first.map(RowIndex))
    }
}
