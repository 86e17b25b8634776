//! Classification of rows: predicts the class of each labelled example.
//!
//! Devlin et al. 2019, section 4.1. The loss is `trainer::objectives::classification`.

use schemars::JsonSchema;
use schemas::columns::TARGETS;
use serde::{Deserialize, Serialize};

use super::row_head::{self, Activation};
use super::{Expectation, HeadContext, Objective, Requirements, StartFacts};
use crate::networks::MAIN;
use crate::pass::Pass;
use crate::weights::WeightPath;

/// Predicts the class of each labelled example. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Classification {
    /// View of labelled examples.
    pub view: String,
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
        Requirements { passes: vec![Pass::new(MAIN, &self.view)], columns: vec![(self.view.clone(), TARGETS.spec())] }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems =
            row_head::dropout_problems(&[("input_dropout", self.input_dropout), ("dropout", self.dropout)]);
        if !(2..=100_000).contains(&self.classes) {
            problems.push(format!("`classes` is {}; write a number from 2 to 100,000", self.classes));
        }
        let weights = &self.class_weights;
        if !weights.is_empty() && weights.len() != self.classes as usize {
            problems.push(format!("`class_weights` has {} numbers for {} classes", weights.len(), self.classes));
        }
        if weights.iter().any(|weight| !(weight.is_finite() && *weight >= 0.0))
            || weights.iter().sum::<f64>() <= 0.0 && !weights.is_empty()
        {
            problems.push("`class_weights` must be at least 0, and one must be larger".to_owned());
        }
        problems
    }

    fn expected_start(&self, _: StartFacts) -> Vec<Expectation> {
        let hint = "indistinguishable classes have a loss of ln(classes); usual causes: labels of other rows, or a \
            classifier with large initial values";
        vec![Expectation::near("", f64::from(self.classes).ln(), 0.2, hint)]
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        row_head::declare(context, head, self.classes);
    }
}
