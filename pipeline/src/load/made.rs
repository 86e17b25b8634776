//! A batch and what became of its rows: each is made by itself, and one that panics is made anew.

use std::ops::Range;
use std::sync::Arc;

use runtime::spans::SPANS;
use runtime::{CancelToken, catch_panic};
use schemas::{Batch, BatchIndex, RowIndex, Sample, TokenIds};
use tracing::{trace_span, warn};

use super::left_out::{BadRow, Care, ROW_ATTEMPTS};
use super::source::{Dealt, HeldGroups};
use super::{LoadPlan, documents_of};
use crate::collate::{Collation, Item};
use crate::course::Placed;
use crate::error::Result;
use crate::ledger::RowDocuments;
use crate::shard::groups::Groups;
use crate::tokenize::fetch;

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
        (care, stop): (&Care, Option<&CancelToken>),
    ) -> Result<Made> {
        let first_row = RowIndex(rows.start);
        let known = care.bad_rows.as_ref().map_or_else(Vec::new, |bad_rows| bad_rows.within(rows.clone()));
        let dealt = self.dealt(rows.clone(), stop)?;
        let held = self.hold(groups, &dealt, lane)?;
        let mut collation = Collation::new(&self.views, &self.vocab, dealt.hand.sources.len());
        let mut found = Vec::new();
        let rendering = trace_span!(target: SPANS, "render").entered();
        let items = dealt.rows().map(|(source, placed)| {
            let item = self.item(&self.sources[source], &placed, &held[source]);
            (source, placed, item)
        });
        let mut items = items.peekable();
        for (at, row) in rows.map(RowIndex).enumerate() {
            let (source, placed, item) = items.next().expect("a row for each number");
            // Rows lie anywhere in the window: the next one comes from memory while this one is made.
            if let Some((.., next)) = items.peek() {
                fetch_ids(&next.sample);
            }
            if care.left_out.contains(row) || known.iter().any(|bad| bad.row.row == row) {
                collation.leave_out(at, &item);
            } else if let Err(why) = render(&mut collation, (at, row), &item, care) {
                found.push(self.bad((row, source), &placed, &held[source], why, care)?);
                collation.leave_out(at, &item);
            }
        }
        drop(rendering);
        let documents = if care.counts_documents { self.row_documents(&dealt, &held, first_row) } else { Vec::new() };
        let mut made = Made { batch: collation.finish(index).starting_at(first_row), known, found, documents };
        for row in &mut made.documents {
            let is_bad = |bad: &BadRow| bad.row.row == row.row;
            row.left_out =
                care.left_out.contains(row.row) || made.known.iter().any(is_bad) || made.found.iter().any(is_bad);
        }
        Ok(made)
    }

    fn row_documents(&self, dealt: &Dealt, held: &[HeldGroups], first: RowIndex) -> Vec<RowDocuments> {
        let names: Vec<Arc<str>> =
            self.sources.iter().map(|source| source.name.as_deref().unwrap_or_default().into()).collect();
        let row = |(row, (source, placed)): (u64, (usize, Placed<'_>))| {
            let sample = self.item(&self.sources[source], &placed, &held[source]).sample;
            let (row, of) = (RowIndex(row), Arc::clone(&names[source]));
            let generation = placed.stretch.edition().generation;
            RowDocuments { row, of, generation, documents: documents_of(&sample), left_out: false }
        };
        (first.0..).zip(dealt.rows()).map(row).collect()
    }

    /// A row that cannot be made, or the end of a stream that nobody keeps such rows for.
    fn bad(
        &self,
        (row, source): (RowIndex, usize),
        placed: &Placed<'_>,
        held: &HeldGroups,
        why: String,
        care: &Care,
    ) -> Result<BadRow> {
        let bad = BadRow { row: self.row_facts(row, &self.sources[source], placed, held), why };
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

/// Tokens of a line of memory, at least.
const LINE_TOKENS: usize = 16;

/// Asks for a sample's ids, for a look at them soon.
fn fetch_ids(sample: &Sample<'_>) {
    match sample.input_ids {
        TokenIds::U16(ids) => (0..ids.len()).step_by(2 * LINE_TOKENS).for_each(|at| fetch(ids, at)),
        TokenIds::U32(ids) => (0..ids.len()).step_by(LINE_TOKENS).for_each(|at| fetch(ids, at)),
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
        warn!(%row, why, "a row could not be made, and is made anew");
    }
}
