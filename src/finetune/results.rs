//! Metrics and predictions of a fine-tuned model.

use serde::Serialize;
use tasks::metric::{Judged, MetricScore, MetricValue, evaluate};
use tasks::submission::{Predicted, write_glue};
use tasks::task::ExampleSet;
use tasks::{AnyTask, Example, Gold, TaskOutput};

/// Predictions on a set of examples, in their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictions {
    /// Classes.
    Classes(Vec<u32>),
    /// Scores.
    Scores(Vec<f64>),
}

impl Predictions {
    /// Returns the predictions of rows of logits: the class with the highest logit, the first of equal ones, or the score.
    #[must_use]
    pub fn of_logits(output: &TaskOutput, logits: &[Vec<f64>]) -> Self {
        let best = |row: &Vec<f64>| {
            let better = |best: usize, at: usize| if row[at] > row[best] { at } else { best };
            u32::try_from((0..row.len()).reduce(better).unwrap_or(0)).expect("a task has fewer than 2^32 classes")
        };
        match output {
            TaskOutput::Score { .. } => Self::Scores(logits.iter().map(|row| row[0]).collect()),
            _ => Self::Classes(logits.iter().map(best).collect()),
        }
    }
}

/// Metrics of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetResult {
    /// Name of the set.
    pub set: String,
    /// Number of examples.
    pub examples: u64,
    /// Metrics; empty for a set without labels.
    pub metrics: Vec<MetricScore>,
}

impl SetResult {
    /// Computes the metrics of a task.
    #[must_use]
    pub fn new(task: &AnyTask, set: &str, examples: &[Example], predictions: &Predictions) -> Self {
        let metrics = match predictions {
            Predictions::Classes(predicted) => {
                let gold: Option<Vec<u32>> = examples.iter().map(|example| class(&example.gold)).collect();
                let classes = task.output().width();
                gold.map(|gold| evaluate(&Judged::Classes { classes, gold: &gold, predicted }, &task.metrics()))
            }
            Predictions::Scores(predicted) => {
                let gold: Option<Vec<f64>> = examples.iter().map(|example| score(&example.gold)).collect();
                gold.map(|gold| evaluate(&Judged::Scores { gold: &gold, predicted }, &task.metrics()))
            }
        };
        Self { set: set.to_owned(), examples: examples.len() as u64, metrics: metrics.unwrap_or_default() }
    }

    /// Returns the metrics as text: `matthews 0.4512, accuracy 0.7890`.
    #[must_use]
    pub fn text(&self) -> String {
        let number = |value: MetricValue| match value.value() {
            Some(value) => format!("{value:.4}"),
            None => "undefined".to_owned(),
        };
        self.metrics.iter().map(|it| format!("{} {}", it.metric, number(it.value))).collect::<Vec<_>>().join(", ")
    }
}

/// Metrics of all sets of a run, as `results.json` has them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskResults {
    /// Kind of the task.
    pub task: String,
    /// Steps after which the weights were saved.
    pub step: u64,
    /// Sets, in the order of the task.
    pub sets: Vec<SetResult>,
}

/// Returns the content of the file with the predictions of a set: GLUE's submission format.
///
/// # Panics
/// If there are more or fewer predictions than examples.
#[must_use]
pub fn predictions_file(task: &AnyTask, examples: &[Example], predictions: &Predictions) -> Vec<u8> {
    let ids: Vec<String> = examples.iter().map(|example| example.id.clone()).collect();
    let predicted = match predictions {
        Predictions::Classes(classes) => Predicted::Classes(classes),
        Predictions::Scores(scores) => Predicted::Scores(scores),
    };
    let mut bytes = Vec::new();
    write_glue(&mut bytes, &task.output(), &ids, predicted).expect("memory does not fail");
    bytes
}

/// Name of the file with the predictions of a set.
#[must_use]
pub fn predictions_name(set: &ExampleSet) -> String {
    set.submission.clone().unwrap_or_else(|| format!("{}.tsv", set.name))
}

fn class(gold: &Gold) -> Option<u32> {
    if let Gold::Class(class) = gold { Some(*class) } else { None }
}

fn score(gold: &Gold) -> Option<f64> {
    if let Gold::Score(score) = gold { Some(*score) } else { None }
}
