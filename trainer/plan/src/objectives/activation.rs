//! Activation of the heads over the first position of a row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
