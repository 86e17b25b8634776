//! Sequence contrast: two views of one row have similar vectors, views of different rows have different ones.
//!
//! Meng et al. 2021, COCO-LM, section 3.2. The loss is `trainer::objectives::sequence_contrastive`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Expectation, HeadContext, Objective, Requirements, RowSet, StartFacts, temperature_problem};
use crate::networks::MAIN;
use crate::pass::Pass;
use crate::weights::{self, WeightPath};

/// Vectors that an anchor is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Negatives {
    /// All other vectors of both views, as in the paper.
    #[default]
    Both,
    /// Vectors of the other view.
    Cross,
}

/// Trains the sequence vectors of two views of one sample to be similar, and those of other samples to differ. See the
/// [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SequenceContrastive {
    /// View of a row.
    pub view: String,
    /// Another view of the same row.
    pub positive: String,
    /// Layers between hidden states and the contrast.
    pub head: VectorForm,
    /// Negatives of an anchor.
    pub negatives: Negatives,
    /// Rows whose vectors are negatives. With `global_batch`, neither the micro-batch size nor the number of ranks
    /// changes the loss, except for draws that depend on micro-batches, such as dropout. A rank with several
    /// micro-batches in a step then encodes both views once more, without gradient. Validation, and the metric
    /// `uniformity`, use the rows of a micro-batch.
    pub negatives_from: RowSet,
    /// Temperature `τ`.
    pub temperature: f64,
}

impl Default for SequenceContrastive {
    fn default() -> Self {
        Self {
            view: "corrupted".to_owned(),
            positive: "cropped".to_owned(),
            head: VectorForm::Transform,
            negatives: Negatives::Both,
            negatives_from: RowSet::MicroBatch,
            temperature: 1.0,
        }
    }
}

/// Layers between the hidden state of the first position and the contrast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VectorForm {
    /// Dense layer, GELU and layer norm, as in the released checkpoints.
    Transform,
    /// No layer, as in the paper.
    None,
}

impl Objective for SequenceContrastive {
    fn needs_row_attention(&self) -> Option<&'static str> {
        Some("compares vectors of whole rows, and two views of a row may begin with different documents")
    }

    fn reads(&self) -> Requirements {
        Requirements { passes: vec![Pass::new(MAIN, &self.view), Pass::new(MAIN, &self.positive)], columns: Vec::new() }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::from_iter(temperature_problem(self.temperature, "usually 1"));
        if self.view == self.positive {
            problems.push(format!("`view` and `positive` are both `{}`; name two different views", self.view));
        }
        problems
    }

    fn unused_keys(&self) -> Vec<&'static str> {
        if self.negatives_from == RowSet::MicroBatch { vec!["negatives_from"] } else { Vec::new() }
    }

    fn contrasted_rows(&self) -> Option<RowSet> {
        Some(self.negatives_from)
    }

    fn expected_start(&self, facts: StartFacts) -> Vec<Expectation> {
        // A lower temperature amplifies the random initial differences.
        if (self.temperature - 1.0).abs() > 1e-6 {
            return Vec::new();
        }
        let rows = match self.negatives_from {
            RowSet::MicroBatch => facts.micro_batch_rows,
            RowSet::GlobalBatch => facts.global_batch_rows,
        };
        let candidates = match self.negatives {
            Negatives::Both => 2.0 * rows - 1.0,
            Negatives::Cross => rows,
        };
        let hint = "indistinguishable rows have a loss of ln(number of candidates); usual causes: another number of rows \
            than planned, or a vector that is not normalized";
        vec![Expectation::near("", candidates.ln(), 0.2, hint)]
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        if self.head == VectorForm::Transform {
            weights::transform(context.encoder, i64::from(context.encoder.hidden), head);
        }
    }
}
