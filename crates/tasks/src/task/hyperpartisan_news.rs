//! HyperPartisan: one-sided news.
//!
//! # What
//! A news article; label `true` if it is hyperpartisan, `false` if not.
//!
//! # Why
//! One of the four domain tasks of FE-MLM and DAPT, with long documents.
//!
//! # Definition
//! JSONL with the keys `text`, `label` and `id`, in the splits of the files. Metric: macro F1.
//!
//! # Reference
//! Kiesel et al. 2019, "SemEval-2019 Task 4: Hyperpartisan News Detection".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{jsonl_sets, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// HyperPartisan. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HyperPartisan {}

impl Task for HyperPartisan {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["false", "true"]) }
    }

    fn folder(&self) -> &'static str {
        "hyperpartisan_news"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        jsonl_sets(Some("id"))
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::MacroF1, TaskMetric::MicroF1, TaskMetric::Accuracy]
    }
}
