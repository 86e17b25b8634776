//! `cloze profile step`: training steps on synthetic batches, without a corpus.

use cloze::cli::ConfigArgs;
use cloze::exit::Usage;
use cloze::plan::dry_run::DryRun;
use cloze::plan::step_estimate::TargetMachine;
use cloze::plan::step_time::{self, StepTime};
use pipeline::load::ViewFacts;
use profiler::statistics::quartiles;
use schemas::Batch;
use serde_json::json;
use telemetry::Clock;
use telemetry::quantities::{bytes, estimate, short};
use telemetry::terminal::{line, note};
use trainer::training::{Timing, time_steps};
use trainer_plan::TrainPlan;

use super::made;

/// Number of different synthetic steps, which repeat. Making more takes time and does not change the measurement.
const DIFFERENT: usize = 4;

/// Untimed and timed steps of [`measure_step`].
const WARM_UP: usize = 2;
const MEASURED: usize = 5;

/// Times steps of a configured run. Its corpus need not be prepared.
pub(super) fn run(args: &ConfigArgs, steps: usize, json: bool) -> anyhow::Result<()> {
    if steps == 0 {
        return Err(Usage("--steps 0: give at least 1".to_owned()).into());
    }
    let outlook = DryRun::for_timing(args)?;
    let plan = outlook.train();
    let views = outlook.views();
    for warning in outlook.warnings() {
        note(format_args!("warning: {warning}"));
    }
    let different = made_steps(plan, &views, outlook.fills_rows(), steps);
    let timing = time_steps(plan, &different, steps.div_ceil(3), steps)?;
    remember(plan, &timing);
    let figures = Statistics::new(&timing, plan.flops_per_token());
    if json {
        line(figures.json(plan, &timing));
    } else {
        figures.lines(plan, &timing).into_iter().for_each(line);
    }
    Ok(())
}

/// Times some steps of a configuration that this machine can train, and records the time for its plan.
pub(crate) fn measure_step(args: &ConfigArgs) -> anyhow::Result<()> {
    DryRun::new(args, TargetMachine::default())?;
    let outlook = DryRun::for_timing(args)?;
    let plan = outlook.train();
    note(format_args!("timing {} steps on synthetic batches", WARM_UP + MEASURED));
    let steps = made_steps(plan, &outlook.views(), outlook.fills_rows(), MEASURED);
    let timing = time_steps(plan, &steps, WARM_UP, MEASURED)?;
    remember(plan, &timing);
    Ok(())
}

/// Stores the time of a step for later plans and profiles. If that fails, the time is printed.
fn remember(plan: &TrainPlan, timing: &Timing) {
    let [_, seconds, _] = quartiles(&timing.seconds);
    let device = timing.device_name.clone().unwrap_or_else(|| timing.device.clone());
    let time = StepTime {
        seconds,
        min_seconds: timing.seconds.iter().copied().fold(seconds, f64::min),
        max_seconds: timing.seconds.iter().copied().fold(seconds, f64::max),
        steps: timing.seconds.len(),
        device,
        measured: Clock::system().time(),
    };
    let shown = time.range();
    if let Err(error) = step_time::record(plan, time) {
        note(format_args!(
            "warning: a step takes {shown}; that cannot be stored, set `XDG_CACHE_HOME` to a folder: {error}"
        ));
    }
}

/// Makes the batches of `steps` steps, at most of [`DIFFERENT`].
pub(crate) fn made_steps(plan: &TrainPlan, views: &[ViewFacts], fills_rows: bool, steps: usize) -> Vec<Vec<Batch>> {
    let of_step = plan.micro_batches();
    let step = |number: u64| {
        let batches = number * of_step..(number + 1) * of_step;
        batches.map(|index| made::batch(plan, views, fills_rows, index)).collect()
    };
    (0..DIFFERENT.min(steps) as u64).map(step).collect()
}

/// Statistics of the timed steps.
struct Statistics {
    median: f64,
    quartiles: [f64; 2],
    tokens_per_s: f64,
    mfu: Option<f64>,
}

impl Statistics {
    fn new(timing: &Timing, flops_per_token: f64) -> Self {
        let [low, median, high] = quartiles(&timing.seconds);
        let tokens_per_s = timing.tokens as f64 / median;
        let mfu = timing.peak_flops.map(|peak| tokens_per_s * flops_per_token / peak);
        Self { median, quartiles: [low, high], tokens_per_s, mfu }
    }

    fn json(&self, plan: &TrainPlan, timing: &Timing) -> String {
        let train = &plan.train;
        json!({
            "device": timing.device, "device_name": timing.device_name, "precision": train.precision,
            "global_batch_size": train.global_batch_size, "micro_batch_size": train.micro_batch_size,
            "width": plan.width, "vocab_size": plan.vocab.size, "tokens": timing.tokens, "loss": timing.loss,
            "steps": timing.seconds.len(), "step_ms": self.median * 1e3,
            "step_ms_quartiles": self.quartiles.map(|seconds| seconds * 1e3),
            "tokens_per_s": self.tokens_per_s, "mfu": self.mfu, "flops_per_token": plan.flops_per_token(),
            "flops_ratio": plan.flops_ratio(), "planned_bytes": plan.memory().total(), "peak_bytes": timing.peak_bytes,
        })
        .to_string()
    }

    fn lines(&self, plan: &TrainPlan, timing: &Timing) -> Vec<String> {
        let name = timing.device_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let [low, high] = self.quartiles.map(|seconds| seconds * 1e3);
        let taken = timing.peak_bytes.map(|most| format!(", peak {}", bytes(most))).unwrap_or_default();
        let share = self.mfu.map(|mfu| format!(", {:.1} % of the device's peak", 100.0 * mfu)).unwrap_or_default();
        vec![
            format!("{}{name}: {} steps of {} tokens", timing.device, timing.seconds.len(), timing.tokens),
            format!("{:.1} ms/step (quartiles {low:.1} to {high:.1})", self.median * 1e3),
            format!("{} tokens/s{share}", short(self.tokens_per_s)),
            format!("loss {:.4}; memory: planned {}{taken}", timing.loss, estimate(plan.memory().total())),
        ]
    }
}
