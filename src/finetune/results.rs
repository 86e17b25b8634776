//! Metrics and predictions of a fine-tuned model.

use serde::{Deserialize, Serialize};
use tasks::metric::{
    Judged, MetricScore, MetricValue, PredictedAnswer, SquadVersion, TaskMetric, UndefinedReason, evaluate,
};
use tasks::submission::{Predicted, QuestionAnswer, write_glue, write_squad, write_words};
use tasks::task::ExampleSet;
use tasks::{AnyTask, Example, Gold, TaskOutput};

use super::predictions::{Predictions, allows_none, no_answer_threshold};

/// Name of the file with the metrics in a run folder.
pub const RESULTS: &str = "results.json";
/// Folder with the predictions in a run folder.
pub const PREDICTIONS: &str = "predictions";

/// Metrics of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetResult {
    /// Name of the set.
    pub set: String,
    /// Number of examples.
    pub examples: u64,
    /// Metrics; empty for a set without labels.
    pub metrics: Vec<MetricScore>,
    /// Whether a model has the same prediction for all examples.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_constant: bool,
}

impl SetResult {
    /// Computes the metrics of a task.
    #[must_use]
    pub fn new(task: &AnyTask, set: &str, examples: &[Example], predictions: &Predictions) -> Self {
        let golds: Vec<&Gold> = examples.iter().map(|example| &example.gold).collect();
        let metrics = metrics(task, &golds, predictions);
        let is_constant = task.constant_prediction().is_none() && predictions.is_constant(&task.output());
        Self { set: set.to_owned(), examples: examples.len() as u64, metrics, is_constant }
    }

    /// Returns the metrics as text: `matthews 0.4512, accuracy 0.7890`.
    #[must_use]
    pub fn text(&self) -> String {
        let metrics = self.metrics.iter().map(|it| format!("{} {}", it.metric, decimals(it.value)));
        let constant = if self.is_constant { " (every prediction is the same)" } else { "" };
        metrics.collect::<Vec<_>>().join(", ") + constant
    }
}

/// Metrics of all sets of a run, as [`RESULTS`] has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResults {
    /// Kind of the task.
    pub task: String,
    /// Steps after which the weights were saved.
    pub step: u64,
    /// Sets, in the order of the task.
    pub sets: Vec<SetResult>,
    /// Metrics of the last checkpoint; `None` if it is the evaluated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastResults>,
}

/// Metrics of the last checkpoint of a run, if the best one is another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastResults {
    /// Step of the checkpoint.
    pub step: u64,
    /// Results of each set.
    pub sets: Vec<SetResult>,
}

fn value_in(sets: &[SetResult], set: &str, metric: TaskMetric) -> MetricValue {
    let set = sets.iter().find(|it| it.set == set);
    let found = set.and_then(|set| set.metrics.iter().find(|it| it.metric == metric));
    found.map_or(MetricValue::Undefined(UndefinedReason::NotApplicable), |it| it.value)
}

impl TaskResults {
    /// Returns the value of a metric on a set. A metric that is absent has no value.
    pub(crate) fn value(&self, set: &str, metric: TaskMetric) -> MetricValue {
        value_in(&self.sets, set, metric)
    }

    /// Returns the value of the last checkpoint.
    pub(crate) fn last_value(&self, set: &str, metric: TaskMetric) -> MetricValue {
        value_in(self.last.as_ref().map_or(&self.sets, |last| &last.sets), set, metric)
    }

    /// Returns whether the predictions on a set are all equal.
    pub(crate) fn is_constant(&self, set: &str) -> bool {
        self.sets.iter().any(|it| it.set == set && it.is_constant)
    }

    /// Returns the metrics of the first set with labels as text.
    pub(crate) fn text(&self) -> String {
        let set = self.sets.iter().find(|set| !set.metrics.is_empty());
        set.map_or_else(|| "no labels".to_owned(), |set| format!("{}: {}", set.set, set.text()))
    }
}

/// Returns a value with four decimals.
pub(crate) fn decimals(value: MetricValue) -> String {
    value.value().map_or_else(|| "undefined".to_owned(), |value| format!("{value:.4}"))
}

