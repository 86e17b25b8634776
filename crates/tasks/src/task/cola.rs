//! CoLA: acceptability of sentences.
//!
//! # What
//! One sentence; label `1` if it is acceptable English, `0` if not.
//!
//! # Why
//! The GLUE task that depends most on syntax, and the one with the largest differences between the papers.
//!
//! # Definition
//! Training and dev files have no header and four columns: source, label, the author's mark, sentence. The test file
//! has the header `index`, `sentence`. Metric: Matthews correlation; TACO's text says accuracy, but its numbers are
//! Matthews correlations.
//!
//! # Reference
//! Warstadt et al. 2019, "Neural Network Acceptability Judgments".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{names, tsv};
use super::{ExampleSet, SetPurpose, Task};
use crate::example::TaskOutput;
use crate::layout::{ExampleColumns, FileLayout, GoldColumns};
use crate::metric::TaskMetric;
use crate::prompt::Prompt;

/// CoLA. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cola {}

impl Task for Cola {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: names(&["0", "1"]) }
    }

    fn folder(&self) -> &'static str {
        "CoLA"
    }

    fn sets(&self) -> Vec<ExampleSet> {
        let test = ExampleColumns {
            id: Some("index".into()),
            first: "sentence".into(),
            second: None,
            gold: GoldColumns::Absent,
        };
        vec![
            ExampleSet::new(SetPurpose::Train, "train.tsv", labelled()),
            ExampleSet::new(SetPurpose::Dev, "dev.tsv", labelled()),
            ExampleSet::new(SetPurpose::Test, "test.tsv", tsv(true, test)).submitted_as("CoLA.tsv"),
        ]
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        vec![TaskMetric::Matthews, TaskMetric::Accuracy, TaskMetric::F1]
    }

    fn prompt(&self) -> Option<Prompt> {
        Some(Prompt::new("{first} This is {mask}.", &["incorrect", "correct"]))
    }
}

/// Returns the layout of the files without header.
fn labelled() -> FileLayout {
    let gold = GoldColumns::Label(1.into());
    tsv(false, ExampleColumns { id: None, first: 3.into(), second: None, gold })
}
