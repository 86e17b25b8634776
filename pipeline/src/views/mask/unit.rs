//! Unit of masking.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Unit of masking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Single tokens.
    #[default]
    Subword,
    /// All tokens of a word together.
    Word,
    /// Runs of whole words.
    Span,
}
