//! Duration of a planned run, on this machine or computed for a GPU, with its end, disk and energy.

use chrono::DateTime;
use serde_json::{Value, json};
use telemetry::Clock;
use telemetry::quantities::{count, estimate, time};
use trainer_plan::TrainPlan;
use trainer_plan::precision::Precision;

use super::Plan;
use super::run_progress::RunProgress;
use super::step_time::{self, StepTime};
use crate::cli::Gpu;
use crate::report::run_summary::age;

/// Share of the operations of a training step that a step without gradient needs.
const FORWARD_SHARE: f64 = 1.0 / 3.0;

/// Machine for which a plan computes times and energy.
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetMachine {
    /// A GPU; `None` for this machine.
    pub gpu: Option<Gpu>,
    /// Power in watts; `None` prints no energy.
    pub watts: Option<f64>,
    /// Number of ranks that share the run; `None` prints nothing about ranks.
    pub ranks: Option<u32>,
    /// Bytes per second of the network of a rank; `None` for that of the device.
    pub network_bandwidth: Option<f64>,
}

/// Time of a run, or of the rest of it.
struct RunTime {
    /// Seconds of the steps that are left.
    seconds: f64,
    /// The same if every step were the fastest measured one, and if every step were the slowest.
    range: Option<[f64; 2]>,
    /// Origin of the number.
    basis: String,
}

/// Returns the lines of the plan about time, energy and disk.
///
/// The time on another machine is that of the whole run.
pub(super) fn lines(plan: &Plan, progress: Option<RunProgress>, target: TargetMachine) -> Vec<String> {
    let mut lines = Vec::new();
    match run_time(plan, progress, target) {
        Ok(RunTime { seconds: 0.0, .. }) => lines.push("time       no step is left".to_owned()),
        Ok(RunTime { seconds, range, basis }) => {
            let range = range.map_or(String::new(), |[min, max]| format!(" ({} to {})", time(min), time(max)));
            lines.push(format!("time       about {}{range} {basis}; it would end on {}", time(seconds), end(seconds)));
            lines.extend(
                target
                    .watts
                    .map(|watts| format!("energy     about {:.1} kWh at {watts} W", energy_kwh(seconds, watts))),
            );
        }
        Err(reason) => lines.push(format!("time       {reason}")),
    }
    let (checkpoints, size) = checkpoints(&plan.train);
    lines.push(format!(
        "disk       at most {} checkpoints of {} = {}",
        count(checkpoints),
        estimate(size),
        estimate(size * checkpoints as f64)
    ));
    lines
}

/// Returns the same as JSON values.
pub(super) fn json(plan: &Plan, progress: Option<RunProgress>, target: TargetMachine) -> Value {
    let found = run_time(plan, progress, target).ok();
    let range = found.as_ref().and_then(|found| found.range);
    let (checkpoints, size) = checkpoints(&plan.train);
    json!({
        "seconds": found.as_ref().map(|found| found.seconds),
        "min_seconds": range.map(|[min, _]| min),
        "max_seconds": range.map(|[_, max]| max),
        "basis": found.as_ref().map(|found| &found.basis),
        "done_steps": progress.map_or(0, |progress| progress.step),
        "energy_kwh": found.as_ref().zip(target.watts).map(|(found, watts)| energy_kwh(found.seconds, watts)),
        "max_checkpoints": checkpoints,
        "checkpoint_bytes": size,
    })
}

fn energy_kwh(seconds: f64, watts: f64) -> f64 {
    seconds / 3600.0 * watts / 1000.0
}

/// Returns the time of a run, or why it is not known.
fn run_time(plan: &Plan, progress: Option<RunProgress>, target: TargetMachine) -> Result<RunTime, String> {
    let progress = progress.filter(|_| target.gpu.is_none());
    let valid_rows = (!plan.data.is_expected()).then(|| plan.data.valid_rows());
    let plan = &plan.train;
    let trained = progress.map_or(0.0, |progress| progress.trained_s);
    let hours = plan.train.max_hours.map(|hours| (hours * 3600.0 - trained).max(0.0));
    let Some(steps) = plan.steps_expected() else {
        let basis = "(`train.max_hours`)".to_owned();
        return Ok(RunTime { seconds: hours.unwrap_or_default(), range: None, basis });
    };
    let left = progress.and_then(|progress| progress.steps_left(plan)).unwrap_or(steps);
    let of_log = progress.and_then(|progress| progress.seconds_per_step);
    let StepEstimate { seconds: step, range, basis, .. } = match of_log.filter(|_| target.gpu.is_none()) {
        Some(seconds) => {
            let basis = format!("for the steps that are left, at {} a step by the log", step_time::shown(seconds));
            StepEstimate { seconds, range: None, basis, device: String::new(), launch_seconds: 0.0 }
        }
        None => step_estimate(plan, target.gpu)?,
    };
    let rows = valid_rows.map_or(plan.validation.rows, |rows| rows.min(plan.validation.rows));
    let steps = left as f64 + validations(plan, left, rows);
    let seconds = steps * step;
    let limit = hours.unwrap_or(f64::INFINITY);
    if seconds > limit {
        return Ok(RunTime {
            seconds: limit,
            range: None,
            basis: format!("(`train.max_hours`; all steps would take {})", time(seconds)),
        });
    }
    let range = range.map(|range| range.map(|step| (steps * step).min(limit)));
    Ok(RunTime { seconds, range, basis })
}

