//! Resources of a planned run: hours of devices with their price and energy, disk, and memory of the hosts.

use serde_json::{Map, Value, json};
use telemetry::quantities::{bytes, count, counted, estimate};
use trainer_plan::TrainPlan;

use super::Plan;
use super::run_time::RunTime;
use super::step_estimate::TargetMachine;

/// Resources of a run, of all its ranks together unless stated otherwise.
struct RunCost {
    /// Hours of all devices; `None` if the time is not known.
    device_hours: Option<f64>,
    energy_kwh: Option<f64>,
    price: Option<f64>,
    max_checkpoints: u64,
    checkpoint_bytes: f64,
    /// Bytes of the shards of the data; `None` before the preparation.
    shard_bytes: Option<u64>,
    /// Most bytes of batches and decoded rows in the memory of the host, for each rank.
    loader_bytes: u64,
}

impl RunCost {
    fn new(plan: &Plan, time: Option<&RunTime>, target: TargetMachine) -> Self {
        let device_hours = time.map(|time| time.seconds / 3600.0 * time.devices as f64);
        let (max_checkpoints, checkpoint_bytes) = checkpoints(&plan.train);
        let shards = plan.data.all().flat_map(|data| [&data.effective.train, &data.effective.valid]);
        let shard_bytes = shards.flat_map(|split| &split.shards).map(|shard| shard.bytes).sum();
        let facts = plan.load.facts();
        Self {
            device_hours,
            energy_kwh: time.zip(target.watts).map(|(time, watts)| time.seconds / 3600.0 * watts / 1000.0),
            price: device_hours.zip(target.price).map(|(hours, price)| hours * price),
            max_checkpoints,
            checkpoint_bytes,
            shard_bytes: (!plan.data.is_expected()).then_some(shard_bytes),
            loader_bytes: facts.batches_bytes + facts.groups_bytes,
        }
    }
}

/// Returns the lines of the plan about the resources of a run.
pub(super) fn lines(plan: &Plan, time: Option<&RunTime>, target: TargetMachine) -> Vec<String> {
    let cost = RunCost::new(plan, time, target);
    let ranks = time.map_or(u64::from(target.ranks.unwrap_or(1)), |time| time.devices);
    let all = if ranks > 1 { format!(" for all {} ranks", count(ranks)) } else { String::new() };
    let mut lines = Vec::new();
    if let Some(hours) = cost.device_hours.filter(|_| ranks > 1 || target.gpu.is_some() || target.price.is_some()) {
        let unit = target.gpu.map_or("device hours", |_| "GPU-hours");
        let price = cost.price.zip(target.price);
        let price = price.map_or(String::new(), |(price, each)| format!(", {price:.2} at {each} for each"));
        lines.push(format!("hours      about {} {unit}{price}", digits(hours)));
    }
    if let Some((energy, watts)) = cost.energy_kwh.zip(target.watts) {
        lines.push(format!("energy     about {} kWh at {watts} W{all}", digits(energy)));
    }
    let shards = match cost.shard_bytes {
        Some(size) => format!("{} of shards", bytes(size)),
        None => "shards, whose size the preparation decides".to_owned(),
    };
    let train = &plan.train;
    let every = train.checkpoints.keep_every_steps;
    let has_more = every > 0 && train.steps_expected().is_none();
    let more = if has_more { format!(", one more every {} steps", count(every)) } else { String::new() };
    lines.push(format!(
        "disk       at most {} of {} = {}{more}, and {shards}",
        counted(cost.max_checkpoints, "checkpoint"),
        estimate(cost.checkpoint_bytes),
        estimate(cost.checkpoint_bytes * cost.max_checkpoints as f64),
    ));
    let (each, first) = if ranks > 1 { ("each rank", "the first one") } else { ("the process", "it") };
    lines.push(format!(
        "host       {each} needs at most {} of memory for batches and decoded rows; {first} also copies checkpoints of {}",
        bytes(cost.loader_bytes),
        estimate(cost.checkpoint_bytes),
    ));
    lines
}

/// Returns the same as JSON values.
pub(super) fn json(plan: &Plan, time: Option<&RunTime>, target: TargetMachine) -> Map<String, Value> {
    let cost = RunCost::new(plan, time, target);
    let value = json!({
        "device_hours": cost.device_hours,
        "energy_kwh": cost.energy_kwh,
        "price": cost.price,
        "max_checkpoints": cost.max_checkpoints,
        "checkpoint_bytes": cost.checkpoint_bytes,
        "shard_bytes": cost.shard_bytes,
        "host_bytes_per_rank": cost.loader_bytes,
    });
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was written as an object"),
    }
}

/// Formats a number with at least two digits.
fn digits(number: f64) -> String {
    match number {
        small if small < 0.095 => format!("{small:.3}"),
        small if small < 0.95 => format!("{small:.2}"),
        large => format!("{large:.1}"),
    }
}

/// Returns the largest number of checkpoints at a time, without milestones if the number of steps is unknown, and the
/// bytes of each with its export.
fn checkpoints(plan: &TrainPlan) -> (u64, f64) {
    let rules = &plan.checkpoints;
    let kept = rules.keep as u64 + rules.keep_best as u64;
    let (kept, milestones) = match plan.steps_expected() {
        Some(steps) => {
            let saved = steps.div_ceil(rules.every_steps.max(1)).max(1);
            (kept.min(saved), steps.checked_div(rules.keep_every_steps).unwrap_or(0))
        }
        None => (kept, 0),
    };
    let (trained, frozen) = plan.parameters();
    let export = if rules.export.is_some() { 4.0 * (trained + frozen) as f64 } else { 0.0 };
    // One more while the newest is written.
    (kept + milestones + 1, plan.checkpoint_bytes() + export)
}
