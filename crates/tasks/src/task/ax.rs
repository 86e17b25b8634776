//! AX: the diagnostic set of GLUE.
//!
//! # What
//! A premise and a hypothesis with the labels of MNLI.
//!
//! # Why
//! Its pairs are sorted by linguistic phenomenon. It has no training set: a model of MNLI predicts it.
//!
//! # Definition
//! TSV with the header `index`, `sentence1`, `sentence2`, without labels. Metric of the server: Matthews correlation.
//!
//! # Reference
//! Wang et al. 2019, "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{SENTENCE_PAIR, names};
use super::{ExampleSet, SetPurpose, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// AX. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ax {}

impl Task for Ax {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["entailment", "neutral", "contradiction"]) }
    }

    fn folder(&self) -> &'static str {
        "diagnostic"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        let layout = SENTENCE_PAIR.unlabelled("index");
        vec![ExampleSet::new(SetPurpose::Test, "diagnostic.tsv", layout).submitted_as("AX.tsv")]
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::Matthews, TaskMetric::Accuracy]
    }

    fn trained_as(&self) -> Option<&'static str> {
        Some("mnli")
    }
}
