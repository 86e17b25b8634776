//! Predictions on labelled examples with the weights of a checkpoint.

use std::collections::BTreeSet;

use schemas::Batch;
use schemas::ordinal::Step;
use store::Store;
use tch::Kind;
use trainer_plan::Error;
use trainer_plan::TrainPlan;

use crate::device::native::CheckStatus as _;
use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::training::checkpoint;
use crate::training::inference;
use crate::training::metric_accumulator::MetricAccumulator;
use crate::training::oom_error;
use crate::training::step::Trainer;

/// Weights of a checkpoint that predict the targets of labelled examples, in eval mode.
#[derive(Debug)]
pub struct Predictor {
    trainer: Trainer,
    step: Step,
}

impl Predictor {
    /// Loads the weights of `run` after `step`, or those of its newest checkpoint.
    ///
    /// # Errors
    /// If there is no such checkpoint, or if no objective of the run predicts targets.
    pub fn open(plan: &TrainPlan, run: &Store, step: Option<Step>) -> Result<Self, Error> {
        let (place, snapshot) = checkpoint::pick(run, step)?;
        let trainer = inference::trainer(plan, |trainer| trainer.load(&place, &snapshot).map(drop))?;
        Ok(Self { trainer, step: snapshot.state.step })
    }

    /// Steps after which the weights were saved.
    #[must_use]
    pub fn step(&self) -> Step {
        self.step
    }

    /// Returns the scores of each row of a batch by the objective of that name: one number per output, and per position
    /// if the objective scores positions.
    ///
    /// # Errors
    /// If the objective predicts no targets, or if libtorch fails.
    pub fn scores(&self, objective: &str, batch: &Batch) -> Result<Vec<Vec<f64>>, Error> {
        oom_error::wrap_read_only(self.trainer.plan(), || {
            let batch = HostBatch::new(batch, self.trainer.networks())?;
            let mut metrics = MetricAccumulator::new(self.trainer.device());
            let is_it = |name: &str| name == objective;
            let forward =
                self.trainer.evaluate(&batch, &BTreeSet::new(), |member| is_it(&member.name), &mut metrics)?;
            row_scores(&self.trainer, objective, &forward)
        })
    }
}

/// Returns the scores of each row by the objective of that name. Waits for the device.
///
/// # Errors
/// If the objective predicts no targets, or if libtorch fails.
pub(crate) fn row_scores(trainer: &Trainer, objective: &str, forward: &Forward<'_>) -> Result<Vec<Vec<f64>>, Error> {
    let _guard = tch::no_grad_guard();
    let scores = trainer.scores(objective, forward).ok_or_else(|| {
        Error::Config(format!("the objective `{objective}` of this run predicts no targets of examples"))
    })?;
    let rows = scores.size()[0];
    let flat = scores.f_to_kind(Kind::Double).checked()?;
    let flat = flat.f_reshape([rows, -1]).checked()?;
    Vec::<Vec<f64>>::try_from(&flat).checked()
}
