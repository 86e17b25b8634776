//! A batch and what became of its rows: each is made by itself, and one that panics is rebuilt.

use std::ops::Range;
use std::sync::Arc;

use runtime::spans::SPANS;
use runtime::{CancelToken, catch_panic};
use schemas::{Batch, BatchIndex, RowIndex, Sample, TokenIds};
use tracing::{trace_span, warn};

use super::bad_rows::{BadRow, ROW_ATTEMPTS, RowPolicy};
use super::source::{HeldGroups, RowRefs};
use super::{LoadPlan, documents_of};
use crate::collate::{Collation, Item};
use crate::error::Result;
use crate::exposure::RowDocuments;
use crate::sampler::RowRef;
use crate::shard::groups::Groups;
use crate::tokenize::fetch;

/// A batch, and those of its rows that are padding since they cannot be made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) batch: Batch,
    /// Known to be bad before.
    pub(super) known: Vec<BadRow>,
    /// Found to be bad now. Nobody may see the batch before they are written down.
    pub(super) found: Vec<BadRow>,
    /// What each row is made of, where somebody counts that.
    pub(super) documents: Vec<RowDocuments>,
}

impl LoadPlan {
    /// The rows `rows` as batch `index`, made by one of so many workers. What is not prepared yet is waited for until a stop.
    pub(super) fn make(
        &self,
        groups: &Groups,
        index: BatchIndex,
        rows: Range<u64>,
        worker: (usize, usize),
        (care, stop): (&RowPolicy, Option<&CancelToken>),
    ) -> Result<Made> {
        let first_row = RowIndex(rows.start);
        let known = care.bad_rows.as_ref().map_or_else(Vec::new, |bad_rows| bad_rows.within(rows.clone()));
        let refs = self.row_refs(rows.clone(), stop)?;
        let held = self.hold(groups, &refs, worker)?;
        let mut collation = Collation::new(&self.views, &self.vocab, refs.rows.len());
        let mut found = Vec::new();
        let rendering = trace_span!(target: SPANS, "render").entered();
        let items = refs.rows.iter().map(|row| (row, self.item(row, &refs, &held)));
        let mut items = items.peekable();
        for (at, number) in rows.map(RowIndex).enumerate() {
            let (row, item) = items.next().expect("a row for each number");
            // Rows lie anywhere in the window: the next one comes from memory while this one is made.
            if let Some((_, next)) = items.peek() {
                fetch_ids(&next.sample);
            }
            if care.left_out.contains(number) || known.iter().any(|bad| bad.row.row == number) {
                collation.leave_out(at, &item);
            } else if let Err(why) = render(&mut collation, (at, number), &item, care) {
                let row = self.row_facts(number, row, &refs, &held);
                found.push(Self::bad(BadRow { row, why }, care)?);
                collation.leave_out(at, &item);
            }
        }
        drop(rendering);
        let documents = if care.counts_documents { self.row_documents(&refs, &held, first_row) } else { Vec::new() };
        let mut made = Made { batch: collation.finish(index).starting_at(first_row), known, found, documents };
        for row in &mut made.documents {
            let is_bad = |bad: &BadRow| bad.row.row == row.row;
            row.left_out =
                care.left_out.contains(row.row) || made.known.iter().any(is_bad) || made.found.iter().any(is_bad);
        }
        Ok(made)
    }

    fn row_documents(&self, refs: &RowRefs, held: &HeldGroups, first: RowIndex) -> Vec<RowDocuments> {
        let names: Vec<Arc<str>> =
            self.sources.iter().map(|source| source.name.as_deref().unwrap_or_default().into()).collect();
        let documents = |(number, row): (u64, &RowRef)| RowDocuments {
            row: RowIndex(number),
            of: Arc::clone(&names[row.source]),
            dataset_version: refs.stretch(row).edition().dataset_version,
            documents: documents_of(&self.item(row, refs, held).sample),
            left_out: false,
        };
        (first.0..).zip(&refs.rows).map(documents).collect()
    }

    /// A row that cannot be made, or the end of a stream that nobody keeps such rows for.
    fn bad(bad: BadRow, care: &RowPolicy) -> Result<BadRow> {
        if care.bad_rows.is_some() {
            return Ok(bad);
        }
        let way_on = "no row is left out of a validation, nor of what is only looked at; leave its document out (`cloze \
                      prepare forget`)";
        Err(bad.refused(way_on.to_owned()))
    }

    /// Writes down what was found, in the order of the stream. Only then may somebody learn from the batch.
    pub(super) fn seal(&self, made: &Made, care: &RowPolicy) -> Result<()> {
        let Some(bad_rows) = &care.bad_rows else { return Ok(()) };
        for bad in &made.found {
            let (left_out, allowed) = (bad_rows.count(), self.max_bad_rows);
            if left_out >= allowed {
                let bound = format!("`data.max_bad_rows` lets {allowed} rows be left out, and {left_out} are");
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

/// Tokens of a line of memory, at least.
const LINE_TOKENS: usize = 16;

/// Asks for a sample's ids, for a look at them soon.
fn fetch_ids(sample: &Sample<'_>) {
    match sample.input_ids {
        TokenIds::U16(ids) => (0..ids.len()).step_by(2 * LINE_TOKENS).for_each(|at| fetch(ids, at)),
        TokenIds::U32(ids) => (0..ids.len()).step_by(LINE_TOKENS).for_each(|at| fetch(ids, at)),
    }
}

/// Renders a row; after a panic, again. The message of the last.
fn render(
    collation: &mut Collation<'_>,
    (at, row): (usize, RowIndex),
    item: &Item<'_>,
    care: &RowPolicy,
) -> Result<(), String> {
    let mut attempt = 0;
    loop {
        let made = catch_panic(|| {
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
        warn!(%row, why, "a row could not be made, and is rebuilt");
    }
}
