//! Views of a batch as tensors: upload, and derived tensors on the device.
//!
//! The host widens ids to int64 and builds the lists of positions. So it knows their lengths without waiting for the
//! device.

use schemas::Column;
use schemas::columns::{ATTENTION_MASK, DRAWS, INPUT_IDS, TOKEN_TYPES};
use tch::Tensor;
use trainer_plan::encoder::Attend;

use crate::model::document_attention::DocumentPositions;
use crate::model::encoder::{Documents, Input};
use crate::model::host_batch::HostBatch;
use crate::model::staging_buffer::{DeviceArrays, Staging};

/// Array names in addition to those of columns.
const POSITIONS: &str = "positions";
const TARGETS: &str = "targets";
/// Mask of attended positions, if it differs from the mask of real tokens.
const ATTENDED: &str = "attended";
const DOCUMENTS: &str = "documents";
const PLACES: &str = "places";

/// Positions of a view that the model must predict.
#[derive(Debug)]
pub(crate) struct Predicted {
    /// Flat positions `row · width + column`, ascending, int64.
    pub positions_n: Tensor,
    /// Original id at each position, int64.
    pub targets_n: Tensor,
    /// Number of positions.
    pub count: usize,
}

/// View of a batch on the device.
#[derive(Debug)]
pub(crate) struct UploadedView {
    /// Input ids of the model, int64, `[rows, width]`.
    pub ids_bt: Tensor,
    /// True on real tokens, `[rows, width]`; `None` if all tokens are real.
    pub valid_bt: Option<Tensor>,
    /// True on attended positions, `[rows, width]`, or `[1, width]` if all rows are equally long.
    attended_bt: Option<Tensor>,
    /// Segments, int64, `[rows, width]`; `None` if rows are single segments.
    pub token_types_bt: Option<Tensor>,
    /// Positions to predict, if the view has labels.
    pub predicted: Option<Predicted>,
    // Document and position within the document of each token, int64, if attention is limited to documents that share
    // rows.
    packed: Option<[Tensor; 2]>,
}

impl UploadedView {
    /// Packs the arrays that any view can have.
    pub(crate) fn stage(batch: &HostBatch<'_>, view: &str, staging: &mut Staging) {
        let ids = batch.column(view, INPUT_IDS);
        let shape = [ids.rows(), ids.width()];
        let check = |found: [usize; 2]| {
            assert!(found == shape, "columns of `{view}` in batch {} differ in shape", batch.index());
        };
        staging.add(view, INPUT_IDS.spec().name, &shape, ids.values().iter().map(|&id| i64::from(id)));
        if let Some(mask) = batch.find(view, ATTENTION_MASK).filter(|_| batch.has_padding(view)) {
            check([mask.rows(), mask.width()]);
            staging.add(view, ATTENTION_MASK.spec().name, &shape, mask.values().iter().map(|&flag| flag != 0));
            if batch.has_gaps(view) {
                // A softmax over no keys is NaN: a row without tokens attends to its first padding position.
                let is_seen = |(at, &flag): (usize, &u8)| {
                    flag != 0 || (at % mask.width() == 0 && batch.is_gap(view, at / mask.width()))
                };
                staging.add(view, ATTENDED, &shape, mask.values().iter().enumerate().map(is_seen));
            }
        }
        if let Some(types) = batch.find(view, TOKEN_TYPES) {
            check([types.rows(), types.width()]);
            staging.add(view, TOKEN_TYPES.spec().name, &shape, types.values().iter().map(|&of| i64::from(of)));
        }
        let is_by_document = batch.networks().config().attention_scope == Attend::Document;
        if let Some(packed) = is_by_document.then(|| DocumentPositions::new(batch, view)).flatten() {
            staging.add(view, DOCUMENTS, &shape, packed.documents);
            staging.add(view, PLACES, &shape, packed.places);
        }
        if let Some((positions, targets)) = batch.targets(view) {
            staging.add_list(view, POSITIONS, positions);
            staging.add_list(view, TARGETS, targets);
        }
    }

