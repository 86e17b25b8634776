//! Trainable weight with a separate gradient leaf for each use.
//!
//! Each use of a trained weight gets its own autograd leaf. The leaf shares the weight's memory, or, for bfloat16
//! products, that of a bfloat16 copy. One kernel refreshes all copies once per step.
//!
//! At the end of a micro-batch, the gradients of all uses are added to the float32 gradients of the weights. The order
//! is fixed: uses by heads first, then uses by encoder passes, last pass first. So the gradients of two uses are never
//! summed in bfloat16. The summation order stays the same when activation checkpointing splits the backward pass into
//! pieces.
//!
//! A weight can be watched: its gradient is then summed and taken as soon as all its uses have theirs, during the
//! backward pass.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tch::{Kind, Tensor};
use trainer_plan::Error;

use crate::device::native;
use crate::device::native::grad_hooks::on_gradient;
use crate::device::oom::without_panic;
use crate::device::precision::Precision;
use crate::device::precision::PrecisionCast as _;

/// Handle to a weight.
#[derive(Debug)]
pub(crate) struct Weight {
    master: Tensor,
    uses: GradLeaves,
}

impl Weight {
    /// Creates a handle to the weight `master`, a float32 leaf if it is trained. All handles share `uses`.
    pub(super) fn new(master: &Tensor, uses: &GradLeaves) -> Self {
        Self { master: master.shallow_clone(), uses: uses.clone() }
    }

    /// Returns another handle to the same weight.
    pub(crate) fn handle(&self) -> Self {
        Self::new(&self.master, &self.uses)
    }

    /// Returns the float32 weight itself. Gradients of computations on it bypass the summation order of
    /// [`accumulate_grads`].
    pub(crate) fn master(&self) -> &Tensor {
        &self.master
    }

    /// Returns a leaf for a head's matrix product in `precision`.
    pub(crate) fn use_leaf(&self, precision: Precision) -> Tensor {
        self.uses.leaf(&self.master, precision.kind(), |inner| &mut inner.by_heads)
    }

    /// Returns a float32 leaf for a head.
    pub(crate) fn use_leaf_f32(&self) -> Tensor {
        self.uses.leaf(&self.master, self.master.kind(), |inner| &mut inner.by_heads)
    }

    /// Returns a leaf for an encoder pass, in the type of `x`.
    pub(super) fn pass_leaf(&self, x: &Tensor) -> Tensor {
        self.uses.leaf(&self.master, x.kind(), |inner| &mut inner.by_passes)
    }

    /// Returns a float32 leaf for an encoder pass.
    pub(super) fn pass_leaf_f32(&self) -> Tensor {
        self.pass_leaf(&self.master)
    }
}

/// Leaves of a weight, and its reduced-precision copy once a product has used one.
#[derive(Clone, Default)]
pub(super) struct GradLeaves(Arc<Mutex<Inner>>);

impl fmt::Debug for GradLeaves {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GradLeaves").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Inner {
    copy: Option<Tensor>,
    by_heads: Vec<Tensor>,
    by_passes: Vec<Tensor>,
    watch: Option<Watch>,
}

/// Function that takes the gradient of a weight, by the index of the weight, on the thread of the backward pass.
pub(crate) type GradReceiver = Arc<dyn Fn(usize, Result<Option<Tensor>, Error>) + Send + Sync>;

/// Watch for the gradients of all leaves of a weight.
struct Watch {
    index: usize,
    master: Tensor,
    receiver: GradReceiver,
    // Number of leaves without a gradient.
    missing: usize,
}

impl GradLeaves {
    fn leaf(&self, master: &Tensor, kind: Kind, by: impl FnOnce(&mut Inner) -> &mut Vec<Tensor>) -> Tensor {
        let mut inner = self.inner();
        let leaf = if kind == master.kind() {
            master.detach()
        } else {
            inner.copy.get_or_insert_with(|| master.detach().to_kind(kind)).detach()
        };
        let is_recorded = native::is_recorded(master);
        let leaf = leaf.set_requires_grad(is_recorded);
        if is_recorded {
            by(&mut inner).push(leaf.shallow_clone());
            if let Some(watch) = &mut inner.watch {
                let leaves = Arc::downgrade(&self.0);
                let hook = Box::new(move || Self::arrived(&leaves));
                on_gradient(&leaf, hook).expect("it requires a gradient");
                watch.missing += 1;
            }
        }
        leaf
    }

