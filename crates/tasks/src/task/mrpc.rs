//! MRPC: paraphrases in news.
//!
//! # What
//! Two sentences; label `1` if they are paraphrases, `0` if not.
//!
//! # Why
//! A small task. The papers differ in its metric.
//!
//! # Definition
//! TSV with a header, which begins with a byte order mark: `Quality` is the label, `#1 String` and `#2 String` the
//! texts. The test file has `index` instead of the label. Quotes are plain characters. Metric: F1 for TACO, accuracy
//! for COCO-LM, both for FE-MLM.
//!
//! # Reference
//! Dolan and Brockett 2005, "Automatically Constructing a Corpus of Sentential Paraphrases".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{GlueColumns, names, paraphrase_metrics};
use super::{ExampleSet, Task};
use crate::average::Convention;
use crate::example::TaskOutput;
use crate::metric::TaskMetric;
use crate::prompt::Prompt;

/// MRPC. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mrpc {}

impl Task for Mrpc {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["0", "1"]) }
    }

    fn folder(&self) -> &'static str {
        "MRPC"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        let columns = GlueColumns { first: "#1 String", second: Some("#2 String"), label: "Quality" };
        columns.sets("MRPC.tsv")
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::Accuracy, TaskMetric::F1]
    }

    fn prompt(&self) -> Option<Prompt> {
        Some(Prompt::new("{first} {mask}, {second}", &["No", "Yes"]))
    }

    fn primary_metrics(&self, convention: Convention) -> Vec<TaskMetric> {
        paraphrase_metrics(convention)
    }
}
