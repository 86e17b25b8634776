//! In which order a run reads its data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In which order the rows of a run come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowOrder {
    /// Shuffled over all of the data, which is prepared before the first step.
    #[default]
    Shuffled,
    /// The first epoch in the order of the part list, which is drawn with `prepare.seed`: a run may begin with the first
    /// parts, and has the same batches whenever the others come. Later epochs are shuffled over all of it.
    Streamed,
}
