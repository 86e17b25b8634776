//! One optimizer step: upload, encode each view once, combine, backward, clip, update.

mod accumulate;
mod global_batch;
mod skips;
mod terms;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemas::Batch;
use schemas::ordinal::{BatchIndex, Step};
use tch::{Device, Kind, Tensor};
use telemetry::training::Figures;
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::checkpoint::IdentityChange;
use trainer_plan::config::TrainConfig;
use trainer_plan::machine::cpu_problem;
use trainer_plan::metric_name::MetricName;
use trainer_plan::networks::MAIN;
use trainer_plan::pass::Pass;
use trainer_plan::run_weights;
use trainer_plan::schedule::LrSchedule;

use crate::device::ResolveDevice as _;
use crate::device::choice;
use crate::device::native;
use crate::device::native::CheckStatus as _;
use crate::device::native::copies::Copies;
use crate::device::precision::PrecisionCast as _;
use crate::device::precision::{MASTER, Precision, WIDE};
use crate::device::step_timer::{self, ALL_REDUCE, CHECKPOINT, OPTIMIZER, timed};
use crate::device::tensors::HostTensor;
use crate::model::forward::{Forward, StepContext};
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::layers::Mode;
use crate::model::networks::built::{Networks, copy_to_teacher};
use crate::model::parameters::Parameters;
use crate::objective_instances::{Member, build};
use crate::optimizer::adamw::{AdamW, Update, shares};
use crate::training::detector_health::DetectorHealth;
use crate::training::gradient_sum::{BucketLayout, GradientSum};
use crate::training::metric_accumulator::{Gain, MetricAccumulator, MetricReading, PendingAdditions, fetch, written};
use crate::training::moment_shards::complete_weights;
use crate::training::process_group::{HostShare, ProcessGroup, SingleProcess};
use crate::training::spike_guard::{Guard, Observed};

pub(crate) use self::skips::Skips;
use self::terms::{compute, staging, tally};

/// Rows and tokens that a step consumed on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepResult {
    /// Rows of the stream.
    pub rows: u64,
    /// Real tokens: those of the first view that is encoded.
    pub tokens: u64,
}

/// Values of a report that are read from the device.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportFigures {
    /// Losses and metrics.
    pub figures: Figures,
    /// Gains of detectors among the metrics.
    pub(crate) gains: BTreeMap<MetricName, Gain>,
    /// Loss and gradient norm of each step.
    pub(crate) observed: Vec<Observed>,
}

/// Trainer: weights, optimizer, and sums for the next report.
#[derive(Debug)]
pub struct Trainer {
    plan: TrainPlan,
    ranks: Arc<dyn ProcessGroup>,
    buckets: Arc<BucketLayout>,
    device: Device,
    pub(crate) parameters: Parameters,
    pub(crate) networks: Networks,
    pub(crate) members: Vec<Member>,
    pub(crate) optimizer: AdamW,
    pub(crate) tally: MetricAccumulator,
    pub(crate) skips: Skips,
    pub(crate) guard: Guard,
    pub(crate) detectors: DetectorHealth,
    pub(crate) done: Step,
    pub(crate) schedule: LrSchedule,
    // Identity keys that were changed in the middle of the run.
    pub(crate) changes: Vec<IdentityChange>,
    // Copies of weights and moments in flight.
    pub(crate) copies: Vec<Arc<Copies>>,
    // Whether the warning about missing pinned memory was logged.
    pub(crate) lacks_pinned: bool,
    passes: BTreeSet<Pass>,
    learning: BTreeSet<Pass>,
}

