//! What can be chosen of the token contrast.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pulls what a position has learnt from its context towards that of a neighbour, away from other rows. See the
/// [module](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with a name in the config")]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TokenContrastive {
    /// The view that is encoded.
    pub view: String,
    /// The window view that names each anchor's positive.
    pub positives: String,
    /// What is subtracted from the last layer.
    pub e: Static,
    /// Whether candidates are constants (the released code; better on masked language modelling than live ones).
    pub detach: bool,
    /// Which positions are anchors.
    pub anchors: Anchors,
    /// Whether frame and separator tokens are anchors too.
    pub specials: bool,
    /// Whether a negative may not come from the anchor's document.
    pub avoid_same_doc: bool,
    /// Where in the other rows negatives lie.
    pub neg_cols: NegativeColumns,
    /// For `neg_cols = "matched"`: the window's `offset_max`.
    pub offset_max: u16,
    /// Negatives of each anchor, `K`.
    pub negatives: u16,
    /// Whether all anchors of a micro-batch share one draw of negatives: cheaper noise that is not averaged out. Each
    /// anchor still skips its own row.
    pub shared_negatives: bool,
    /// `τ`.
    pub temperature: f64,
    /// Whether each row is averaged by itself before the rows are.
    pub per_sequence: bool,
}

impl Default for TokenContrastive {
    fn default() -> Self {
        Self {
            view: "masked".to_owned(),
            positives: "neighbors".to_owned(),
            e: Static::EmbedBlock,
            detach: true,
            anchors: Anchors::All,
            specials: true,
            avoid_same_doc: false,
            neg_cols: NegativeColumns::Uniform,
            offset_max: 2,
            negatives: 50,
            shared_negatives: false,
            temperature: 0.07,
            per_sequence: false,
        }
    }
}

/// The context-free vector that is subtracted from a hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Static {
    /// Output of the embedding block in the same pass, same dropout: the released code.
    EmbedBlock,
    /// The word's row of the table alone, of the id that is fed. Its scale at the start is far below that of `h`.
    Word,
    /// The same for the original id: the reading of the paper's equation 1.
    WordOriginal,
}

/// Which positions are anchors, among those that have a positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Anchors {
    /// All.
    All,
    /// Those that masked language modelling predicts ("concentrated" in the paper).
    Masked,
    /// The others.
    Unmasked,
}

/// Where in the other rows negatives lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NegativeColumns {
    /// Anywhere.
    Uniform,
    /// As far from the anchor's column as positives do: the control for what position alone explains.
    Matched,
}
