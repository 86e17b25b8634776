//! Metrics of the task of a fine-tuning in its validations.

use std::collections::BTreeMap;

use cloze::finetune::{OBJECTIVE, TaskRecord, ValidatedTask, ValidationPredictions};
use cloze::plan::Plan;
use schemas::Batch;
use tasks::AnyTask;
use trainer::training::ValidationScorer;
use trainer_plan::ForeignError;

/// Returns the task of a fine-tuning; `None` for other runs.
///
/// # Errors
/// If the record of the task is damaged.
pub(super) fn task_of(plan: &Plan) -> anyhow::Result<Option<AnyTask>> {
    if !plan.train().loss.contains_key(OBJECTIVE) {
        return Ok(None);
    }
    Ok(TaskRecord::find(&plan.data().store)?.map(|record| record.task))
}

/// Returns the task of a fine-tuning with the rows of its validation; `None` for other runs.
///
/// # Errors
/// If the record of the task is damaged, or if the rows cannot be read.
pub(super) fn validated(plan: &Plan) -> anyhow::Result<Option<ValidatedTask>> {
    Ok(task_of(plan)?.map(|task| ValidatedTask::new(task, plan.valid())).transpose()?)
}

/// Returns the scorer of a validation of a task, if its metrics follow from the targets of rows.
pub(super) fn scorer(task: &ValidatedTask) -> Option<Box<dyn ValidationScorer>> {
    Some(Box::new(TaskScorer(ValidationPredictions::new(task)?)))
}

struct TaskScorer(ValidationPredictions);

impl ValidationScorer for TaskScorer {
    fn objective(&self) -> &str {
        OBJECTIVE
    }

    fn add(&mut self, batch: &Batch, scores: Vec<Vec<f64>>) -> Result<(), ForeignError> {
        Ok(self.0.add(batch, scores)?)
    }

    fn finish(self: Box<Self>) -> BTreeMap<String, f64> {
        self.0.metrics()
    }
}
