//! How long a step takes by itself: no loader next to it, no report, no checkpoint.

use std::time::Instant;

use schemas::Batch;
use trainer_plan::Error;
use trainer_plan::TrainPlan;

use crate::device::native::facts;
use crate::device::{choice, native};
use crate::training::oom_error;
use crate::training::process_group::SingleProcess;
use crate::training::step::Trainer;

/// Steps of a plan, timed one by one.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Where they were computed, as a checkpoint says it: `Cuda(0)`.
    pub device: String,
    /// The GPU as its driver spells it; `None` on the CPU or where unknown.
    pub device_name: Option<String>,
    /// Seconds of each step, until the device had done it.
    pub seconds: Vec<f64>,
    /// Real tokens of a step.
    pub tokens: u64,
    /// The loss over all steps, those that warm up included: what is fast and wrong is of no use.
    pub loss: f64,
    /// The most bytes that tensors of the device had at once in the timed steps; `None` on the CPU.
    pub peak_bytes: Option<u64>,
    /// Operations per second of the device at its best; `None` where unknown.
    pub peak_flops: Option<f64>,
}

/// Learns from `steps`, one after another and from the first again, `warm_up` times untimed and then `count` times.
///
/// # Errors
/// As a run: where the device is not there or its memory does not suffice, and where the loss is not finite.
pub fn time_steps(plan: &TrainPlan, steps: &[Vec<Batch>], warm_up: usize, count: usize) -> Result<Timing, Error> {
    oom_error::within(plan, || {
        let mut trainer = Trainer::new(plan, Box::new(SingleProcess))?;
        let (mut seconds, mut tokens) = (Vec::new(), 0);
        for (index, batches) in steps.iter().cycle().take(warm_up + count).enumerate() {
            if index == warm_up {
                // From now on.
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
            loss: trainer.figures()?.0.loss,
        })
    })
}
