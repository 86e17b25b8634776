//! Batch ↦ tensors: the only host-to-device copy.
//!
//! Ids travel as the batch holds them (32, 16 or 8 bits) and are widened on the device. Lists of positions are made
//! here, on the host, where their length is known without asking the device.

use schemas::columns::{ATTENTION_MASK, DRAWS, IGNORE, INPUT_IDS, LABELS, POSITIVES, TOKEN_TYPES};
use schemas::{Batch, Column, Element, Grid};
use tch::{Device, Tensor};

use crate::device::precision::{FLAG, INDEX};
use crate::device::tensors::as_i64;
use crate::error::Error;
use crate::model::encoder::Input;

/// The positions of a view that the model must predict.
#[derive(Debug)]
pub struct Predicted {
    /// Flat positions `row · width + column`, ascending, int64.
    pub positions_n: Tensor,
    /// The original id at each, int64.
    pub targets_n: Tensor,
    /// How many.
    pub count: usize,
}

/// One view of a batch on the device.
#[derive(Debug)]
pub struct UploadedView {
    /// Ids fed to the model, int64, `[rows, width]`.
    pub ids_bt: Tensor,
    /// True on real tokens, `[rows, width]`; `None` where all are.
    pub valid_bt: Option<Tensor>,
    /// Segments, int64, `[rows, width]`; `None` where rows are single segments.
    pub token_types_bt: Option<Tensor>,
    /// Where the view has labels.
    pub predicted: Option<Predicted>,
}

impl UploadedView {
    /// Copies what every view may have.
    pub fn new(batch: &Batch, view: &str, device: Device) -> Result<Self, Error> {
        let ids_bt = upload(batch.column(view, INPUT_IDS)?, device)?;
        let mask = batch.find(view, ATTENTION_MASK)?.filter(|mask| mask.values().contains(&0));
        let valid_bt = mask.map(|mask| upload(mask, device)).transpose()?.map(|mask| mask.to_kind(FLAG));
        let token_types_bt = batch.find(view, TOKEN_TYPES)?.map(|types| upload(types, device)).transpose()?;
        let predicted = batch.find(view, LABELS)?.map(|labels| predicted(labels, device)).transpose()?;
        Ok(Self { ids_bt, valid_bt, token_types_bt, predicted })
    }

