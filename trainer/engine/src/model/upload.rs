//! Views of a batch as tensors: what is sent of them, and what is made of that on the device.
//!
//! Ids are widened on the host, and lists of positions are the host's, which knows their length without asking the
//! device.

use schemas::Column;
use schemas::columns::{ATTENTION_MASK, DRAWS, INPUT_IDS, TOKEN_TYPES};
use tch::Tensor;
use trainer_plan::encoder::Attend;

use crate::model::document_attention::Packed;
use crate::model::encoder::{Documents, Input};
use crate::model::host_batch::HostBatch;
use crate::model::staging_buffer::{DeviceArrays, Staging};

/// Names next to those of columns.
const POSITIONS: &str = "positions";
const TARGETS: &str = "targets";
/// What attention may look at, where that is not what is valid.
const ATTENDED: &str = "attended";
const DOCUMENTS: &str = "documents";
const PLACES: &str = "places";

/// The positions of a view that the model must predict.
#[derive(Debug)]
pub(crate) struct Predicted {
    /// Flat positions `row · width + column`, ascending, int64.
    pub positions_n: Tensor,
    /// The original id at each, int64.
    pub targets_n: Tensor,
    /// How many.
    pub count: usize,
}

/// One view of a batch on the device.
#[derive(Debug)]
pub(crate) struct UploadedView {
    /// Ids fed to the model, int64, `[rows, width]`.
    pub ids_bt: Tensor,
    /// True on real tokens, `[rows, width]`; `None` where all are.
    pub valid_bt: Option<Tensor>,
    /// The same for attention, `[1, width]` where all rows are equally long.
    attended_bt: Option<Tensor>,
    /// Segments, int64, `[rows, width]`; `None` where rows are single segments.
    pub token_types_bt: Option<Tensor>,
    /// Where the view has labels.
    pub predicted: Option<Predicted>,
    // Where documents share rows and must not see each other: which of its row, and the place in it, int64.
    packed: Option<[Tensor; 2]>,
}

impl UploadedView {
    /// Packs what every view may have.
    pub(crate) fn send(batch: &HostBatch<'_>, view: &str, freight: &mut Staging) {
        let ids = batch.column(view, INPUT_IDS);
        let shape = [ids.rows(), ids.width()];
        let check = |found: [usize; 2]| {
            assert!(found == shape, "columns of `{view}` in batch {} differ in shape", batch.index());
        };
        freight.add(view, INPUT_IDS.spec().name, &shape, ids.values().iter().map(|&id| i64::from(id)));
        if let Some(mask) = batch.find(view, ATTENTION_MASK).filter(|_| batch.has_padding(view)) {
            check([mask.rows(), mask.width()]);
            freight.add(view, ATTENTION_MASK.spec().name, &shape, mask.values().iter().map(|&flag| flag != 0));
            if batch.has_gaps(view) {
                // A softmax over nothing is not a number: a row without tokens looks at its first padding.
                let is_seen = |(at, &flag): (usize, &u8)| {
                    flag != 0 || (at % mask.width() == 0 && batch.is_gap(view, at / mask.width()))
                };
                freight.add(view, ATTENDED, &shape, mask.values().iter().enumerate().map(is_seen));
            }
        }
        if let Some(types) = batch.find(view, TOKEN_TYPES) {
            check([types.rows(), types.width()]);
            freight.add(view, TOKEN_TYPES.spec().name, &shape, types.values().iter().map(|&of| i64::from(of)));
        }
        let is_by_document = batch.networks().config().attention_scope == Attend::Document;
        if let Some(packed) = is_by_document.then(|| Packed::of(batch, view)).flatten() {
            freight.add(view, DOCUMENTS, &shape, packed.documents);
            freight.add(view, PLACES, &shape, packed.places);
        }
        if let Some((positions, targets)) = batch.targets(view) {
            freight.add_list(view, POSITIONS, positions);
            freight.add_list(view, TARGETS, targets);
        }
    }

