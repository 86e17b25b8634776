//! Corrective language modelling: which tokens are originals, and what belongs where one is not.
//!
//! Meng et al. 2021, COCO-LM, section 3.2. The loss is `trainer::objectives::corrective_lm`.

use schemars::JsonSchema;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};

use super::replaced_token::{self, DetectionForm};
use super::{Expectation, HeadContext, Objective, Reads, SCORED, Scores, StartFacts};
use crate::networks::MAIN;
use crate::pass::Pass;
use crate::weights::WeightPath;

/// How the gate and the softmax make one loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LmForm {
    /// The logarithm of the mixture: the paper.
    #[default]
    Mixture,
    /// Cross-entropy weighted by the gate: the released skeleton. A replacement that the gate misses teaches little.
    WeightedCe,
    /// Plain cross-entropy, no gate ("CLM w/o copy").
    SoftmaxOnly,
}

/// Says of every token whether it is the original, and restores those that were masked. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CorrectiveLm {
    /// The view with replacements.
    pub view: String,
    /// `λ` of the copy term; 0 leaves the gate to the mixture.
    pub copy_weight: f64,
    /// Form of the language model's loss.
    pub lm_form: LmForm,
    /// Positions that are predicted.
    pub lm_scope: Scope,
    /// Whether the gates of the language model's loss are constants.
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

/// Which positions the language model predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Those that were masked.
    #[default]
    Masked,
    /// All valid ones: ELECTRA's All-Token MLM.
    All,
}

/// What the sums are divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CorrectiveReduction {
    /// Each by its own number of positions.
    #[default]
    Mean,
    /// By the number of rows: the literal sums of equation 2, with which `λ` weighs some seven times as much.
    Sum,
}

impl Objective for CorrectiveLm {
    fn reads(&self) -> Reads {
        Reads { passes: vec![Pass::new(MAIN, &self.view)], columns: vec![(self.view.clone(), LABELS.spec())] }
    }

    fn problems(&self) -> Vec<String> {
        let bad = !(self.copy_weight.is_finite() && self.copy_weight >= 0.0);
        let message = format!("`copy_weight` is {}: write 0 or more, usually 50", self.copy_weight);
        bad.then_some(message).into_iter().collect()
    }

    fn meets_word_table(&self) -> bool {
        true
    }

    fn scores(&self) -> Option<Scores> {
        let share = if self.lm_scope == Scope::All { 1.0 } else { SCORED };
        Some(Scores { share, transformed: false })
    }

    fn expected_start(&self, _: StartFacts) -> Vec<Expectation> {
        // A sum over positions, divided by rows, has no value of its own.
        let is_mean = self.reduction == CorrectiveReduction::Mean;
        let copy = Expectation::near("copy", std::f64::consts::LN_2, 0.1, replaced_token::NEUTRAL);
        is_mean.then_some(copy).into_iter().collect()
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        replaced_token::declare(DetectionForm::Linear, context, &mut head.sub("copy"));
        head.sub("lm").bias("bias", i64::from(context.vocab_size));
    }
}
