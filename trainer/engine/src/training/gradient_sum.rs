//! Sum of the gradients over all ranks, during the backward pass.
//!
//! # What
//! Gradients are copied to buckets of about [25 MB](BUCKET_BYTES), and each bucket is summed over all ranks as soon as its
//! gradients are complete, during the backward pass. The result is views of the buckets.
//!
//! # Why
//! Counts are those of the whole step before the first kernel runs, so each rank has its summands of the gradient, not
//! a mean. One all-reduce per weight would take a message per bias.
//!
//! # Definition
//! Buckets have the order of a backward pass: heads, layers from the last to the first, embeddings. The order depends on the plan
//! alone, so that all ranks, and all starts of a run, add up in the same way. All buckets are summed in every step: a
//! weight without a gradient adds zeros. A weight has a gradient if it has one on any rank: a rank without targets has none
//! for a head. Without a gradient on all ranks, the weight does not change, as in a single process.
//!
//! # Reference
//! Buckets and overlap: Li et al. 2020, "PyTorch Distributed", section 3.2.

use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tch::{Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::scaling::workload::BUCKET_BYTES;

use crate::device::oom::without_panic;
use crate::device::tensors::split;
use crate::model::weight::GradReceiver;
use crate::training::process_group::{PendingReduction, ProcessGroup};

/// Division of the weights into buckets.
#[derive(Debug)]
pub(crate) struct BucketLayout {
    /// Indices of the weights of each bucket.
    buckets: Vec<Vec<usize>>,
    /// Bucket of each weight.
    bucket_of: Vec<usize>,
    /// Type of the sums on their way.
    kind: Kind,
}

impl BucketLayout {
    /// Divides weights, which have a name and float32 values. `kind` is the type of the sums on their way.
    pub(crate) fn new<'a>(weights: impl Iterator<Item = (&'a str, &'a Tensor)>, kind: Kind) -> Arc<Self> {
        let weights: Vec<(&str, usize)> =
            weights.map(|(name, weight)| (name, weight.numel() * weight.kind().elt_size_in_bytes())).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(|at| depth(weights[*at].0));
        let mut buckets = vec![Vec::new()];
        let mut bytes = 0;
        for at in order {
            if bytes >= BUCKET_BYTES as usize {
                buckets.push(Vec::new());
                bytes = 0;
            }
            buckets.last_mut().expect("one at first").push(at);
            bytes += weights[at].1;
        }
        let mut bucket_of = vec![0; weights.len()];
        for (bucket, weights) in buckets.iter().enumerate() {
            for at in weights {
                bucket_of[*at] = bucket;
            }
        }
        Arc::new(Self { buckets, bucket_of, kind })
    }
}

/// Order of a backward pass: heads, layers from the last to the first, embeddings; the main network before others.
fn depth(name: &str) -> (u8, Reverse<u32>) {
    let (network, below) = name.split_once("encoder.").unwrap_or(("", ""));
    let layer = below.strip_prefix("layers.").and_then(|rest| rest.split('.').next());
    let others = u8::from(!network.is_empty());
    match layer.and_then(|number| number.parse().ok()) {
        _ if below.is_empty() => (0, Reverse(0)),
        Some(layer) => (1 + others, Reverse(layer)),
        None => (3 + others, Reverse(0)),
    }
}

/// Sum of the gradients of one step.
pub(crate) struct GradientSum {
    ranks: Arc<dyn ProcessGroup>,
    layout: Arc<BucketLayout>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Gradients of this rank that are complete and not in a started bucket.
    own: Vec<Option<Tensor>>,
    /// Whether this rank has a gradient, for each weight.
    is_present: Vec<bool>,
    /// Number of weights without a gradient, for each bucket.
    missing: Vec<usize>,
    /// Buckets whose sums have started, in order.
    started: Vec<Bucket>,
    problem: Option<Error>,
}