impl Trainer {
    /// Creates a trainer as one of `ranks`, with weights drawn from the seed of the plan. Call it on the training
    /// thread: it sets the number of threads and the switches of libtorch.
    pub fn new(plan: &TrainPlan, ranks: Arc<dyn ProcessGroup>) -> Result<Self, Error> {
        let host_share = ranks.host_share();
        let device = plan.train.device.resolve_for(host_share.rank)?;
        if device.is_cuda() {
            plan.check_on_cuda()?;
        }
        if device == Device::Cpu {
            check_processor(&plan.train)?;
        }
        native::configure(plan.train.deterministic, plan.train.tf32)?;
        tch::set_num_threads(i32::try_from(threads(plan.train.threads, host_share)).unwrap_or(i32::MAX));
        let parameters = Parameters::new(&run_weights::of_run(plan), plan.seed, device);
        let (networks, members) = build(plan, &parameters);
        copy_to_teacher(&plan.used_networks(), &parameters);
        let passes: BTreeSet<Pass> = members.iter().flat_map(|member| member.passes.iter().cloned()).collect();
        let weighted = members.iter().filter(|member| member.weight != 0.0).flat_map(|member| &member.passes);
        // No backward pass runs through a frozen main network.
        let learns = |pass: &&Pass| pass.network != MAIN || plan.trains_through(pass);
        let learning = weighted.filter(learns).cloned().collect();
        let optimizer = AdamW::new(plan.optimizer.clone(), plan.encoder.layers, &parameters, ranks.share());
        Ok(Self {
            ranks,
            buckets: BucketLayout::new(
                optimizer.named_weights(),
                if plan.train.bf16_all_reduce { Kind::BFloat16 } else { MASTER },
            ),
            device,
            optimizer,
            tally: MetricAccumulator::new(device),
            skips: Skips::new(device),
            guard: Guard::new(&plan.guard, plan.report.every_steps, device),
            detectors: DetectorHealth::default(),
            done: Step(0),
            schedule: LrSchedule::new(&plan.schedule, plan.train.steps, &plan.amended.spans),
            changes: Vec::new(),
            copies: Vec::new(),
            lacks_pinned: false,
            passes,
            learning,
            plan: plan.clone(),
            parameters,
            networks,
            members,
        })
    }

    /// Plan of the run.
    #[must_use]
    pub fn plan(&self) -> &TrainPlan {
        &self.plan
    }

    /// Process group of the run.
    #[must_use]
    pub fn ranks(&self) -> &dyn ProcessGroup {
        self.ranks.as_ref()
    }

    /// Returns the process group for the next trainer.
    pub(crate) fn into_ranks(self) -> Arc<dyn ProcessGroup> {
        self.ranks
    }

    /// Number of micro-batches of this rank in one step.
    #[must_use]
    pub fn micro_batches(&self) -> u64 {
        self.ranks.share().of(self.plan.micro_batches())
    }

    /// Number of threads of libtorch.
    #[must_use]
    pub(crate) fn threads(&self) -> usize {
        threads(self.plan.train.threads, self.ranks.host_share())
    }

    /// Device of the weights.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Number of steps done.
    #[must_use]
    pub fn done(&self) -> Step {
        self.done
    }

    /// Weights by name.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Networks of the plan.
    #[must_use]
    pub fn networks(&self) -> &Networks {
        &self.networks
    }

    /// Built objectives, by name.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// First head of an objective that predicts tokens from hidden states of the main network; `None` without one.
    #[must_use]
    pub(crate) fn token_head(&self) -> Option<TokenHead> {
        self.members.iter().find_map(|member| member.loss.token_head(&self.networks))
    }

    /// Scores of an objective that predicts targets of examples, by its name; `None` for other objectives.
    #[must_use]
    pub(crate) fn scores(&self, objective: &str, forward: &Forward<'_>) -> Option<Tensor> {
        self.members.iter().find(|member| member.name == objective)?.loss.scores(forward)
    }

    /// Learning rate of a step.
    #[must_use]
    pub fn lr(&self, step: Step) -> f64 {
        self.plan.optimizer.lr * self.schedule.rate(step)
    }

    /// Passes the device and the memory of the run to the step timer of this thread, if one is active.
    pub(crate) fn configure_step_timer(&self) {
        step_timer::know(self.device, || {
            let (learning, frozen) = self.plan().parameters();
            let copies = if self.plan.train.precision == Precision::F32 {
                0
            } else {
                learning * self.plan.train.precision.kind().elt_size_in_bytes() as u64
            };
            let holders = if self.plan.optimizer.shard { u64::from(self.ranks.share().ranks()) } else { 1 };
            let moments = 8 * learning.div_ceil(holders);
            vec![("weights", 4 * (learning + frozen) + copies), ("gradients", 4 * learning), ("moments", moments)]
        });
    }