    /// What was sent.
    pub(crate) fn of(batch: &HostBatch<'_>, view: &str, arrived: &DeviceArrays) -> Self {
        let valid_bt = arrived.find(view, ATTENTION_MASK.spec().name);
        let attended = |valid: &Tensor| if batch.is_even(view) { valid.narrow(0, 0, 1) } else { valid.shallow_clone() };
        let predicted = arrived.find(view, POSITIONS).map(|positions_n| {
            let targets_n = arrived.get(view, TARGETS);
            Predicted { count: batch.predicted(view), positions_n, targets_n }
        });
        Self {
            ids_bt: arrived.get(view, INPUT_IDS.spec().name),
            attended_bt: arrived.find(view, ATTENDED).as_ref().or(valid_bt.as_ref()).map(attended),
            valid_bt,
            token_types_bt: arrived.find(view, TOKEN_TYPES.spec().name),
            packed: arrived.find(view, DOCUMENTS).map(|documents_bt| [documents_bt, arrived.get(view, PLACES)]),
            predicted,
        }
    }

    /// What an encoder reads.
    #[must_use]
    pub(crate) fn input(&self) -> Input<'_> {
        Input {
            ids_bt: &self.ids_bt,
            token_types_bt: self.token_types_bt.as_ref(),
            valid_bt: self.attended_bt.as_ref(),
            packed: self.packed.as_ref().map(|[documents_bt, places_bt]| Documents { documents_bt, places_bt }),
        }
    }

    /// The same rows with other ids at the positions to predict, `[n]`.
    ///
    /// # Panics
    /// If the view has no labels.
    #[must_use]
    pub(crate) fn filled_with(&self, ids_n: &Tensor) -> Self {
        let predicted = self.predicted.as_ref().expect("only a view with labels can be filled");
        Self {
            ids_bt: self.with(ids_n),
            valid_bt: self.valid_bt.as_ref().map(Tensor::shallow_clone),
            attended_bt: self.attended_bt.as_ref().map(Tensor::shallow_clone),
            token_types_bt: self.token_types_bt.as_ref().map(Tensor::shallow_clone),
            packed: self.packed.as_ref().map(|packed| packed.each_ref().map(Tensor::shallow_clone)),
            predicted: Some(Predicted {
                positions_n: predicted.positions_n.shallow_clone(),
                targets_n: predicted.targets_n.shallow_clone(),
                count: predicted.count,
            }),
        }
    }

    /// Ids with `values_n` at the positions to predict.
    fn with(&self, values_n: &Tensor) -> Tensor {
        let Some(predicted) = &self.predicted else { return self.ids_bt.shallow_clone() };
        let size = self.ids_bt.size();
        self.ids_bt.reshape([-1]).scatter(0, &predicted.positions_n, values_n).view_(size.as_slice())
    }

    /// The original ids of all positions, `[rows, width]`.
    pub(crate) fn originals_bt(&self) -> Tensor {
        self.predicted.as_ref().map_or_else(|| self.ids_bt.shallow_clone(), |predicted| self.with(&predicted.targets_n))
    }

    /// True where an id is not the original one, `[rows, width]`.
    pub(crate) fn replaced_bt(&self) -> Tensor {
        self.ids_bt.ne_tensor(&self.originals_bt())
    }
}

/// Packs a column of small numbers, to be read as int64, `[rows, width]`.
pub(crate) fn send_column<T: schemas::Element + Into<i64>>(
    batch: &HostBatch<'_>,
    view: &str,
    column: Column<T>,
    freight: &mut Staging,
) {
    let grid = batch.column(view, column);
    freight.add(
        view,
        column.spec().name,
        &[grid.rows(), grid.width()],
        grid.values().iter().map(|&value| value.into()),
    );
}

/// Packs one number in (0, 1) for each position to predict, `[n]`, from the bits that the view's rows carry.
pub(crate) fn send_draws(batch: &HostBatch<'_>, view: &str, freight: &mut Staging) {
    let bits = batch.column(view, DRAWS);
    let (positions, _) = batch.targets(view).expect("the plan checked that a mask is filled");
    let at = |&position: &i64| open_unit(bits.values()[usize::try_from(position).expect("not negative")]);
    freight.add(view, DRAWS.spec().name, &[positions.len()], positions.iter().map(at));
}

/// The upper 23 bits, and a half, as a share: every value is exact, and none is 0 or 1.
#[expect(clippy::cast_precision_loss, reason = "24 bits fit the mantissa")]
fn open_unit(bits: i32) -> f32 {
    (((bits.cast_unsigned() >> 9) << 1) | 1) as f32 / 16_777_216.0
}
