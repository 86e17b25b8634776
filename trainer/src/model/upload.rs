//! Batch ↦ tensors: the only host-to-device copy.
//!
//! Ids travel as the batch holds them (32, 16 or 8 bits) and are widened on the device. Lists of positions are the
//! host's, which knows their length without asking the device.

use schemas::columns::{ATTENTION_MASK, DRAWS, INPUT_IDS, TOKEN_TYPES};
use schemas::{Element, Grid};
use tch::{Device, Tensor};

use crate::device::precision::{FLAG, INDEX};
use crate::device::tensors::as_i64;
use crate::error::Error;
use crate::model::encoder::Input;
use crate::model::host_batch::HostBatch;

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
}

impl UploadedView {
    /// Copies what every view may have.
    pub(crate) fn new(batch: &HostBatch<'_>, view: &str, device: Device) -> Result<Self, Error> {
        let ids = batch.column(view, INPUT_IDS);
        let mask = batch.find(view, ATTENTION_MASK).filter(|_| batch.has_padding(view));
        let token_types = batch.find(view, TOKEN_TYPES);
        let shapes = [mask.map(|it| (it.rows(), it.width())), token_types.map(|it| (it.rows(), it.width()))];
        let fits = shapes.into_iter().flatten().all(|shape| shape == (ids.rows(), ids.width()));
        assert!(fits, "columns of `{view}` in batch {} differ in shape", batch.index());
        let list = |values: &[i64]| -> Result<Tensor, Error> { Ok(Tensor::f_from_slice(values)?.f_to_device(device)?) };
        let predicted = |(positions, targets): (&[i64], &[i64])| -> Result<Predicted, Error> {
            Ok(Predicted { positions_n: list(positions)?, targets_n: list(targets)?, count: positions.len() })
        };
        let valid_bt = mask.map(|mask| upload(mask, device)).transpose()?.map(|mask| mask.to_kind(FLAG));
        let attended = |valid: &Tensor| if batch.is_even(view) { valid.narrow(0, 0, 1) } else { valid.shallow_clone() };
        Ok(Self {
            ids_bt: upload(ids, device)?,
            attended_bt: valid_bt.as_ref().map(attended),
            valid_bt,
            token_types_bt: token_types.map(|types| upload(types, device)).transpose()?,
            predicted: batch.targets(view).map(predicted).transpose()?,
        })
    }

    /// What an encoder reads.
    #[must_use]
    pub(crate) fn input(&self) -> Input<'_> {
        Input {
            ids_bt: &self.ids_bt,
            token_types_bt: self.token_types_bt.as_ref(),
            valid_bt: self.attended_bt.as_ref(),
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

/// One column on the device, widened to int64, `[rows, width]`.
pub(crate) fn upload<T: Element + tch::kind::Element>(grid: Grid<'_, T>, device: Device) -> Result<Tensor, Error> {
    let host = Tensor::f_from_slice(grid.values())?.f_view([as_i64(grid.rows()), as_i64(grid.width())])?;
    Ok(host.f_to_device(device)?.f_to_kind(INDEX)?)
}

/// One number in (0, 1) for each position to predict, `[n]`, float32, from the bits that the view's rows carry.
pub(crate) fn draws(batch: &HostBatch<'_>, view: &str, device: Device) -> Result<Tensor, Error> {
    let bits = batch.column(view, DRAWS);
    let (positions, _) = batch.targets(view).expect("the plan checked that a mask is filled");
    let at = |&position: &i64| open_unit(bits.values()[usize::try_from(position).expect("not negative")]);
    let draws: Vec<f32> = positions.iter().map(at).collect();
    Ok(Tensor::f_from_slice(&draws)?.f_to_device(device)?)
}

/// The upper 23 bits, and a half, as a share: every value is exact, and none is 0 or 1.
#[expect(clippy::cast_precision_loss, reason = "24 bits fit the mantissa")]
fn open_unit(bits: i32) -> f32 {
    (((bits.cast_unsigned() >> 9) << 1) | 1) as f32 / 16_777_216.0
}
