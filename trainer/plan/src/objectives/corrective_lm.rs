//! Corrective language modelling: detects replaced tokens and predicts the original ones.
//!
//! Meng et al. 2021, COCO-LM, section 3.2. The loss is `trainer::objectives::corrective_lm`.

use schemars::JsonSchema;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};

use super::replaced_token::{self, DetectionForm};
use super::{Expectation, HeadContext, Objective, Requirements, SCORED, Scores, StartFacts, TokenHeadForm};
use crate::weights::WeightPath;

/// Combination of the copy gate and the softmax.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LmForm {
    /// Logarithm of the mixture of gate and softmax, as in the paper.
    #[default]
    Mixture,
    /// Cross-entropy weighted by the gate, as in the released code. A replacement that the gate misses has little weight.
    WeightedCe,
    /// Cross-entropy without a gate ("CLM w/o copy").
    SoftmaxOnly,
}

/// Predicts for every token whether it is the original, and the original id of masked ones. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CorrectiveLm {
    /// View with replacements.
    pub view: String,
    /// Weight `λ` of the copy term. With 0, only the mixture trains the gate.
    pub copy_weight: f64,
    /// Loss of the language model.
    pub lm_form: LmForm,
    /// Positions that are predicted.
    pub lm_scope: Scope,
    /// Whether the language-model loss treats the gates as constants.
    pub stop_grad: bool,
    /// Divisor of the two sums.
    pub reduction: CorrectiveReduction,
}

impl Default for CorrectiveLm {
    fn default() -> Self {
        Self {
            view: "corrupted".to_owned(),
            copy_weight: 50.0,
            lm_form: LmForm::Mixture,
            lm_scope: Scope::Masked,
            stop_grad: true,
            reduction: CorrectiveReduction::Mean,
        }
    }
}

/// Positions that the language model predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Masked positions.
    #[default]
    Masked,
    /// All valid positions (ELECTRA's All-Token MLM).
    All,
}

/// Divisor of the sums of corrective language modelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CorrectiveReduction {
    /// Number of positions of each sum.
    #[default]
    Mean,
    /// Number of rows: the literal sums of equation 2. `λ` then has about seven times the weight.
    Sum,
}

impl Objective for CorrectiveLm {
    fn reads(&self) -> Requirements {
        Requirements::of_view(&self.view, LABELS.spec())
    }

    fn problems(&self) -> Vec<String> {
        let bad = !(self.copy_weight.is_finite() && self.copy_weight >= 0.0);
        let message = format!("`copy_weight` is {}: write 0 or more, usually 50", self.copy_weight);
        bad.then_some(message).into_iter().collect()
    }

    fn uses_word_table(&self) -> bool {
        true
    }

    fn scores(&self) -> Option<Scores> {
        let share = if self.lm_scope == Scope::All { 1.0 } else { SCORED };
        Some(Scores { share, transformed: false })
    }

    fn expected_start(&self, _: StartFacts) -> Vec<Expectation> {
        // A sum over positions divided by the number of rows has no known initial value.
        let is_mean = self.reduction == CorrectiveReduction::Mean;
        let copy = Expectation::near("copy", std::f64::consts::LN_2, 0.1, replaced_token::NEUTRAL);
        is_mean.then_some(copy).into_iter().collect()
    }

    fn token_head_form(&self) -> Option<TokenHeadForm> {
        Some(TokenHeadForm::Table)
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        replaced_token::declare(DetectionForm::Linear, context, &mut head.sub("copy"));
        head.sub("lm").bias("bias", i64::from(context.vocab_size));
    }
}
