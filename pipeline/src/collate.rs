//! Conversion of rows to columns: allocates the columns that are read and passes each row to each view.

use std::collections::BTreeSet;
use std::ops::Range;

use schemas::columns::{ATTENTION_MASK, DOCUMENT, INPUT_IDS, IS_RANDOM, ORIGIN, TOKEN_TYPES};
use schemas::manifest::Frame;
use schemas::{Batch, BatchBuilder, BatchIndex, ColumnSpec, Epoch, Sample, SampleAddress, Vocab};

use crate::rng::{Keys, RowAddress};
use crate::row::{Cells, Row, RowMut, Values};
use crate::views::{AnyView, ViewName, ViewSource};

/// View with its place in the plan.
#[derive(Clone, Debug)]
pub struct PlannedView {
    /// Name of the view.
    pub name: ViewName,
    /// Configuration of the view.
    pub view: AnyView,
    /// Place of the view that it edits. Always an earlier one.
    pub of: Option<usize>,
    /// Place of its frame. For a frame, its own place.
    pub frame: usize,
    /// Place of the view whose ids it shows: its own, unless it only annotates.
    pub ids: usize,
    /// Columns per row.
    pub width: usize,
    /// Columns of this view that are read, sorted.
    pub wanted: Vec<ColumnSpec>,
}

impl PlannedView {
    /// Whether `column` of this view is read.
    #[must_use]
    pub fn wants(&self, column: ColumnSpec) -> bool {
        self.wanted.contains(&column)
    }

    /// Bytes of one row of its columns.
    #[must_use]
    pub fn bytes_per_row(&self) -> u64 {
        self.wanted.iter().map(|spec| (spec.element.bytes() * self.width) as u64).sum()
    }
}

/// Columns that an edit inherits from its frame, if the frame makes them and they are read.
pub(crate) const INHERITED: [ColumnSpec; 4] = [ORIGIN.spec(), DOCUMENT.spec(), TOKEN_TYPES.spec(), IS_RANDOM.spec()];

/// Returns the columns of a view: those of every frame, those that its frame adds, and its own.
#[must_use]
pub fn columns(view: &AnyView, frame: &AnyView) -> BTreeSet<ColumnSpec> {
    let framed = frame.columns().iter().filter(|spec| INHERITED.contains(spec));
    let every = [INPUT_IDS.spec(), ATTENTION_MASK.spec(), ORIGIN.spec(), DOCUMENT.spec()];
    every.into_iter().chain(framed.copied()).chain(view.columns().iter().copied()).collect()
}

/// Input for one row.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Stored sample or piece of it.
    pub sample: Sample<'a>,
    /// Sample of another document, for views that combine two. `None` if no view does or no partner was found.
    pub partner: Option<Sample<'a>>,
    /// Address of the sample.
    pub index: SampleAddress,
    /// Seed of all random draws for the row: that of the run, or of its source.
    pub seed: u64,
    /// Pass over the data.
    pub epoch: Epoch,
    /// Copy and piece, as one number: `copy · pieces + piece`.
    pub copy: u32,
    /// Number of copies of the row.
    pub copies: u32,
    /// Number of pieces of the sample.
    pub pieces: u32,
}

/// Renders every item by every view. In `views`, each view comes after the one it edits.
#[must_use]
pub fn collate(views: &[PlannedView], vocab: &Vocab, index: BatchIndex, items: &[Item<'_>]) -> Batch {
    let mut collation = Collation::new(views, vocab, items.len());
    for (row, item) in items.iter().enumerate() {
        collation.render(row, item);
    }
    collation.finish(index)
}

/// Batch under construction, row by row, for callers that handle each row separately.
pub(crate) struct Collation<'a> {
    views: &'a [PlannedView],
    vocab: &'a Vocab,
    /// Keys of each source and epoch of the rows. Usually one, at most a few.
    keys: Vec<((u64, Epoch), Vec<Keys>)>,
    drafts: Vec<Draft>,
    rows: usize,
}

