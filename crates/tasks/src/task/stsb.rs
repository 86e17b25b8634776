//! STS-B: similarity of sentences.
//!
//! # What
//! Two sentences with a similarity from 0 to 5.
//!
//! # Why
//! The only regression of GLUE.
//!
//! # Definition
//! TSV with a header; `sentence1` and `sentence2` are the texts, `score` the last column. Scores stay on the scale of
//! the file: 0 to 5. Predictions of a submission are limited to it. Metric: Spearman correlation for TACO and COCO-LM,
//! Pearson and Spearman for FE-MLM.
//!
//! # Reference
//! Cer et al. 2017, "SemEval-2017 Task 1: Semantic Textual Similarity".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::GlueColumns;
use super::{ExampleSet, Task};
use crate::average::Convention;
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// STS-B. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StsB {}

impl Task for StsB {
    fn output(&self) -> TaskOutput {
        TaskOutput::Score { range: 0.0..=5.0 }
    }

    fn folder(&self) -> &'static str {
        "STS-B"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        GlueColumns { first: "sentence1", second: Some("sentence2"), label: "score" }.sets("STS-B.tsv")
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::Spearman, TaskMetric::Pearson, TaskMetric::MeanSquaredError]
    }

    fn primary_metrics(&self, convention: Convention) -> Vec<TaskMetric> {
        match convention {
            Convention::TacoSmall | Convention::TacoBase | Convention::CocoLm => vec![TaskMetric::Spearman],
            Convention::FeMlm => vec![TaskMetric::Pearson, TaskMetric::Spearman],
        }
    }
}
