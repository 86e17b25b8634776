//! Rows into columns: allocates what is read and lends each row to each view.

use std::collections::BTreeSet;
use std::ops::Range;

use schemas::columns::{ATTENTION_MASK, DOCUMENT, INPUT_IDS, IS_RANDOM, ORIGIN, TOKEN_TYPES};
use schemas::manifest::Frame;
use schemas::{Batch, BatchBuilder, BatchIndex, ColumnSpec, Epoch, Sample, SampleAddress, Vocab};

use crate::rng::{Keys, RowAddress};
use crate::row::{Cells, Row, RowMut, Values};
use crate::views::{AnyView, ViewName, ViewSource};

/// A view with its place in the plan.
#[derive(Clone, Debug)]
pub struct PlannedView {
    /// Its name.
    pub name: ViewName,
    /// What it does.
    pub view: AnyView,
    /// The place of the view it edits; always an earlier one.
    pub of: Option<usize>,
    /// The place of its frame: itself, for a frame.
    pub frame: usize,
    /// The place of the view whose ids it shows: itself, unless it only annotates.
    pub ids: usize,
    /// Columns per row.
    pub width: usize,
    /// The columns of this view that somebody reads, sorted.
    pub wanted: Vec<ColumnSpec>,
}

impl PlannedView {
    /// Whether somebody reads `column` of this view.
    #[must_use]
    pub fn wants(&self, column: ColumnSpec) -> bool {
        self.wanted.contains(&column)
    }

    /// Bytes of one row of what is made of it.
    #[must_use]
    pub fn bytes_per_row(&self) -> u64 {
        self.wanted.iter().map(|spec| (spec.element.bytes() * self.width) as u64).sum()
    }
}

/// The columns that an edit has from its frame, where the frame makes them and somebody reads them.
pub(crate) const INHERITED: [ColumnSpec; 4] = [ORIGIN.spec(), DOCUMENT.spec(), TOKEN_TYPES.spec(), IS_RANDOM.spec()];

/// The columns that a view has: those of every frame, what its own frame adds, and its own.
#[must_use]
pub fn columns(view: &AnyView, frame: &AnyView) -> BTreeSet<ColumnSpec> {
    let framed = frame.columns().iter().filter(|spec| INHERITED.contains(spec));
    let every = [INPUT_IDS.spec(), ATTENTION_MASK.spec(), ORIGIN.spec(), DOCUMENT.spec()];
    every.into_iter().chain(framed.copied()).chain(view.columns().iter().copied()).collect()
}

/// One row to be rendered.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The stored sample or its piece.
    pub sample: Sample<'a>,
    /// A sample of another document, for the views that are made of two; none if no view is, or none was found.
    pub partner: Option<Sample<'a>>,
    /// Its number.
    pub index: SampleAddress,
    /// The seed of all that is drawn for it: the run's, or that of its source.
    pub seed: u64,
    /// Pass over the data.
    pub epoch: Epoch,
    /// Copy and piece, as one number: `copy · pieces + piece`.
    pub copy: u32,
    /// How many copies there are of the row.
    pub copies: u32,
    /// How many pieces there are of the sample.
    pub pieces: u32,
}

/// Renders every item by every view. `views` are in an order in which none comes before the one it edits.
#[must_use]
pub fn collate(views: &[PlannedView], vocab: &Vocab, index: BatchIndex, items: &[Item<'_>]) -> Batch {
    let mut collation = Collation::new(views, vocab, items.len());
    for (row, item) in items.iter().enumerate() {
        collation.render(row, item);
    }
    collation.finish(index)
}

/// A batch in the making, row by row: for whoever looks after each of them.
pub(crate) struct Collation<'a> {
    views: &'a [PlannedView],
    vocab: &'a Vocab,
    /// Of each source and epoch that rows were of: one, or a few.
    keys: Vec<((u64, Epoch), Vec<Keys>)>,
    drafts: Vec<Draft>,
    rows: usize,
}

impl<'a> Collation<'a> {
    /// A batch of so many rows, none of them rendered.
    #[must_use]
    pub(crate) fn new(views: &'a [PlannedView], vocab: &'a Vocab, rows: usize) -> Self {
        let drafts = (0..views.len()).map(|place| Draft::new(views, place, rows)).collect();
        Self { views, vocab, keys: Vec::new(), drafts, rows }
    }

    /// Renders the next row by every view.
    pub(crate) fn render(&mut self, row: usize, item: &Item<'_>) {
        self.render_with(row, item, |_, _| {});
    }

    /// The same; `frame` hears of each frame before edits see it.
    fn render_with(&mut self, row: usize, item: &Item<'_>, frame: impl Fn(&PlannedView, &mut Draft)) {
        let (views, of) = (self.views, (item.seed, item.epoch));
        let known = self.keys.iter().rposition(|(known, _)| *known == of).unwrap_or_else(|| {
            self.keys.push((of, views.iter().map(|view| Keys::new(item.seed, item.epoch, &view.name)).collect()));
            self.keys.len() - 1
        });
        for (place, keys) in self.keys[known].1.iter().enumerate() {
            let Item { index: sample, copy, copies, pieces, .. } = *item;
            let at = RowAddress { keys, sample, copy, copies, pieces };
            // Copies are copies of one row: what its frame draws, they share.
            let is_frame = views[place].of.is_none();
            let at = if is_frame { at.shared() } else { at };
            render(views, place, &mut self.drafts, self.vocab, (row, item), &at);
            if is_frame {
                frame(&views[place], &mut self.drafts[place]);
            }
        }
    }

    /// Takes back what was written of the newest row, all of it or a part, so that it can be rendered again.
    pub(crate) fn forget(&mut self, row: usize) {
        for (view, draft) in self.views.iter().zip(&mut self.drafts) {
            draft.forget(row, view.width);
        }
    }

    /// Makes padding of the next row: frames are those of a sample without tokens, without what stands around it.
    pub(crate) fn leave_out(&mut self, row: usize, item: &Item<'_>) {
        let nothing = Sample { sentence_starts: &[], frame: Frame::ClsSep, ..item.sample.slice(0..0) };
        let pad = self.vocab.special().pad.cast_signed();
        self.render_with(row, &Item { sample: nothing, partner: None, ..*item }, |view, draft| {
            let cells = draft.cells_of(row, view.width);
            draft.ids[cells].fill(pad);
            draft.tokens[row] = 0;
        });
    }

    /// The batch.
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

/// The columns of one view in the making.
struct Draft {
    /// Ids of all rows, or of the current row only where nobody reads them; empty for a view that only annotates.
    ids: Vec<i32>,
    has_ids: bool,
    keeps_ids: bool,
    /// Real tokens of each row.
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

    /// Makes room for a row that is about to be written. Zeroed row by row, it is still in the cache when it is.
    fn begin(&mut self, row: usize, width: usize) {
        if self.has_ids {
            let end = self.cells_of(row, width).end;
            self.ids.resize(end.max(self.ids.len()), 0);
        }
        self.columns.iter_mut().for_each(|values| values.grow((row + 1) * width));
    }

    /// As if the row had never been rendered.
    fn forget(&mut self, row: usize, width: usize) {
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
    (row, item): (usize, &Item<'_>),
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