impl<'a> Collation<'a> {
    /// Creates a batch of `rows` rows, none of them rendered.
    #[must_use]
    pub(crate) fn new(views: &'a [PlannedView], vocab: &'a Vocab, rows: usize) -> Self {
        let drafts = (0..views.len()).map(|place| Draft::new(views, place, rows)).collect();
        Self { views, vocab, keys: Vec::new(), drafts, rows }
    }

    /// Renders the next row by every view.
    pub(crate) fn render(&mut self, row: usize, item: &Item<'_>) {
        self.render_with(row, item, |_, _| {});
    }

    /// Renders the next row and calls `frame` with each frame before edits read it.
    fn render_with(&mut self, row: usize, item: &Item<'_>, frame: impl Fn(&PlannedView, &mut Draft)) {
        let views = self.views;
        let of = (item.seed, item.epoch);
        let known = self.keys.iter().rposition(|(known, _)| *known == of).unwrap_or_else(|| {
            self.keys.push((of, views.iter().map(|view| Keys::new(item.seed, item.epoch, &view.name)).collect()));
            self.keys.len() - 1
        });
        for (place, keys) in self.keys[known].1.iter().enumerate() {
            let Item { index: sample, copy, copies, pieces, .. } = *item;
            let at = RowAddress { keys, sample, copy, copies, pieces };
            // Copies are made of one row, so they share the random draws of its frame.
            let is_frame = views[place].of.is_none();
            let at = if is_frame { at.shared() } else { at };
            render(views, place, &mut self.drafts, self.vocab, row, item, &at);
            if is_frame {
                frame(&views[place], &mut self.drafts[place]);
            }
        }
    }

    /// Discards all columns of the newest row, complete or partial, so that it can be rendered again.
    pub(crate) fn discard_row(&mut self, row: usize) {
        for (view, draft) in self.views.iter().zip(&mut self.drafts) {
            draft.discard_row(row, view.width);
        }
    }

    /// Fills the next row with padding: frames of a sample without tokens, without special tokens.
    pub(crate) fn leave_out(&mut self, row: usize, item: &Item<'_>) {
        let nothing = Sample { sentence_starts: &[], targets: &[], frame: Frame::ClsSep, ..item.sample.slice(0..0) };
        let pad = self.vocab.special().pad.cast_signed();
        self.render_with(row, &Item { sample: nothing, partner: None, ..*item }, |view, draft| {
            let cells = draft.cells_of(row, view.width);
            draft.ids[cells].fill(pad);
            draft.tokens[row] = 0;
        });
    }

    /// Returns the finished batch.
    ///
    /// # Panics
    /// If a row is missing.
    #[must_use]
    pub(crate) fn finish(self, index: BatchIndex) -> Batch {
        for draft in &self.drafts {
            assert_eq!(draft.tokens.len(), self.rows, "every row is rendered by every view");
        }
        finish(self.views, self.drafts, index, self.rows)
    }
}

/// Columns of one view under construction.
struct Draft {
    /// Ids of all rows. Only of the current row if ids are not read. Empty for a view that only annotates.
    ids: Vec<i32>,
    has_ids: bool,
    keeps_ids: bool,
    /// Number of real tokens of each row.
    tokens: Vec<usize>,
    columns: Vec<Values>,
}

impl Draft {
    fn new(views: &[PlannedView], place: usize, rows: usize) -> Self {
        let view = &views[place];
        let keeps_ids = views.iter().any(|other| other.ids == place && other.wants(INPUT_IDS.spec()));
        let rows_of_ids = match (view.ids == place, keeps_ids) {
            (true, true) => rows,
            (true, false) => 1,
            (false, _) => 0,
        };
        let for_edits = INHERITED
            .into_iter()
            .filter(|&spec| view.of.is_none() && views.iter().any(|other| other.frame == place && other.wants(spec)));
        let is_own = |spec: &ColumnSpec| *spec != INPUT_IDS.spec() && !INHERITED.contains(spec) && view.wants(*spec);
        let own = view.view.columns().iter().copied().filter(is_own);
        let columns = for_edits.chain(own).map(|spec| Values::with_room(spec, rows * view.width)).collect();
        let ids = Vec::with_capacity(rows_of_ids * view.width);
        Self { ids, has_ids: view.ids == place, keeps_ids, tokens: Vec::with_capacity(rows), columns }
    }

