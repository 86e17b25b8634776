//! Synthetic batches: of the same shapes as those of a run, filled with generated ids.
//!
//! The device does the same work for them. The distribution of ids in a corpus has no effect on its speed.

use pipeline::load::ViewFacts;
use schemas::column::{Column, ColumnSpec, Element, ElementType};
use schemas::columns::{
    ATTENTION_MASK, DOCUMENT, DRAWS, IGNORE, INPUT_IDS, IS_RANDOM, LABELS, ORIGIN, POSITIVES, TOKEN_TYPES,
};
use schemas::{Batch, BatchBuilder, BatchIndex};
use trainer_plan::TrainPlan;

/// First id of a word. Ids below it are special or unused.
const FIRST_WORD: u32 = 256;

/// Number of padding columns at the end of a row that is not full: as many as a crop of nine tenths has at 512.
const PADDING: usize = 3;

/// Period of the predicted positions. Three of twenty positions are predicted.
const PERIOD: usize = 20;
const PREDICTED: [usize; 3] = [3, 9, 16];

/// Makes micro-batch `index` with all columns of all views.
pub(super) fn batch(plan: &TrainPlan, views: &[ViewFacts], fills_rows: bool, index: u64) -> Batch {
    let rows = usize::try_from(plan.train.micro_batch_size).expect("rows fit a memory");
    let mut builder = BatchBuilder::new(BatchIndex(index), rows);
    let widest = views.iter().map(|view| view.width).max().unwrap_or(0);
    for view in views {
        let is_full = fills_rows && view.width == widest;
        let made = SyntheticView { plan, rows, view, real: view.width - if is_full { 0 } else { PADDING }, index };
        for spec in &view.columns {
            made.push(&mut builder, *spec);
        }
    }
    builder.finish()
}

/// View of a batch that is being made.
struct SyntheticView<'a> {
    plan: &'a TrainPlan,
    rows: usize,
    view: &'a ViewFacts,
    /// Number of columns of a row without padding.
    real: usize,
    index: u64,
}

impl SyntheticView<'_> {
    fn push(&self, builder: &mut BatchBuilder, spec: ColumnSpec) {
        let special = self.plan.vocab.special;
        let id = |id: u32| i32::try_from(id).expect("ids are small");
        let pad = id(special.pad);
        let cls = id(special.cls);
        let mask = id(special.mask);
        let has_labels = self.view.columns.contains(&LABELS.spec());
        let predicted = |at: usize| has_labels && at > 0 && PREDICTED.contains(&(at % PERIOD));
        let some = |at: usize| u8::from(at % 4 == 1);
        match spec {
            it if it == INPUT_IDS.spec() => self.fill(builder, INPUT_IDS, pad, |row, at| match at {
                0 => cls,
                at if predicted(at) => mask,
                at => self.word(row, at),
            }),
            it if it == LABELS.spec() => {
                self.fill(builder, LABELS, IGNORE, |row, at| if predicted(at) { self.word(row, at) } else { IGNORE });
            }
            it if it == DRAWS.spec() => {
                self.fill(builder, DRAWS, 0, |row, at| if predicted(at) { self.bits(row, at) } else { 0 });
            }
            it if it == POSITIVES.spec() => {
                self.fill(builder, POSITIVES, -1, |_, at| to_i16(if at == 0 { 1 } else { at - 1 }));
            }
            // Full rows have no attention mask.
            it if it == ATTENTION_MASK.spec() => {
                if self.real < self.view.width {
                    self.fill(builder, ATTENTION_MASK, 0, |_, _| 1);
                }
            }
            it if it == TOKEN_TYPES.spec() => {
                self.fill(builder, TOKEN_TYPES, 0, |_, at| u8::from(at > self.real / 2));
            }
            it if it == IS_RANDOM.spec() => self.everywhere(builder, IS_RANDOM, |row, _| u8::from(row % 2 == 1)),
            it if it == ORIGIN.spec() => self.fill(builder, ORIGIN, -1, |_, at| to_i16(at) - 1),
            // Two documents in a row, so that attention within documents does its work.
            it if it == DOCUMENT.spec() => {
                self.fill(builder, DOCUMENT, -1, |row, at| 2 * i32::from(row % 2 == 1) + i32::from(at > self.real / 2));
            }
            // Any other column: a quarter of the values is 1.
            ColumnSpec { name, element: ElementType::I32 } => {
                self.fill(builder, Column::<i32>::new(name), 0, |_, at| some(at).into());
            }
            ColumnSpec { name, element: ElementType::I16 } => {
                self.fill(builder, Column::<i16>::new(name), 0, |_, at| some(at).into());
            }
            ColumnSpec { name, element: ElementType::U8 } => {
                self.fill(builder, Column::<u8>::new(name), 0, |_, at| some(at));
            }
        }
    }

    /// Pushes a column that is `padding` at padding positions.
    fn fill<T: Element>(
        &self,
        builder: &mut BatchBuilder,
        column: Column<T>,
        padding: T,
        cell: impl Fn(usize, usize) -> T,
    ) {
        self.everywhere(builder, column, |row, at| if at < self.real { cell(row, at) } else { padding });
    }

    fn everywhere<T: Element>(&self, builder: &mut BatchBuilder, column: Column<T>, cell: impl Fn(usize, usize) -> T) {
        let width = self.view.width;
        let values = (0..self.rows * width).map(|place| cell(place / width, place % width)).collect();
        builder.push(&self.view.name, column, width, values);
    }

    /// Returns a word id. More than half of the words are in the first sixteenth of the vocabulary.
    fn word(&self, row: usize, at: usize) -> i32 {
        let bits = self.bits(row, at).cast_unsigned();
        let first = FIRST_WORD.min(self.plan.vocab.size - 1);
        let words = self.plan.vocab.size - first;
        let share = if bits.is_multiple_of(2) { words.div_ceil(16) } else { words };
        i32::try_from(first + (bits >> 1) % share).expect("below the vocabulary's size")
    }

    /// Returns pseudo-random bits. They depend on the batch, the row and the position, but not on the view.
    fn bits(&self, row: usize, at: usize) -> i32 {
        let place = (self.index << 40) ^ ((row as u64) << 20) ^ at as u64;
        let mixed = (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let [a, b, c, d, ..] = mixed.to_be_bytes();
        i32::from_be_bytes([a, b, c, d])
    }
}

fn to_i16(at: usize) -> i16 {
    i16::try_from(at).expect("rows are narrow")
}
