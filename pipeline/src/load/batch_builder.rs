//! Construction of a batch row by row; a row that panics is rebuilt.

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
use crate::shard::groups::{Groups, WorkerIndex};
use crate::tokenize::fetch;

/// Batch, and those of its rows that are padding because they cannot be made.
#[derive(Debug)]
pub(super) struct MadeBatch {
    pub(super) batch: Batch,
    /// Bad rows that were recorded before.
    pub(super) known: Vec<BadRow>,
    /// New bad rows. They must be recorded before the batch is handed out.
    pub(super) found: Vec<BadRow>,
    /// Documents of each row, if they are counted.
    pub(super) documents: Vec<RowDocuments>,
}

impl LoadPlan {
    /// Makes the rows `rows` as batch `index` on a worker. Waits for rows that are not prepared yet
    /// until a stop.
    pub(super) fn make(
        &self,
        groups: &Groups,
        index: BatchIndex,
        rows: Range<u64>,
        worker: WorkerIndex,
        policy: &RowPolicy,
        stop: Option<&CancelToken>,
    ) -> Result<MadeBatch> {
        let first_row = RowIndex(rows.start);
        let known = policy.bad_rows.as_ref().map_or_else(Vec::new, |bad_rows| bad_rows.in_range(rows.clone()));
        let refs = self.row_refs(rows.clone(), stop)?;
        let held = self.load_groups(groups, &refs, worker)?;
        let mut collation = Collation::new(&self.views, &self.vocab, refs.rows.len());
        let mut found = Vec::new();
        let rendering = trace_span!(target: SPANS, "render").entered();
        let items = refs.rows.iter().map(|row| (row, self.item(row, &refs, &held)));
        let mut items = items.peekable();
        for (at, number) in rows.map(RowIndex).enumerate() {
            let (row, item) = items.next().expect("a row for each number");
            // Rows lie anywhere in the window: prefetch the next one from memory while this one is rendered.
            if let Some((_, next)) = items.peek() {
                fetch_ids(&next.sample);
            }
            if policy.excluded.contains(number) || known.iter().any(|bad| bad.row.row == number) {
                collation.leave_out(at, &item);
            } else if let Err(why) = render(&mut collation, at, number, &item, policy) {
                let row = self.row_facts(number, row, &refs, &held);
                found.push(Self::bad(BadRow { row, why }, policy)?);
                collation.leave_out(at, &item);
            }
        }
        drop(rendering);
        let documents = if policy.counts_documents { self.row_documents(&refs, &held, first_row) } else { Vec::new() };
        let mut made = MadeBatch { batch: collation.finish(index).starting_at(first_row), known, found, documents };
        for row in &mut made.documents {
            let is_bad = |bad: &BadRow| bad.row.row == row.row;
            row.bad =
                policy.excluded.contains(row.row) || made.known.iter().any(is_bad) || made.found.iter().any(is_bad);
        }
        Ok(made)
    }

    fn row_documents(&self, refs: &RowRefs, held: &HeldGroups, first: RowIndex) -> Vec<RowDocuments> {
        let names: Vec<Arc<str>> =
            self.sources.iter().map(|source| source.name.as_deref().unwrap_or_default().into()).collect();
        let documents = |(number, row): (u64, &RowRef)| RowDocuments {
            row: RowIndex(number),
            of: Arc::clone(&names[row.source]),
            dataset_version: refs.span(row).snapshot().dataset_version,
            documents: documents_of(&self.item(row, refs, held).sample),
            bad: false,
        };
        (first.0..).zip(&refs.rows).map(documents).collect()
    }

    /// Returns a bad row, or the error that ends a stream without a list of bad rows.
    fn bad(bad: BadRow, policy: &RowPolicy) -> Result<BadRow> {
        if policy.bad_rows.is_some() {
            return Ok(bad);
        }
        let fix = "validation and inspection do not replace bad rows by padding; remove its document (`cloze \
                      prepare forget`)";
        Err(bad.refused(fix.to_owned()))
    }

    /// Records new bad rows in the order of the stream. Only then may the batch be used.
    pub(super) fn record_bad_rows(&self, made: &MadeBatch, policy: &RowPolicy) -> Result<()> {
        let Some(bad_rows) = &policy.bad_rows else { return Ok(()) };
        for bad in &made.found {
            bad.check_limit(self.max_bad_rows, bad_rows.count(), self.rows_per_batch)?;
            bad_rows.leave_out(bad)?;
        }
        Ok(())
    }
}

/// Minimum number of tokens in a cache line.
const LINE_TOKENS: usize = 16;

/// Prefetches a sample's ids.
fn fetch_ids(sample: &Sample<'_>) {
    match sample.input_ids {
        TokenIds::U16(ids) => (0..ids.len()).step_by(2 * LINE_TOKENS).for_each(|at| fetch(ids, at)),
        TokenIds::U32(ids) => (0..ids.len()).step_by(LINE_TOKENS).for_each(|at| fetch(ids, at)),
    }
}

/// Renders a row and retries after a panic. Returns the message of the last panic.
fn render(
    collation: &mut Collation<'_>,
    at: usize,
    row: RowIndex,
    item: &Item<'_>,
    policy: &RowPolicy,
) -> Result<(), String> {
    let mut attempt = 0;
    loop {
        let made = catch_panic(|| {
            if let Some(faults) = &policy.faults {
                faults.inject(row, attempt);
            }
            collation.render(at, item);
        });
        let Err(why) = made else { return Ok(()) };
        collation.discard_row(at);
        attempt += 1;
        if attempt == ROW_ATTEMPTS {
            return Err(why);
        }
        warn!(%row, why, "loader: row failed, retrying");
    }
}
