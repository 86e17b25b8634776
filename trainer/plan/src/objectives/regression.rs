//! Regression: predicts the score of each labelled example.
//!
//! Devlin et al. 2019, section 4.1, for STS-B. The loss is `trainer::objectives::regression`.

use schemars::JsonSchema;
use schemas::columns::TARGETS;
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::example_head;
use super::{HeadContext, Objective, Requirements};
use crate::weights::WeightPath;

/// Predicts the score of each labelled example. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Regression {
    /// View of labelled examples.
    pub view: String,
    /// Layer whose output the head reads, counted from 1; 0 for the embeddings. The last one by default. Later layers are
    /// not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<u32>,
    /// Activation after the layer before the output.
    pub activation: Activation,
    /// Dropout before the layer: 0 in BERT, 0.1 in RoBERTa, COCO-LM and DAPT.
    pub input_dropout: f64,
    /// Dropout before the output.
    pub dropout: f64,
}

impl Default for Regression {
    fn default() -> Self {
        Self { view: "example".to_owned(), layer: None, activation: Activation::Tanh, input_dropout: 0.0, dropout: 0.1 }
    }
}

impl Objective for Regression {
    fn needs_row_attention(&self) -> Option<&'static str> {
        Some("needs attention between its two texts")
    }

    fn reads(&self) -> Requirements {
        Requirements::of_layer(&self.view, self.layer, TARGETS.spec())
    }

    fn problems(&self) -> Vec<String> {
        example_head::dropout_problems(&[("input_dropout", self.input_dropout), ("dropout", self.dropout)])
    }

    fn label_outputs(&self) -> Option<u32> {
        Some(1)
    }

    fn row_activation(&self) -> Option<Activation> {
        Some(self.activation)
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        example_head::declare_row_head(context, head, 1);
    }
}
