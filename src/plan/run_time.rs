//! Duration of a planned run, on this machine or computed for a GPU, on one rank or several, with its end.

use chrono::DateTime;
use serde_json::{Value, json};
use telemetry::Clock;
use telemetry::quantities::time;
use trainer_plan::TrainPlan;

use super::run_progress::RunProgress;
use super::step_estimate::{StepEstimate, TargetMachine, step_estimate};
use super::{Plan, ranks, step_time};

/// Share of the operations of a training step that a step without gradient needs.
const FORWARD_SHARE: f64 = 1.0 / 3.0;

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

/// Returns the line of the plan about the time.
pub(super) fn line(found: &Result<RunTime, String>) -> String {
    match found {
        Ok(RunTime { seconds: 0.0, .. }) => "time       no step is left".to_owned(),
        Ok(RunTime { seconds, range, basis, .. }) => {
            let range = range.map_or(String::new(), |[min, max]| format!(" ({} to {})", time(min), time(max)));
            format!("time       about {}{range} {basis}; it would end on {}", time(*seconds), end(*seconds))
        }
        Err(reason) => format!("time       {reason}"),
    }
}

/// Returns the same as JSON values.
pub(super) fn json(found: Option<&RunTime>, progress: Option<RunProgress>) -> Value {
    let range = found.and_then(|found| found.range);
    json!({
        "seconds": found.map(|found| found.seconds),
        "min_seconds": range.map(|[min, _]| min),
        "max_seconds": range.map(|[_, max]| max),
        "basis": found.map(|found| &found.basis),
        "done_steps": progress.map_or(0, |progress| progress.step),
    })
}

/// Returns the time of a run, or why it is not known. On another machine, it is that of the whole run.
pub(super) fn find(plan: &Plan, progress: Option<RunProgress>, target: TargetMachine) -> Result<RunTime, String> {
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
