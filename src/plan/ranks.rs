//! Several ranks that share a run: their communication, efficiency, memory and failures, as text and JSON.

use serde_json::{Map, Value, json};
use telemetry::quantities::{count, estimate, time};
use trainer_plan::scaling::device_rates::DeviceRates;
use trainer_plan::scaling::links::Interconnect;
use trainer_plan::scaling::workload::StepWorkload;
use trainer_plan::scaling::{Communication, RankSet, SharedStep, SingleStep, TimePart};

use super::Plan;
use super::step_estimate::{self, StepEstimate, TargetMachine};
use super::step_time::shown;

/// Seconds from the notice of a failure to the first step after it: start of the processes, weights, first batch.
const START_SECONDS: f64 = 60.0;

/// Smallest share of the time that is printed.
const SHOWN_SHARE: f64 = 0.0005;

/// Ranks of a plan, and the times that the model computes for them.
struct RankEstimate {
    set: RankSet,
    workload: StepWorkload,
    communication: Communication,
    /// Time of a step, or why it is not known.
    step: Result<SharedStep, String>,
}

impl RankEstimate {
    fn new(plan: &Plan, ranks: u32, target: TargetMachine) -> Self {
        let single = step_estimate::step_estimate(&plan.train, target.gpu);
        let of_gpu = target.gpu.map(|gpu| gpu.name().to_owned());
        let measured = single.as_ref().map(|single| single.device.clone()).unwrap_or_default();
        let device = DeviceRates::from_name(&of_gpu.unwrap_or(measured));
        let set = RankSet {
            ranks,
            device: target.network_bandwidth.map_or(device, |bandwidth| device.with_network(bandwidth)),
            // The cores of the hosts of another machine are unknown.
            workers: if target.gpu.is_some() { 1 } else { plan.load.facts().workers.workers },
            // A rank that hangs is noticed after the timeout.
            restart_seconds: plan.config.run.stall_timeout_seconds as f64 + START_SECONDS,
        };
        let workload = StepWorkload::from_plan(&plan.train);
        let step = single.map(|single| {
            let StepEstimate { seconds, launch_seconds, .. } = single;
            set.step(&workload, SingleStep { seconds, launch_seconds })
        });
        Self { set, workload, communication: set.communication(&workload), step }
    }

    fn micro_batches(&self) -> u64 {
        self.workload.micro_batches / u64::from(self.set.ranks)
    }
}

/// Returns the time of a step that ranks share, with its part of the time that failures cost, or why it is not known.
pub(super) fn step_estimate(plan: &Plan, ranks: u32, target: TargetMachine) -> Result<StepEstimate, String> {
    let step = RankEstimate::new(plan, ranks, target).step?;
    let single = step_estimate::step_estimate(&plan.train, target.gpu)?;
    let kept = 1.0 - step.share(TimePart::Failures);
    let place = match target.gpu {
        Some(gpu) => format!("on {} {}", count(ranks.into()), gpu.name()),
        None => format!("on {} ranks {}", count(ranks.into()), single.place.replacen("on", "as", 1)),
    };
    let efficiency = 100.0 * step.efficiency();
    let basis = format!("with an efficiency of {efficiency:.1} %, one rank {}", single.basis);
    Ok(StepEstimate { seconds: step.seconds / kept, range: None, basis, place, ..single })
}

/// Returns the lines of the plan about its ranks.
pub(super) fn lines(plan: &Plan, ranks: u32, target: TargetMachine) -> Vec<String> {
    let found = RankEstimate::new(plan, ranks, target);
    let Communication { seconds, exchange_seconds, .. } = found.communication;
    let memory = plan.train.memory();
    // The embeddings are the largest bucket.
    let largest = found.workload.last_bucket_bytes;
    let mut lines = vec![
        format!(
            "ranks      {}, each with {} micro-batch{} of a step; {} of gradients are summed a step",
            count(ranks.into()),
            count(found.micro_batches()),
            if found.micro_batches() == 1 { "" } else { "es" },
            estimate(found.workload.gradient_bytes),
        ),
        format!(
            "           communication {} a step at {}, exchanges between the hosts {}",
            shown(seconds),
            rates(&found.set.device.interconnect),
            shown(exchange_seconds),
        ),
        format!(
            "           a rank needs about {}; with moments divided among the ranks {}",
            estimate(memory.total_of_rank(largest)),
            estimate(memory.total_of_sharded(ranks, largest)),
        ),
    ];
    match &found.step {
        Ok(step) => lines.extend(step_lines(&found, step)),
        Err(reason) => lines.push(format!("           efficiency {reason}")),
    }
    lines
}

