//! SQuAD 1.1: answers to questions.
//!
//! # What
//! A question and a passage; the answer is a span of the passage.
//!
//! # Why
//! TaCL reports it. The other tasks do not test spans.
//!
//! # Definition
//! `train-v1.1.json` and `dev-v1.1.json`. Metrics: F1 and exact match, the largest over the gold answers of each
//! question.
//!
//! # Reference
//! Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::squad_sets;
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// SQuAD 1.1. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SquadV1 {}

impl Task for SquadV1 {
    fn output(&self) -> TaskOutput {
        TaskOutput::Spans { allows_none: false }
    }

    fn folder(&self) -> &'static str {
        "squad"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        squad_sets("v1.1")
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::AnswerF1, TaskMetric::ExactMatch]
    }
}