    /// Allocates zeroed cells for the next row. Zeroing row by row keeps the row in the cache until it is written.
    fn begin(&mut self, row: usize, width: usize) {
        if self.has_ids {
            let end = self.cells_of(row, width).end;
            self.ids.resize(end.max(self.ids.len()), 0);
        }
        self.columns.iter_mut().for_each(|values| values.grow((row + 1) * width));
    }

    /// Restores the state before the row was rendered.
    fn discard_row(&mut self, row: usize, width: usize) {
        self.tokens.truncate(row);
        self.begin(row, width);
        let cells = self.cells_of(row, width);
        if self.has_ids {
            self.ids[cells].fill(0);
        }
        self.columns.iter_mut().for_each(|values| values.clear(row * width..(row + 1) * width));
    }

    fn cells_of(&self, row: usize, width: usize) -> Range<usize> {
        if self.keeps_ids { row * width..(row + 1) * width } else { 0..width }
    }
}

fn render(
    views: &[PlannedView],
    place: usize,
    drafts: &mut [Draft],
    vocab: &Vocab,
    row: usize,
    item: &Item<'_>,
    at: &RowAddress<'_>,
) {
    let view = &views[place];
    let (earlier, rest) = drafts.split_at_mut(place);
    let draft = &mut rest[0];
    draft.begin(row, view.width);
    let cells_of = draft.cells_of(row, view.width);
    let cells = Cells { columns: &mut draft.columns, row, width: view.width };
    let input_ids = if view.ids == place { &mut draft.ids[cells_of] } else { &mut [] };
    let Some(of) = view.of else {
        let mut target = RowMut { input_ids, tokens: 0, cells };
        let source = match view.view.samples() {
            1 => ViewSource::Sample(&item.sample),
            _ => ViewSource::TwoSamples(&item.sample, item.partner.as_ref()),
        };
        view.view.render(source, vocab, at, &mut target);
        draft.tokens.push(target.tokens);
        return;
    };
    let shown = &earlier[views[of].ids];
    let tokens = earlier[of].tokens[row];
    let source = Row { input_ids: &shown.ids[shown.cells_of(row, view.width)], tokens };
    if view.ids == place {
        input_ids.copy_from_slice(source.input_ids);
    }
    view.view.render(ViewSource::Row(source), vocab, at, &mut RowMut { input_ids, tokens, cells });
    draft.tokens.push(tokens);
}

/// Moves the columns into a batch, view by view: ids, attention mask, the others by name.
fn finish(views: &[PlannedView], mut drafts: Vec<Draft>, index: BatchIndex, rows: usize) -> Batch {
    let mut batch = BatchBuilder::new(index, rows);
    for (place, view) in views.iter().enumerate() {
        let later = &views[place + 1..];
        if view.wants(INPUT_IDS.spec()) {
            let last = !later.iter().any(|other| other.ids == view.ids && other.wants(INPUT_IDS.spec()));
            let ids = &mut drafts[view.ids].ids;
            let ids = if last { std::mem::take(ids) } else { ids.clone() };
            batch.push(&view.name, INPUT_IDS, view.width, ids);
        }
        let full = drafts[place].tokens.iter().all(|&tokens| tokens == view.width);
        if view.wants(ATTENTION_MASK.spec()) && !full {
            batch.push(&view.name, ATTENTION_MASK, view.width, attention_mask(&drafts[place].tokens, view.width));
        }
        for &spec in &view.wanted {
            let inherited = INHERITED.contains(&spec);
            let columns = &mut drafts[if inherited { view.frame } else { place }].columns;
            let last = !inherited || !later.iter().any(|other| other.frame == view.frame && other.wants(spec));
            if let Some(found) = columns.iter().position(|values| values.spec() == spec) {
                let values = if last { columns.swap_remove(found) } else { columns[found].clone() };
                values.push(&mut batch, &view.name, view.width);
            }
        }
    }
    batch.finish()
}

fn attention_mask(tokens: &[usize], width: usize) -> Vec<u8> {
    let mut mask = vec![0; tokens.len() * width];
    for (row, &tokens) in mask.chunks_exact_mut(width).zip(tokens) {
        row[..tokens].fill(1);
    }
    mask
}
