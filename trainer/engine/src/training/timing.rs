//! Duration of training steps alone, without loader, reports and checkpoints.

use std::sync::Arc;
use std::time::Instant;

use schemas::Batch;
use trainer_plan::Error;
use trainer_plan::TrainPlan;

use crate::device::native::facts;
use crate::device::{choice, native};
use crate::training::oom_error;
use crate::training::process_group::SingleProcess;
use crate::training::step::Trainer;

/// Timed steps of a plan.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Device of the steps, in the notation of checkpoints: `Cuda(0)`.
    pub device: String,
    /// Name of the GPU as its driver reports it; `None` on the CPU, or if unknown.
    pub device_name: Option<String>,
    /// Seconds of each step, until the device has finished it.
    pub seconds: Vec<f64>,
    /// Real tokens in a step.
    pub tokens: u64,
    /// Loss over all steps, including warm-up. It shows whether a fast step is also correct.
    pub loss: f64,
    /// Peak bytes of tensors on the device during the timed steps; `None` on the CPU.
    pub peak_bytes: Option<u64>,
    /// Peak operations per second of the device; `None` if unknown.
    pub peak_flops: Option<f64>,
}

/// Trains on `steps` in a cycle: `warm_up` untimed steps, then `count` timed steps.
///
/// # Errors
/// If the device is missing or out of memory, or if the loss is not finite.
pub fn time_steps(plan: &TrainPlan, steps: &[Vec<Batch>], warm_up: usize, count: usize) -> Result<Timing, Error> {
    oom_error::wrap(plan, || {
        let mut trainer = Trainer::new(plan, Arc::new(SingleProcess))?;
        let mut seconds = Vec::new();
        let mut tokens = 0;
        for (index, batches) in steps.iter().cycle().take(warm_up + count).enumerate() {
            if index == warm_up {
                // Reading the statistics resets the peak.
                facts::memory(trainer.device())?;
            }
            let begun = Instant::now();
            tokens = trainer.step(batches)?.tokens;
            native::synchronize(trainer.device())?;
            if index >= warm_up {
                seconds.push(begun.elapsed().as_secs_f64());
            }
        }
        let device_name = choice::name(trainer.device());
        Ok(Timing {
            device: format!("{:?}", trainer.device()),
            peak_flops: device_name.as_deref().and_then(|name| plan.train.precision.peak_flops(plan.train.tf32, name)),
            device_name,
            peak_bytes: facts::memory(trainer.device())?.map(|[allocated, ..]| allocated),
            seconds,
            tokens,
            loss: trainer.figures()?.figures.loss,
        })
    })
}
