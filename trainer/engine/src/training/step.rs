//! One optimizer step: upload, encode each view once, combine, backward, clip, update.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemas::ordinal::{BatchIndex, Step};
use schemas::{Batch, RankShard};
use tch::{Device, Tensor};
use telemetry::training::Figures;
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::checkpoint::IdentityChange;
use trainer_plan::config::TrainConfig;
use trainer_plan::device::DeviceChoice;
use trainer_plan::metric_name::MetricName;
use trainer_plan::pass::Pass;
use trainer_plan::run_weights;
use trainer_plan::schedule::LrSchedule;

use crate::device::ResolveDevice as _;
use crate::device::choice;
use crate::device::native;
use crate::device::native::Checked as _;
use crate::device::native::copies::Copies;
use crate::device::precision::Cast as _;
use crate::device::precision::{Precision, WIDE};
use crate::device::step_timer::{self, BACKWARD, CHECKPOINT, OBJECTIVE, OPTIMIZER, UPLOAD, timed, timed_for};
use crate::model::forward::{Forward, StepContext};
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::layers::Mode;
use crate::model::networks::built::{Networks, teach};
use crate::model::parameters::Parameters;
use crate::model::staging_buffer::Staging;
use crate::objective_instances::{Member, build};
use crate::objectives::combine::Counts;
use crate::objectives::{Computed, Term};
use crate::optimizer::adamw::{AdamW, Update};
use crate::training::metric_accumulator::{MetricAccumulator, Reading, Sums, fetch, written};
use crate::training::process_group::ProcessGroup;
use crate::training::spike_guard::{Guard, Observed};

/// What a step has seen, on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSeen {
    /// Rows of the stream.
    pub rows: u64,
    /// Real tokens: those of the first view that is encoded.
    pub tokens: u64,
}

/// Weights, optimizer and the numbers that the next report will show.
#[derive(Debug)]
pub struct Trainer {
    plan: TrainPlan,
    ranks: Box<dyn ProcessGroup>,
    device: Device,
    pub(crate) parameters: Parameters,
    pub(crate) networks: Networks,
    pub(crate) members: Vec<Member>,
    pub(crate) optimizer: AdamW,
    pub(crate) tally: MetricAccumulator,
    pub(crate) skips: Skips,
    pub(crate) guard: Guard,
    pub(crate) done: Step,
    pub(crate) course: LrSchedule,
    // What was changed in the middle of the run.
    pub(crate) changes: Vec<IdentityChange>,
    // Copies of weights and moments that are under way.
    pub(crate) copies: Vec<Arc<Copies>>,
    // Whether it was said that there is no pinned memory for them.
    pub(crate) lacks_pinned: bool,
    passes: BTreeSet<Pass>,
    learning: BTreeSet<Pass>,
}

/// Steps whose gradient was not finite, counted on the device.
#[derive(Debug)]
pub(crate) struct Skips {
    /// How many, float64.
    pub(crate) count: Tensor,
    /// The first of them; −1 for none, float64.
    pub(crate) first: Tensor,
}

impl Skips {
    fn new(device: Device) -> Self {
        Self { count: Tensor::zeros([0_i64; 0], (WIDE, device)), first: Tensor::full([0_i64; 0], -1.0, (WIDE, device)) }
    }

    fn note(&mut self, step: Step, skipped: &Tensor) {
        self.count += skipped;
        let is_first = self.first.lt(0.0).logical_and(&skipped.gt(0.0));
        self.first = self.first.where_self(&is_first.logical_not(), &Tensor::full_like(&self.first, step.0 as f64));
    }
}

