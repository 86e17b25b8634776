//! AGNews: topics of news.
//!
//! # What
//! A news item; one of 4 topics.
//!
//! # Why
//! One of the four domain tasks of FE-MLM and DAPT.
//!
//! # Definition
//! JSONL with the keys `text`, `label` and `id`, in the splits of the files. Metric: macro F1.
//!
//! # Reference
//! Zhang et al. 2015, "Character-level Convolutional Networks for Text Classification".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{jsonl_sets, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// AGNews. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgNews {}

impl Task for AgNews {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["World", "Sports", "Business", "Sci/Tech"]) }
    }

    fn folder(&self) -> &'static str {
        "ag_news"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        jsonl_sets(Some("id"))
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::MacroF1, TaskMetric::MicroF1, TaskMetric::Accuracy]
    }
}
