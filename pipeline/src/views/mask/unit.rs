//! What is masked as a whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is masked as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Each token for itself.
    #[default]
    Subword,
    /// The pieces of a word together.
    Word,
    /// Runs of whole words.
    Span,
}
