//! Predictions from the logits of rows.

use std::ops::Range;

use tasks::span::{Extracted, ExtractionConfig, WindowLogits, extract_answer};
use tasks::{Example, TaskOutput};

use super::example_row::RowLogits;

/// Predictions on a set of examples, in their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictions {
    /// Classes.
    Classes(Vec<u32>),
    /// Scores.
    Scores(Vec<f64>),
    /// Answers.
    Answers(Vec<SpanAnswer>),
    /// Label of each word.
    Words(Vec<Vec<u32>>),
}

/// Predicted answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanAnswer {
    /// Best answer: text of the passage; empty if no span is possible.
    pub text: String,
    /// Evidence that the question is unanswerable: the null score minus that of the best answer.
    pub no_answer: f64,
}

impl SpanAnswer {
    /// Returns the answer that is submitted: none if the evidence exceeds the threshold.
    pub(super) fn submitted(&self, threshold: f64) -> &str {
        if self.no_answer > threshold { "" } else { &self.text }
    }
}

/// Whether questions may be unanswerable.
pub(super) fn allows_none(output: &TaskOutput) -> bool {
    matches!(output, TaskOutput::Spans { allows_none: true })
}

/// Returns the evidence above which a question is predicted to be unanswerable.
pub(super) fn no_answer_threshold(output: &TaskOutput) -> f64 {
    if allows_none(output) { 0.0 } else { f64::INFINITY }
}

/// Rows of one example with their logits: one number per output, and per position if the task labels tokens.
#[derive(Clone, Debug)]
pub struct PredictedRows {
    /// Meaning of the logits of each row.
    pub rows: Vec<RowLogits>,
    /// Logits of each row.
    pub logits: Vec<Vec<f64>>,
}

impl PredictedRows {
    /// Returns the logits of an example. Those of several rows, at their masks, are averaged.
    fn of_example(&self, outputs: usize) -> Vec<f64> {
        if let [RowLogits::Example] = self.rows[..] {
            return self.logits[0].clone();
        }
        let mut mean = vec![0.0; outputs];
        for logits in self.rows.iter().zip(&self.logits).map(|(row, logits)| row.kept(logits, outputs)) {
            mean.iter_mut().zip(logits).for_each(|(mean, logit)| *mean += logit / self.rows.len() as f64);
        }
        mean
    }
}

impl RowLogits {
    /// Returns the logits of a row that a prediction needs, of those of the whole row. It can be applied twice.
    #[must_use]
    pub fn kept<'a>(&self, logits: &'a [f64], outputs: usize) -> &'a [f64] {
        match self {
            Self::Blank(position) if logits.len() > outputs => &logits[position * outputs..][..outputs],
            _ => logits,
        }
    }
}

impl Predictions {
    /// Returns whether several examples, or several words, all have the same prediction.
    pub(super) fn is_constant(&self, output: &TaskOutput) -> bool {
        match self {
            Self::Classes(_) => self.constant_class().is_some(),
            Self::Scores(scores) => are_equal(scores.iter().map(|score| score.to_bits())),
            Self::Answers(answers) => {
                let threshold = no_answer_threshold(output);
                are_equal(answers.iter().map(|answer| answer.submitted(threshold)))
            }
            Self::Words(words) => are_equal(words.iter().flatten()),
        }
    }

    /// Returns the class that every one of several examples has; `None` if there are two, or no classes.
    #[must_use]
    pub fn constant_class(&self) -> Option<u32> {
        match self {
            Self::Classes(classes) if classes.len() > 1 => {
                classes.iter().all(|class| *class == classes[0]).then(|| classes[0])
            }
            _ => None,
        }
    }

    /// Returns the predictions of a task.
    ///
    /// # Panics
    /// If there are fewer predicted rows than examples.
    #[must_use]
    pub fn new(output: &TaskOutput, examples: &[Example], predicted: &[PredictedRows]) -> Self {
        match output {
            TaskOutput::Class { labels } => {
                let logits = predicted.iter().map(|rows| rows.of_example(labels.len()));
                Self::Classes(logits.map(|logits| largest(&logits)).collect())
            }
            TaskOutput::Score { .. } => Self::Scores(predicted.iter().map(|rows| rows.logits[0][0]).collect()),
            TaskOutput::Spans { .. } => {
                let answers = examples.iter().zip(predicted);
                Self::Answers(answers.map(|(example, rows)| answer(example, rows)).collect())
            }
            TaskOutput::WordLabels { labels } => {
                let outside = labels.iter().position(|label| label == "O").unwrap_or(0);
                let outside = u32::try_from(outside).expect("a task has fewer than 2^32 labels");
                let words = examples.iter().zip(predicted);
                Self::Words(words.map(|(example, rows)| word_labels(example, rows, labels.len(), outside)).collect())
            }
        }
    }
}

