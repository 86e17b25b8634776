//! Classification of rows: predicts the class of each labelled example.
//!
//! Devlin et al. 2019, section 4.1. The loss is `trainer::objectives::classification`.

use schemars::JsonSchema;
use schemas::columns::TARGETS;
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::example_head;
use super::{Expectation, HeadContext, Objective, Requirements, StartFacts};
use crate::weights::WeightPath;

/// Predicts the class of each labelled example. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Classification {
    /// View of labelled examples.
    pub view: String,
    /// Layer whose output the head reads, counted from 1; 0 for the embeddings. The last one by default. Later layers are
    /// not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<u32>,
    /// Number of classes.
    pub classes: u32,
    /// Activation after the layer before the classifier.
    pub activation: Activation,
    /// Dropout before the layer: 0 in BERT, 0.1 in RoBERTa, COCO-LM and DAPT.
    pub input_dropout: f64,
    /// Dropout before the classifier.
    pub dropout: f64,
    /// Weight of each class in the loss, which is then a weighted mean; empty if all are equal.
    pub class_weights: Vec<f64>,
}

impl Default for Classification {
    fn default() -> Self {
        Self {
            view: "example".to_owned(),
            layer: None,
            classes: 2,
            activation: Activation::Tanh,
            input_dropout: 0.0,
            dropout: 0.1,
            class_weights: Vec::new(),
        }
    }
}

impl Objective for Classification {
    fn needs_row_attention(&self) -> Option<&'static str> {
        Some("needs attention between its two texts")
    }

    fn reads(&self) -> Requirements {
        Requirements::of_layer(&self.view, self.layer, TARGETS.spec())
    }

    fn problems(&self) -> Vec<String> {
        let mut problems =
            example_head::dropout_problems(&[("input_dropout", self.input_dropout), ("dropout", self.dropout)]);
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

    fn row_activation(&self) -> Option<Activation> {
        Some(self.activation)
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        example_head::declare_row_head(context, head, self.classes);
    }
}
