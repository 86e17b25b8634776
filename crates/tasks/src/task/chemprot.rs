//! ChemProt: relations of chemicals and proteins.
//!
//! # What
//! A sentence with two marked entities, `[[ … ]]` and `<< … >>`; one of 13 relations.
//!
//! # Why
//! A domain task of DAPT and SciBERT with rare classes.
//!
//! # Definition
//! JSONL with the keys `text`, `label`, in the splits of the files. Metric: micro F1. DAPT reports micro F1 for it.
//!
//! # Reference
//! Kringelum et al. 2016, "ChemProt-3.0: a global chemical biology diseases mapping".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{jsonl_sets, names};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

/// ChemProt. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChemProt {}

impl Task for ChemProt {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class {
            labels: names(&[
                "ACTIVATOR",
                "AGONIST",
                "AGONIST-ACTIVATOR",
                "AGONIST-INHIBITOR",
                "ANTAGONIST",
                "DOWNREGULATOR",
                "INDIRECT-DOWNREGULATOR",
                "INDIRECT-UPREGULATOR",
                "INHIBITOR",
                "PRODUCT-OF",
                "SUBSTRATE",
                "SUBSTRATE_PRODUCT-OF",
                "UPREGULATOR",
            ]),
        }
    }

    fn folder(&self) -> &'static str {
        "chemprot"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        jsonl_sets(None)
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::MicroF1, TaskMetric::MacroF1, TaskMetric::Accuracy]
    }
}
