//! Next sentence prediction: classifies whether the second of two segments follows the first.
//!
//! Devlin et al. 2019, section 3.1. The loss is `trainer::objectives::next_sentence`.

use schemars::JsonSchema;
use schemas::columns::IS_RANDOM;
use serde::{Deserialize, Serialize};

use super::{Expectation, HeadContext, Objective, Requirements, StartFacts};
use crate::weights::WeightPath;

/// Predicts whether the second of two segments follows the first. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NextSentence {
    /// View of pairs, or a mask of one.
    pub view: String,
}

impl Default for NextSentence {
    fn default() -> Self {
        Self { view: "masked".to_owned() }
    }
}

impl Objective for NextSentence {
    fn needs_row_attention(&self) -> Option<&'static str> {
        Some("needs attention between its two documents")
    }

    fn reads(&self) -> Requirements {
        Requirements::of_view(&self.view, IS_RANDOM.spec())
    }

    fn expected_start(&self, _: StartFacts) -> Vec<Expectation> {
        let hint = "indistinguishable classes have a loss of ln 2; usual causes: a label column of other rows, or \
            a classifier with large initial values";
        vec![Expectation::near("", std::f64::consts::LN_2, 0.2, hint)]
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        let width = i64::from(context.encoder.hidden);
        head.sub("pooler").dense(width, width);
        head.sub("classifier").dense(width, 2);
    }
}
