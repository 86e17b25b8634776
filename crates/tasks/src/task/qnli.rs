//! QNLI: whether a sentence answers a question.
//!
//! # What
//! A question and a sentence of Wikipedia; label `entailment` if the sentence has the answer, otherwise
//! `not_entailment`.
//!
//! # Why
//! SQuAD as a task of pairs.
//!
//! # Definition
//! TSV with the header `index`, `question`, `sentence`, `label`; the test file lacks `label`. Metric: accuracy.
//!
//! # Reference
//! Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text", in the form of GLUE.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{GlueColumns, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;
use crate::prompt::Prompt;

/// QNLI. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Qnli {}

impl Task for Qnli {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["entailment", "not_entailment"]) }
    }

    fn folder(&self) -> &'static str {
        "QNLI"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        GlueColumns { first: "question", second: Some("sentence"), label: "label" }.sets("QNLI.tsv")
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::Accuracy, TaskMetric::F1]
    }

    fn prompt(&self) -> Option<Prompt> {
        Some(Prompt::new("{first}? {mask}, {second}", &["Yes", "No"]))
    }
}
