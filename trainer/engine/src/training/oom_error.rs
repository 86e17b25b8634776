//! Error for insufficient device memory: its largest owners, and the settings to change.

use telemetry::quantities::estimate;
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::memory::MemoryEstimate;

use crate::device::oom::caught;
use crate::device::precision::Precision;

/// Runs a part of training. If the device is out of memory, returns [`Error::Memory`], whether an operator returned an
/// error or panicked. Any other panic continues.
pub(super) fn wrap<T>(plan: &TrainPlan, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    caught(work, |shortage| Error::Memory { shortage, owners: owners(&plan.memory()), way: remedy(plan) })
}

/// Runs work that only reads a checkpoint. Returns the same error with another hint.
pub(super) fn wrap_read_only<T>(plan: &TrainPlan, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let memory = plan.memory();
    let held = estimate(memory.weights + memory.optimizer);
    caught(work, |shortage| {
        let way = if shortage.starts_with("CUDA") {
            "wait until the device is free (`nvidia-smi` lists its processes), or use the CPU: set \
             `CUDA_VISIBLE_DEVICES=\"\"` before the command"
        } else {
            "wait until other processes of this machine end, or use a machine with more memory"
        };
        let owners =
            format!("of about {held} for the weights and their optimizer state, in addition to other allocations");
        Error::Memory { shortage, owners, way: way.to_owned() }
    })
}

/// Planned owners of the memory, the largest first.
fn owners(memory: &MemoryEstimate) -> String {
    let mut owners = [
        ("the weights", memory.weights),
        ("gradients and moments", memory.optimizer),
        ("the activations of a micro-batch", memory.activations),
        ("the scores over the vocabulary", memory.logits),
    ];
    owners.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let shares = owners.map(|(owner, bytes)| format!("{owner} {:.0} %", 100.0 * bytes / memory.total()));
    format!("of {} by plan, {}", estimate(memory.total()), shares.join(", "))
}

/// Settings to change, the most effective first.
fn remedy(plan: &TrainPlan) -> String {
    let memory = plan.memory();
    let train = &plan.train;
    let mut ways = Vec::new();
    if train.micro_batch_size > 1 {
        let rows =
            format!("lower `train.micro_batch_size` ({}; `train.global_batch_size` stays)", train.micro_batch_size);
        let is_fixed = plan.identity.keys().contains_key("train.micro_batch_size");
        ways.push(if is_fixed {
            rows + ", in a new run, because it is part of the identity of this one"
        } else {
            rows
        });
    }
    if !train.activation_checkpointing {
        ways.push("set `train.activation_checkpointing = true` (slower, bit-identical results)".to_owned());
    }
    if train.precision == Precision::F32 {
        ways.push("set `train.precision = \"bf16\"`, in a new run".to_owned());
    }
    let network = "make the network smaller (`[encoder]`), or use a device with more memory".to_owned();
    let is_fixed_cost = memory.weights + memory.optimizer > memory.activations + memory.logits;
    ways.insert(if is_fixed_cost { 0 } else { ways.len() }, network);
    ways.join("; or ")
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::device::oom::panic_message;
    use crate::testing;

    fn error_text(plan: &TrainPlan) -> String {
        let panic_text =
            "called `Result::unwrap()` on an `Err` value: Torch(\"CUDA out of memory. Tried much.\\nframe 0\")";
        let outcome: Result<(), Error> = wrap(plan, || panic!("{panic_text}"));
        outcome.expect_err("a shortage").to_string()
    }

    #[test]
    fn a_shortage_names_its_largest_owner_first_and_the_setting_that_helps() {
        let mut request = testing::request();
        // The activations of all objectives together exceed the moments of any network.
        request.loss.retain(|name, _| name == "masked_lm");
        request.train.micro_batch_size = 1 << 20;
        request.train.global_batch_size = 1 << 20;
        let text = error_text(&testing::checked(request.clone()));
        assert!(text.contains("CUDA out of memory. Tried much; of ") && !text.contains("frame"), "{text}");
        assert!(text.contains("by plan, the activations of a micro-batch "), "{text}");
        assert!(text.contains("; lower `train.micro_batch_size` (1048576"), "{text}");
        request.train.micro_batch_size = 8;
        request.encoder.hidden = 4096;
        request.encoder.layers = 1;
        let text = error_text(&testing::checked(request));
        assert!(
            text.contains("by plan, gradients and moments ") && text.contains("; make the network smaller"),
            "{text}"
        );
    }

    #[test]
    fn other_errors_are_not_reported_as_a_shortage() {
        let plan = testing::plan();
        let other = wrap::<()>(&plan, || Err(Error::Native("CUDA error: unspecified launch failure".to_owned())));
        assert!(matches!(other, Err(Error::Native(_))), "{other:?}");
        let panic = catch_unwind(|| wrap::<()>(&testing::plan(), || panic!("a defect")));
        assert_eq!(panic_message(panic.expect_err("it continues").as_ref()), Some("a defect"));
    }
}
