//! Metrics of a task in the validations of its run.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipeline::load::LoadPlan;
use schemas::columns::{ATTENTION_MASK, IGNORE, TARGETS};
use schemas::{Batch, BatchError, BatchIndex};
use tasks::{AnyTask, Gold, TaskOutput};

use super::page::VIEW;
use super::predictions::{Predictions, largest};
use super::results::metrics;

/// Task whose metrics a validation computes, and the rows of its examples.
#[derive(Clone, Debug)]
pub struct ValidatedTask {
    task: AnyTask,
    /// For each row, whether it continues the sentence of the row before. Empty if no example has several rows.
    is_continued: Arc<[bool]>,
}

impl ValidatedTask {
    /// Finds the parts of long sentences in the rows of a validation.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub fn new(task: AnyTask, valid: Option<&Arc<LoadPlan>>) -> pipeline::Result<Self> {
        let has_parts = matches!(task.output(), TaskOutput::WordLabels { .. });
        let Some(valid) = valid.filter(|_| has_parts) else { return Ok(Self { task, is_continued: Arc::default() }) };
        let groups = valid.groups();
        let mut documents = Vec::new();
        for batch in 0..valid.batches().unwrap_or_default() {
            documents.extend(valid.explain(&groups, BatchIndex(batch))?.into_iter().map(|row| row.documents));
        }
        let after_first = documents.windows(2).map(|rows| rows[0] == rows[1]);
        Ok(Self { task, is_continued: std::iter::once(false).chain(after_first).collect() })
    }
}

/// Gold values and predictions of one validation.
#[derive(Clone, Debug)]
pub struct ValidationPredictions {
    task: ValidatedTask,
    /// Newest row with targets.
    newest: Option<u64>,
    golds: Vec<Gold>,
    predictions: Predictions,
}

impl ValidationPredictions {
    /// Starts a validation of a task. `None` if the metrics of the task need more than the targets of rows: those of
    /// answers need the texts.
    #[must_use]
    pub fn new(task: &ValidatedTask) -> Option<Self> {
        let predictions = match task.task.output() {
            TaskOutput::Class { .. } => Predictions::Classes(Vec::new()),
            TaskOutput::Score { .. } => Predictions::Scores(Vec::new()),
            TaskOutput::WordLabels { .. } => Predictions::Words(Vec::new()),
            TaskOutput::Spans { .. } => return None,
        };
        Some(Self { task: task.clone(), newest: None, golds: Vec::new(), predictions })
    }

    /// Adds a batch with the logits of each row. Rows without a target do not count.
    ///
    /// # Errors
    /// If the batch has no targets.
    pub fn add(&mut self, batch: &Batch, logits: Vec<Vec<f64>>) -> Result<(), BatchError> {
        let targets = batch.column(VIEW, TARGETS)?;
        let valid = batch.find(VIEW, ATTENTION_MASK)?;
        let labels = self.task.task.output().width();
        for ((number, at), logits) in (batch.first_row().0..).zip(0..).zip(logits) {
            let row = targets.row(at);
            if valid.is_some_and(|valid| valid.row(at)[0] == 0) {
                continue;
            }
            let is_continued = self.is_continued(number);
            self.newest = Some(number);
            match &mut self.predictions {
                // A sentence, or a part of a long one. Only the cells of words have a target.
                Predictions::Words(predicted) => {
                    let words = || row.iter().zip(logits.chunks_exact(labels)).filter(|(target, _)| **target != IGNORE);
                    let gold = words().map(|(&target, _)| class(target));
                    let found = words().map(|(_, logits)| largest(logits));
                    match (self.golds.last_mut(), predicted.last_mut()) {
                        (Some(Gold::WordLabels(golds)), Some(predicted)) if is_continued => {
                            golds.extend(gold);
                            predicted.extend(found);
                        }
                        _ => {
                            self.golds.push(Gold::WordLabels(gold.collect()));
                            predicted.push(found.collect());
                        }
                    }
                }
                // The class is in the first cell, or in that of the mask of a prompt, which has its own logits.
                Predictions::Classes(predicted) => {
                    if let Some((&target, logits)) =
                        row.iter().zip(logits.chunks_exact(labels)).find(|(target, _)| **target != IGNORE)
                    {
                        self.golds.push(Gold::Class(class(target)));
                        predicted.push(largest(logits));
                    }
                }
                _ if row[0] == IGNORE => {}
                Predictions::Scores(predicted) => {
                    self.golds.push(Gold::Score(f32::from_bits(row[0].cast_unsigned()).into()));
                    predicted.push(logits[0]);
                }
                Predictions::Answers(_) => unreachable!("no validation of answers is started"),
            }
        }
        Ok(())
    }

