//! Forms of heads that predict tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Form of a head that predicts tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenHeadForm {
    /// A transform, then the word table, as in `masked_lm`.
    #[default]
    Transform,
    /// A transform, then a separate matrix, as in `masked_lm` with `tied = false`.
    Untied,
    /// The word table with a bias, as the language model of `corrective_lm`.
    Table,
}