fn are_equal<T: PartialEq>(mut values: impl Iterator<Item = T>) -> bool {
    let first = values.next();
    let mut others = values.peekable();
    others.peek().is_some() && others.all(|value| Some(value) == first)
}

/// Returns the largest logit's place, the first of equal ones.
pub(super) fn largest(logits: &[f64]) -> u32 {
    let better = |best: usize, at: usize| if logits[at] > logits[best] { at } else { best };
    u32::try_from((0..logits.len()).reduce(better).unwrap_or(0)).expect("a task has fewer than 2^32 classes")
}

fn answer(example: &Example, predicted: &PredictedRows) -> SpanAnswer {
    let rows: Vec<WindowRow> =
        predicted.rows.iter().zip(&predicted.logits).map(|(row, it)| WindowRow::new(row, it)).collect();
    let windows: Vec<WindowLogits<'_>> = rows.iter().map(WindowRow::logits).collect();
    let Extracted { bytes, null_margin, .. } = extract_answer(&ExtractionConfig::default(), &windows);
    let passage = example.second.as_deref().unwrap_or_default();
    SpanAnswer {
        text: bytes.map(|bytes| passage[bytes].to_owned()).unwrap_or_default(),
        no_answer: f64::from(null_margin),
    }
}

/// Logits of a window, with the passage tokens at their positions.
struct WindowRow {
    start: Vec<f32>,
    end: Vec<f32>,
    bytes: Vec<Option<Range<usize>>>,
    has_max_context: Vec<bool>,
}

impl WindowRow {
    fn new(row: &RowLogits, logits: &[f64]) -> Self {
        let RowLogits::Passage { position, bytes, has_max_context } = row else {
            unreachable!("a task with answers has windows")
        };
        #[expect(clippy::cast_possible_truncation, reason = "the logits were float32")]
        let column = |output: usize| {
            let cells = logits.iter().skip(output).step_by(2).map(|&logit| logit as f32);
            // The passage, and the separator after it. The rest is padding.
            cells.take(position + bytes.len() + 1).collect::<Vec<_>>()
        };
        let start = column(0);
        let at = |cell: usize| cell.checked_sub(*position);
        Self {
            bytes: (0..start.len()).map(|cell| bytes.get(at(cell)?).cloned()).collect(),
            has_max_context: (0..start.len())
                .map(|cell| at(cell).is_some_and(|at| has_max_context.get(at) == Some(&true)))
                .collect(),
            end: column(1),
            start,
        }
    }

    fn logits(&self) -> WindowLogits<'_> {
        let Self { start, end, bytes, has_max_context } = self;
        WindowLogits { start, end, bytes, has_max_context }
    }
}

/// Returns the label of each word. A word in which no token begins has the label `outside`.
fn word_labels(example: &Example, predicted: &PredictedRows, labels: usize, outside: u32) -> Vec<u32> {
    let mut words = vec![outside; example.words.len()];
    for (row, logits) in predicted.rows.iter().zip(&predicted.logits) {
        let RowLogits::Words(positions) = row else { unreachable!("a task with word labels has rows of words") };
        for &(word, position) in positions {
            words[word] = largest(&logits[position * labels..][..labels]);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_constant_if_several_are_all_the_same() {
        let output = TaskOutput::Spans { allows_none: true };
        let answer = |text: &str, no_answer| SpanAnswer { text: text.to_owned(), no_answer };
        for (predictions, expected) in [
            (Predictions::Classes(vec![1, 1, 1]), true),
            (Predictions::Classes(vec![1, 0]), false),
            (Predictions::Classes(vec![1]), false),
            (Predictions::Scores(vec![0.5, 0.5]), true),
            (Predictions::Scores(vec![0.5, 0.25]), false),
            // Both submit no answer.
            (Predictions::Answers(vec![answer("a", 1.0), answer("b", 2.0)]), true),
            (Predictions::Answers(vec![answer("a", -1.0), answer("b", -1.0)]), false),
            (Predictions::Words(vec![vec![0, 0], vec![0]]), true),
            (Predictions::Words(vec![vec![0, 1]]), false),
            (Predictions::Words(Vec::new()), false),
        ] {
            assert_eq!(predictions.is_constant(&output), expected, "{predictions:?}");
        }
    }
}