    /// Passes the gradient of the weight to `receiver`, once, when all leaves that are made from now on have theirs.
    /// Ends with [`clear_uses`]. All leaves must be made before the backward pass.
    pub(super) fn watch(&self, index: usize, master: &Tensor, receiver: &GradReceiver) {
        let receiver = Arc::clone(receiver);
        self.inner().watch = Some(Watch { index, master: master.shallow_clone(), receiver, missing: 0 });
    }

    /// Counts the gradient of a leaf. With the last one, passes that of the weight to the receiver.
    fn arrived(leaves: &Weak<Mutex<Inner>>) {
        let Some(leaves) = leaves.upgrade().map(Self) else { return };
        let is_last = leaves.inner().watch.as_mut().is_some_and(|watch| {
            watch.missing -= 1;
            watch.missing == 0
        });
        if let Some(Watch { index, master, receiver, .. }) = is_last.then(|| leaves.inner().watch.take()).flatten() {
            let sum = || {
                accumulate_grads(std::iter::once((&master, &leaves)))?;
                Ok(native::take_gradients(&[&master])?.swap_remove(0))
            };
            receiver(index, without_panic(sum));
        }
    }

    /// Returns whether a handle to the weight exists.
    #[cfg(test)]
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic cannot leave the lists half updated: each entry is replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refreshes all reduced-precision copies from the current weights.
pub(super) fn round<'a>(weights: impl Iterator<Item = (&'a Tensor, &'a GradLeaves)>) -> Result<(), Error> {
    let copied = weights.filter_map(|(master, uses)| Some((uses.inner().copy.as_ref()?.shallow_clone(), master)));
    let (copies, masters): (Vec<_>, Vec<_>) = copied.unzip();
    native::copy_all(&copies.iter().collect::<Vec<_>>(), &masters)
}

/// Adds the gradients that the uses have received so far to those of the weights.
pub(super) fn accumulate_grads<'a>(weights: impl Iterator<Item = (&'a Tensor, &'a GradLeaves)>) -> Result<(), Error> {
    let mut masters = Vec::new();
    let mut gradients = Vec::new();
    for (master, uses) in weights {
        let mut inner = uses.inner();
        let Inner { by_heads, by_passes, .. } = &mut *inner;
        for leaf in by_heads.iter().chain(by_passes.iter().rev()) {
            let gradient = leaf.grad();
            if gradient.defined() {
                masters.push(master);
                gradients.push(gradient);
            }
        }
        for leaves in [by_heads, by_passes] {
            leaves.retain(|leaf| !leaf.grad().defined());
        }
    }
    native::add_gradients(&masters, &gradients.iter().collect::<Vec<_>>())
}