    /// Returns whether a row continues the sentence of the row that was added last.
    fn is_continued(&self, row: u64) -> bool {
        let index = usize::try_from(row).unwrap_or(usize::MAX);
        self.newest.is_some_and(|newest| newest + 1 == row) && self.task.is_continued.get(index) == Some(&true)
    }

    /// Returns the metrics of the task by name. A metric without a value is NaN.
    #[must_use]
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let golds: Vec<&Gold> = self.golds.iter().collect();
        let metrics = metrics(&self.task.task, &golds, &self.predictions).into_iter();
        metrics.map(|it| (it.metric.name().to_owned(), it.value.value().unwrap_or(f64::NAN))).collect()
    }
}

fn class(target: i32) -> u32 {
    u32::try_from(target).expect("classes are not negative")
}

#[cfg(test)]
mod tests {
    use schemas::{BatchBuilder, RowIndex};
    use tasks::metric::{Judged, TaskMetric, evaluate};
    use trainer_plan::checkpoint::is_larger_better;

    use super::*;

    fn task(kind: &str) -> ValidatedTask {
        ValidatedTask::new(AnyTask::of_kind(kind).expect("a task"), None).expect("no rows are read")
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
        for score in evaluate(&gold, &task("cola").task.metrics()) {
            assert_eq!(metrics[score.metric.name()].to_bits(), score.value.value().expect("a number").to_bits());
        }
    }

    /// The masks are at the cells 1 and 2, whose logits are the second and the third pair.
    #[test]
    fn classes_of_prompts_are_judged_at_their_masks() {
        let mut found = ValidationPredictions::new(&task("sst2")).expect("classes");
        let rows = vec![IGNORE, 1, IGNORE, IGNORE, IGNORE, 0, IGNORE, IGNORE, IGNORE];
        let logits = vec![9.0, 0.0, 0.5, 1.0, 9.0, 0.0];
        found.add(&batch(rows, &[]), vec![logits; 3]).expect("targets");
        assert_eq!(found.golds, [Gold::Class(1), Gold::Class(0)]);
        assert_eq!(found.predictions, Predictions::Classes(vec![1, 0]));
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

    /// Rows 1 to 3 are one sentence with one entity of five words. As three sentences they would have three entities.
    #[test]
    fn the_parts_of_a_long_sentence_are_judged_as_one() {
        let is_continued = [false, false, true, true].into();
        let task = ValidatedTask { is_continued, ..task("custom_token_classification") };
        let mut found = ValidationPredictions::new(&task).expect("labels");
        let logits = |labels: [usize; 3]| -> Vec<f64> {
            labels.iter().flat_map(|label| (0..3).map(move |at| f64::from(at == *label))).collect()
        };
        // `O`, `B-ENT` and `I-ENT` are 0, 1 and 2. The last word of the entity is missed.
        let [one, two] = [[0, IGNORE, IGNORE, 1, 2, IGNORE], [2, 2, IGNORE, 2, IGNORE, IGNORE]];
        found.add(&batch(one.to_vec(), &[]), vec![logits([0; 3]), logits([1, 2, 0])]).expect("targets");
        let second = batch(two.to_vec(), &[]).starting_at(RowIndex(2));
        found.add(&second, vec![logits([2, 2, 0]), logits([0; 3])]).expect("targets");
        assert_eq!(found.golds, [Gold::WordLabels(vec![0]), Gold::WordLabels(vec![1, 2, 2, 2, 2])]);
        assert_eq!(found.predictions, Predictions::Words(vec![vec![0], vec![1, 2, 2, 2, 0]]));
        let metrics = found.metrics();
        // As parts, two of three entities would be found.
        assert_eq!(
            (metrics["entity_f1"].to_bits(), metrics["accuracy"].to_bits()),
            (0_f64.to_bits(), (5.0_f64 / 6.0).to_bits())
        );
    }

    #[test]
    fn early_stopping_knows_whether_a_metric_of_a_task_is_maximized() {
        for metric in TaskMetric::ALL {
            assert_eq!(is_larger_better(&format!("task.{metric}")), metric.is_larger_better(), "{metric}");
        }
    }
}