/// Time of a step on one device.
pub(super) struct StepEstimate {
    pub(super) seconds: f64,
    /// Fastest and slowest step, if steps were measured.
    range: Option<[f64; 2]>,
    /// Origin of the number.
    basis: String,
    /// Name of the device.
    pub(super) device: String,
    /// Seconds in which the host launches the kernels of the step; 0 on a CPU.
    pub(super) launch_seconds: f64,
}

/// Returns the time of a step on a GPU or on this machine, or why it is not known.
pub(super) fn step_estimate(plan: &TrainPlan, gpu: Option<Gpu>) -> Result<StepEstimate, String> {
    match gpu {
        Some(gpu) => on_gpu(plan, gpu),
        None => on_this_machine(plan),
    }
}

/// Least seconds of the forward and backward pass of a layer on a GPU: the launches of its kernels.
const SECONDS_PER_LAYER: f64 = 0.4e-3;

/// Returns the seconds of a step on a GPU, from its peak and the share of it that such runs reach in our measurements on
/// an H100 (`docs/benchmarks.md`).
fn on_gpu(plan: &TrainPlan, gpu: Gpu) -> Result<StepEstimate, String> {
    let train = &plan.train;
    let peak = train.precision.peak_flops(train.tf32, gpu.name()).ok_or("the peak of that GPU is unknown")?;
    let mfu = match train.precision {
        Precision::F32 if train.tf32 => 0.21,
        Precision::F32 => 0.63,
        Precision::Bf16 => 0.24,
        Precision::Bf16Hidden => 0.28,
    };
    // ELECTRA and COCO-LM reach 0.64 and 0.75 of the share of masked language modelling, BERT-small 0.6.
    let is_generated = plan.used_networks().values().any(|network| !network.copies_main());
    let is_narrow = plan.encoder.hidden < 512;
    let mfu = mfu * if is_generated { 0.65 } else { 1.0 } * if is_narrow { 0.6 } else { 1.0 };
    let flops = plan.flops_per_token() * tokens_per_step(plan);
    let launch_seconds = launch_seconds(plan);
    let basis = format!(
        "on one {}, computed for {:.0} % of its {:.0} TFLOP/s in `{}`",
        gpu.name(),
        100.0 * mfu,
        peak / 1e12,
        train.precision.name()
    );
    let seconds = (flops / (peak * mfu)).max(launch_seconds);
    Ok(StepEstimate { seconds, range: None, basis, device: gpu.name().to_owned(), launch_seconds })
}

fn on_this_machine(plan: &TrainPlan) -> Result<StepEstimate, String> {
    let found = step_time::find(plan)
        .ok_or("unknown on this machine: `cloze plan --measure` times some steps, `--on h100` computes it for a GPU")?;
    let StepTime { seconds, min_seconds, max_seconds, .. } = found;
    let device = if found.device == "Cpu" { "CPU" } else { &found.device };
    let age = age(Clock::system().time().saturating_sub(found.measured) as f64 / 1e3);
    let basis = format!("on this machine ({device}), at {} a step as measured {age} ago", found.range());
    let launch_seconds = if found.device == "Cpu" { 0.0 } else { launch_seconds(plan) };
    let range = Some([min_seconds, max_seconds]);
    Ok(StepEstimate { seconds, range, basis, device: found.device, launch_seconds })
}

/// Seconds in which the host launches the kernels of a step: some 40 for a layer, 10 µs each.
fn launch_seconds(plan: &TrainPlan) -> f64 {
    plan.micro_batches() as f64 * f64::from(plan.encoder.layers) * SECONDS_PER_LAYER
}

fn tokens_per_step(plan: &TrainPlan) -> f64 {
    plan.train.global_batch_size as f64 * f64::from(plan.width)
}

/// Returns the time of all validations in training steps: passes without gradient over the views of the run and over
/// that of `valid/mlm`. `rows` are the rows of a validation.
fn validations(plan: &TrainPlan, steps: u64, rows: u64) -> f64 {
    let every = plan.validation.every_steps;
    if every == 0 {
        return 0.0;
    }
    let rows = rows as f64 / plan.train.global_batch_size as f64;
    let mlm = 1.0 / plan.flops_ratio();
    steps.div_ceil(every) as f64 * rows * FORWARD_SHARE * (1.0 + mlm)
}

/// Returns the largest number of checkpoints at a time, and the bytes of each.
fn checkpoints(plan: &TrainPlan) -> (u64, f64) {
    let rules = &plan.checkpoints;
    let steps = plan.steps_expected().unwrap_or(0);
    let milestones = steps.checked_div(rules.keep_every_steps).unwrap_or(0);
    let saved = steps.div_ceil(rules.every_steps.max(1)).max(1);
    let kept = (rules.keep as u64 + rules.keep_best as u64).min(saved);
    // One more while the newest is written.
    (kept + milestones + 1, plan.checkpoint_bytes())
}

/// Returns the day and time in UTC after some seconds from now.
fn end(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and such a date is not shown")]
    let after = (1000.0 * seconds) as i64;
    let now = i64::try_from(Clock::system().time()).unwrap_or(i64::MAX);
    let date = DateTime::from_timestamp_millis(now.saturating_add(after));
    date.map_or("no day of this calendar".to_owned(), |date| date.format("%a %Y-%m-%d %H:%M UTC").to_string())
}