    /// Trains on the micro-batches of one step. Waits for the device only if its queue is full.
    pub fn step(&mut self, batches: &[Batch]) -> Result<StepResult, Error> {
        let sum = (self.ranks.share().ranks() > 1)
            .then(|| GradientSum::begin(Arc::clone(&self.ranks), Arc::clone(&self.buckets)));
        let seen = self.accumulate_into(batches, sum.as_ref())?;
        timed(CHECKPOINT, || self.fence_copies())?;
        let lr = self.lr(self.done);
        let own = timed(OPTIMIZER, || self.optimizer.take_gradients())?;
        let gradients = match sum {
            Some(sum) => timed(ALL_REDUCE, || sum.finish(&self.optimizer.weights(), own))?,
            None => own,
        };
        let norm = timed(OPTIMIZER, || self.gradient_norm(&gradients))?;
        let Update { norm, skipped } = timed(OPTIMIZER, || self.optimizer.update(&gradients, &norm, lr))?;
        if self.plan.optimizer.shard {
            timed(ALL_REDUCE, || complete_weights(self.ranks(), &self.optimizer))?;
        }
        self.skips.note(self.done, &skipped);
        let mut sums = PendingAdditions::default();
        // The norm of a skipped step is not finite: the guard does not record it, and the mean of the report counts it
        // as 0.
        sums.add(&self.guard.ring.norm(), &norm);
        if self.ranks.share().is_first() {
            self.tally.add_norm(&norm.where_self(&skipped.lt(0.5), &norm.zeros_like()), &mut sums);
        }
        sums.settle()?;
        self.guard.ring.advance();
        self.done = self.done.next();
        Ok(seen)
    }

    /// Returns the norm of the gradients. Each of several ranks squares its part of them, so that all ranks have the same norm
    /// bit for bit, and clip and skip the same steps on unequal processors too.
    fn gradient_norm(&self, gradients: &[Option<Tensor>]) -> Result<Tensor, Error> {
        let share = self.ranks.share();
        if share.ranks() == 1 {
            return self.optimizer.norm(gradients);
        }
        // In float64, where no square of a float32 norm overflows.
        let square = self.optimizer.norm(&shares(gradients, share))?.to_kind(WIDE).square();
        self.ranks.all_reduce("the gradient norm", &square)?.wait()?;
        Ok(square.sqrt().to_kind(MASTER))
    }

    /// Returns a number for each weight, by name, that differs if one of its bits does. Waits for the device.
    pub(crate) fn checksums(&self) -> Result<Vec<(&str, i64)>, Error> {
        let weights = || self.parameters.iter();
        let sum = |weight: &Tensor| weight.detach().f_view_dtype(Kind::Int)?.f_sum(Kind::Int64);
        let sums = weights().map(|(_, weight)| sum(&weight.tensor)).collect::<Result<Vec<_>, _>>().checked()?;
        let sums = HostTensor::copy_of(&Tensor::f_stack(&sums, 0).checked()?)?.to_tensor()?;
        let sums = Vec::<i64>::try_from(&sums).checked()?;
        Ok(weights().map(|(name, _)| name).zip(sums).collect())
    }

    /// Skips the micro-batches of one step without an update. The step counts, and the learning rate advances.
    pub(crate) fn skip_step(&mut self, batches: &[Batch]) -> Result<StepResult, Error> {
        let batches = batches.iter().map(|batch| HostBatch::new(batch, &self.networks));
        let (_, seen) = self.counts(&batches.collect::<Result<Vec<_>, _>>()?)?;
        self.fence_copies()?;
        self.guard.ring.mark_without_loss();
        self.guard.ring.advance();
        self.done = self.done.next();
        Ok(seen)
    }

