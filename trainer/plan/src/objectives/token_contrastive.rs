//! Token contrast: the contextual part of a token's vector is similar to a neighbor's and differs from other rows'.
//!
//! Fu et al. 2022, TACO, equations 4-8. The loss is `trainer::objectives::token_contrastive`.

use schemars::JsonSchema;
use schemas::columns::{DOCUMENT, LABELS, POSITIVES};
use serde::{Deserialize, Serialize};

use super::{Expectation, Objective, Reduction, Requirements, RowSet, StartFacts, temperature_problem};
use crate::networks::MAIN;
use crate::pass::Pass;

/// Trains the contextual part of each token's vector to be similar to that of a neighbor, and to differ from other
/// rows. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with a name in the config")]
#[serde(default, deny_unknown_fields)]
pub struct TokenContrastive {
    /// Encoded view.
    pub view: String,
    /// Window view that contains the positive of each anchor.
    pub positives: String,
    /// Embedding that is subtracted from the last layer.
    pub subtracted_embedding: Static,
    /// Whether candidates are constants, as in the released code. This gives a better masked-LM loss than trained ones.
    pub detach: bool,
    /// Positions that are anchors.
    pub anchors: Anchors,
    /// Whether `[CLS]` and `[SEP]` tokens are anchors too.
    pub specials: bool,
    /// Whether negatives from the anchor's document are excluded.
    pub exclude_same_document: bool,
    /// Columns of the negatives in other rows.
    pub negative_columns: NegativeColumns,
    /// `max_offset` of the window view, for `negative_columns = "matched"`.
    pub max_offset: u16,
    /// Number of negatives `K` per anchor.
    pub negatives: u16,
    /// Whether all anchors of a micro-batch share one draw of negatives. This is cheaper, but its noise does not
    /// average out. Each anchor still skips its own row.
    pub shared_negatives: bool,
    /// Temperature `τ`.
    pub temperature: f64,
    /// Reduction of the loss over anchors.
    pub reduction: Reduction,
}

impl Default for TokenContrastive {
    fn default() -> Self {
        Self {
            view: "masked".to_owned(),
            positives: "neighbors".to_owned(),
            subtracted_embedding: Static::EmbedBlock,
            detach: true,
            anchors: Anchors::All,
            specials: true,
            exclude_same_document: false,
            negative_columns: NegativeColumns::Uniform,
            max_offset: 2,
            negatives: 50,
            shared_negatives: false,
            temperature: 0.07,
            reduction: Reduction::Tokens,
        }
    }
}

/// Context-free vector that is subtracted from a hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Static {
    /// Output of the embedding block in the same pass with the same dropout, as in the released code.
    EmbedBlock,
    /// Row of the word table for the input id. Its initial scale is far below that of `h`.
    Word,
    /// Row of the word table for the original id, as in equation 1 of the paper.
    WordOriginal,
}

/// Positions that are anchors, among those that have a positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Anchors {
    /// All positions.
    All,
    /// Masked positions ("concentrated" in the paper).
    Masked,
    /// Unmasked positions.
    Unmasked,
}

/// Columns of the negatives in other rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NegativeColumns {
    /// Any column.
    Uniform,
    /// Columns at the distances of positives. This controls for the effect of position alone.
    Matched,
}

impl Objective for TokenContrastive {
    fn reads(&self) -> Requirements {
        let mut columns = vec![(self.positives.clone(), POSITIVES.spec())];
        if self.anchors != Anchors::All || self.subtracted_embedding == Static::WordOriginal {
            columns.push((self.view.clone(), LABELS.spec()));
        }
        if self.exclude_same_document {
            columns.push((self.view.clone(), DOCUMENT.spec()));
        }
        Requirements { passes: vec![Pass::new(MAIN, &self.view)], columns }
    }

    fn is_sensitive_to_rounding(&self) -> bool {
        true
    }

    fn compares(&self) -> f64 {
        f64::from(self.negatives) + 1.0
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.negatives == 0 {
            problems.push("`negatives` is 0, so nothing would be trained; the paper uses 50".to_owned());
        }
        problems.extend(temperature_problem(self.temperature, "the paper uses 0.07"));
        if self.negative_columns == NegativeColumns::Matched && self.max_offset == 0 {
            problems.push("`max_offset` is 0: write that of the window view, 2 by default".to_owned());
        }
        problems
    }

    fn uses_word_table(&self) -> bool {
        self.subtracted_embedding != Static::EmbedBlock
    }

    fn aligned(&self) -> Option<[String; 2]> {
        Some([self.view.clone(), self.positives.clone()])
    }

    fn window_reach(&self) -> Option<(String, u16)> {
        (self.negative_columns == NegativeColumns::Matched).then(|| (self.positives.clone(), self.max_offset))
    }

    fn contrasted_rows(&self) -> Option<RowSet> {
        Some(RowSet::MicroBatch)
    }

    fn expected_start(&self, facts: StartFacts) -> Vec<Expectation> {
        // Cosines of narrow random vectors vary: half a nat at width 512, one at 128, five at 32.
        let chance = match facts.hidden {
            ..128 => return Vec::new(),
            128..512 => 1.0,
            512.. => 0.0,
        };
        let guess = f64::from(self.negatives).ln_1p();
        let hint = "indistinguishable candidates have a loss of ln(1 + K); usual causes: a temperature far from 0.07, which \
            amplifies random differences, or negatives from the anchor's row";
        vec![Expectation::in_range("", 0.3 * guess, 1.3 * guess + chance, hint)]
    }
}