    /// Reads the uploaded view from the arrays on the device.
    pub(crate) fn new(batch: &HostBatch<'_>, view: &str, arrays: &DeviceArrays) -> Self {
        let valid_bt = arrays.find(view, ATTENTION_MASK.spec().name);
        let attended = |valid: &Tensor| if batch.is_even(view) { valid.narrow(0, 0, 1) } else { valid.shallow_clone() };
        let predicted = arrays.find(view, POSITIONS).map(|positions_n| {
            let targets_n = arrays.get(view, TARGETS);
            Predicted { count: batch.predicted(view), positions_n, targets_n }
        });
        Self {
            ids_bt: arrays.get(view, INPUT_IDS.spec().name),
            attended_bt: arrays.find(view, ATTENDED).as_ref().or(valid_bt.as_ref()).map(attended),
            valid_bt,
            token_types_bt: arrays.find(view, TOKEN_TYPES.spec().name),
            packed: arrays.find(view, DOCUMENTS).map(|documents_bt| [documents_bt, arrays.get(view, PLACES)]),
            predicted,
        }
    }

    /// Returns the input of an encoder.
    #[must_use]
    pub(crate) fn input(&self) -> Input<'_> {
        Input {
            ids_bt: &self.ids_bt,
            token_types_bt: self.token_types_bt.as_ref(),
            valid_bt: self.attended_bt.as_ref(),
            packed: self.packed.as_ref().map(|[documents_bt, places_bt]| Documents { documents_bt, places_bt }),
        }
    }

    /// Returns the same view with the ids `[n]` at the positions to predict.
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

    /// Returns the ids with `values_n` at the positions to predict.
    fn with(&self, values_n: &Tensor) -> Tensor {
        let Some(predicted) = &self.predicted else { return self.ids_bt.shallow_clone() };
        let size = self.ids_bt.size();
        self.ids_bt.reshape([-1]).scatter(0, &predicted.positions_n, values_n).view_(size.as_slice())
    }

    /// Returns the original ids of all positions, `[rows, width]`.
    pub(crate) fn originals_bt(&self) -> Tensor {
        self.predicted.as_ref().map_or_else(|| self.ids_bt.shallow_clone(), |predicted| self.with(&predicted.targets_n))
    }

    /// Returns true where an id differs from the original one, `[rows, width]`.
    pub(crate) fn replaced_bt(&self) -> Tensor {
        self.ids_bt.ne_tensor(&self.originals_bt())
    }
}

/// Packs a column of small numbers as int64, `[rows, width]`.
pub(crate) fn send_column<T: schemas::Element + Into<i64>>(
    batch: &HostBatch<'_>,
    view: &str,
    column: Column<T>,
    staging: &mut Staging,
) {
    let grid = batch.column(view, column);
    staging.add(
        view,
        column.spec().name,
        &[grid.rows(), grid.width()],
        grid.values().iter().map(|&value| value.into()),
    );
}

/// Packs one number in (0, 1) for each position to predict, `[n]`, from the random bits of the view's rows.
pub(crate) fn send_draws(batch: &HostBatch<'_>, view: &str, staging: &mut Staging) {
    let bits = batch.column(view, DRAWS);
    let (positions, _) = batch.targets(view).expect("the input view of a generator has labels");
    let at = |&position: &i64| open_unit(bits.values()[usize::try_from(position).expect("not negative")]);
    staging.add(view, DRAWS.spec().name, &[positions.len()], positions.iter().map(at));
}

/// Converts the upper 23 bits plus one half to a share. Every value is exact; none is 0 or 1.
#[expect(clippy::cast_precision_loss, reason = "24 bits fit the mantissa")]
fn open_unit(bits: i32) -> f32 {
    (((bits.cast_unsigned() >> 9) << 1) | 1) as f32 / 16_777_216.0
}
