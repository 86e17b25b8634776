//! WNLI: pronoun resolution as entailment.
//!
//! # What
//! Two sentences; label `1` if the second follows from the first, `0` if not.
//!
//! # Why
//! No paper trains on it: its training and dev sets contradict each other. It is needed for a complete submission, so
//! the most frequent class is predicted.
//!
//! # Definition
//! TSV with the header `index`, `sentence1`, `sentence2`, `label`; the test file lacks `label`. Every prediction is
//! `0`, the more frequent label of the test set. Metric: accuracy. It is part of no average.
//!
//! # Reference
//! Levesque et al. 2012, "The Winograd Schema Challenge", in the form of GLUE.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{SENTENCE_PAIR, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// WNLI. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Wnli {}

impl Task for Wnli {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["0", "1"]) }
    }

    fn folder(&self) -> &'static str {
        "WNLI"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        SENTENCE_PAIR.sets("WNLI.tsv")
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::Accuracy]
    }

    fn constant_prediction(&self) -> Option<u32> {
        Some(0)
    }
}
