//! Regression of one text or of two, configured by keys alone.
//!
//! # What
//! Any TSV, CSV, JSONL or Parquet file with one or two texts and a score.
//!
//! # Why
//! Own tasks need no code.
//!
//! # Definition
//! `files` names the files, `text`, `second_text` and `score` the columns. Scores outside of `min` and `max` are
//! errors of the file. Predictions may exceed the range.
//!
//! # Reference
//! None: the layout is the user's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_files::{DataFiles, metric_problem, metrics};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::layout::{ColumnRef, GoldColumns};
use crate::metric::TaskMetric;

/// Regression of any table. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CustomRegression {
    /// Files and their format.
    pub files: DataFiles,
    /// Column of the first text.
    pub text: ColumnRef,
    /// Column of the second text. Without it, the task has one text.
    pub second_text: Option<ColumnRef>,
    /// Column of the score.
    pub score: ColumnRef,
    /// Smallest score of the files.
    pub min: f64,
    /// Largest score of the files.
    pub max: f64,
    /// Primary metric.
    pub metric: TaskMetric,
}

impl Default for CustomRegression {
    fn default() -> Self {
        Self {
            files: DataFiles::default(),
            text: "text".into(),
            second_text: None,
            score: "score".into(),
            min: 0.0,
            max: 1.0,
            metric: TaskMetric::Spearman,
        }
    }
}

impl Task for CustomRegression {
    fn output(&self) -> TaskOutput {
        TaskOutput::Score { range: self.min..=self.max }
    }

    fn folder(&self) -> &'static str {
        ""
    }

    fn sets(&self) -> Vec<ExampleSet> {
        self.files.sets(&self.text, self.second_text.as_ref(), &GoldColumns::Label(self.score.clone()))
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        metrics(self.metric, &self.output())
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.files.problems();
        if !(self.min.is_finite() && self.max.is_finite() && self.min < self.max) {
            problems.push(format!("`min` = {} and `max` = {} are no range", self.min, self.max));
        }
        problems.extend(metric_problem(self.metric, &self.output()));
        problems
    }
}
