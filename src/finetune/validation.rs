//! Metrics of a task in the validations of its run.

use std::collections::BTreeMap;

use schemas::columns::{ATTENTION_MASK, IGNORE, TARGETS};
use schemas::{Batch, BatchError};
use tasks::metric::{Judged, evaluate};
use tasks::{AnyTask, TaskOutput};

use super::page::VIEW;
use super::predictions::largest;

/// Gold values and predictions of one validation.
#[derive(Clone, Debug)]
pub struct ValidationPredictions {
    task: AnyTask,
    classes: Vec<u32>,
    scores: Vec<f64>,
    words: Vec<Vec<u32>>,
    predicted_classes: Vec<u32>,
    predicted_scores: Vec<f64>,
    predicted_words: Vec<Vec<u32>>,
}

impl ValidationPredictions {
    /// Starts a validation of a task. `None` if the metrics of the task need more than the targets of rows: those of
    /// answers need the texts.
    #[must_use]
    pub fn new(task: &AnyTask) -> Option<Self> {
        let needs_texts = matches!(task.output(), TaskOutput::Spans { .. });
        (!needs_texts).then(|| Self {
            task: task.clone(),
            classes: Vec::new(),
            scores: Vec::new(),
            words: Vec::new(),
            predicted_classes: Vec::new(),
            predicted_scores: Vec::new(),
            predicted_words: Vec::new(),
        })
    }

    /// Adds a batch with the logits of each row. Rows without a target do not count.
    ///
    /// # Errors
    /// If the batch has no targets.
    pub fn add(&mut self, batch: &Batch, logits: Vec<Vec<f64>>) -> Result<(), BatchError> {
        let targets = batch.column(VIEW, TARGETS)?;
        let valid = batch.find(VIEW, ATTENTION_MASK)?;
        let output = self.task.output();
        for (at, logits) in logits.into_iter().enumerate() {
            let row = targets.row(at);
            if valid.is_some_and(|valid| valid.row(at)[0] == 0) {
                continue;
            }
            match output {
                TaskOutput::WordLabels { .. } => self.add_words(row, &logits, output.width()),
                _ if row[0] == IGNORE => {}
                _ => self.add_row(row[0], &logits, &output),
            }
        }
        Ok(())
    }

    fn add_row(&mut self, target: i32, logits: &[f64], output: &TaskOutput) {
        if let TaskOutput::Score { .. } = output {
            self.scores.push(f64::from(f32::from_bits(target.cast_unsigned())));
            self.predicted_scores.push(logits[0]);
        } else {
            self.classes.push(u32::try_from(target).expect("classes are not negative"));
            self.predicted_classes.push(largest(logits));
        }
    }

    /// Adds a sentence, or a part of a long one. Only the cells of words have a target.
    fn add_words(&mut self, targets: &[i32], logits: &[f64], labels: usize) {
        let labelled = targets.iter().zip(logits.chunks_exact(labels)).filter(|(target, _)| **target != IGNORE);
        let label = |target: i32| u32::try_from(target).expect("labels are not negative");
        let (gold, predicted) = labelled.map(|(&target, logits)| (label(target), largest(logits))).unzip();
        self.words.push(gold);
        self.predicted_words.push(predicted);
    }

    /// Returns the metrics of the task by name. A metric without a value is NaN.
    #[must_use]
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let output = self.task.output();
        let judged = match &output {
            TaskOutput::Score { .. } => Judged::Scores { gold: &self.scores, predicted: &self.predicted_scores },
            TaskOutput::WordLabels { labels } => {
                Judged::Words { labels, gold: &self.words, predicted: &self.predicted_words }
            }
            TaskOutput::Class { .. } | TaskOutput::Spans { .. } => {
                Judged::Classes { classes: output.width(), gold: &self.classes, predicted: &self.predicted_classes }
            }
        };
        let metrics = evaluate(&judged, &self.task.metrics()).into_iter();
        metrics.map(|it| (it.metric.name().to_owned(), it.value.value().unwrap_or(f64::NAN))).collect()
    }
}

#[cfg(test)]
mod tests {
    use schemas::{BatchBuilder, BatchIndex};
    use tasks::metric::TaskMetric;
    use trainer_plan::checkpoint::is_larger_better;

    use super::*;

    fn task(kind: &str) -> AnyTask {
        AnyTask::of_kind(kind).expect("a task")
    }

    /// Batch of rows of three cells. The rows in `gaps` have no tokens.
    fn batch(targets: Vec<i32>, gaps: &[usize]) -> Batch {
        let rows = targets.len() / 3;
        let mut builder = BatchBuilder::new(BatchIndex(0), rows);
        builder.push(VIEW, TARGETS, 3, targets);
        let valid = (0..rows).flat_map(|row| [u8::from(!gaps.contains(&row)); 3]).collect();
        builder.push(VIEW, ATTENTION_MASK, 3, valid);
        builder.finish()
    }

    /// Gold 1, 0, 1, 0 and predictions 1, 0, 0, 0: a Matthews correlation of 1 / √3 and an accuracy of 3 / 4.
    #[test]
    fn classes_are_judged_without_rows_that_have_no_target() {
        let mut found = ValidationPredictions::new(&task("cola")).expect("classes");
        let ignored = [IGNORE; 2];
        let row = |class: i32| [&[class][..], &ignored].concat();
        let rows = [row(1), row(0), row(IGNORE), row(1)].concat();
        let [yes, no] = [vec![-1.0, 2.0], vec![0.5, 0.25]];
        found.add(&batch(rows, &[]), vec![yes.clone(), no.clone(), yes.clone(), no.clone()]).expect("targets");
        found.add(&batch([row(0), row(1)].concat(), &[1]), vec![no, yes]).expect("targets");
        let metrics = found.metrics();
        assert!((metrics["matthews"] - 1.0 / 3_f64.sqrt()).abs() < 1e-12, "{metrics:?}");
        let gold = Judged::Classes { classes: 2, gold: &[1, 0, 1, 0], predicted: &[1, 0, 0, 0] };
        for score in evaluate(&gold, &task("cola").metrics()) {
            assert_eq!(metrics[score.metric.name()].to_bits(), score.value.value().expect("a number").to_bits());
        }
    }

    #[test]
    fn scores_are_read_from_their_bits_and_a_constant_has_no_correlation() {
        let mut found = ValidationPredictions::new(&task("stsb")).expect("scores");
        let rows = [0.5_f32, 2.5, 5.0].iter().flat_map(|score| [score.to_bits().cast_signed(), IGNORE, IGNORE]);
        let rows: Vec<i32> = rows.collect();
        found.add(&batch(rows.clone(), &[]), vec![vec![1.0], vec![2.0], vec![9.0]]).expect("targets");
        assert!((found.metrics()["spearman"] - 1.0).abs() < 1e-12);
        let mut constant = ValidationPredictions::new(&task("stsb")).expect("scores");
        constant.add(&batch(rows, &[]), vec![vec![1.0]; 3]).expect("targets");
        assert!(constant.metrics()["spearman"].is_nan());
    }

    #[test]
    fn early_stopping_knows_whether_a_metric_of_a_task_is_maximized() {
        for metric in TaskMetric::ALL {
            assert_eq!(is_larger_better(&format!("task.{metric}")), metric.is_larger_better(), "{metric}");
        }
    }
}
