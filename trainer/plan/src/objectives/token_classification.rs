//! Classification of tokens: predicts the class of each labelled token.
//!
//! Devlin et al. 2019, section 5.3. The loss is `trainer::objectives::token_classification`.

use schemars::JsonSchema;
use schemas::columns::TARGETS;
use serde::{Deserialize, Serialize};

use super::{Expectation, HeadContext, Objective, Requirements, StartFacts, example_head};
use crate::weights::WeightPath;

/// Predicts the class of each labelled token. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenClassification {
    /// View of labelled examples with `target = "tokens"`.
    pub view: String,
    /// Layer whose output the head reads, counted from 1; 0 for the embeddings. The last one by default. Later layers are
    /// not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<u32>,
    /// Number of classes.
    pub classes: u32,
    /// Dropout before the classifier.
    pub dropout: f64,
    /// Weight of each class in the loss, which is then a weighted mean; empty if all are equal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class_weights: Vec<f64>,
}

impl Default for TokenClassification {
    fn default() -> Self {
        Self { view: "example".to_owned(), layer: None, classes: 2, dropout: 0.1, class_weights: Vec::new() }
    }
}

impl Objective for TokenClassification {
    fn reads(&self) -> Requirements {
        Requirements::of_layer(&self.view, self.layer, TARGETS.spec())
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = example_head::dropout_problems(&[("dropout", self.dropout)]);
        problems.extend(example_head::classes_problem(self.classes));
        problems.extend(example_head::class_weights_problem(&self.class_weights, self.classes));
        problems
    }

    fn expected_start(&self, _: StartFacts) -> Vec<Expectation> {
        vec![example_head::uniform_guess(self.classes)]
    }

    fn label_outputs(&self) -> Option<u32> {
        Some(self.classes)
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        head.sub("classifier").dense(i64::from(context.encoder.hidden), i64::from(self.classes));
    }
}
