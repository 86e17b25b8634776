//! One function per objective: from named inputs to the functions that training calls.

mod contrasts;
mod measures;
mod predictions;

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use super::files::{Outcome, Part};
use super::inputs::Inputs;
use crate::Error;

/// The outcome of a case; `None` where the objective is unknown.
pub(super) fn compute(objective: &str, inputs: &mut Inputs<'_>) -> Option<Result<Outcome, Error>> {
    let case: fn(&mut Inputs<'_>) -> Result<Outcome, Error> = match objective {
        "mlm" => predictions::masked_lm,
        "tp" => predictions::token_prediction,
        "nsp" => predictions::next_sentence,
        "rtd" => predictions::replaced_token,
        "clm" => predictions::corrective_lm,
        "tc" => contrasts::token,
        "scl" => contrasts::sequence,
        "tacl" => contrasts::teacher,
        "contextual_score" => measures::contextual_score,
        "self_similarity" => measures::self_similarity,
        "alignment_uniformity" => measures::alignment_uniformity,
        "relpos_bucket" => measures::relative_bucket,
        "metric" => measures::metric,
        _ => return None,
    };
    Some(case(inputs))
}

/// The mean over `count` summands, 0 if there are none.
fn mean(sum: &Tensor, count: usize) -> Tensor {
    sum / count.max(1) as f64
}

/// The outcome of a loss, with gradients.
fn learned(loss: &Tensor, parts: BTreeMap<String, Part>, inputs: &Inputs<'_>) -> Outcome {
    loss.backward();
    Outcome { loss: number(loss), parts, grads: inputs.gradients() }
}

/// The outcome of a number that nothing learns from.
fn measured(loss: f64, parts: BTreeMap<String, Part>) -> Outcome {
    Outcome { loss, parts, grads: BTreeMap::new() }
}

fn parts<const N: usize>(parts: [(&str, f64); N]) -> BTreeMap<String, Part> {
    parts.into_iter().map(|(name, part)| (name.to_owned(), Part::Number(part))).collect()
}

fn number(tensor: &Tensor) -> f64 {
    f64::try_from(tensor.to_kind(Kind::Double)).expect("one number")
}

/// What share of `count` were hit; 0 if there are none.
fn share(hits: &Tensor, count: usize) -> f64 {
    number(hits) / count.max(1) as f64
}

/// Flat positions where all of the flags, `[b, t]` each and row by row, are set.
fn positions_where(flags: &[&[bool]]) -> Vec<i64> {
    let length = flags.first().map_or(0, |flags| flags.len());
    (0..).zip(0..length).filter(|&(_, at)| flags.iter().all(|flags| flags[at])).map(|(position, _)| position).collect()
}
