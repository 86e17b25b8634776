//! Classification of one text or of two, configured by keys alone.
//!
//! # What
//! Any TSV, CSV, JSONL or Parquet file with one or two texts and a label.
//!
//! # Why
//! Own tasks need no code.
//!
//! # Definition
//! `files` names the files, `text`, `second_text` and `label` the columns, `labels` the labels in the order of their
//! indices. In two-class tasks, the second label is the positive class. Labels may be texts, numbers or truth values.
//! `template` and `words` are the prompt for fine-tuning on a few examples.
//!
//! # Reference
//! None: the layout is the user's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_files::{DataFiles, label_problems, metric_problem, metrics};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::layout::{ColumnRef, GoldColumns};
use crate::metric::TaskMetric;
use crate::prompt::Prompt;

/// Classification of any table. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CustomClassification {
    /// Files and their format.
    pub files: DataFiles,
    /// Column of the first text.
    pub text: ColumnRef,
    /// Column of the second text. Without it, the task has one text.
    pub second_text: Option<ColumnRef>,
    /// Column of the label.
    pub label: ColumnRef,
    /// Labels in the order of their indices.
    pub labels: Vec<String>,
    /// Primary metric.
    pub metric: TaskMetric,
    /// Template of a prompt: a text with `{first}`, `{second}` for tasks with two texts, and `{mask}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Label words of a prompt, in the order of `labels`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

impl Default for CustomClassification {
    fn default() -> Self {
        Self {
            files: DataFiles::default(),
            text: "text".into(),
            second_text: None,
            label: "label".into(),
            labels: vec!["0".to_owned(), "1".to_owned()],
            metric: TaskMetric::Accuracy,
            template: None,
            words: Vec::new(),
        }
    }
}

impl Task for CustomClassification {
    fn output(&self) -> TaskOutput {
        TaskOutput::Class { labels: self.labels.clone() }
    }

    fn folder(&self) -> &'static str {
        ""
    }

    fn sets(&self) -> Vec<ExampleSet> {
        self.files.sets(&self.text, self.second_text.as_ref(), &GoldColumns::Label(self.label.clone()))
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        metrics(self.metric, &self.output())
    }

    fn prompt(&self) -> Option<Prompt> {
        Some(Prompt { template: self.template.clone()?, words: self.words.clone() })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.files.problems();
        problems.extend(label_problems(&self.labels));
        problems.extend(metric_problem(self.metric, &self.output()));
        match self.prompt() {
            Some(prompt) => problems.extend(prompt.problems(self.labels.len(), self.second_text.is_some())),
            None if !self.words.is_empty() => problems.push("`words` needs a `template`".to_owned()),
            None => {}
        }
        problems
    }
}
