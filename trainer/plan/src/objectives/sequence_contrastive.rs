//! Sequence contrast: two views of a row agree, views of different rows do not.
//!
//! Meng et al. 2021, COCO-LM, section 3.2. The loss is `trainer::objectives::sequence_contrastive`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Expectation, HeadContext, Objective, Reads, StartFacts, temperature_problem};
use crate::networks::MAIN;
use crate::pass::Pass;
use crate::weights::{self, WeightPath};

/// Which vectors an anchor is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Negatives {
    /// All others, of either view: the paper.
    #[default]
    Both,
    /// Those of the other view.
    Cross,
}

/// Two views of one sample shall have nearly the same sequence vector, other samples others.
/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SequenceContrastive {
    /// One view of a row.
    pub view: String,
    /// Another view of the same row.
    pub positive: String,
    /// Layers between hidden states and the contrast.
    pub head: VectorForm,
    /// Negatives of an anchor.
    pub negatives: Negatives,
    /// `τ`.
    pub temperature: f64,
}

impl Default for SequenceContrastive {
    fn default() -> Self {
        Self {
            view: "corrupted".to_owned(),
            positive: "cropped".to_owned(),
            head: VectorForm::Transform,
            negatives: Negatives::Both,
            temperature: 1.0,
        }
    }
}

/// What is between the first position's hidden state and the contrast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VectorForm {
    /// A dense layer, gelu and a norm: the released checkpoints.
    Transform,
    /// Nothing: the paper.
    None,
}

impl Objective for SequenceContrastive {
    fn reads(&self) -> Reads {
        Reads { passes: vec![Pass::new(MAIN, &self.view), Pass::new(MAIN, &self.positive)], columns: Vec::new() }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::from_iter(temperature_problem(self.temperature, "usually 1"));
        if self.view == self.positive {
            problems.push(format!("`view` and `positive` are both `{}`: a row agrees with itself", self.view));
        }
        problems
    }

    fn batch_coupled(&self) -> bool {
        true
    }

    fn expected_start(&self, facts: StartFacts) -> Vec<Expectation> {
        // A lower temperature magnifies what the first vectors happen to be.
        if (self.temperature - 1.0).abs() > 1e-6 {
            return Vec::new();
        }
        let candidates = match self.negatives {
            Negatives::Both => 2.0 * facts.rows - 1.0,
            Negatives::Cross => facts.rows,
        };
        let hint = "rows that are not told apart cost ln of the number of candidates; usually the micro-batch is not the \
            one planned, or a vector is not normalised";
        vec![Expectation::near("", candidates.ln(), 0.2, hint)]
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        if self.head == VectorForm::Transform {
            weights::transform(context.encoder, i64::from(context.encoder.hidden), head);
        }
    }
}