/// Drops the leaves without a gradient, and the watches, at the end of a micro-batch.
pub(super) fn clear_uses<'a>(uses: impl Iterator<Item = &'a GradLeaves>) {
    for uses in uses {
        let mut inner = uses.inner();
        inner.by_heads.clear();
        inner.by_passes.clear();
        inner.watch = None;
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::device::precision::MASTER;

    fn weight() -> (Tensor, GradLeaves) {
        let values = Tensor::from_slice(&[1.0_f32, 1.0 + 2_f32.powi(-12), -3.0]);
        (values.set_requires_grad(true), GradLeaves::default())
    }

    fn all(weight: &(Tensor, GradLeaves)) -> impl Iterator<Item = (&Tensor, &GradLeaves)> {
        std::iter::once((&weight.0, &weight.1))
    }

    #[test]
    fn gradients_of_every_use_and_of_the_weight_itself_add_up_in_float32() {
        let parts = weight();
        let handle = Weight::new(&parts.0, &parts.1);
        for micro_batch in 1..=2 {
            // Neither 1 + 2⁻¹⁰ nor 1 + 2⁻¹⁰ + 2⁻¹² is a bfloat16 number.
            let uses = [1.0, 2_f64.powi(-10)].map(|factor| handle.use_leaf(Precision::Bf16) * factor);
            let itself = handle.pass_leaf_f32() * 2_f64.powi(-12);
            let sum: Tensor = uses.iter().map(|used| used.to_kind(MASTER)).chain([itself]).sum();
            sum.sum(MASTER).backward();
            accumulate_grads(all(&parts)).expect("gradients of one shape");
            let expected = (1.0 + 2_f64.powi(-10) + 2_f64.powi(-12)) * f64::from(micro_batch);
            assert_eq!(parts.0.grad(), Tensor::full([3], expected, (MASTER, Device::Cpu)), "{micro_batch}");
        }
    }

    /// `(1 + 2⁻²⁴) + 2⁻²⁴` is 1 in float32, `1 + (2⁻²⁴ + 2⁻²⁴)` is not.
    #[test]
    fn gradients_are_summed_in_one_order_regardless_of_arrival() {
        let small = 2_f64.powi(-24);
        let summed_gradient = |in_pieces: bool| {
            let parts = weight();
            let handle = Weight::new(&parts.0, &parts.1);
            let passes = [small, small].map(|factor| (handle.pass_leaf_f32(), factor));
            let head = (handle.use_leaf_f32(), 1.0);
            // Without pieces, `accumulate_grads` runs after all leaves have gradients. With pieces, it runs after each
            // leaf.
            let order = [&head, &passes[1], &passes[0]];
            for (leaf, factor) in order {
                (leaf * *factor).sum(MASTER).backward();
                if in_pieces {
                    accumulate_grads(all(&parts)).expect("gradients of one shape");
                }
            }
            accumulate_grads(all(&parts)).expect("gradients of one shape");
            clear_uses(all(&parts).map(|(_, uses)| uses));
            parts.0.grad()
        };
        assert_eq!(summed_gradient(false), summed_gradient(true));
        assert_eq!(
            summed_gradient(true),
            Tensor::ones([3], (MASTER, Device::Cpu)),
            "the gradient of the head is added first"
        );
    }

    #[test]
    fn a_watched_weight_gives_its_gradient_when_all_uses_have_theirs() {
        let parts = weight();
        let handle = Weight::new(&parts.0, &parts.1);
        (handle.use_leaf_f32() * 8.0).sum(MASTER).backward();
        accumulate_grads(all(&parts)).expect("gradients of one shape");
        let given = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&given);
        let receiver: GradReceiver =
            Arc::new(move |index, gradient| list.lock().expect("no panic").push((index, gradient.expect("summed"))));
        parts.1.watch(7, &parts.0, &receiver);
        let [first, second] = [handle.pass_leaf_f32(), handle.use_leaf(Precision::Bf16).to_kind(MASTER)];
        first.sum(MASTER).backward();
        assert!(given.lock().expect("no panic").is_empty(), "a use has no gradient yet");
        (second * 2.0).sum(MASTER).backward();
        let sum = Tensor::full([3], 11.0, (MASTER, Device::Cpu));
        assert_eq!(*given.lock().expect("no panic"), [(7, Some(sum))]);
        assert!(!parts.0.grad().defined(), "taken");
        clear_uses(all(&parts).map(|(_, uses)| uses));
        handle.use_leaf_f32().sum(MASTER).backward();
        assert_eq!(given.lock().expect("no panic").len(), 1, "once");
    }

    #[test]
    fn uses_without_gradient_are_not_recorded() {
        let parts = weight();
        let handle = Weight::new(&parts.0, &parts.1);
        tch::no_grad(|| (0..100).for_each(|_| drop((handle.use_leaf_f32(), handle.pass_leaf_f32()))));
        assert!(parts.1.inner().by_heads.is_empty() && parts.1.inner().by_passes.is_empty());
    }

    #[test]
    fn copies_match_their_weights_after_a_refresh() {
        let parts = weight();
        let handle = Weight::new(&parts.0, &parts.1);
        let copied = || handle.use_leaf(Precision::Bf16).detach().to_kind(MASTER);
        assert_eq!(copied(), Tensor::from_slice(&[1.0_f32, 1.0, -3.0]));
        let _ = tch::no_grad(|| handle.master().shallow_clone().fill_(5.0));
        assert_eq!(copied(), Tensor::from_slice(&[1.0_f32, 1.0, -3.0]), "copies change only when they are refreshed");
        round(all(&parts)).expect("of one shape");
        assert_eq!(copied(), Tensor::full([3], 5.0, (MASTER, Device::Cpu)));
    }

    #[test]
    fn float32_uses_share_memory_and_frozen_weights_get_no_gradient() {
        let parts = weight();
        let handle = Weight::new(&parts.0, &parts.1);
        assert_eq!(handle.use_leaf(Precision::F32).data_ptr(), parts.0.data_ptr());
        assert!(parts.1.inner().copy.is_none());
        let frozen = (parts.0.detach(), GradLeaves::default());
        assert!(!Weight::new(&frozen.0, &frozen.1).use_leaf(Precision::Bf16).requires_grad());
        assert!(frozen.1.inner().by_heads.is_empty());
    }
}
