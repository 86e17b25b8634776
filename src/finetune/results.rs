//! Metrics and predictions of a fine-tuned model.

use serde::Serialize;
use tasks::metric::{Judged, MetricScore, MetricValue, PredictedAnswer, SquadVersion, evaluate};
use tasks::submission::{Predicted, QuestionAnswer, write_glue, write_squad, write_words};
use tasks::task::ExampleSet;
use tasks::{AnyTask, Example, Gold, TaskOutput};

use super::predictions::{Predictions, no_answer_threshold};

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
        let metrics = judge(task, examples, predictions, |judged| evaluate(judged, &task.metrics()));
        Self { set: set.to_owned(), examples: examples.len() as u64, metrics }
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

/// Returns the content of the file with the predictions of a set: the submission format of GLUE or SQuAD, or a word and
/// its label per line.
///
/// # Panics
/// If there are more or fewer predictions than examples.
#[must_use]
pub fn predictions_file(task: &AnyTask, examples: &[Example], predictions: &Predictions) -> Vec<u8> {
    let ids: Vec<String> = examples.iter().map(|example| example.id.clone()).collect();
    let mut bytes = Vec::new();
    let written = match (predictions, task.output()) {
        (Predictions::Classes(classes), output) => write_glue(&mut bytes, &output, &ids, Predicted::Classes(classes)),
        (Predictions::Scores(scores), output) => write_glue(&mut bytes, &output, &ids, Predicted::Scores(scores)),
        (Predictions::Answers(answers), output) => {
            let allows_none = output == TaskOutput::Spans { allows_none: true };
            let submitted = answers.iter().map(|answer| answer.submitted(allows_none));
            let answers: Vec<_> = ids.iter().zip(submitted).map(|(id, text)| QuestionAnswer { id, text }).collect();
            write_squad(&mut bytes, &answers)
        }
        (Predictions::Words(words), output) => {
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

/// Calls `judged` with the gold values and the predictions. A set without gold values has no result.
fn judge(
    task: &AnyTask,
    examples: &[Example],
    predictions: &Predictions,
    judged: impl FnOnce(&Judged<'_>) -> Vec<MetricScore>,
) -> Vec<MetricScore> {
    let output = task.output();
    let found = match predictions {
        Predictions::Classes(predicted) => {
            golds(examples, |gold| if let Gold::Class(it) = gold { Some(*it) } else { None })
                .map(|gold| judged(&Judged::Classes { classes: output.width(), gold: &gold, predicted }))
        }
        Predictions::Scores(predicted) => {
            golds(examples, |gold| if let Gold::Score(it) = gold { Some(*it) } else { None })
                .map(|gold| judged(&Judged::Scores { gold: &gold, predicted }))
        }
        Predictions::Answers(answers) => {
            let texts = |gold: &Gold| match gold {
                Gold::Answers(answers) => Some(answers.iter().map(|answer| answer.text.clone()).collect()),
                _ => None,
            };
            golds(examples, texts).map(|gold: Vec<Vec<String>>| {
                let allows_none = output == TaskOutput::Spans { allows_none: true };
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
                let version = if allows_none { SquadVersion::V2 } else { SquadVersion::V1 };
                judged(&Judged::Answers { version, questions: &questions, threshold: no_answer_threshold(allows_none) })
            })
        }
        Predictions::Words(predicted) => {
            golds(examples, |gold| if let Gold::WordLabels(labels) = gold { Some(labels.clone()) } else { None })
                .map(|gold| judged(&Judged::Words { labels: output.labels(), gold: &gold, predicted }))
        }
    };
    found.unwrap_or_default()
}

/// Returns the gold values of all examples; `None` if one has none.
fn golds<T>(examples: &[Example], value: impl Fn(&Gold) -> Option<T>) -> Option<Vec<T>> {
    examples.iter().map(|example| value(&example.gold)).collect()
}
