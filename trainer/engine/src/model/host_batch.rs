//! Micro-batch on the host, with its counts.
//!
//! Counts determine the divisors of loss sums before any kernel runs. Each column is scanned once, when the batch
//! arrives; later reads use the stored counts. A view that a generator makes has the counts and columns of the
//! generator's input view: only its ids differ, and those are on the device.
//!
//! Rows of a batch of one view are as wide as the longest of them, so that no kernel runs over shared padding.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use schemas::columns::{ATTENTION_MASK, IGNORE, INPUT_IDS, LABELS};
use schemas::ordinal::BatchIndex;
use schemas::{Batch, BatchError, Column, Element, Grid};

use crate::device::tensors::as_i64;
use crate::model::networks::built::Networks;

/// Widths without shared padding are multiples of it, for the matrix units of GPUs.
const WIDTH_STEP: usize = 8;

/// Micro-batch as read by objectives.
#[derive(Debug)]
pub(crate) struct HostBatch<'a> {
    batch: Cow<'a, Batch>,
    networks: &'a Networks,
    views: BTreeMap<String, HostView>,
    // Data that objectives derived from the batch, by objective.
    kept: RefCell<BTreeMap<String, Rc<dyn Any>>>,
}

/// Counts and positions of one view of the batch.
#[derive(Debug, Default)]
struct HostView {
    /// Number of real tokens in each row, including special tokens.
    valid: Vec<usize>,
    /// Number of positions to predict in each row.
    predicted: Vec<usize>,
    /// Flat positions `row · width + column` to predict, ascending. `targets` has the original id at each.
    positions: Vec<i64>,
    targets: Vec<i64>,
    has_padding: bool,
    // Whether all rows have their padding at the same positions.
    is_even: bool,
    has_labels: bool,
}

impl<'a> HostBatch<'a> {
    /// Scans the views of `batch` for `networks`.
    ///
    /// # Panics
    /// If an id lies outside the vocabulary: it would index a row of some other table.
    pub(crate) fn new(batch: &'a Batch, networks: &'a Networks) -> Result<Self, BatchError> {
        let batch = without_shared_padding(batch)?;
        let mut views = BTreeMap::new();
        for name in batch.names().filter_map(|name| Some(name.rsplit_once('.')?.0)) {
            if !views.contains_key(name) {
                views.insert(name.to_owned(), HostView::scan(&batch, name, networks.vocab_ids())?);
            }
        }
        Ok(Self { batch, networks, views, kept: RefCell::default() })
    }

    /// Returns the position of the batch in the stream.
    #[must_use]
    pub(crate) fn index(&self) -> BatchIndex {
        self.batch.index()
    }

    /// Returns the number of rows.
    #[must_use]
    pub(crate) fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// Returns the rows of a view that have tokens. Rows without tokens are excluded from the stream and do not count.
    #[must_use]
    pub(crate) fn rows_with_tokens(&self, view: &str) -> Vec<i64> {
        let valid = self.view(view).valid.iter().zip(0..);
        valid.filter(|(tokens, _)| **tokens > 0).map(|(_, row)| row).collect()
    }

    /// Returns whether the view has rows without tokens (excluded rows).
    pub(crate) fn has_gaps(&self, view: &str) -> bool {
        self.view(view).valid.contains(&0)
    }

    /// Returns whether the row has no tokens (an excluded row).
    pub(crate) fn is_gap(&self, view: &str, row: usize) -> bool {
        self.view(view).valid[row] == 0
    }