    /// What an encoder reads.
    #[must_use]
    pub fn input(&self) -> Input<'_> {
        Input { ids_bt: &self.ids_bt, token_types_bt: self.token_types_bt.as_ref(), valid_bt: self.valid_bt.as_ref() }
    }

    /// The same rows with other ids at the positions to predict, `[n]`.
    ///
    /// # Panics
    /// If the view has no labels.
    #[must_use]
    pub fn filled_with(&self, ids_n: &Tensor) -> Self {
        let predicted = self.predicted.as_ref().expect("only a view with labels can be filled");
        Self {
            ids_bt: self.with(ids_n),
            valid_bt: self.valid_bt.as_ref().map(Tensor::shallow_clone),
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
    pub fn originals_bt(&self) -> Tensor {
        self.predicted.as_ref().map_or_else(|| self.ids_bt.shallow_clone(), |predicted| self.with(&predicted.targets_n))
    }

    /// True where an id is not the original one, `[rows, width]`.
    pub fn replaced_bt(&self) -> Tensor {
        self.ids_bt.ne_tensor(&self.originals_bt())
    }
}

/// One column on the device, widened to int64, `[rows, width]`.
pub fn upload<T: Element + tch::kind::Element>(grid: Grid<'_, T>, device: Device) -> Result<Tensor, Error> {
    let host = Tensor::f_from_slice(grid.values())?.f_view([as_i64(grid.rows()), as_i64(grid.width())])?;
    Ok(host.f_to_device(device)?.f_to_kind(INDEX)?)
}

/// How many positions of a view the model must predict; 0 where the view has no labels.
pub fn predicted_count(batch: &Batch, view: &str) -> Result<usize, Error> {
    Ok(count(batch, view, LABELS, |label| label != IGNORE)?)
}

/// How many positions each row of a view must predict, of the rows that must predict any.
pub fn predicted_per_row(batch: &Batch, view: &str) -> Result<Vec<usize>, Error> {
    let labels = batch.column(view, LABELS)?;
    let rows = labels.values().chunks_exact(labels.width());
    let counts = rows.map(|row| row.iter().filter(|&&label| label != IGNORE).count());
    Ok(counts.filter(|&count| count > 0).collect())
}

/// How many positions of a view have a positive; 0 where the view has none.
pub fn positives_count(batch: &Batch, view: &str) -> Result<usize, Error> {
    Ok(count(batch, view, POSITIVES, |column| column >= 0)?)
}

/// Flat positions of all real tokens of a view, `[n]`, int64.
pub fn valid_positions(batch: &Batch, view: &str, device: Device) -> Tensor {
    positions(batch, view, device, |_| true)
}

/// Flat positions of the real tokens of a view that it does not predict, `[n]`, int64.
pub fn unmasked_positions(batch: &Batch, view: &str, device: Device) -> Tensor {
    let labels = batch.column(view, LABELS).expect("the plan checked columns");
    positions(batch, view, device, |at| labels.values()[at] == IGNORE)
}

fn positions(batch: &Batch, view: &str, device: Device, wanted: impl Fn(usize) -> bool) -> Tensor {
    let mask = batch.find(view, ATTENTION_MASK).expect("the plan checked columns");
    let cells = batch.column(view, INPUT_IDS).expect("the plan checked columns").values().len();
    let is_valid = |at: usize| mask.as_ref().is_none_or(|mask| mask.values()[at] != 0);
    let at: Vec<i64> = (0..cells).filter(|&at| is_valid(at) && wanted(at)).map(as_i64).collect();
    Tensor::from_slice(&at).to_device(device)
}

/// How many real tokens a view has, specials included.
pub fn valid_count(batch: &Batch, view: &str) -> Result<usize, Error> {
    match batch.find(view, ATTENTION_MASK)? {
        Some(mask) => Ok(mask.values().iter().filter(|&&flag| flag != 0).count()),
        None => Ok(batch.column(view, INPUT_IDS)?.values().len()),
    }
}

fn count<T: Element>(
    batch: &Batch,
    view: &str,
    column: Column<T>,
    counts: impl Fn(T) -> bool,
) -> Result<usize, schemas::BatchError> {
    let grid = batch.find(view, column)?;
    Ok(grid.map_or(0, |grid| grid.values().iter().filter(|&&value| counts(value)).count()))
}

fn predicted(labels: Grid<'_, i32>, device: Device) -> Result<Predicted, Error> {
    let (positions, targets): (Vec<i64>, Vec<i64>) =
        (0..).zip(labels.values()).filter(|&(_, &label)| label != IGNORE).map(|(at, &id)| (at, i64::from(id))).unzip();
    Ok(Predicted {
        positions_n: Tensor::f_from_slice(&positions)?.f_to_device(device)?,
        targets_n: Tensor::f_from_slice(&targets)?.f_to_device(device)?,
        count: positions.len(),
    })
}

/// One number in (0, 1) for each position to predict, `[n]`, float32, from the bits that the view's rows carry.
pub fn draws(batch: &Batch, view: &str, device: Device) -> Result<Tensor, Error> {
    let (labels, bits) = (batch.column(view, LABELS)?, batch.column(view, DRAWS)?);
    let chosen = labels.values().iter().zip(bits.values()).filter(|&(&label, _)| label != IGNORE);
    let draws: Vec<f32> = chosen.map(|(_, &bits)| open_unit(bits)).collect();
    Ok(Tensor::f_from_slice(&draws)?.f_to_device(device)?)
}

/// The upper 23 bits, and a half, as a share: every value is exact, and none is 0 or 1.
#[expect(clippy::cast_precision_loss, reason = "24 bits fit the mantissa")]
fn open_unit(bits: i32) -> f32 {
    (((bits.cast_unsigned() >> 9) << 1) | 1) as f32 / 16_777_216.0
}
