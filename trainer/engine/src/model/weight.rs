//! A weight, as it learns and as it is used.
//!
//! Every use of a trained weight has its own leaf over the weight's memory; with bfloat16 products, over that
//! of a copy in this type, which is rebuilt once a step, all copies in one kernel. When a micro-batch is done, the
//! gradients of all uses are added to the weights', float32: those of heads first, then those of passes, the last first.
//! So no use is rounded together with another, and the order of the sum is this one, however backward passes were cut
//! into pieces.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tch::{Kind, Tensor};
use trainer_plan::Error;

use crate::device::native;
use crate::device::precision::Cast as _;
use crate::device::precision::Precision;

/// A handle on a weight.
#[derive(Debug)]
pub(crate) struct Weight {
    master: Tensor,
    uses: Uses,
}

impl Weight {
    /// The weight `master`, a float32 leaf if it learns, with the uses that other handles share.
    pub(super) fn new(master: &Tensor, uses: &Uses) -> Self {
        Self { master: master.shallow_clone(), uses: uses.clone() }
    }

    /// Another handle on the same weight.
    pub(crate) fn handle(&self) -> Self {
        Self::new(&self.master, &self.uses)
    }

    /// The weight itself, float32. What is computed with it teaches it nothing that [`gather`] orders.
    pub(crate) fn master(&self) -> &Tensor {
        &self.master
    }

    /// For a head's product in that precision.
    pub(crate) fn lend(&self, precision: Precision) -> Tensor {
        self.uses.lend(&self.master, precision.kind(), |inner| &mut inner.by_heads)
    }

    /// For a head, float32.
    pub(crate) fn lend_whole(&self) -> Tensor {
        self.uses.lend(&self.master, self.master.kind(), |inner| &mut inner.by_heads)
    }

    /// For a pass, in the type of `x`.
    pub(super) fn beside(&self, x: &Tensor) -> Tensor {
        self.uses.lend(&self.master, x.kind(), |inner| &mut inner.by_passes)
    }

    /// For a pass, float32.
    pub(super) fn whole(&self) -> Tensor {
        self.beside(&self.master)
    }
}

/// Leaves that use a weight, and its copy, if a product has asked for one.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    copy: Option<Tensor>,
    by_heads: Vec<Tensor>,
    by_passes: Vec<Tensor>,
}

impl Uses {
    fn lend(&self, master: &Tensor, kind: Kind, by: impl FnOnce(&mut Inner) -> &mut Vec<Tensor>) -> Tensor {
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
        }
        leaf
    }

    /// Whether a handle on the weight exists.
    #[cfg(test)]
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Handles are replaced whole: whoever panicked has left nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes all copies again of what their weights are now.
pub(super) fn round<'a>(weights: impl Iterator<Item = (&'a Tensor, &'a Uses)>) -> Result<(), Error> {
    let copied = weights.filter_map(|(master, uses)| Some((uses.inner().copy.as_ref()?.shallow_clone(), master)));
    let (copies, masters): (Vec<_>, Vec<_>) = copied.unzip();
    native::copy_all(&copies.iter().collect::<Vec<_>>(), &masters)
}

/// Adds the gradients that uses have by now to those of the weights.
pub(super) fn gather<'a>(weights: impl Iterator<Item = (&'a Tensor, &'a Uses)>) -> Result<(), Error> {
    let (mut masters, mut gradients) = (Vec::new(), Vec::new());
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
        for lent in [by_heads, by_passes] {
            lent.retain(|leaf| !leaf.grad().defined());
        }
    }
    native::add_gradients(&masters, &gradients.iter().collect::<Vec<_>>())
}

