//! Extraction of answers: predicts the first and the last token of the answer in each row.
//!
//! Devlin et al. 2019, section 4.2. The loss is `trainer::objectives::span_extraction`.

use schemars::JsonSchema;
use schemas::columns::TARGETS;
use serde::{Deserialize, Serialize};

use super::{HeadContext, Objective, Requirements};
use crate::weights::WeightPath;

/// Predicts the first and the last token of the answer in each row. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpanExtraction {
    /// View of labelled examples with `target = "span"`.
    pub view: String,
}

impl Default for SpanExtraction {
    fn default() -> Self {
        Self { view: "example".to_owned() }
    }
}

impl Objective for SpanExtraction {
    fn needs_row_attention(&self) -> Option<&'static str> {
        Some("needs attention between its two texts")
    }

    fn reads(&self) -> Requirements {
        Requirements::of_view(&self.view, TARGETS.spec())
    }

    fn label_outputs(&self) -> Option<u32> {
        Some(2)
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        head.sub("outputs").dense(i64::from(context.encoder.hidden), 2);
    }
}
