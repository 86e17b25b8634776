//! Sum of the gradients over all ranks.
//!
//! # What
//! Gradients are copied to buckets of about [25 MB](BUCKET_BYTES), in the order of the weights. All buckets are summed at once.
//! The result is views of the buckets.
//!
//! # Why
//! Counts are those of the whole step before the first kernel runs, so each rank has its summands of the gradient, not
//! a mean. One all-reduce per weight would take a message per bias.
//!
//! # Definition
//! A weight has a gradient if it has one on any rank: a rank without targets has none for a head, and adds zeros. Without
//! a gradient on all ranks, the weight does not change, as in a single process.
//!
//! # Reference
//! Buckets: Li et al. 2020, "PyTorch Distributed", section 3.2.

use tch::Tensor;
use trainer_plan::Error;

use crate::training::process_group::{PendingReduction, ProcessGroup};

/// Size of a bucket, as in torch's `DistributedDataParallel`.
const BUCKET_BYTES: usize = 25 << 20;

/// Bucket whose sum is under way.
struct Bucket {
    /// Index of each weight, in order.
    weights: Vec<usize>,
    flat: Tensor,
    pending: Box<dyn PendingReduction>,
}

/// Returns the gradients of `weights`, summed over all ranks. `own` are those of this rank.
pub(crate) fn sum_gradients(
    ranks: &dyn ProcessGroup,
    weights: &[&Tensor],
    own: Vec<Option<Tensor>>,
) -> Result<Vec<Option<Tensor>>, Error> {
    let _guard = tch::no_grad_guard();
    let is_present = present_on_any(ranks, &own)?;
    let mut buckets = Vec::new();
    let mut open: Vec<(usize, Tensor)> = Vec::new();
    let mut bytes = 0;
    for (at, gradient) in own.into_iter().enumerate().filter(|(at, _)| is_present[*at]) {
        let gradient = gradient.unwrap_or_else(|| weights[at].zeros_like());
        bytes += gradient.numel() * gradient.kind().elt_size_in_bytes();
        open.push((at, gradient));
        if bytes >= BUCKET_BYTES {
            buckets.push(start(ranks, std::mem::take(&mut open))?);
            bytes = 0;
        }
    }
    if !open.is_empty() {
        buckets.push(start(ranks, open)?);
    }
    let mut summed: Vec<Option<Tensor>> = weights.iter().map(|_| None).collect();
    for Bucket { weights: indices, flat, pending } in buckets {
        pending.wait()?;
        let mut offset = 0;
        for at in indices {
            let shape = weights[at].size();
            let length = shape.iter().product();
            summed[at] = Some(flat.narrow(0, offset, length).view(shape.as_slice()));
            offset += length;
        }
    }
    Ok(summed)
}

/// Returns whether any rank has a gradient, for each weight.
fn present_on_any(ranks: &dyn ProcessGroup, own: &[Option<Tensor>]) -> Result<Vec<bool>, Error> {
    let own: Vec<u8> = own.iter().map(|gradient| u8::from(gradient.is_some())).collect();
    let all = ranks.gather("which weights have gradients", &own)?;
    Ok((0..own.len()).map(|at| all.iter().any(|rank| rank.get(at) == Some(&1))).collect())
}

fn start(ranks: &dyn ProcessGroup, gradients: Vec<(usize, Tensor)>) -> Result<Bucket, Error> {
    let (weights, parts): (Vec<usize>, Vec<Tensor>) =
        gradients.into_iter().map(|(at, gradient)| (at, gradient.reshape([-1]))).unzip();
    let flat = Tensor::cat(&parts, 0);
    let pending = ranks.all_reduce("gradients", &flat)?;
    Ok(Bucket { weights, flat, pending })
}
