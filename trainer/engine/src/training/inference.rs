//! Trainer whose weights are only read.

use std::sync::Arc;

use tch::Device;
use trainer_plan::Error;
use trainer_plan::TrainPlan;

use crate::device::ResolveDevice as _;
use crate::training::oom_error;
use crate::training::process_group::SingleProcess;
use crate::training::step::Trainer;

/// Creates a trainer and loads its weights. On the CPU it computes in float32.
pub(super) fn trainer(
    plan: &TrainPlan,
    load: impl FnOnce(&mut Trainer) -> Result<(), Error>,
) -> Result<Trainer, Error> {
    oom_error::wrap_read_only(plan, || {
        let on_cpu = plan.train.device.resolve()? == Device::Cpu;
        let plan = if on_cpu { plan.in_float32() } else { plan.clone() };
        let mut trainer = Trainer::new(&plan, Arc::new(SingleProcess))?;
        load(&mut trainer)?;
        trainer.parameters().round()?;
        Ok(trainer)
    })
}
