//! Duration of a planned run, on this machine or computed for a GPU, on one rank or several, with its end.

use chrono::DateTime;
use serde_json::{Value, json};
use telemetry::Clock;
use telemetry::quantities::time;
use trainer_plan::TrainPlan;
use trainer_plan::precision::Precision;

use super::Plan;
use super::run_progress::RunProgress;
use super::step_time::{self, StepTime};
use super::{ranks, run_cost};
use crate::cli::Gpu;
use crate::report::run_summary::age;

/// Share of the operations of a training step that a step without gradient needs.
const FORWARD_SHARE: f64 = 1.0 / 3.0;

/// Machine for which a plan computes times and energy.
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetMachine {
    /// A GPU; `None` for this machine.
    pub gpu: Option<Gpu>,
    /// Power of all machines of the run in watts; `None` prints no energy.
    pub watts: Option<f64>,
    /// Price of an hour of a device; `None` prints no price.
    pub price: Option<f64>,
    /// Number of ranks that share the run; `None` prints nothing about ranks.
    pub ranks: Option<u32>,
    /// Bytes per second of the network of a rank; `None` for that of the device.
    pub network_bandwidth: Option<f64>,
}

/// Time of a run, or of the rest of it.
pub(super) struct RunTime {
    /// Seconds of the steps that are left.
    pub(super) seconds: f64,
    /// The same if every step were the fastest measured one, and if every step were the slowest.
    range: Option<[f64; 2]>,
    /// Origin of the number.
    basis: String,
    /// Devices that the run uses at the same time.
    pub(super) devices: u64,
}

/// Returns the lines of the plan about time, energy, price, disk and memory of the hosts.
///
/// The time on another machine is that of the whole run.
pub(super) fn lines(plan: &Plan, progress: Option<RunProgress>, target: TargetMachine) -> Vec<String> {
    let found = run_time(plan, progress, target);
    let mut lines = vec![match &found {
        Ok(RunTime { seconds: 0.0, .. }) => "time       no step is left".to_owned(),
        Ok(RunTime { seconds, range, basis, .. }) => {
            let range = range.map_or(String::new(), |[min, max]| format!(" ({} to {})", time(min), time(max)));
            format!("time       about {}{range} {basis}; it would end on {}", time(*seconds), end(*seconds))
        }
        Err(reason) => format!("time       {reason}"),
    }];
    lines.extend(run_cost::lines(plan, found.as_ref().ok(), target));
    lines
}

/// Returns the same as JSON values.
pub(super) fn json(plan: &Plan, progress: Option<RunProgress>, target: TargetMachine) -> Value {
    let found = run_time(plan, progress, target).ok();
    let range = found.as_ref().and_then(|found| found.range);
    let mut object = json!({
        "seconds": found.as_ref().map(|found| found.seconds),
        "min_seconds": range.map(|[min, _]| min),
        "max_seconds": range.map(|[_, max]| max),
        "basis": found.as_ref().map(|found| &found.basis),
        "done_steps": progress.map_or(0, |progress| progress.step),
    });
    object.as_object_mut().expect("an object").extend(run_cost::json(plan, found.as_ref(), target));
    object
}