/// Forgets the leaves without a gradient: a micro-batch is done.
pub(super) fn forget<'a>(uses: impl Iterator<Item = &'a Uses>) {
    for uses in uses {
        let mut inner = uses.inner();
        inner.by_heads.clear();
        inner.by_passes.clear();
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::device::precision::MASTER;

    fn weight() -> (Tensor, Uses) {
        let values = Tensor::from_slice(&[1.0_f32, 1.0 + 2_f32.powi(-12), -3.0]);
        (values.set_requires_grad(true), Uses::default())
    }

    fn all(weight: &(Tensor, Uses)) -> impl Iterator<Item = (&Tensor, &Uses)> {
        std::iter::once((&weight.0, &weight.1))
    }

    #[test]
    fn gradients_of_every_use_and_of_the_weight_itself_add_up_in_float32() {
        let parts = weight();
        let handle = Weight::new(&parts.0, &parts.1);
        for micro_batch in 1..=2 {
            // Neither 1 + 2⁻¹⁰ nor that and 2⁻¹² is a bfloat16 number.
            let uses = [1.0, 2_f64.powi(-10)].map(|slope| handle.lend(Precision::Bf16) * slope);
            let itself = handle.whole() * 2_f64.powi(-12);
            let sum: Tensor = uses.iter().map(|used| used.to_kind(MASTER)).chain([itself]).sum();
            sum.sum(MASTER).backward();
            gather(all(&parts)).expect("gradients of one shape");
            let expected = (1.0 + 2_f64.powi(-10) + 2_f64.powi(-12)) * f64::from(micro_batch);
            assert_eq!(parts.0.grad(), Tensor::full([3], expected, (MASTER, Device::Cpu)), "{micro_batch}");
        }
    }

    /// `(1 + 2⁻²⁴) + 2⁻²⁴` is 1 in float32, `1 + (2⁻²⁴ + 2⁻²⁴)` is not.
    #[test]
    fn gradients_add_up_in_one_order_whenever_they_come() {
        let small = 2_f64.powi(-24);
        let learn = |in_pieces: bool| {
            let parts = weight();
            let handle = Weight::new(&parts.0, &parts.1);
            let passes = [small, small].map(|slope| (handle.whole(), slope));
            let head = (handle.lend_whole(), 1.0);
            // Without pieces all have gradients before they are added; else those that come last had theirs first.
            let order = [&head, &passes[1], &passes[0]];
            for (leaf, slope) in order {
                (leaf * *slope).sum(MASTER).backward();
                if in_pieces {
                    gather(all(&parts)).expect("gradients of one shape");
                }
            }
            gather(all(&parts)).expect("gradients of one shape");
            forget(all(&parts).map(|(_, uses)| uses));
            parts.0.grad()
        };
        assert_eq!(learn(false), learn(true));
        assert_eq!(learn(true), Tensor::ones([3], (MASTER, Device::Cpu)), "the head's comes first");
    }

    #[test]
    fn what_nobody_learns_from_is_not_remembered() {
        let parts = weight();
        let handle = Weight::new(&parts.0, &parts.1);
        tch::no_grad(|| (0..100).for_each(|_| drop((handle.lend_whole(), handle.whole()))));
        assert!(parts.1.inner().by_heads.is_empty() && parts.1.inner().by_passes.is_empty());
    }

    #[test]
    fn copies_follow_their_weights_when_they_are_made_anew() {
        let parts = weight();
        let handle = Weight::new(&parts.0, &parts.1);
        let lent = || handle.lend(Precision::Bf16).detach().to_kind(MASTER);
        assert_eq!(lent(), Tensor::from_slice(&[1.0_f32, 1.0, -3.0]));
        let _ = tch::no_grad(|| handle.master().shallow_clone().fill_(5.0));
        assert_eq!(lent(), Tensor::from_slice(&[1.0_f32, 1.0, -3.0]), "until then they stay");
        round(all(&parts)).expect("of one shape");
        assert_eq!(lent(), Tensor::full([3], 5.0, (MASTER, Device::Cpu)));
    }

    #[test]
    fn what_is_float32_is_lent_as_it_is_and_what_is_frozen_does_not_learn() {
        let parts = weight();
        let handle = Weight::new(&parts.0, &parts.1);
        assert_eq!(handle.lend(Precision::F32).data_ptr(), parts.0.data_ptr());
        assert!(parts.1.inner().copy.is_none());
        let frozen = (parts.0.detach(), Uses::default());
        assert!(!Weight::new(&frozen.0, &frozen.1).lend(Precision::Bf16).requires_grad());
        assert!(frozen.1.inner().by_heads.is_empty());
    }
}
