//! SQuAD 2.0: answers to questions.
//!
//! # What
//! A question and a passage; the answer is a span of the passage, or there is none.
//!
//! # Why
//! TaCL and COCO-LM report it.
//!
//! # Definition
//! `train-v2.0.json` and `dev-v2.0.json`. Metrics: F1 and exact match, the largest over the gold answers of each
//! question.
//!
//! # Reference
//! Rajpurkar et al. 2018, "Know What You Don't Know: Unanswerable Questions for SQuAD".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::squad_sets;
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// SQuAD 2.0. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SquadV2 {}

impl Task for SquadV2 {
    fn output(&self) -> TaskOutput {
        TaskOutput::Spans { allows_none: true }
    }

    fn folder(&self) -> &'static str {
        "squad"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        squad_sets("v2.0")
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![
            TaskMetric::AnswerF1,
            TaskMetric::ExactMatch,
            TaskMetric::BestAnswerF1,
            TaskMetric::BestExactMatch,
            TaskMetric::AnswerableF1,
            TaskMetric::AnswerableExactMatch,
            TaskMetric::UnanswerableExactMatch,
        ]
    }
}