/// Returns the time of a run, or why it is not known.
fn run_time(plan: &Plan, progress: Option<RunProgress>, target: TargetMachine) -> Result<RunTime, String> {
    // The time on another machine is that of the whole run.
    let (progress, elsewhere) = if target.gpu.is_none() { (progress, None) } else { (None, progress) };
    let valid_rows = (!plan.data.is_expected()).then(|| plan.data.valid_rows());
    let train = &plan.train;
    let trained = progress.map_or(0.0, |progress| progress.trained_s);
    let hours = train.train.max_hours.map(|hours| (hours * 3600.0 - trained).max(0.0));
    // The log has the speed of the ranks that wrote it.
    let of_log = progress.and_then(|progress| progress.speed);
    let of_log = of_log.filter(|speed| target.ranks.is_none_or(|ranks| ranks == speed.ranks));
    let devices = of_log.map_or(target.ranks.unwrap_or(1), |speed| speed.ranks);
    let Some(steps) = train.steps_expected() else {
        let basis = "(`train.max_hours`)".to_owned();
        return Ok(RunTime { seconds: hours.unwrap_or_default(), range: None, basis, devices: devices.into() });
    };
    let left = progress.and_then(|progress| progress.steps_left(train)).unwrap_or(steps);
    let StepEstimate { seconds: step, range, basis, place, .. } = match of_log {
        Some(speed) => {
            let by = if speed.ranks > 1 { format!(" of {} ranks", speed.ranks) } else { String::new() };
            let seconds = speed.seconds_per_step;
            let basis = format!("at {} a step by the log{by}", step_time::shown(seconds));
            let place = "for the steps that are left".to_owned();
            StepEstimate { seconds, range: None, basis, place, device: String::new(), launch_seconds: 0.0 }
        }
        None if devices > 1 => ranks::step_estimate(plan, devices, target)?,
        None => step_estimate(train, target.gpu)?,
    };
    let whole = elsewhere.map_or("", |_| "for all steps of the run ");
    let basis = format!("{whole}{place}, {basis}");
    let rows = valid_rows.map_or(train.validation.rows, |rows| rows.min(train.validation.rows));
    let steps = left as f64 + validations(train, left, rows);
    let seconds = steps * step;
    let limit = hours.unwrap_or(f64::INFINITY);
    let devices = devices.into();
    if seconds > limit {
        let basis = format!("(`train.max_hours`; all steps would take {})", time(seconds));
        return Ok(RunTime { seconds: limit, range: None, basis, devices });
    }
    let range = range.map(|range| range.map(|step| (steps * step).min(limit)));
    Ok(RunTime { seconds, range, basis, devices })
}

/// Time of a step on one device, or on several ranks.
pub(super) struct StepEstimate {
    pub(super) seconds: f64,
    /// Fastest and slowest step, if steps were measured.
    pub(super) range: Option<[f64; 2]>,
    /// Origin of the number.
    pub(super) basis: String,
    /// Machine of the steps.
    pub(super) place: String,
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
    in_precision(plan, gpu, plan.train.precision, plan.train.tf32)
}

/// Returns how many times faster a step on a GPU is in another precision; `None` if the peak of the GPU is unknown.
pub(super) fn speed_up(plan: &TrainPlan, gpu: Gpu, precision: Precision) -> Option<f64> {
    let other = in_precision(plan, gpu, precision, false).ok()?.seconds;
    on_gpu(plan, gpu).ok().map(|planned| planned.seconds / other)
}

fn in_precision(plan: &TrainPlan, gpu: Gpu, precision: Precision, tf32: bool) -> Result<StepEstimate, String> {
    let peak = precision.peak_flops(tf32, gpu.name()).ok_or("the peak of that GPU is unknown")?;
    let mfu = match precision {
        Precision::F32 if tf32 => 0.21,
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
    let (share, teraflops, name) = (100.0 * mfu, peak / 1e12, precision.name());
    let basis = format!("computed for {share:.0} % of its {teraflops:.0} TFLOP/s in `{name}`");
    let seconds = (flops / (peak * mfu)).max(launch_seconds);
    let device = gpu.name().to_owned();
    Ok(StepEstimate { seconds, range: None, basis, place: format!("on one {device}"), device, launch_seconds })
}

fn on_this_machine(plan: &TrainPlan) -> Result<StepEstimate, String> {
    let found = step_time::find(plan)
        .ok_or("unknown on this machine: `cloze plan --measure` times some steps, `--on h100` computes it for a GPU")?;
    let StepTime { seconds, min_seconds, max_seconds, .. } = found;
    let device = if found.device == "Cpu" { "CPU" } else { &found.device };
    let age = age(Clock::system().time().saturating_sub(found.measured) as f64 / 1e3);
    let basis = format!("at {} a step as measured {age} ago", found.range());
    let place = format!("on this machine ({device})");
    let launch_seconds = if found.device == "Cpu" { 0.0 } else { launch_seconds(plan) };
    let range = Some([min_seconds, max_seconds]);
    Ok(StepEstimate { seconds, range, basis, place, device: found.device, launch_seconds })
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

/// Returns the day and time in UTC after some seconds from now.
fn end(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and such a date is not shown")]
    let after = (1000.0 * seconds) as i64;
    let now = i64::try_from(Clock::system().time()).unwrap_or(i64::MAX);
    let date = DateTime::from_timestamp_millis(now.saturating_add(after));
    date.map_or("no day of this calendar".to_owned(), |date| date.format("%a %Y-%m-%d %H:%M UTC").to_string())
}
