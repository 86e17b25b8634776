//! What is said where the device's memory does not suffice: whose it is, and what to change.

use telemetry::quantities::estimate;
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::memory::MemoryEstimate;

use crate::device::oom::caught;
use crate::device::precision::Precision;

/// Trains, or does a part of it. A shortage comes back as [`Error::Memory`], whether an operator returned it or panicked; any
/// other panic continues.
pub(super) fn within<T>(plan: &TrainPlan, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    caught(work, |shortage| Error::Memory { shortage, owners: owners(&plan.memory()), way: way(plan) })
}

/// The same of what only reads a checkpoint.
pub(super) fn beside<T>(plan: &TrainPlan, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let memory = plan.memory();
    let held = estimate(memory.weights + memory.optimizer);
    caught(work, |shortage| Error::Memory {
        shortage,
        owners: format!("of about {held} for the weights and what belongs to them, in addition to other allocations"),
        way: "wait until the device is free (does `nvidia-smi` show a run on it?), or do without it: \
              `CUDA_VISIBLE_DEVICES=\"\"` before the command"
            .to_owned(),
    })
}

/// Who owns the memory by the plan, the largest first.
fn owners(memory: &MemoryEstimate) -> String {
    let mut owners = [
        ("the weights", memory.weights),
        ("gradients and moments", memory.optimizer),
        ("the activations of a micro-batch", memory.activations),
        ("its scores over the vocabulary", memory.logits),
    ];
    owners.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let shares = owners.map(|(owner, bytes)| format!("{owner} {:.0} %", 100.0 * bytes / memory.total()));
    format!("of {} by plan, {}", estimate(memory.total()), shares.join(", "))
}

/// What to change, what helps most first.
fn way(plan: &TrainPlan) -> String {
    let (memory, train) = (plan.memory(), &plan.train);
    let mut ways = Vec::new();
    if train.micro_batch_size > 1 {
        let rows = format!("lower `train.micro_batch_size` ({}; a step keeps its rows)", train.micro_batch_size);
        let is_fixed = plan.identity.keys().contains_key("train.micro_batch_size");
        ways.push(if is_fixed { rows + ", in a run that begins, since here it changes what is learned" } else { rows });
    }
    if !train.activation_checkpointing {
        ways.push("set `train.activation_checkpointing = true` (slower, the same bits)".to_owned());
    }
    if train.precision == Precision::F32 {
        ways.push("take `train.precision = \"bf16\"`, in a run that begins".to_owned());
    }
    let network = "make the network smaller (`[encoder]`), or take a device with more memory".to_owned();
    let is_fixed_cost = memory.weights + memory.optimizer > memory.activations + memory.logits;
    ways.insert(if is_fixed_cost { 0 } else { ways.len() }, network);
    ways.join("; or ")
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::device::oom::words;
    use crate::testing;

    fn said(plan: &TrainPlan) -> String {
        let said = "called `Result::unwrap()` on an `Err` value: Torch(\"CUDA out of memory. Tried much.\\nframe 0\")";
        let outcome: Result<(), Error> = within(plan, || panic!("{said}"));
        outcome.expect_err("a shortage").to_string()
    }

    #[test]
    fn a_shortage_names_its_largest_owner_first_and_what_helps_it() {
        let mut request = testing::request();
        request.train.micro_batch_size = 1 << 20;
        request.train.global_batch_size = 1 << 20;
        let text = said(&testing::checked(request.clone()));
        assert!(text.contains("CUDA out of memory. Tried much; of ") && !text.contains("frame"), "{text}");
        assert!(text.contains("by plan, the activations of a micro-batch "), "{text}");
        assert!(text.contains("; lower `train.micro_batch_size` (1048576"), "{text}");
        request.train.micro_batch_size = 8;
        request.encoder.hidden = 4096;
        request.encoder.layers = 1;
        let text = said(&testing::checked(request));
        assert!(
            text.contains("by plan, gradients and moments ") && text.contains("; make the network smaller"),
            "{text}"
        );
    }

    #[test]
    fn nothing_else_is_taken_for_a_shortage() {
        let plan = testing::plan();
        let other = within::<()>(&plan, || Err(Error::Native("CUDA error: unspecified launch failure".to_owned())));
        assert!(matches!(other, Err(Error::Native(_))), "{other:?}");
        let panic = catch_unwind(|| within::<()>(&testing::plan(), || panic!("a defect")));
        assert_eq!(words(panic.expect_err("it continues").as_ref()), Some("a defect"));
    }
}