    /// Adds the terms and metrics of one batch to `into`, in eval mode and without gradients, for the objectives that
    /// `counts` selects. `extra` are the passes that the caller reads in addition to theirs.
    pub(crate) fn evaluate<'a>(
        &'a self,
        batch: &'a HostBatch<'a>,
        extra: &BTreeSet<Pass>,
        counts: impl Fn(&Member) -> bool,
        into: &mut MetricAccumulator,
    ) -> Result<Forward<'a>, Error> {
        let _guard = tch::no_grad_guard();
        let members: Vec<&Member> = self.members.iter().filter(|member| counts(member)).collect();
        let passes = members.iter().flat_map(|member| &member.passes).chain(extra).cloned().collect();
        let context = StepContext { seed: self.plan.seed, step: Step(0), mode: Mode::Eval };
        let staging = staging(members.iter().copied(), batch);
        let forward = Forward::run(batch, &passes, &BTreeSet::new(), context, staging)?;
        let mut sums = PendingAdditions::default();
        for member in members {
            tally(into, member, &member.loss.terms(batch), &compute(member, &forward), &mut sums);
        }
        sums.settle()?;
        Ok(forward)
    }

    /// Fetches the metrics since the last call, the gains among them, and loss and norm of each step, in one copy.
    /// Waits for the device.
    ///
    /// # Errors
    /// [`Error::NonFinite`] if more steps were skipped than the plan allows.
    pub fn figures(&mut self) -> Result<ReportFigures, Error> {
        let (MetricReading { loss, terms, metrics, gains, norm }, extra) =
            self.tally.read(self.ranks(), &[&self.skips.count, &self.skips.first, &self.guard.ring.unread()])?;
        let counted: BTreeMap<MetricName, f64> = terms
            .iter()
            .filter(|(name, _)| self.tally.counted(name))
            .map(|(name, value)| (name.clone(), *value))
            .collect();
        self.tally.clear();
        self.guard.ring.clear();
        let (skips, steps) = extra.split_at(2);
        let [skipped, first] = [skips[0], skips[1]].map(to_u64);
        let observed = self.over_all_ranks(Observed::all(steps))?;
        if skipped > self.plan.train.max_skipped_steps {
            let batch = BatchIndex(first * self.plan.micro_batches());
            let allowed = self.plan.train.max_skipped_steps;
            let step = Step(first).next();
            return Err(Error::NonFinite { step, objective: non_finite_terms(&counted), skipped, allowed, batch });
        }
        let lr = self.lr(Step(self.done.0.saturating_sub(1)));
        let terms = written(terms);
        let metrics = written(metrics);
        Ok(ReportFigures { figures: Figures { loss, terms, metrics, lr, grad_norm: norm, skipped }, gains, observed })
    }

    /// Moves the sums for the next report to rank 0, which saves them. Waits for the device if there are several ranks.
    pub(crate) fn move_sums_to_first_rank(&mut self) -> Result<(), Error> {
        let ranks = self.ranks.as_ref();
        if ranks.share().ranks() == 1 {
            return Ok(());
        }
        self.tally.move_to_first_rank(ranks)?;
        let (_, steps) = fetch(&SingleProcess, [], &[&self.guard.ring.unread()])?;
        let mut losses: Vec<f64> = Observed::all(&steps).iter().map(|step| step.loss).collect();
        ranks.sum(&mut losses)?;
        if ranks.share().is_first() {
            self.guard.ring.set_losses(&losses);
        } else {
            self.guard.ring.clear_losses();
        }
        Ok(())
    }

    /// Fetches the loss of the last step of this rank; `None` if it was read already. Waits for the device.
    pub(crate) fn last_loss(&self) -> Result<Option<f64>, Error> {
        let (_, steps) = fetch(&SingleProcess, [], &[&self.guard.ring.unread()])?;
        Ok(Observed::all(&steps).last().map(|step| step.loss))
    }

    /// Fetches loss and norm of the steps since the last read. Needed if the ring is full before the next report.
    pub(crate) fn observe(&mut self) -> Result<Vec<Observed>, Error> {
        let (_, steps) = fetch(self.ranks(), [], &[&self.guard.ring.unread()])?;
        self.guard.ring.clear();
        self.over_all_ranks(Observed::all(&steps))
    }

    /// Sums the losses over all ranks. The norms are already of all ranks.
    fn over_all_ranks(&self, mut steps: Vec<Observed>) -> Result<Vec<Observed>, Error> {
        let mut losses: Vec<f64> = steps.iter().map(|step| step.loss).collect();
        self.ranks.sum(&mut losses)?;
        steps.iter_mut().zip(losses).for_each(|(step, loss)| step.loss = loss);
        Ok(steps)
    }
}

/// Text that names the objectives whose loss is not finite either, or says that all are finite.
fn non_finite_terms(terms: &BTreeMap<MetricName, f64>) -> String {
    let broken: Vec<String> =
        terms.iter().filter(|(_, value)| !value.is_finite()).map(|(name, _)| format!("`{name}`")).collect();
    if broken.is_empty() {
        "the loss of every objective is finite".to_owned()
    } else {
        format!("nor is the loss of {}", broken.join(", "))
    }
}

/// Converts a count that was summed in float64.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and within 0 .. 2^53")]
pub(crate) fn to_u64(count: f64) -> u64 {
    count.max(0.0) as u64
}

/// Checks the settings that the CPU may not support.
fn check_processor(train: &TrainConfig) -> Result<(), Error> {
    let problem = cpu_problem(train, &choice::cuda_unavailable_reason());
    problem.map_or(Ok(()), |problem| Err(Error::Config(problem.message)))
}

/// Number of threads of libtorch for `train.threads`; with 0, the ranks of a host share its cores.
#[must_use]
fn threads(configured: usize, host_share: HostShare) -> usize {
    match configured {
        0 => {
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            (cores / host_share.ranks as usize).max(1)
        }
        count => count,
    }
}

#[cfg(test)]
mod tests;
