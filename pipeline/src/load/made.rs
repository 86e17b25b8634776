//! A batch and what became of its rows: each is made by itself, and one that panics is made anew.

use std::ops::Range;

use schemas::{Batch, BatchIndex, RowIndex};
use tracing::warn;

use super::left_out::{BadRow, Care, ROW_ATTEMPTS};
use super::{HeldGroups, LoadPlan, documents_of};
use crate::actor::{Stop, caught};
use crate::collate::{Collation, Item};
use crate::course::{Placed, Run};
use crate::error::Result;
use crate::ledger::RowDocuments;
use crate::shard::groups::Groups;

/// A batch, and those of its rows that are padding since they cannot be made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) batch: Batch,
    /// Known to be bad before.
    pub(super) known: Vec<BadRow>,
    /// Found to be bad just now. Nobody may see the batch before they are written down.
    pub(super) found: Vec<BadRow>,
    /// What each row is made of, where somebody counts that.
    pub(super) documents: Vec<RowDocuments>,
}

impl LoadPlan {
    /// The rows `rows` as batch `index`, made by one of so many lanes. What is not prepared yet is waited for until a stop.
    pub(super) fn make(
        &self,
        groups: &Groups,
        index: BatchIndex,
        rows: Range<u64>,
        lane: (usize, usize),
        (care, stop): (&Care, Option<&Stop>),
    ) -> Result<Made> {
        let first_row = RowIndex(rows.start);
        let known = care.bad_rows.as_ref().map_or_else(Vec::new, |bad_rows| bad_rows.within(rows.clone()));
        let runs = self.course.runs(rows.clone(), stop)?;
        let held = self.hold(groups, &runs, lane)?;
        let count = runs.iter().map(|run| run.rows().len()).sum();
        let mut collation = Collation::new(&self.views, &self.vocab, self.seed, count);
        let mut found = Vec::new();
        for (at, (row, placed)) in rows.map(RowIndex).zip(runs.iter().flat_map(Run::rows)).enumerate() {
            let item = self.item(&placed, &held);
            if care.left_out.contains(row) || known.iter().any(|bad| bad.row.row == row) {
                collation.leave_out(at, &item);
            } else if let Err(why) = render(&mut collation, (at, row), &item, care) {
                found.push(self.bad(row, &placed, &held, why, care)?);
                collation.leave_out(at, &item);
            }
        }
        let documents = if care.counts_documents { self.row_documents(&runs, &held, first_row) } else { Vec::new() };
        let mut made = Made { batch: collation.finish(index).starting_at(first_row), known, found, documents };
        for row in &mut made.documents {
            let is_bad = |bad: &BadRow| bad.row.row == row.row;
            row.left_out =
                care.left_out.contains(row.row) || made.known.iter().any(is_bad) || made.found.iter().any(is_bad);
        }
        Ok(made)
    }

    fn row_documents(&self, runs: &[Run], held: &HeldGroups, first: RowIndex) -> Vec<RowDocuments> {
        let placed = runs.iter().flat_map(Run::rows);
        let row = |(row, placed): (u64, Placed<'_>)| {
            let sample = self.item(&placed, held).sample;
            let generation = placed.stretch.edition().generation;
            RowDocuments { row: RowIndex(row), generation, documents: documents_of(&sample), left_out: false }
        };
        (first.0..).zip(placed).map(row).collect()
    }

    /// A row that cannot be made, or the end of a stream that nobody keeps such rows for.
    fn bad(&self, row: RowIndex, placed: &Placed<'_>, held: &HeldGroups, why: String, care: &Care) -> Result<BadRow> {
        let bad = BadRow { row: self.row_facts(row, placed, held), why };
        if care.bad_rows.is_some() {
            return Ok(bad);
        }
        let way_on = "no row is left out of a validation, nor of what is only looked at; leave its document out (`cloze \
                      prepare forget`)";
        Err(bad.refused(way_on.to_owned()))
    }

    /// Writes down what was found, in the order of the stream. Only then may somebody learn from the batch.
    pub(super) fn seal(&self, made: &Made, care: &Care) -> Result<()> {
        let Some(bad_rows) = &care.bad_rows else { return Ok(()) };
        for bad in &made.found {
            let (left_out, allowed) = (bad_rows.count(), self.bad_rows_max);
            if left_out >= allowed {
                let bound = format!("`data.bad_rows_max` lets {allowed} rows be left out, and {left_out} are");
                return Err(bad.refused(self.way_on(bad, &bound)));
            }
            bad_rows.leave_out(bad)?;
        }
        Ok(())
    }

    fn way_on(&self, bad: &BadRow, bound: &str) -> String {
        let batch = bad.row.row.0 / self.rows_per_batch;
        format!(
            "{bound}; raise it to go on without the row, look at its neighbours with `cloze inspect batch {batch}`, or \
             leave its document out (`cloze prepare forget`)"
        )
    }
}

/// Renders a row; after a panic, anew. The message of the last.
fn render(
    collation: &mut Collation<'_>,
    (at, row): (usize, RowIndex),
    item: &Item<'_>,
    care: &Care,
) -> Result<(), String> {
    let mut attempt = 0;
    loop {
        let made = caught(|| {
            if let Some(faults) = &care.faults {
                faults.strike(row, attempt);
            }
            collation.render(at, item);
        });
        let Err(why) = made else { return Ok(()) };
        collation.forget(at);
        attempt += 1;
        if attempt == ROW_ATTEMPTS {
            return Err(why);
        }
        warn!(%row, why, "a row could not be made, and is made anew");
    }
}