/// Returns the content of the file with the predictions of a set: the submission format of GLUE or SQuAD, or a word and
/// its label per line.
///
/// # Panics
/// If there are more or fewer predictions than examples.
#[must_use]
pub fn predictions_file(task: &AnyTask, examples: &[Example], predictions: &Predictions) -> Vec<u8> {
    let ids: Vec<String> = examples.iter().map(|example| example.id.clone()).collect();
    let mut bytes = Vec::new();
    let output = task.output();
    let written = match predictions {
        Predictions::Classes(classes) => write_glue(&mut bytes, &output, &ids, Predicted::Classes(classes)),
        Predictions::Scores(scores) => write_glue(&mut bytes, &output, &ids, Predicted::Scores(scores)),
        Predictions::Answers(answers) => {
            let threshold = no_answer_threshold(&output);
            let submitted = answers.iter().map(|answer| answer.submitted(threshold));
            let answers: Vec<_> = ids.iter().zip(submitted).map(|(id, text)| QuestionAnswer { id, text }).collect();
            write_squad(&mut bytes, &answers)
        }
        Predictions::Words(words) => {
            let sentences = examples.iter().zip(words);
            let sentences = sentences.map(|(example, labels)| {
                let words = example.words.iter().map(|range| &example.first[range.clone()]);
                words.zip(labels.iter().map(|&label| output.labels()[label as usize].as_str()))
            });
            write_words(&mut bytes, sentences)
        }
    };
    written.expect("memory does not fail");
    bytes
}

/// Name of the file with the predictions of a set.
#[must_use]
pub fn predictions_name(task: &AnyTask, set: &ExampleSet) -> String {
    let ending = match task.output() {
        TaskOutput::Class { .. } | TaskOutput::Score { .. } => "tsv",
        TaskOutput::Spans { .. } => "json",
        TaskOutput::WordLabels { .. } => "txt",
    };
    set.submission.clone().unwrap_or_else(|| format!("{}.{ending}", set.name))
}

/// Computes the metrics of a task. Without a gold value of every example there are none.
pub(super) fn metrics(task: &AnyTask, golds: &[&Gold], predictions: &Predictions) -> Vec<MetricScore> {
    let output = task.output();
    let score = |judged: &Judged<'_>| evaluate(judged, &task.metrics());
    let found = match predictions {
        Predictions::Classes(predicted) => {
            values(golds, |gold| if let Gold::Class(class) = gold { Some(*class) } else { None })
                .map(|gold| score(&Judged::Classes { classes: output.width(), gold: &gold, predicted }))
        }
        Predictions::Scores(predicted) => {
            values(golds, |gold| if let Gold::Score(score) = gold { Some(*score) } else { None })
                .map(|gold| score(&Judged::Scores { gold: &gold, predicted }))
        }
        Predictions::Answers(answers) => {
            let texts = |gold: &Gold| match gold {
                Gold::Answers(answers) => Some(answers.iter().map(|answer| answer.text.clone()).collect()),
                _ => None,
            };
            values(golds, texts).map(|gold: Vec<Vec<String>>| {
                let gold: Vec<Vec<&str>> =
                    gold.iter().map(|texts| texts.iter().map(String::as_str).collect()).collect();
                let questions: Vec<PredictedAnswer<'_>> = gold
                    .iter()
                    .zip(answers)
                    .map(|(golds, answer)| PredictedAnswer {
                        golds,
                        predicted: Some(&answer.text),
                        no_answer: answer.no_answer,
                    })
                    .collect();
                let version = if allows_none(&output) { SquadVersion::V2 } else { SquadVersion::V1 };
                let threshold = no_answer_threshold(&output);
                score(&Judged::Answers { version, questions: &questions, threshold })
            })
        }
        Predictions::Words(predicted) => {
            values(golds, |gold| if let Gold::WordLabels(labels) = gold { Some(labels.clone()) } else { None })
                .map(|gold| score(&Judged::Words { labels: output.labels(), gold: &gold, predicted }))
        }
    };
    found.unwrap_or_default()
}

/// Returns the values of all golds; `None` if one has none.
fn values<T>(golds: &[&Gold], value: impl Fn(&Gold) -> Option<T>) -> Option<Vec<T>> {
    golds.iter().map(|gold| value(gold)).collect()
}
