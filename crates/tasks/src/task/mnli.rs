//! MNLI: entailment in ten genres.
//!
//! # What
//! A premise and a hypothesis; label `entailment`, `neutral` or `contradiction`.
//!
//! # Why
//! The largest task of GLUE. Its dev and test sets are of the genres of the training set (matched) and of others
//! (mismatched).
//!
//! # Definition
//! TSV with the header `index`, …, `sentence1`, `sentence2`, `label1`, …, `gold_label`. Dev files have 16 columns and
//! the training file 12, so columns are found by name. Metric: accuracy. Averages of 8 numbers use the matched set
//! only.
//!
//! # Reference
//! Williams et al. 2018, "A Broad-Coverage Challenge Corpus for Sentence Understanding through Inference".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{GlueColumns, names};
use super::{ExampleSet, SetPurpose, Task};
use crate::example::TaskOutput;
use crate::metric::TaskMetric;
use crate::prompt::Prompt;

/// MNLI. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mnli {}

impl Task for Mnli {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["entailment", "neutral", "contradiction"]) }
    }

    fn folder(&self) -> &'static str {
        "MNLI"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        let columns = GlueColumns { first: "sentence1", second: Some("sentence2"), label: "gold_label" };
        let dev = |name, file| ExampleSet::new(SetPurpose::Dev, file, columns.labelled()).named(name);
        let test = |name, file, submission| {
            ExampleSet::new(SetPurpose::Test, file, columns.unlabelled("index")).named(name).submitted_as(submission)
        };
        vec![
            ExampleSet::new(SetPurpose::Train, "train.tsv", columns.labelled()),
            dev("dev_matched", "dev_matched.tsv"),
            dev("dev_mismatched", "dev_mismatched.tsv"),
            test("test_matched", "test_matched.tsv", "MNLI-m.tsv"),
            test("test_mismatched", "test_mismatched.tsv", "MNLI-mm.tsv"),
        ]
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::Accuracy, TaskMetric::MacroF1]
    }

    fn prompt(&self) -> Option<Prompt> {
        Some(Prompt::new("{first}? {mask}, {second}", &["Yes", "Maybe", "No"]))
    }
}
