//! RTE: textual entailment in news and Wikipedia.
//!
//! # What
//! Two sentences; label `entailment` if the second follows from the first, otherwise `not_entailment`.
//!
//! # Why
//! A small task: its dev set has 277 pairs, and one pair is 0.36 points.
//!
//! # Definition
//! TSV with the header `index`, `sentence1`, `sentence2`, `label`; the test file lacks `label`. Metric: accuracy.
//!
//! # Reference
//! Dagan et al. 2006 and the later RTE challenges, in the form of GLUE.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{SENTENCE_PAIR, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;
use crate::prompt::Prompt;

/// RTE. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rte {}

impl Task for Rte {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["entailment", "not_entailment"]) }
    }

    fn folder(&self) -> &'static str {
        "RTE"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        SENTENCE_PAIR.sets("RTE.tsv")
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::Accuracy, TaskMetric::F1]
    }

    fn prompt(&self) -> Option<Prompt> {
        Some(Prompt::new("{first}? {mask}, {second}", &["Yes", "No"]))
    }
}
