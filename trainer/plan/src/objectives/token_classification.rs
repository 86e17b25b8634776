//! Classification of tokens: predicts the class of each labelled token.
//!
//! Devlin et al. 2019, section 5.3. The loss is `trainer::objectives::token_classification`.

use schemars::JsonSchema;
use schemas::columns::TARGETS;
use serde::{Deserialize, Serialize};

use super::row_head::dropout_problems;
use super::{Expectation, HeadContext, Objective, Requirements, StartFacts};
use crate::networks::MAIN;
use crate::pass::Pass;
use crate::weights::WeightPath;

/// Predicts the class of each labelled token. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenClassification {
    /// View of labelled examples with `target = "tokens"`.
    pub view: String,
    /// Number of classes.
    pub classes: u32,
    /// Dropout before the classifier.
    pub dropout: f64,
}

impl Default for TokenClassification {
    fn default() -> Self {
        Self { view: "example".to_owned(), classes: 2, dropout: 0.1 }
    }
}

impl Objective for TokenClassification {
    fn reads(&self) -> Requirements {
        Requirements { passes: vec![Pass::new(MAIN, &self.view)], columns: vec![(self.view.clone(), TARGETS.spec())] }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = dropout_problems(&[("dropout", self.dropout)]);
        if !(2..=100_000).contains(&self.classes) {
            problems.push(format!("`classes` is {}; write a number from 2 to 100,000", self.classes));
        }
        problems
    }

    fn expected_start(&self, _: StartFacts) -> Vec<Expectation> {
        let hint = "indistinguishable classes have a loss of ln(classes); usual causes: labels of other rows, or a \
            classifier with large initial values";
        vec![Expectation::near("", f64::from(self.classes).ln(), 0.2, hint)]
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        head.sub("classifier").dense(i64::from(context.encoder.hidden), i64::from(self.classes));
    }
}
