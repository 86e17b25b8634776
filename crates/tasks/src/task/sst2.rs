//! SST-2: sentiment of phrases from film reviews.
//!
//! # What
//! One phrase; label `1` if it is positive, `0` if not.
//!
//! # Why
//! A large task of single sentences.
//!
//! # Definition
//! TSV with the header `sentence`, `label`; the test file has `index`, `sentence`. Metric: accuracy.
//!
//! # Reference
//! Socher et al. 2013, "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{GlueColumns, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;
use crate::prompt::Prompt;

/// SST-2. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sst2 {}

impl Task for Sst2 {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["0", "1"]) }
    }

    fn folder(&self) -> &'static str {
        "SST-2"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        GlueColumns { first: "sentence", second: None, label: "label" }.sets("SST-2.tsv")
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::Accuracy, TaskMetric::F1]
    }

    fn prompt(&self) -> Option<Prompt> {
        Some(Prompt::new("{first} It was {mask}.", &["terrible", "great"]))
    }
}