impl Trainer {
    /// Fresh weights, drawn under the plan's seed, as one of `ranks`. Call it on the thread that will train: it sets libtorch's number of
    /// threads and switches, once.
    pub fn new(plan: &TrainPlan, ranks: Box<dyn ProcessGroup>) -> Result<Self, Error> {
        if ranks.share() != RankShard::ALONE {
            return Err(Error::Config(format!("{}: a run has one rank in this version", ranks.share())));
        }
        let device = plan.train.device.resolve()?;
        if device.is_cuda() {
            plan.check_on_cuda()?;
        }
        if device == Device::Cpu {
            check_processor(&plan.train)?;
        }
        native::configure(plan.train.deterministic, plan.train.tf32)?;
        tch::set_num_threads(i32::try_from(threads(plan.train.threads)).unwrap_or(i32::MAX));
        let parameters = Parameters::new(&run_weights::of_run(plan), plan.seed, device);
        let (networks, members) = build(plan, &parameters);
        teach(&plan.used_networks(), &parameters);
        let passes = |members: &[Member], learning: bool| -> BTreeSet<Pass> {
            let members = members.iter().filter(|member| !learning || member.weight != 0.0);
            members.flat_map(|member| member.passes.iter().cloned()).collect()
        };
        Ok(Self {
            ranks,
            device,
            optimizer: AdamW::new(plan.optimizer.clone(), &parameters),
            tally: MetricAccumulator::new(device),
            skips: Skips::new(device),
            guard: Guard::new(&plan.guard, plan.report.every_steps, device),
            done: Step(0),
            course: LrSchedule::new(&plan.schedule, plan.train.steps, &plan.amended.spans),
            changes: Vec::new(),
            copies: Vec::new(),
            lacks_pinned: false,
            passes: passes(&members, false),
            learning: passes(&members, true),
            plan: plan.clone(),
            parameters,
            networks,
            members,
        })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &TrainPlan {
        &self.plan
    }

    /// Who trains with it.
    #[must_use]
    pub fn ranks(&self) -> &dyn ProcessGroup {
        self.ranks.as_ref()
    }

    /// Who trained with it.
    pub(crate) fn into_ranks(self) -> Box<dyn ProcessGroup> {
        self.ranks
    }

    /// Micro-batches of one step that are this rank's.
    #[must_use]
    pub fn micro_batches(&self) -> u64 {
        self.ranks.share().of(self.plan.micro_batches())
    }

    /// Where it computes.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Steps done.
    #[must_use]
    pub fn done(&self) -> Step {
        self.done
    }

    /// The weights by name.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The networks.
    #[must_use]
    pub fn networks(&self) -> &Networks {
        &self.networks
    }

    /// The built objectives, by name.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The first objective's head that predicts tokens from hidden states of the main network; `None` without one.
    #[must_use]
    pub(crate) fn token_head(&self) -> Option<TokenHead> {
        self.members.iter().find_map(|member| member.loss.token_head(&self.networks))
    }

    /// Learning rate of a step.
    #[must_use]
    pub fn lr(&self, step: Step) -> f64 {
        self.plan.optimizer.lr * self.course.rate(step)
    }

    /// Tells who measures the steps of this thread, if anybody does, where they are computed and what the run keeps.
    pub(crate) fn know_stopwatch(&self) {
        step_timer::know(self.device, || {
            let (learning, frozen) = self.plan().parameters();
            let copies = if self.plan.train.precision == Precision::F32 {
                0
            } else {
                learning * self.plan.train.precision.kind().elt_size_in_bytes() as u64
            };
            vec![("weights", 4 * (learning + frozen) + copies), ("gradients", 4 * learning), ("moments", 8 * learning)]
        });
    }

    /// Learns from the micro-batches of one step. Waits for the device only as far as its queue is full.
    pub fn step(&mut self, batches: &[Batch]) -> Result<StepSeen, Error> {
        let seen = self.accumulate(batches)?;
        timed(CHECKPOINT, || self.pass_copies())?;
        let lr = self.lr(self.done);
        let Update { norm, skipped } = timed(OPTIMIZER, || self.optimizer.update(lr))?;
        self.skips.note(self.done, &skipped);
        let norm = norm.where_self(&skipped.lt(0.5), &norm.zeros_like());
        let mut sums = Sums::default();
        self.tally.add_norm(&norm, &mut sums);
        sums.add(&self.guard.ring.norm(), &norm);
        sums.settle()?;
        self.guard.ring.advance();
        self.done = self.done.next();
        Ok(seen)
    }

    /// Takes the micro-batches of one step and learns nothing from them: the step counts, and the learning rate moves on.
    pub(crate) fn pass_over(&mut self, batches: &[Batch]) -> Result<StepSeen, Error> {
        let batches = batches.iter().map(|batch| HostBatch::new(batch, &self.networks));
        let (_, seen) = self.counts(&batches.collect::<Result<Vec<_>, _>>()?);
        self.pass_copies()?;
        self.guard.ring.pass_over();
        self.done = self.done.next();
        Ok(seen)
    }

    /// Adds the gradients of the whole step to the weights', micro-batch by micro-batch.
    pub fn accumulate(&mut self, batches: &[Batch]) -> Result<StepSeen, Error> {
        let packed =
            || batches.iter().map(|batch| HostBatch::new(batch, &self.networks)).collect::<Result<Vec<_>, _>>();
        let batches = timed(UPLOAD, packed)?;
        let (counts, seen) = timed(UPLOAD, || self.counts(&batches));
        timed(OPTIMIZER, || self.parameters.round())?;
        let moment = StepContext { seed: self.plan.seed, step: self.done, mode: Mode::Train };
        for (at, batch) in batches.iter().enumerate() {
            // What a micro-batch without a loss has left.
            self.parameters.forget();
            let forward = Forward::run(batch, &self.passes, &self.learning, moment, freight(&self.members, batch))?;
            let (mut loss, mut sums): (Option<Tensor>, _) = (None, Sums::default());
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
            if let Some(loss) = loss {
                timed(BACKWARD, || {
                    loss.f_backward().checked()?;
                    forward.finish(&self.parameters)
                })?;
            }
        }
        Ok(seen)
    }

    /// Every objective's terms for these micro-batches, counted over all ranks, and what the step has seen.
    fn counts(&self, batches: &[HostBatch<'_>]) -> (Vec<Counts>, StepSeen) {
        let terms = |member: &Member| batches.iter().map(|batch| member.loss.terms(batch)).collect();
        let of = |member: &Member| Counts::new(terms(member), self.plan.train.normalize, member.weight);
        let mut counts: Vec<Counts> = self.members.iter().map(of).collect();
        let tokens = |batch: &HostBatch<'_>| self.passes.first().map_or(0, |pass| batch.valid(&pass.view));
        let rows = batches.iter().map(HostBatch::rows).sum::<usize>() as f64;
        let mut seen = [rows, batches.iter().map(tokens).sum::<usize>() as f64];
        let mut own: Vec<&mut f64> = counts.iter_mut().flat_map(Counts::totals).chain(&mut seen).collect();
        let mut sums: Vec<f64> = own.iter().map(|count| **count).collect();
        self.ranks.sum(&mut sums);
        own.iter_mut().zip(sums).for_each(|(count, sum)| **count = sum);
        let [rows, tokens] = seen.map(whole);
        (counts, StepSeen { rows, tokens })
    }

    /// Adds one batch to a tally, in eval mode and without gradient: what the objectives that `counts` names make of it.
    /// `extra` are the passes that the caller reads beyond theirs.
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
        let moment = StepContext { seed: self.plan.seed, step: Step(0), mode: Mode::Eval };
        let freight = freight(members.iter().copied(), batch);
        let forward = Forward::run(batch, &passes, &BTreeSet::new(), moment, freight)?;
        let mut sums = Sums::default();
        for member in members {
            tally(into, member, &member.loss.terms(batch), &compute(member, &forward), &mut sums);
        }
        sums.settle()?;
        Ok(forward)
    }

    /// The numbers since the last call, and loss and norm of each step, fetched in one copy. Waits for the device.
    ///
    /// # Errors
    /// [`Error::NonFinite`] if more steps were skipped than the plan allows.
    pub fn figures(&mut self) -> Result<(Figures, Vec<Observed>), Error> {
        let (Reading { loss, terms, metrics, norm }, extra) =
            self.tally.read(self.ranks(), &[&self.skips.count, &self.skips.first, &self.guard.ring.unread()])?;
        self.tally.clear();
        self.guard.ring.clear();
        let (skips, steps) = extra.split_at(2);
        let [skipped, first] = [skips[0], skips[1]].map(whole);
        let observed = self.over_all_ranks(Observed::all(steps));
        if skipped > self.plan.train.max_skipped_steps {
            let batch = BatchIndex(first * self.plan.micro_batches());
            let allowed = self.plan.train.max_skipped_steps;
            let step = Step(first).next();
            return Err(Error::NonFinite { step, objective: blame(&terms), skipped, allowed, batch });
        }
        let lr = self.lr(Step(self.done.0.saturating_sub(1)));
        let (terms, metrics) = (written(terms), written(metrics));
        Ok((Figures { loss, terms, metrics, lr, grad_norm: norm, skipped }, observed))
    }

    /// Loss and norm of the steps since they were read last, where a report is too far away to wait for.
    pub(crate) fn observe(&mut self) -> Result<Vec<Observed>, Error> {
        let (_, steps) = fetch(self.ranks(), [], &[&self.guard.ring.unread()])?;
        self.guard.ring.clear();
        Ok(self.over_all_ranks(Observed::all(&steps)))
    }

    /// A rank knows its share of each loss, and the norm of all.
    fn over_all_ranks(&self, mut steps: Vec<Observed>) -> Vec<Observed> {
        let mut losses: Vec<f64> = steps.iter().map(|step| step.loss).collect();
        self.ranks.sum(&mut losses);
        steps.iter_mut().zip(losses).for_each(|(step, loss)| step.loss = loss);
        steps
    }
}

fn compute(member: &Member, forward: &Forward<'_>) -> Computed {
    if member.weight == 0.0 {
        let _guard = tch::no_grad_guard();
        member.loss.compute(forward)
    } else {
        member.loss.compute(forward)
    }
}

/// What objectives need on the device.
fn freight<'a>(members: impl IntoIterator<Item = &'a Member>, batch: &HostBatch<'_>) -> Staging {
    let mut freight = Staging::default();
    members.into_iter().for_each(|member| member.loss.send(batch, &mut freight));
    freight
}