/// Bucket whose sum is under way.
struct Bucket {
    flat: Tensor,
    pending: Box<dyn PendingReduction>,
}

impl fmt::Debug for GradientSum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GradientSum").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl GradientSum {
    /// Begins the sum of a step.
    pub(crate) fn begin(ranks: Arc<dyn ProcessGroup>, layout: Arc<BucketLayout>) -> Arc<Self> {
        let weights = layout.bucket_of.len();
        let state = State {
            own: (0..weights).map(|_| None).collect(),
            is_present: vec![false; weights],
            missing: layout.buckets.iter().map(Vec::len).collect(),
            ..State::default()
        };
        Arc::new(Self { ranks, layout, state: Mutex::new(state) })
    }

    /// Returns a function that takes complete gradients during a backward pass. Its errors are those of
    /// [`finish`](Self::finish).
    pub(crate) fn receiver(self: &Arc<Self>) -> GradReceiver {
        let sum = Arc::clone(self);
        Arc::new(move |index, gradient| {
            let mut state = sum.lock();
            let taken = without_panic(|| gradient.and_then(|gradient| sum.take(&mut state, index, gradient)));
            state.problem = state.problem.take().or(taken.err());
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a complete gradient, and starts the sums of the buckets that are complete.
    fn take(&self, state: &mut State, index: usize, gradient: Option<Tensor>) -> Result<(), Error> {
        let Some(gradient) = gradient else { return Ok(()) };
        state.own[index] = Some(gradient);
        state.is_present[index] = true;
        state.missing[self.layout.bucket_of[index]] -= 1;
        while state.problem.is_none() && state.missing.get(state.started.len()) == Some(&0) {
            self.start_next(state, &[])?;
        }
        Ok(())
    }

    /// Starts the sum of the next bucket. `weights` give the shapes of missing gradients.
    fn start_next(&self, state: &mut State, weights: &[&Tensor]) -> Result<(), Error> {
        let _guard = tch::no_grad_guard();
        let own = &mut state.own;
        let flat_gradient = |at: &usize| own[*at].take().unwrap_or_else(|| weights[*at].zeros_like()).reshape([-1]);
        let parts: Vec<Tensor> = self.layout.buckets[state.started.len()].iter().map(flat_gradient).collect();
        let flat = Tensor::cat(&parts, 0).to_kind(self.layout.kind);
        let pending = self.ranks.all_reduce("gradients", &flat)?;
        state.started.push(Bucket { flat, pending });
        Ok(())
    }

    /// Returns the sums, for each weight, after the backward pass. `rest` are the gradients that no receiver has taken.
    ///
    /// # Errors
    /// Those of the backward pass too.
    pub(crate) fn finish(&self, weights: &[&Tensor], rest: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>, Error> {
        let mut state = self.lock();
        for (index, gradient) in rest.into_iter().enumerate() {
            self.take(&mut state, index, gradient)?;
        }
        if let Some(problem) = state.problem.take() {
            return Err(problem);
        }
        while state.started.len() < self.layout.buckets.len() {
            self.start_next(&mut state, weights)?;
        }
        let is_present = self.is_present_on_any(&state.is_present)?;
        let mut sums: Vec<Option<Tensor>> = weights.iter().map(|_| None).collect();
        for (bucket, Bucket { flat, pending }) in self.layout.buckets.iter().zip(state.started.drain(..)) {
            pending.wait()?;
            let flat = flat.to_kind(Kind::Float);
            for (&at, sum) in bucket.iter().zip(split(&flat, bucket.iter().map(|at| weights[*at].size()))) {
                sums[at] = is_present[at].then_some(sum);
            }
        }
        Ok(sums)
    }

    /// Returns whether any rank has a gradient, for each weight.
    fn is_present_on_any(&self, own: &[bool]) -> Result<Vec<bool>, Error> {
        let own: Vec<u8> = own.iter().copied().map(u8::from).collect();
        let all = self.ranks.gather("which weights have gradients", &own)?;
        Ok((0..own.len()).map(|at| all.iter().any(|rank| rank.get(at) == Some(&1))).collect())
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::training::process_group::SingleProcess;

    fn layout(shapes: &[(&str, i64)], kind: Kind) -> (Vec<Tensor>, Arc<BucketLayout>) {
        let weights: Vec<Tensor> =
            shapes.iter().map(|(_, rows)| Tensor::zeros([*rows, 1024], (Kind::Float, Device::Cpu))).collect();
        let layout = BucketLayout::new(shapes.iter().map(|(name, _)| *name).zip(&weights), kind);
        (weights, layout)
    }

    #[test]
    fn buckets_have_the_order_of_a_backward_pass() {
        let names = [
            "encoder.embeddings.word",
            "encoder.layers.0.attention",
            "encoder.layers.10.attention",
            "encoder.layers.2.attention",
            "generator.encoder.embeddings.word",
            "generator.encoder.layers.1.attention",
            "heads.mlm.dense",
        ];
        // Each is larger than a bucket.
        let (_, layout) = layout(&names.map(|name| (name, 8192)), Kind::Float);
        assert_eq!(layout.buckets, [[6], [2], [3], [1], [5], [0], [4]]);
        assert_eq!(layout.bucket_of, [5, 3, 1, 2, 6, 4, 0]);
    }

    #[test]
    fn buckets_start_in_order_as_their_gradients_arrive() {
        let names =
            ["encoder.embeddings", "encoder.layers.0", "encoder.layers.1", "encoder.layers.1.bias", "heads.mlm"];
        let (weights, layout) = layout(&names.map(|name| (name, 6400)), Kind::Float);
        assert_eq!(layout.buckets, [[4], [2], [3], [1], [0]]);
        let weights: Vec<&Tensor> = weights.iter().collect();
        let sum = GradientSum::begin(Arc::new(SingleProcess), layout);
        let receive = sum.receiver();
        let gradient = |value: f64| Ok(Some(Tensor::full([6400, 1024], value, (Kind::Float, Device::Cpu))));
        let mut started = Vec::new();
        for index in [2, 3, 4, 1] {
            receive(index, gradient(index as f64));
            started.push(sum.lock().started.len());
        }
        assert_eq!(started, [0, 0, 3, 4], "none before the head's");
        let sums = sum.finish(&weights, (0..5).map(|_| None).collect()).expect("summed");
        assert!(sums[0].is_none(), "no rank has a gradient");
        for (index, sum) in sums.iter().enumerate().skip(1) {
            let sum = sum.as_ref().expect("given");
            assert_eq!(sum, &Tensor::full([6400, 1024], index as f64, (Kind::Float, Device::Cpu)));
        }
    }

    #[test]
    fn errors_of_the_backward_pass_are_returned_at_its_end() {
        let (weights, layout) = layout(&[("heads.mlm", 1)], Kind::Float);
        let sum = GradientSum::begin(Arc::new(SingleProcess), layout);
        sum.receiver()(0, Err(Error::Foreign("planted".into())));
        let error = sum.finish(&[&weights[0]], vec![None]).expect_err("an error came before");
        assert!(error.to_string().contains("planted"), "{error}");
    }

    #[test]
    fn sums_in_bfloat16_are_rounded() {
        let (weights, layout) = layout(&[("heads.mlm", 1)], Kind::BFloat16);
        let sum = GradientSum::begin(Arc::new(SingleProcess), layout);
        let own = Tensor::full([1, 1024], 1.0 + 2_f64.powi(-10), (Kind::Float, Device::Cpu));
        let sums = sum.finish(&[&weights[0]], vec![Some(own)]).expect("summed");
        assert_eq!(sums[0], Some(Tensor::ones([1, 1024], (Kind::Float, Device::Cpu))));
    }
}