/// Describes the links: `370 GB/s in a host of 8, 46 GB/s of network a rank`
fn rates(links: &Interconnect) -> String {
    let host = links.host.map(|host| format!("{} GB/s in a host of {}, ", host.link.bandwidth / 1e9, host.ranks));
    format!("{}{} GB/s of network a rank", host.unwrap_or_default(), links.network.bandwidth / 1e9)
}

fn step_lines(found: &RankEstimate, step: &SharedStep) -> [String; 2] {
    let losses = step.shares.iter().filter(|it| it.part != TimePart::Computation && it.share >= SHOWN_SHARE);
    let losses: Vec<String> = losses.map(|it| format!("{} {:.1} %", it.part.name(), 100.0 * it.share)).collect();
    let losses = if losses.is_empty() { String::new() } else { format!(" ({})", losses.join(", ")) };
    let per_day = found.communication.failures_per_day;
    let hours_lost = f64::from(found.set.ranks) * 24.0 * step.share(TimePart::Failures);
    [
        format!(
            "           a step takes {}, {} of it communication that no backward pass hides; efficiency {:.1} %{losses}; \
             bottleneck: {}",
            shown(step.seconds),
            shown(step.exposed_seconds),
            100.0 * step.efficiency(),
            step.bottleneck().name(),
        ),
        format!(
            "           {per_day:.2} failures a day cost {hours_lost:.1} device hours, each {} of the run; a checkpoint is saved \
             every {}, the best interval is {}",
            time(step.failure_seconds),
            time(step.checkpoint_seconds),
            time(step.best_checkpoint_seconds),
        ),
    ]
}

/// Returns the same as JSON values. Values that depend on an unknown time of a step are null.
pub(super) fn json(plan: &Plan, ranks: u32, target: TargetMachine) -> Value {
    let found = RankEstimate::new(plan, ranks, target);
    let memory = plan.train.memory();
    let step = found.step.as_ref().ok();
    let shares = step.map(|step| {
        let shares = step.shares.iter().map(|it| (it.part.name().to_owned(), json!(it.share)));
        shares.collect::<Map<String, Value>>()
    });
    let links = &found.set.device.interconnect;
    json!({
        "ranks": ranks,
        "micro_batches_per_rank": found.micro_batches(),
        "gradient_bytes": found.workload.gradient_bytes,
        "last_bucket_bytes": found.workload.last_bucket_bytes,
        "host_bandwidth": links.host.map(|host| host.link.bandwidth),
        "network_bandwidth": links.network.bandwidth,
        "communication_seconds": found.communication.seconds,
        "weights_seconds": found.communication.weights_seconds,
        "exchange_seconds": found.communication.exchange_seconds,
        "exposed_seconds": step.map(|step| step.exposed_seconds),
        "step_seconds": step.map(|step| step.seconds),
        "efficiency": step.map(SharedStep::efficiency),
        "shares": shares,
        "bottleneck": step.map(|step| step.bottleneck().name()),
        "memory_bytes": memory.total_of_rank(found.workload.last_bucket_bytes),
        "sharded_memory_bytes": memory.total_of_sharded(ranks, found.workload.last_bucket_bytes),
        "failures_per_day": found.communication.failures_per_day,
        "failure_seconds": step.map(|step| step.failure_seconds),
        "checkpoint_interval_seconds": step.map(|step| step.checkpoint_seconds),
        "best_checkpoint_interval_seconds": step.map(|step| step.best_checkpoint_seconds),
    })
}
