//! SciCite: intents of citations.
//!
//! # What
//! A sentence that cites a paper; one of 3 intents.
//!
//! # Why
//! A larger counterpart of ACL-ARC.
//!
//! # Definition
//! JSONL with the keys `text`, `label`, in the splits of the files. Metric: macro F1.
//!
//! # Reference
//! Cohan et al. 2019, "Structural Scaffolds for Citation Intent Classification in Scientific Publications".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{jsonl_sets, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// SciCite. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SciCite {}

impl Task for SciCite {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["background", "method", "result"]) }
    }

    fn folder(&self) -> &'static str {
        "scicite"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        jsonl_sets(None)
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::MacroF1, TaskMetric::MicroF1, TaskMetric::Accuracy]
    }
}
