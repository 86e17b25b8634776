//! Batch ↦ tensors: the only host-to-device copy.
//!
//! Ids travel as the batch holds them (32, 16 or 8 bits) and are widened on the device. Lists of positions are made
//! here, on the host, where their length is known without asking the device.

use schemas::columns::{ATTENTION_MASK, IGNORE, INPUT_IDS, LABELS, POSITIVES};
use schemas::{Batch, Column, Element, Grid};
use tch::{Device, Tensor};

use crate::error::Error;
use crate::precision::{FLAG, INDEX};

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
    /// Where the view has labels.
    pub predicted: Option<Predicted>,
}

impl UploadedView {
    /// Copies what every view may have.
    pub fn new(batch: &Batch, view: &str, device: Device) -> Result<Self, Error> {
        let ids_bt = upload(batch.column(view, INPUT_IDS)?, device)?;
        let mask = batch.find(view, ATTENTION_MASK)?.filter(|mask| mask.values().contains(&0));
        let valid_bt = mask.map(|mask| upload(mask, device)).transpose()?.map(|mask| mask.to_kind(FLAG));
        let predicted = batch.find(view, LABELS)?.map(|labels| predicted(labels, device)).transpose()?;
        Ok(Self { ids_bt, valid_bt, predicted })
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

/// How many positions of a view have a positive; 0 where the view has none.
pub fn positives_count(batch: &Batch, view: &str) -> Result<usize, Error> {
    Ok(count(batch, view, POSITIVES, |column| column >= 0)?)
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

/// A size as libtorch takes it.
pub(crate) fn as_i64(size: usize) -> i64 {
    i64::try_from(size).expect("sizes of memory fit 63 bits")
}
