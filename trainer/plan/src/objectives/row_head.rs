//! Head over the first position of a row, shared by [`classification`](super::classification) and
//! [`regression`](super::regression).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HeadContext;
use crate::weights::WeightPath;

/// Activation of the layer between the first position and the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Hyperbolic tangent: BERT's pooler, and RoBERTa's, DAPT's and COCO-LM's heads.
    #[default]
    Tanh,
    /// GELU: ELECTRA's head, and COCO-LM's in its port to `transformers`.
    Gelu,
}

/// Returns one message per dropout that is no probability below 1.
pub(super) fn dropout_problems(dropouts: &[(&str, f64)]) -> Vec<String> {
    let wrong = dropouts.iter().filter(|(_, dropout)| !(0.0..1.0).contains(dropout));
    wrong.map(|(key, dropout)| format!("`{key}` is {dropout}; write a number from 0 to below 1")).collect()
}

/// Declares the layer `pooler` and the layer `classifier` of `outputs` below `head`.
pub(super) fn declare(context: &HeadContext<'_>, head: &mut WeightPath<'_>, outputs: u32) {
    let width = i64::from(context.encoder.hidden);
    head.sub("pooler").dense(width, width);
    head.sub("classifier").dense(width, i64::from(outputs));
}
