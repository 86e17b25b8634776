//! Model of a training step that several ranks share.
//!
//! # Definition
//! A step of `T` seconds on a single rank takes `(T − u) / W + u` on each of `W` ranks: every rank updates all weights
//! in `u` seconds. The gradients are summed in buckets while the backward pass of the last micro-batch runs. The last
//! bucket has no pass left to hide behind, so the exposed part is the larger of its time and of all communication less
//! the backward pass. With `optimizer.shard`, the update takes `u / W` seconds, and a second sum gives all weights to all
//! ranks. In each step, the hosts exchange counts, row digests and stop requests.
//!
//! The loader, checkpoints and failures add their waits. The shares of all parts add up to 1, and the share of the
//! computation is the efficiency.
//!
//! # Reference
//! Buckets and overlap: Li et al. 2020, "PyTorch Distributed", section 3.2. The pages `docs/scaling.md` and
//! `docs/benchmarks.md` have the measurements.

pub mod device_rates;
mod failures;
pub mod links;
#[cfg(test)]
mod tests;
pub mod workload;

use self::device_rates::DeviceRates;
use self::failures::SECONDS_PER_DAY;
use self::links::{Interconnect, exchange_seconds};
use self::workload::{BUCKET_BYTES, StepWorkload};

/// Bytes that the optimizer reads and writes for each byte of a weight: it reads gradient, weight and two moments, and
/// writes weight and moments.
const UPDATE_BYTES: f64 = 7.0;

/// Share of the backward pass in the computation of a micro-batch.
const BACKWARD_SHARE: f64 = 2.0 / 3.0;

/// Exchanges between the hosts for a step. Those of checkpoint requests, stop requests, counts, and which weights have
/// gradients take one message from each rank; row digests and documents take two.
const EXCHANGES: f64 = 8.0;

/// Seconds in which a worker of the loader makes a token of the rows: 7.5 to 10.1 ns were measured.
const LOADER_SECONDS: f64 = 10.1e-9;

/// Sum of all losses below which computation is the bottleneck.
const NEGLIGIBLE: f64 = 0.05;

/// Ranks and their devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankSet {
    /// Number of ranks, each with one device.
    pub ranks: u32,
    /// Rates of the devices and of their links.
    pub device: DeviceRates,
    /// Workers of the loader of a rank.
    pub workers: usize,
    /// Seconds from a failure to the first step after it.
    pub restart_seconds: f64,
}

/// Time of a step on a single rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingleStep {
    /// Seconds of the step.
    pub seconds: f64,
    /// Seconds in which the host launches its kernels; 0 on a CPU.
    pub launch_seconds: f64,
}

/// Part of the time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// The share of a rank of the step of a single rank.
    Computation,
    /// Updates of the weights that other ranks repeat.
    Optimizer,
    /// Sums over all ranks that no backward pass hides.
    Communication,
    /// Exchanges between the hosts.
    Exchanges,
    /// Waits for batches.
    Loader,
    /// Waits for checkpoints.
    Checkpoints,
    /// Restarts and repeated steps.
    Failures,
}

impl TimePart {
    /// Returns the name in the plan.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Computation => "computation",
            Self::Optimizer => "optimizer",
            Self::Communication => "communication",
            Self::Exchanges => "exchanges",
            Self::Loader => "loader",
            Self::Checkpoints => "checkpoints",
            Self::Failures => "failures",
        }
    }
}

/// Time of a part, relative to the whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeShare {
    /// Part of the time.
    pub part: TimePart,
    /// Share of the time.
    pub share: f64,
}

/// Communication and failures, which do not depend on the speed of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Communication {
    /// Seconds of the sum of all gradients of a step.
    pub seconds: f64,
    /// Seconds of the sum of the last bucket.
    pub last_bucket_seconds: f64,
    /// Seconds in which all ranks get the weights that others have updated; 0 without `optimizer.shard`.
    pub weights_seconds: f64,
    /// Seconds of the exchanges between the hosts.
    pub exchange_seconds: f64,
    /// Failures per day.
    pub failures_per_day: f64,
}

/// Time of a step on all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedStep {
    /// Seconds of a step without failures.
    pub seconds: f64,
    /// Seconds of communication that no backward pass hides.
    pub exposed_seconds: f64,
    /// Shares of the time, which add up to 1. The first is the computation.
    pub shares: Vec<TimeShare>,
    /// Seconds that a failure costs.
    pub failure_seconds: f64,
    /// Seconds between checkpoints.
    pub checkpoint_seconds: f64,
    /// Seconds between checkpoints with which the run loses the least time.
    pub best_checkpoint_seconds: f64,
}

