//! SciERC: relations in abstracts.
//!
//! # What
//! A sentence with two marked entities, `[[ … ]]` and `<< … >>`; one of 7 relations.
//!
//! # Why
//! One of the four domain tasks of FE-MLM and DAPT.
//!
//! # Definition
//! JSONL with the keys `text`, `label`, in the splits of the files. Metric: macro F1.
//!
//! # Reference
//! Luan et al. 2018, "Multi-Task Identification of Entities, Relations, and Coreference for Scientific Knowledge Graph
//! Construction".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{jsonl_sets, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// SciERC. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SciErc {}

impl Task for SciErc {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class {
            labels: names(&[
                "COMPARE",
                "CONJUNCTION",
                "EVALUATE-FOR",
                "FEATURE-OF",
                "HYPONYM-OF",
                "PART-OF",
                "USED-FOR",
            ]),
        }
    }

    fn folder(&self) -> &'static str {
        "sciie"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        jsonl_sets(None)
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::MacroF1, TaskMetric::MicroF1, TaskMetric::Accuracy]
    }
}