    /// Returns the networks of the run.
    #[must_use]
    pub(crate) fn networks(&self) -> &'a Networks {
        self.networks
    }

    /// Returns the number of positions of a view to predict; 0 if it has no labels.
    #[must_use]
    pub(crate) fn predicted(&self, view: &str) -> usize {
        self.view(view).positions.len()
    }

    /// Returns the number of positions to predict for each row that has any.
    pub(crate) fn predicted_per_row(&self, view: &str) -> impl Iterator<Item = usize> {
        self.view(view).predicted.iter().copied().filter(|&count| count > 0)
    }

    /// Returns the number of real tokens of a view, including special tokens.
    #[must_use]
    pub(crate) fn valid(&self, view: &str) -> usize {
        self.view(view).valid.iter().sum()
    }

    /// Returns the values of a column. The plan has checked that it exists.
    ///
    /// # Panics
    /// If the column does not exist or holds another type.
    #[must_use]
    pub(crate) fn column<T: Element>(&self, view: &str, column: Column<T>) -> Grid<'_, T> {
        let found = self.batch.column(self.networks.stored_view(view), column);
        found.unwrap_or_else(|error| panic!("{error}; the plan should have rejected the column"))
    }

    /// Returns the values of a column that is optional in a batch.
    ///
    /// # Panics
    /// If the column holds another type.
    #[must_use]
    pub(crate) fn find<T: Element>(&self, view: &str, column: Column<T>) -> Option<Grid<'_, T>> {
        let found = self.batch.find(self.networks.stored_view(view), column);
        found.unwrap_or_else(|error| panic!("{error}; the plan should have rejected the column"))
    }

    /// Returns the data that `objective` derives from the batch. It is computed once and kept with the batch.
    ///
    /// # Panics
    /// If one objective keeps values of two types.
    pub(crate) fn cached<T: 'static>(&self, objective: &str, make: impl FnOnce() -> T) -> Rc<T> {
        let known = self.kept.borrow().get(objective).cloned();
        let kept = known.unwrap_or_else(|| {
            let made: Rc<dyn Any> = Rc::new(make());
            self.kept.borrow_mut().insert(objective.to_owned(), Rc::clone(&made));
            made
        });
        kept.downcast().unwrap_or_else(|_| panic!("objective `{objective}` keeps values of two types"))
    }

    /// Returns the flat positions of all real tokens of a view.
    pub(crate) fn valid_positions(&self, view: &str) -> Vec<i64> {
        self.positions(view, |_| true)
    }

    /// Returns the flat positions of the real tokens of a view that are not to be predicted.
    pub(crate) fn unmasked_positions(&self, view: &str) -> Vec<i64> {
        let labels = self.column(view, LABELS);
        self.positions(view, |at| labels.values()[at] == IGNORE)
    }

    fn positions(&self, view: &str, wanted: impl Fn(usize) -> bool) -> Vec<i64> {
        let mask = self.find(view, ATTENTION_MASK);
        let cells = self.column(view, INPUT_IDS).values().len();
        let is_valid = |at: usize| mask.as_ref().is_none_or(|mask| mask.values()[at] != 0);
        (0..cells).filter(|&at| is_valid(at) && wanted(at)).map(as_i64).collect()
    }

    /// Returns the flat positions to predict and the original id at each. Returns `None` if the view has no labels.
    pub(crate) fn targets(&self, view: &str) -> Option<(&[i64], &[i64])> {
        let view = self.view(view);
        view.has_labels.then_some((&view.positions, &view.targets))
    }

    /// Returns whether any row contains padding.
    pub(crate) fn has_padding(&self, view: &str) -> bool {
        self.view(view).has_padding
    }

    /// Returns whether all rows have padding at the same positions. Then one row suffices as the attention mask.
    pub(crate) fn is_even(&self, view: &str) -> bool {
        self.view(view).is_even
    }

    fn view(&self, view: &str) -> &HostView {
        let stored = self.networks.stored_view(view);
        self.views.get(stored).unwrap_or_else(|| {
            panic!("batch {} has no view `{stored}`; the plan should have rejected it", self.index())
        })
    }
}

/// Removes the columns at the ends of rows that are padding in all of them. Views of one batch share positions, so only
/// a batch of one view is narrowed.
fn without_shared_padding(batch: &Batch) -> Result<Cow<'_, Batch>, BatchError> {
    let mut views = batch.names().filter_map(|name| Some(name.rsplit_once('.')?.0));
    let Some(view) = views.next().filter(|first| views.all(|view| view == *first)) else {
        return Ok(Cow::Borrowed(batch));
    };
    let Some(mask) = batch.find(view, ATTENTION_MASK)? else { return Ok(Cow::Borrowed(batch)) };
    let tokens = |row| mask.row(row).iter().rposition(|&flag| flag != 0).map_or(0, |last| last + 1);
    let longest = (0..mask.rows()).map(tokens).max().unwrap_or(0);
    let width = longest.max(1).next_multiple_of(WIDTH_STEP);
    Ok(if width < mask.width() { Cow::Owned(batch.narrowed(width)) } else { Cow::Borrowed(batch) })
}

