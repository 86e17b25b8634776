//! Labels of words, configured by keys alone.
//!
//! # What
//! Files with one word per line and a blank line after each sentence (CoNLL), or any TSV, CSV, JSONL or Parquet file
//! with words and labels.
//!
//! # Why
//! Named entities and other sequence labelling, as in the experiments of TaCL.
//!
//! # Definition
//! `files` names the files. With `word_file = true` they have one word per line; `word_column` and `label_column` are
//! numbers from 0, and without `label_column` the label is the last field. Otherwise `text` and `tags` are columns of
//! lists, or of words and labels between blanks. Metric: F1 of entities by the scheme that the labels show (IO, BIO, IOB1,
//! BIOES, BILOU, or types without prefixes); for other labels set `metric = "accuracy"`.
//!
//! # Reference
//! Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 Shared Task", for the format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_files::{DataFiles, label_problems, metric_problem, metrics};
use super::{ExampleSet, SetPurpose, Task};
use crate::example::TaskOutput;
use crate::layout::{ColumnRef, FileLayout, GoldColumns, WordFileLayout};
use crate::metric::{EntityScheme, TaskMetric};

/// Labels of words. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CustomTokenClassification {
    /// Files and their format.
    pub files: DataFiles,
    /// Whether the files have one word per line.
    pub word_file: bool,
    /// Number of the field with the word, from 0.
    pub word_column: usize,
    /// Number of the field with the label, from 0. Without it, the last one.
    pub label_column: Option<usize>,
    /// Column of the words, in files that are tables.
    pub text: ColumnRef,
    /// Column of the labels, in files that are tables.
    pub tags: ColumnRef,
    /// Labels in the order of their indices.
    pub labels: Vec<String>,
    /// Primary metric.
    pub metric: TaskMetric,
}

impl Default for CustomTokenClassification {
    fn default() -> Self {
        Self {
            files: DataFiles { train: "train.txt".to_owned(), dev: "dev.txt".to_owned(), ..DataFiles::default() },
            word_file: true,
            word_column: 0,
            label_column: None,
            text: "tokens".into(),
            tags: "tags".into(),
            labels: ["O", "B-ENT", "I-ENT"].map(str::to_owned).to_vec(),
            metric: TaskMetric::EntityF1,
        }
    }
}

impl Task for CustomTokenClassification {
    fn output(&self) -> TaskOutput {
        TaskOutput::WordLabels { labels: self.labels.clone() }
    }

    fn folder(&self) -> &'static str {
        ""
    }

    fn sets(&self) -> Vec<ExampleSet> {
        if !self.word_file {
            return self.files.sets(&self.text, None, &GoldColumns::Label(self.tags.clone()));
        }
        let set = |(purpose, file)| {
            let layout = WordFileLayout {
                word_column: self.word_column,
                label_column: self.label_column,
                has_labels: purpose != SetPurpose::Test || self.files.test_has_labels,
            };
            ExampleSet::new(purpose, file, FileLayout::WordFile(layout))
        };
        self.files.named().map(set).collect()
    }

    fn metrics(&self) -> Vec<TaskMetric> {
        metrics(self.metric, &self.output())
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = if self.word_file { Vec::new() } else { self.files.problems() };
        problems.extend(label_problems(&self.labels));
        if self.word_file && self.label_column == Some(self.word_column) {
            problems.push(format!("`word_column` and `label_column` are both {}", self.word_column));
        }
        problems.extend(metric_problem(self.metric, &self.output()));
        if self.metric != TaskMetric::Accuracy {
            let scheme = EntityScheme::from_labels(self.labels.iter().map(String::as_str));
            problems.extend(scheme.err().map(|problem| format!("`labels`: {problem}")));
        }
        problems
    }
}
