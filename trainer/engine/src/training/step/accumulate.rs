//! Gradients of one step: micro-batch by micro-batch, with the counts of all.

use std::sync::Arc;

use schemas::Batch;
use tch::Tensor;
use trainer_plan::Error;

use super::terms::{compute, staging, tally};
use super::{StepResult, Trainer, to_u64};
use crate::device::native::CheckStatus as _;
use crate::device::step_timer::{BACKWARD, OBJECTIVE, OPTIMIZER, UPLOAD, timed, timed_for};
use crate::model::forward::{Forward, StepContext};
use crate::model::host_batch::HostBatch;
use crate::model::layers::Mode;
use crate::objective_instances::Member;
use crate::objectives::combine::Counts;
use crate::training::gradient_sum::GradientSum;
use crate::training::metric_accumulator::PendingAdditions;

impl Trainer {
    /// Accumulates the gradients of the whole step in the weights, micro-batch by micro-batch.
    pub fn accumulate(&mut self, batches: &[Batch]) -> Result<StepResult, Error> {
        self.accumulate_into(batches, None)
    }

    /// Accumulates the gradients of the whole step. `sum` takes those that the last backward pass completes.
    pub(super) fn accumulate_into(
        &mut self,
        batches: &[Batch],
        sum: Option<&Arc<GradientSum>>,
    ) -> Result<StepResult, Error> {
        let packed =
            || batches.iter().map(|batch| HostBatch::new(batch, &self.networks)).collect::<Result<Vec<_>, _>>();
        let batches = timed(UPLOAD, packed)?;
        let (counts, seen) = timed(UPLOAD, || self.counts(&batches))?;
        if counts.iter().all(Counts::is_empty) {
            self.guard.ring.mark_without_loss();
        }
        timed(OPTIMIZER, || self.parameters.round())?;
        let context = StepContext { seed: self.plan.seed, step: self.done, mode: Mode::Train };
        // Recomputed layers make further uses in the backward pass.
        let sum = sum.filter(|_| !self.plan.train.activation_checkpointing);
        let sum_of = |at: usize| sum.filter(|_| at + 1 == batches.len());
        let mut encoded = match batches.as_slice() {
            [batch] if self.contrasts_globally() => Some(self.encode(batch, context, sum_of(0))?),
            _ => None,
        };
        let mut global = self.global_vectors(&batches, &counts, encoded.as_ref(), context)?.into_iter();
        for (at, batch) in batches.iter().enumerate() {
            let mut forward = match encoded.take() {
                Some(forward) => forward,
                None => self.encode(batch, context, sum_of(at))?,
            };
            forward.set_global(global.next().unwrap_or_default());
            let mut loss: Option<Tensor> = None;
            let mut sums = PendingAdditions::default();
            for (member, counts) in self.members.iter().zip(&counts) {
                let computed = timed_for(OBJECTIVE, &member.name, || compute(member, &forward));
                tally(&mut self.tally, member, counts.terms(at), &computed, &mut sums);
                let share = if member.weight == 0.0 { None } else { counts.loss(at, &computed.sums) };
                loss = match (loss, share) {
                    (Some(loss), Some(share)) => Some(loss + share),
                    (loss, share) => loss.or(share),
                };
            }
            if let Some(loss) = &loss {
                sums.add(&self.guard.ring.loss(), loss);
            }
            sums.settle()?;
            // The loss of a frozen network may depend on no trained weight in this micro-batch.
            if let Some(loss) = loss.filter(Tensor::requires_grad) {
                timed(BACKWARD, || {
                    loss.f_backward().checked()?;
                    forward.finish(&self.parameters)
                })?;
            }
        }
        Ok(seen)
    }

    /// Encodes a micro-batch. `sum` takes the gradients that its backward pass completes.
    pub(super) fn encode<'a>(
        &self,
        batch: &'a HostBatch<'a>,
        context: StepContext,
        sum: Option<&Arc<GradientSum>>,
    ) -> Result<Forward<'a>, Error> {
        // A micro-batch without a loss leaves uses of weights without gradients.
        self.parameters.clear_uses();
        if let Some(sum) = sum {
            self.parameters.watch(&sum.receiver());
        }
        Forward::run(batch, &self.passes, &self.learning, context, staging(&self.members, batch))
    }

    /// Counts the terms of every objective in these micro-batches over all ranks, and the rows and tokens of the step.
    pub(super) fn counts(&self, batches: &[HostBatch<'_>]) -> Result<(Vec<Counts>, StepResult), Error> {
        let terms = |member: &Member| batches.iter().map(|batch| member.loss.terms(batch)).collect();
        let of = |member: &Member| Counts::new(terms(member), self.plan.train.normalize, member.weight);
        let mut counts: Vec<Counts> = self.members.iter().map(of).collect();
        let tokens = |batch: &HostBatch<'_>| self.passes.first().map_or(0, |pass| batch.valid(&pass.view));
        let rows = batches.iter().map(HostBatch::rows).sum::<usize>() as f64;
        let mut seen = [rows, batches.iter().map(tokens).sum::<usize>() as f64];
        let mut own: Vec<&mut f64> = counts.iter_mut().flat_map(Counts::totals).chain(&mut seen).collect();
        let mut sums: Vec<f64> = own.iter().map(|count| **count).collect();
        self.ranks.sum(&mut sums)?;
        own.iter_mut().zip(sums).for_each(|(count, sum)| **count = sum);
        let [rows, tokens] = seen.map(to_u64);
        Ok((counts, StepResult { rows, tokens }))
    }
}