impl HostView {
    fn scan(batch: &Batch, view: &str, vocab_size: u32) -> Result<Self, BatchError> {
        let is_id = |id: i32| u32::try_from(id).is_ok_and(|id| id < vocab_size);
        let refuse = |wrong: i32, what: &str| {
            let place = format!("batch {}, view `{view}`", batch.index());
            panic!("{place}: the {what} {wrong} is outside the vocabulary of {vocab_size}");
        };
        let mut found = Self::default();
        if let Some(ids) = batch.find(view, INPUT_IDS)? {
            if let Some(&wrong) = ids.values().iter().find(|&&id| !is_id(id)) {
                refuse(wrong, "id");
            }
            found.valid = vec![ids.width(); ids.rows()];
        }
        if let Some(mask) = batch.find(view, ATTENTION_MASK)? {
            let rows = (0..mask.rows()).map(|row| mask.row(row).iter().filter(|&&flag| flag != 0).count());
            found.valid = rows.collect();
            found.has_padding = found.valid.iter().any(|&count| count < mask.width());
            found.is_even = (1..mask.rows()).all(|row| mask.row(row) == mask.row(0));
        }
        if let Some(labels) = batch.find(view, LABELS)? {
            if let Some(&wrong) = labels.values().iter().find(|&&label| label != IGNORE && !is_id(label)) {
                refuse(wrong, "label");
            }
            found.has_labels = true;
            let rows = (0..labels.rows()).map(|row| labels.row(row).iter().filter(|&&label| label != IGNORE).count());
            found.predicted = rows.collect();
            let chosen = (0..).zip(labels.values()).filter(|&(_, &label)| label != IGNORE);
            (found.positions, found.targets) = chosen.map(|(at, &id)| (at, i64::from(id))).unzip();
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use schemas::BatchBuilder;
    use tch::Device;
    use trainer_plan::run_weights;

    use super::*;
    use crate::model::parameters::Parameters;
    use crate::objective_instances::build;
    use crate::testing;

    fn networks() -> Networks {
        let plan = testing::plan();
        build(&plan, &Parameters::new(&run_weights::of_run(&plan), plan.seed, Device::Cpu)).0
    }

    #[test]
    fn a_made_view_counts_as_the_view_that_it_fills() {
        let _alone = testing::generator();
        let networks = networks();
        let batch = testing::batch(0);
        let host = HostBatch::new(&batch, &networks).expect("a good batch");
        let counts = |view: &str| (host.predicted(view), host.valid(view));
        assert_eq!(counts("corrupted"), counts("masked"));
        // Rows have 12 columns; three columns of the last row are padding. Every third cell is masked, shifted by one
        // in each row.
        assert_eq!((host.predicted("masked"), host.valid("masked")), (15, 45));
        assert_eq!(host.predicted_per_row("masked").collect::<Vec<_>>(), [4, 4, 4, 3]);
        assert_eq!(host.valid_positions("masked").len(), host.valid("masked"));
        assert_eq!(host.unmasked_positions("corrupted").len(), host.valid("masked") - host.predicted("masked"));
        assert!(host.has_padding("masked") && !host.is_even("masked"), "only the last row is padded");
        let last = batch.slice(testing::ROWS - 1, 1);
        let alone = HostBatch::new(&last, &networks).expect("a good batch");
        assert!(alone.has_padding("masked") && alone.is_even("masked"), "a single row is even");
    }

    #[test]
    fn shared_padding_of_the_only_view_is_removed() {
        let _alone = testing::generator();
        let networks = networks();
        // Two rows of 20 columns, 9 and 3 of them tokens.
        let batch = |views: &[&str]| {
            let mut builder = BatchBuilder::new(BatchIndex(0), 2);
            let mask: Vec<u8> =
                [9, 3].into_iter().flat_map(|tokens| (0..20).map(move |at| u8::from(at < tokens))).collect();
            for view in views {
                builder.push(view, INPUT_IDS, 20, (0..40).collect());
                builder.push(view, ATTENTION_MASK, 20, mask.clone());
            }
            builder.finish()
        };
        let narrow = batch(&["masked"]);
        let host = HostBatch::new(&narrow, &networks).expect("a good batch");
        let ids = host.column("masked", INPUT_IDS);
        assert_eq!((ids.width(), ids.row(1)), (16, &(20..36).collect::<Vec<_>>()[..]));
        assert_eq!((host.valid("masked"), host.valid_positions("masked")[9]), (12, 16));
        let whole = batch(&["masked", "original"]);
        let host = HostBatch::new(&whole, &networks).expect("a good batch");
        assert_eq!(host.column("masked", INPUT_IDS).width(), 20);
    }

    #[test]
    fn objective_data_is_computed_once() {
        let _alone = testing::generator();
        let networks = networks();
        let batch = testing::batch(0);
        let made = Cell::new(0);
        let host = HostBatch::new(&batch, &networks).expect("a good batch");
        for _ in 0..3 {
            let kept = host.cached("tc", || {
                made.set(made.get() + 1);
                7_u8
            });
            assert_eq!(*kept, 7);
        }
        assert_eq!(*host.cached("other", || 8_u8), 8);
        assert_eq!(made.get(), 1);
    }

    #[test]
    #[should_panic(expected = "batch 3, view `masked`: the id 60 is outside the vocabulary of 60")]
    fn an_id_beyond_the_vocabulary_ends_the_run() {
        let _alone = testing::generator();
        let mut builder = BatchBuilder::new(BatchIndex(3), 1);
        builder.push("masked", INPUT_IDS, 2, vec![59, 60]);
        let networks = networks();
        let batch = builder.finish();
        let _ = HostBatch::new(&batch, &networks);
    }
}
