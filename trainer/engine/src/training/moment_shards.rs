//! Exchange between ranks that share the moments of the optimizer (`optimizer.shard`).
//!
//! # What
//! Each rank has the moments of a part of each weight, and updates that part. Afterwards, all ranks get the updated parts
//! of the others. For a checkpoint, rank 0 gets the moments of all.
//!
//! # Why
//! The two moments are 8 of the 16 bytes that a weight needs in training.
//!
//! # Definition
//! A tensor is completed by a sum over all ranks, in which each rank has its part and −0 elsewhere: adding −0 changes no bit.
//! The weights are those of a run without shards, bit for bit. Gradients and weights are summed, so the ranks exchange twice the
//! bytes.
//!
//! # Reference
//! Rajbhandari et al. 2020, "`ZeRO`", stage 1.

use std::collections::VecDeque;

use tch::{Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::scaling::workload::BUCKET_BYTES;

use crate::device::native::copy_all;
use crate::device::tensors::{HostTensor, HostTensors, part_of, split};
use crate::optimizer::adamw::{AdamW, HeldPart};
use crate::training::process_group::{PendingReduction, ProcessGroup};

/// Maximum number of groups of [`BUCKET_BYTES`] on their way.
const MAX_PENDING: usize = 2;

/// Gives the updated parts of the weights to all ranks.
pub(crate) fn complete_weights(ranks: &dyn ProcessGroup, optimizer: &AdamW) -> Result<(), Error> {
    let mut weights = optimizer.weights().into_iter();
    complete(ranks, "weights", optimizer.weight_parts(), |_, whole| {
        let weight = weights.next().expect("one part of each weight").detach();
        copy_all(&[&weight], &[&whole])
    })
}

/// Returns the whole moments on rank 0, and nothing on the others or if each rank has all of them. Waits for the
/// device.
///
/// # Errors
/// Also if a rank fails while the device completes the last sum, which then ends without an error and is not whole.
pub(crate) fn gather_moments(ranks: &dyn ProcessGroup, optimizer: &AdamW) -> Result<HostTensors, Error> {
    let mut moments = HostTensors::new();
    complete(ranks, "moments", optimizer.moment_parts(), |name, whole| {
        if ranks.share().is_first() {
            moments.insert(name, HostTensor::copy_of(&whole)?);
        }
        Ok(())
    })?;
    if optimizer.moment_parts().next().is_some() {
        // A rank comes here after its last sum, unless a failure is known.
        ranks.barrier("the end of the moments")?;
    }
    Ok(moments)
}

/// Completes tensors of which each rank holds a part, and passes them to `take` in order.
fn complete(
    ranks: &dyn ProcessGroup,
    what: &'static str,
    parts: impl Iterator<Item = HeldPart>,
    mut take: impl FnMut(String, Tensor) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut pending = VecDeque::new();
    let mut open = Vec::new();
    let mut bytes = 0;
    for part in parts {
        bytes += 4 * part.shape.iter().product::<i64>();
        open.push(part);
        if bytes >= i64::from(BUCKET_BYTES) {
            pending.push_back(PendingGroup::start(ranks, what, std::mem::take(&mut open))?);
            bytes = 0;
        }
        if pending.len() > MAX_PENDING {
            pending.pop_front().map_or(Ok(()), |group| group.finish(&mut take))?;
        }
    }
    if !open.is_empty() {
        pending.push_back(PendingGroup::start(ranks, what, open)?);
    }
    pending.into_iter().try_for_each(|group| group.finish(&mut take))
}

/// Tensors on their way.
struct PendingGroup {
    parts: Vec<HeldPart>,
    flat: Tensor,
    sum: Box<dyn PendingReduction>,
}

impl PendingGroup {
    fn start(ranks: &dyn ProcessGroup, what: &'static str, parts: Vec<HeldPart>) -> Result<Self, Error> {
        let _guard = tch::no_grad_guard();
        let whole = |held: &HeldPart| {
            let numbers = held.shape.iter().product::<i64>();
            let flat = Tensor::full([numbers], -0.0, (Kind::Float, held.values.device()));
            part_of(&flat, &held.part).copy_(&held.values);
            flat
        };
        let flat = Tensor::cat(&parts.iter().map(whole).collect::<Vec<_>>(), 0);
        let sum = ranks.all_reduce(what, &flat)?;
        Ok(Self { parts, flat, sum })
    }

    fn finish(self, take: &mut impl FnMut(String, Tensor) -> Result<(), Error>) -> Result<(), Error> {
        self.sum.wait()?;
        let shapes = self.parts.iter().map(|held| held.shape.clone());
        let wholes: Vec<Tensor> = split(&self.flat, shapes).collect();
        self.parts.into_iter().zip(wholes).try_for_each(|(held, whole)| take(held.name, whole))
    }
}
