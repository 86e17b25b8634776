//! QQP: duplicate questions of Quora.
//!
//! # What
//! Two questions; label `1` if they are duplicates, `0` if not.
//!
//! # Why
//! A large task. The papers differ in its metric.
//!
//! # Definition
//! TSV with the header `id`, `qid1`, `qid2`, `question1`, `question2`, `is_duplicate`; the test file has `id`,
//! `question1`, `question2`. A few training lines have another number of fields; they are dropped and counted. Metric:
//! F1 for TACO, accuracy for COCO-LM, both for FE-MLM.
//!
//! # Reference
//! Wang et al. 2019, "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{GlueColumns, names, paraphrase_metrics};
use super::{ExampleSet, SetPurpose, Task};
use crate::average::Convention;
use crate::example::TaskOutput;
use crate::layout::{FileLayout, TableLayout, WidthPolicy};
use crate::metric::TaskMetric;
use crate::prompt::Prompt;

/// QQP. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Qqp {}

impl Task for Qqp {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["0", "1"]) }
    }

    fn folder(&self) -> &'static str {
        "QQP"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        let columns = GlueColumns { first: "question1", second: Some("question2"), label: "is_duplicate" };
        vec![
            ExampleSet::new(SetPurpose::Train, "train.tsv", dropping(columns.labelled())),
            ExampleSet::new(SetPurpose::Dev, "dev.tsv", dropping(columns.labelled())),
            ExampleSet::new(SetPurpose::Test, "test.tsv", columns.unlabelled("id")).submitted_as("QQP.tsv"),
        ]
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

/// Returns a layout that drops lines of another number of fields. Test lines are never dropped: each needs a prediction.
fn dropping(layout: FileLayout) -> FileLayout {
    match layout {
        FileLayout::Table(table) => FileLayout::Table(TableLayout { width: WidthPolicy::Drop, ..table }),
        other => other,
    }
}
