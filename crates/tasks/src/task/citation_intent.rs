//! ACL-ARC: intents of citations.
//!
//! # What
//! A sentence that cites a paper; one of 6 intents.
//!
//! # Why
//! One of the four domain tasks of FE-MLM and DAPT. Its test set has 139 sentences: one is 0.7 points of accuracy.
//!
//! # Definition
//! JSONL with the keys `text`, `label`, in the splits of the files. Metric: macro F1.
//!
//! # Reference
//! Jurgens et al. 2018, "Measuring the Evolution of a Scientific Field through Citation Frames".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{jsonl_sets, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// ACL-ARC. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AclArc {}

impl Task for AclArc {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class {
            labels: names(&["Background", "CompareOrContrast", "Extends", "Future", "Motivation", "Uses"]),
        }
    }

    fn folder(&self) -> &'static str {
        "citation_intent"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        jsonl_sets(None)
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::MacroF1, TaskMetric::MicroF1, TaskMetric::Accuracy]
    }
}