/// Notes an objective's sums and metrics for the next report.
fn tally(into: &mut MetricAccumulator, member: &Member, terms: &[Term], computed: &Computed, sums: &mut Sums) {
    for (term, sum) in terms.iter().zip(&computed.sums) {
        into.add_term(MetricName::new(&member.name, term.name), member.weight * term.weight, sum, term.count, sums);
    }
    for metric in &computed.metrics {
        into.add_metric(&member.name, metric, sums);
    }
}

/// The objectives whose sums went wrong too, or that none did.
fn blame(terms: &BTreeMap<MetricName, f64>) -> String {
    let broken: Vec<String> =
        terms.iter().filter(|(_, value)| !value.is_finite()).map(|(name, _)| format!("`{name}`")).collect();
    if broken.is_empty() {
        "every objective's loss is finite".to_owned()
    } else {
        format!("nor is the loss of {}", broken.join(", "))
    }
}

/// A count that was added up in float64.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and within 0 .. 2^53")]
pub(crate) fn whole(count: f64) -> u64 {
    count.max(0.0) as u64
}

/// What the CPU cannot do, with the way out. bfloat16 is for who has asked for the CPU: a run that misses its GPU says so.
fn check_processor(train: &TrainConfig) -> Result<(), Error> {
    let refused = |wish: &str, problem: &str, without: &str| {
        Err(Error::Config(format!("`{wish}` needs {problem}; `{without}` does without")))
    };
    let cuda = match train.device {
        DeviceChoice::Cpu => "CUDA, and `train.device` is `cpu`".to_owned(),
        _ => format!("CUDA, and {}", choice::why_not()),
    };
    if train.tf32 {
        return refused("train.tf32 = true", &cuda, "train.tf32 = false");
    }
    let wish = format!("train.precision = \"{}\"", train.precision.name());
    let problem = match (train.precision, train.device) {
        (Precision::F32, _) => return Ok(()),
        (_, DeviceChoice::Cpu) if Precision::is_of_this_processor() => return Ok(()),
        (_, DeviceChoice::Cpu) => "a processor with products of bfloat16 (AVX512_BF16, AMX), and this is another",
        _ => &cuda,
    };
    refused(&wish, problem, "train.precision = \"f32\"")
}

/// Threads that libtorch shall use where the config says `threads`.
#[must_use]
pub(crate) fn threads(configured: usize) -> usize {
    match configured {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        count => count,
    }
}

#[cfg(test)]
mod tests;
