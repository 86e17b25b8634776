//! Time of a training step on this machine or on a GPU.

use telemetry::Clock;
use trainer_plan::TrainPlan;
use trainer_plan::precision::Precision;

use super::step_time::{self, StepTime};
use crate::cli::Gpu;
use crate::report::run_summary::age;

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
