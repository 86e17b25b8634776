//! Conversion of tensors to the content of a result file.

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use super::files::{CaseOutcome, PartValue};
use super::inputs::Inputs;

/// Returns the mean over `count` summands, 0 if there are none.
pub(super) fn mean(sum: &Tensor, count: usize) -> Tensor {
    sum / count.max(1) as f64
}

/// Returns the outcome of a loss, with gradients.
pub(super) fn learned(loss: &Tensor, parts: BTreeMap<String, PartValue>, inputs: &Inputs<'_>) -> CaseOutcome {
    loss.backward();
    CaseOutcome { loss: number(loss), parts, grads: inputs.gradients() }
}

/// Returns the outcome of a metric, without gradients.
pub(super) fn measured(loss: f64, parts: BTreeMap<String, PartValue>) -> CaseOutcome {
    CaseOutcome { loss, parts, grads: BTreeMap::new() }
}

pub(super) fn parts<const N: usize>(parts: [(&str, f64); N]) -> BTreeMap<String, PartValue> {
    parts.into_iter().map(|(name, part)| (name.to_owned(), PartValue::Number(part))).collect()
}

pub(super) fn number(tensor: &Tensor) -> f64 {
    f64::try_from(tensor.to_kind(Kind::Double)).expect("one number")
}

/// Returns the share of hits among `count`, 0 if there are none.
pub(super) fn share(hits: &Tensor, count: usize) -> f64 {
    number(hits) / count.max(1) as f64
}

/// Returns the flat positions at which all flags are set. Each slice of flags is `[b, t]`, row by row.
pub(super) fn positions_where(flags: &[&[bool]]) -> Vec<i64> {
    let length = flags.first().map_or(0, |flags| flags.len());
    (0..).zip(0..length).filter(|&(_, at)| flags.iter().all(|flags| flags[at])).map(|(position, _)| position).collect()
}
