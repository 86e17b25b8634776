//! Token prediction: predicts the original id of every token of a masked view.
//!
//! The loss is `trainer::objectives::token_prediction`.

use schemars::JsonSchema;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};

use super::{Expectation, HeadContext, Objective, Requirements, Scores, StartFacts, TokenHeadForm, masked_lm};
use crate::weights::{self, WeightPath};

/// Reduction over masked and unmasked positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PredictionReduction {
    /// One mean for each of the two.
    #[default]
    Separate,
    /// One mean over both.
    Joint,
}

/// Predicts the original id at all positions, masked and unmasked. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenPrediction {
    /// Masked view.
    pub view: String,
    /// Reduction over masked and other positions.
    pub reduction: PredictionReduction,
}

impl Default for TokenPrediction {
    fn default() -> Self {
        Self { view: "masked".to_owned(), reduction: PredictionReduction::Separate }
    }
}

impl Objective for TokenPrediction {
    fn reads(&self) -> Requirements {
        Requirements::of_view(&self.view, LABELS.spec())
    }

    fn scores(&self) -> Option<Scores> {
        Some(Scores { share: 1.0, transformed: true })
    }

    fn expected_start(&self, facts: StartFacts) -> Vec<Expectation> {
        let terms: &[_] = if self.reduction == PredictionReduction::Joint { &[""] } else { &["masked", "unmasked"] };
        let ln_vocab = facts.vocab_size.ln();
        terms.iter().map(|term| Expectation::near(term, ln_vocab, 0.05, masked_lm::GUESSING)).collect()
    }

    fn token_head_form(&self) -> Option<TokenHeadForm> {
        Some(TokenHeadForm::Transform)
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        weights::token_head(context.encoder, context.vocab_size, true, head);
    }
}