impl SharedStep {
    /// Returns the speed relative to that many independent devices: the share of the computation.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        self.share(TimePart::Computation)
    }

    /// Returns the share of a part.
    #[must_use]
    pub fn share(&self, part: TimePart) -> f64 {
        self.shares.iter().filter(|it| it.part == part).map(|it| it.share).sum()
    }

    /// Returns the part that loses the most time, or the computation if all others together lose less than 5 %.
    #[must_use]
    pub fn bottleneck(&self) -> TimePart {
        if self.efficiency() > 1.0 - NEGLIGIBLE {
            return TimePart::Computation;
        }
        let losses = self.shares.iter().filter(|it| it.part != TimePart::Computation);
        losses.max_by(|one, other| one.share.total_cmp(&other.share)).map_or(TimePart::Computation, |it| it.part)
    }
}

impl RankSet {
    /// Returns the time of the communication of a step, and the failures.
    #[must_use]
    pub fn communication(&self, workload: &StepWorkload) -> Communication {
        let links = &self.device.interconnect;
        let last = workload.last_bucket_bytes;
        let last_bucket_seconds = links.all_reduce_seconds(self.ranks, last);
        let others = buckets_seconds(links, self.ranks, workload.gradient_bytes - last);
        Communication {
            seconds: others + last_bucket_seconds,
            last_bucket_seconds,
            weights_seconds: if workload.is_sharded {
                buckets_seconds(links, self.ranks, workload.weight_bytes)
            } else {
                0.0
            },
            exchange_seconds: EXCHANGES * exchange_seconds(self.ranks, self.device.exchange_seconds),
            failures_per_day: failures::rate(self.ranks) * SECONDS_PER_DAY,
        }
    }

    /// Returns the time of a step on all ranks, from that on a single rank.
    #[must_use]
    pub fn step(&self, workload: &StepWorkload, single: SingleStep) -> SharedStep {
        let ranks = f64::from(self.ranks);
        let communication = self.communication(workload);
        let update = (UPDATE_BYTES * workload.weight_bytes / self.device.memory_bandwidth).min(single.seconds);
        let computation = single.seconds / ranks;
        let optimizer = if workload.is_sharded { 0.0 } else { update - update / ranks };
        let micro_batches = (workload.micro_batches as f64 / ranks).max(1.0);
        let backward = BACKWARD_SHARE * (single.seconds - update) / ranks / micro_batches;
        let exposed_seconds =
            communication.last_bucket_seconds.max(communication.seconds - backward) + communication.weights_seconds;
        let device = computation + optimizer + exposed_seconds;
        let exchanges = if self.device.has_free_host {
            // While the device computes, its host prepares the next step.
            (single.launch_seconds / ranks + communication.exchange_seconds - device).max(0.0)
        } else {
            communication.exchange_seconds
        };
        let loaded = LOADER_SECONDS * workload.tokens / ranks / self.workers.max(1) as f64;
        let loader = (loaded - device - exchanges).max(0.0);
        let interval_steps = workload.steps_per_checkpoint.max(1) as f64;
        let training = device + exchanges + loader;
        let bytes = workload.checkpoint_bytes;
        let checkpoints = failures::checkpoint_seconds(bytes, interval_steps * training) / interval_steps;
        let seconds = training + checkpoints;
        let checkpoint_seconds = interval_steps * seconds;
        let failure_seconds = self.restart_seconds + checkpoint_seconds / 2.0;
        let lost = (failures::rate(self.ranks) * failure_seconds).min(1.0);
        let parts = [
            (TimePart::Computation, computation),
            (TimePart::Optimizer, optimizer),
            (TimePart::Communication, exposed_seconds),
            (TimePart::Exchanges, exchanges),
            (TimePart::Loader, loader),
            (TimePart::Checkpoints, checkpoints),
        ];
        let shares = parts.map(|(part, of_step)| TimeShare { part, share: (1.0 - lost) * of_step / seconds });
        SharedStep {
            seconds,
            exposed_seconds,
            shares: shares.into_iter().chain([TimeShare { part: TimePart::Failures, share: lost }]).collect(),
            failure_seconds,
            checkpoint_seconds,
            best_checkpoint_seconds: failures::best_interval_seconds(bytes, self.ranks),
        }
    }
}

/// Returns the seconds of the sum of that many bytes in buckets of equal size.
fn buckets_seconds(links: &Interconnect, ranks: u32, bytes: f64) -> f64 {
    let buckets = (bytes / f64::from(BUCKET_BYTES)).ceil();
    if buckets < 1.0 { 0.0 } else { buckets * links.all_reduce_seconds(ranks, bytes / buckets) }
}
