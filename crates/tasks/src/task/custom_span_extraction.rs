//! Answers as spans of a passage, configured by keys alone.
//!
//! # What
//! SQuAD JSON files, or any TSV, CSV, JSONL or Parquet file with a question, a passage and answers.
//!
//! # Why
//! Own tasks need no code.
//!
//! # Definition
//! `files` names the files; with `squad_json = true` they are in the format of SQuAD, and the columns are ignored.
//! Otherwise `answer` and `answer_start` are a text and its character offset in the passage, or two lists of equal
//! length. `answers.text` and `answers.answer_start` are the keys of the data sets library.
//!
//! # Reference
//! Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text", for the format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_files::{DataFiles, metric_problem, metrics};
use super::{ExampleSet, Task};
use crate::example::TaskOutput;
use crate::layout::{ColumnRef, FileLayout, GoldColumns};
use crate::metric::TaskMetric;

/// Answers within passages of any table. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CustomSpanExtraction {
    /// Files and their format.
    pub files: DataFiles,
    /// Whether the files are in the format of SQuAD.
    pub squad_json: bool,
    /// Column of the question.
    pub question: ColumnRef,
    /// Column of the passage.
    pub passage: ColumnRef,
    /// Column of the answers.
    pub answer: ColumnRef,
    /// Column of the character offsets of the answers.
    pub answer_start: ColumnRef,
    /// Whether questions may be unanswerable.
    pub allow_unanswerable: bool,
    /// Primary metric.
    pub metric: TaskMetric,
}

impl Default for CustomSpanExtraction {
    fn default() -> Self {
        Self {
            files: DataFiles { train: "train.jsonl".to_owned(), dev: "dev.jsonl".to_owned(), ..DataFiles::default() },
            squad_json: false,
            question: "question".into(),
            passage: "context".into(),
            answer: "answers.text".into(),
            answer_start: "answers.answer_start".into(),
            allow_unanswerable: false,
            metric: TaskMetric::AnswerF1,
        }
    }
}

impl Task for CustomSpanExtraction {
    fn output(&self) -> TaskOutput {
        TaskOutput::Spans { allows_none: self.allow_unanswerable }
    }

    fn folder(&self) -> &'static str {
        ""
    }

    fn sets(&self) -> Vec<ExampleSet> {
        if self.squad_json {
            let set = |(purpose, file)| ExampleSet::new(purpose, file, FileLayout::SquadJson);
            return self.files.named().map(set).collect();
        }
        let gold = GoldColumns::Answers { texts: self.answer.clone(), starts: self.answer_start.clone() };
        self.files.sets(&self.question, Some(&self.passage), &gold)
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        metrics(self.metric, &self.output())
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = if self.squad_json { Vec::new() } else { self.files.problems() };
        problems.extend(metric_problem(self.metric, &self.output()));
        problems
    }
}
