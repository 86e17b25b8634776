//! Shared parts of the objectives that predict targets of labelled examples.

use super::{Expectation, HeadContext};
use crate::weights::WeightPath;

/// Returns one message per dropout that is no probability below 1.
pub(super) fn dropout_problems(dropouts: &[(&str, f64)]) -> Vec<String> {
    let wrong = dropouts.iter().filter(|(_, dropout)| !(0.0..1.0).contains(dropout));
    wrong.map(|(key, dropout)| format!("`{key}` is {dropout}; write a number from 0 to below 1")).collect()
}

/// Returns the problem of a number of classes, if it is no classification.
pub(super) fn classes_problem(classes: u32) -> Option<String> {
    (!(2..=100_000).contains(&classes)).then(|| format!("`classes` is {classes}; write a number from 2 to 100,000"))
}

/// Returns the problem of the weights of that many classes, if there is one.
pub(super) fn class_weights_problem(weights: &[f64], classes: u32) -> Option<String> {
    if weights.is_empty() {
        None
    } else if weights.len() != classes as usize {
        Some(format!("`class_weights` has {} numbers for {classes} classes; write one for each class", weights.len()))
    } else if weights.iter().any(|weight| !(weight.is_finite() && *weight >= 0.0)) || weights.iter().sum::<f64>() <= 0.0
    {
        Some("`class_weights` must be at least 0, and one must be larger".to_owned())
    } else {
        None
    }
}

/// Returns the expected first loss of indistinguishable classes.
pub(super) fn uniform_guess(classes: u32) -> Expectation {
    let hint = "indistinguishable classes have a loss of ln(classes); usual causes: labels of other rows, or a classifier \
                with large initial values";
    Expectation::near("", f64::from(classes).ln(), 0.2, hint)
}

/// Declares a head over the first position of a row: the layer `pooler`, and the layer `classifier` of `outputs`.
pub(super) fn declare_row_head(context: &HeadContext<'_>, head: &mut WeightPath<'_>, outputs: u32) {
    let width = i64::from(context.encoder.hidden);
    head.sub("pooler").dense(width, width);
    head.sub("classifier").dense(width, i64::from(outputs));
}
