//! Replaced token detection (ELECTRA).
//!
//! # What
//! Predicts for each token whether a generator replaced it.
//!
//! # Why
//! All positions give a training signal, not only the masked 15 %. The model never reads `[MASK]`, a token that does
//! not occur after pretraining.
//!
//! # Definition
//! With `z = head(h)`, one number per position, and `y` the label, 0 or 1:
//!
//! ```text
//! S = Σ_{i valid} BCE(z_i, y_i)      BCE(z, y) = max(z, 0) − z y + ln(1 + exp(−|z|))
//! ```
//!
//! If a generator draws the original id, the token counts as original: `replaced` means that ids differ, not that a
//! position was masked. ELECTRA's label 1 is "replaced", COCO-LM's is "original"; the sign of `z` changes with it. The
//! head is `w · h + b`, or the same applied to `gelu(h Wᵀ + b_W)` (ELECTRA; no norm in between).
//!
//! # Metrics
//! `gain` is `H(r) − S / n` over a report: with `n` valid tokens of which the share `r` is replaced, and
//! `H(r) = −r ln r − (1 − r) ln(1 − r)`, a constant guess at `r` has the gain 0. A positive gain is information about
//! *which* tokens are replaced.
//!
//! # Columns
//! `input_ids` of the view before and after the generator, `attention_mask`.
//!
//! # Reference
//! Clark, Luong, Le & Manning 2020, "ELECTRA", section 2 and the released code (label 1 = replaced, `dense_gelu`);
//! Meng et al. 2021, "COCO-LM", for label 1 = original and the linear head.
//!
//! Axes: `b` rows, `t` positions, `d` hidden.

use tch::{Kind, Reduction, Tensor};
use trainer_plan::encoder::Gelu;
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::replaced_token::{DetectionForm, LabelOne, ReplacedToken};

use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::device::precision::Precision;
use crate::device::precision::PrecisionCast as _;
use crate::model::forward::Forward;
use crate::model::head_weights::DenseWeights;
use crate::model::heads::Dense;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::weight::Weight;

/// Weights of the detection head.
#[derive(Debug)]
pub(crate) struct DetectionHead {
    /// `W` and `b_W` with their GELU variant; `None` for the linear head.
    pub dense: Option<(Dense, Gelu)>,
    /// `w`, `[d]`.
    pub weight_d: Tensor,
    /// `b`, `[1]`.
    pub bias_1: Tensor,
    /// Precision of the dense layer's product. The product with `w` is never rounded.
    pub precision: Precision,
}

impl DetectionHead {
    /// Computes `z`, `[b, t]` for hidden states `[b, t, d]`, or `[n]` for `[n, d]`.
    pub(crate) fn logits(&self, hidden: &Tensor) -> Tensor {
        let of = |features: &Tensor| features.matmul(&self.weight_d) + &self.bias_1;
        match &self.dense {
            None => of(hidden),
            Some((dense, gelu)) => of(&self.precision.upcast(&dense.apply(hidden, self.precision).gelu(gelu.name()))),
        }
    }
}

/// Result of [`loss`]: scalars on the device, counts as int64.
#[derive(Debug)]
pub(crate) struct Detection {
    /// Sum of the cross-entropies of valid positions in nats, with gradient.
    pub sum: Tensor,
    /// Number of valid tokens that are replaced.
    pub replaced: Tensor,
    /// Number of valid tokens that are originals.
    pub original: Tensor,
    /// Number of replaced tokens that are detected.
    pub replaced_hits: Tensor,
    /// Number of originals that are predicted as originals.
    pub original_hits: Tensor,
}

/// Computes the loss over the valid positions of hidden states `[b, t, d]`.
///
/// `replaced_bt` and `valid_bt` are boolean. Without `valid_bt` all positions are valid.
#[must_use]
pub(crate) fn loss(
    hidden_btd: &Tensor,
    head: &DetectionHead,
    replaced_bt: &Tensor,
    valid_bt: Option<&Tensor>,
    label_one: LabelOne,
) -> Detection {
    of_logits(&head.logits(hidden_btd), replaced_bt, valid_bt, label_one)
}

/// Computes the loss from `z` itself, `[b, t]`.
#[must_use]
pub(crate) fn of_logits(
    logits_bt: &Tensor,
    replaced_bt: &Tensor,
    valid_bt: Option<&Tensor>,
    label_one: LabelOne,
) -> Detection {
    let only_valid = |flags_bt: Tensor| match valid_bt {
        None => flags_bt,
        Some(valid_bt) => flags_bt.logical_and(valid_bt),
    };
    let label_bt = match label_one {
        LabelOne::IsReplaced => replaced_bt.shallow_clone(),
        LabelOne::IsOriginal => replaced_bt.logical_not(),
    };
    let kind = logits_bt.kind();
    let each_bt =
        logits_bt.binary_cross_entropy_with_logits::<&Tensor>(&label_bt.to_kind(kind), None, None, Reduction::None);
    let sum = match valid_bt {
        None => each_bt.sum(kind),
        Some(valid_bt) => each_bt.masked_fill(&valid_bt.logical_not(), 0.0).sum(kind),
    };
    let hit_bt = logits_bt.detach().gt(0.0).eq_tensor(&label_bt);
    let original_bt = only_valid(replaced_bt.logical_not());
    let replaced_bt = only_valid(replaced_bt.shallow_clone());
    let count = |flags_bt: &Tensor| flags_bt.sum(Kind::Int64);
    Detection {
        sum,
        replaced: count(&replaced_bt),
        original: count(&original_bt),
        replaced_hits: count(&replaced_bt.logical_and(&hit_bt)),
        original_hits: count(&original_bt.logical_and(&hit_bt)),
    }
}

/// Weights of the head.
#[derive(Debug)]
pub(super) struct Weights {
    dense: Option<(DenseWeights, Gelu)>,
    weight_1d: Weight,
    bias_1: Weight,
}

impl Weights {
    pub(super) fn build(form: DetectionForm, head: &Path<'_>, networks: &Networks) -> Self {
        let dense = (form == DetectionForm::DenseGelu)
            .then(|| (DenseWeights::build(&head.sub("dense")), networks.config().gelu));
        Self { dense, weight_1d: head.weight("weight"), bias_1: head.weight("bias") }
    }

    pub(super) fn leaves(&self, precision: Precision) -> DetectionHead {
        let dense = self.dense.as_ref().map(|(dense, gelu)| (dense.leaves(precision), *gelu));
        let weight_d = self.weight_1d.use_leaf_f32().squeeze_dim(0);
        DetectionHead { dense, weight_d, bias_1: self.bias_1.use_leaf_f32(), precision }
    }
}

impl Build for ReplacedToken {
    fn build(&self, _name: &str, head: &Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        Box::new(ReplacedTokenLoss { config: self.clone(), weights: Weights::build(self.head, head, networks) })
    }
}

struct ReplacedTokenLoss {
    config: ReplacedToken,
    weights: Weights,
}

impl Loss for ReplacedTokenLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        vec![Term { name: "", weight: 1.0, count: batch.valid(&self.config.view) as f64 }]
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let ReplacedToken { view, label_one, .. } = &self.config;
        let uploaded = forward.view(view);
        let hidden_btd = &forward.encoded(MAIN, view).hidden_btd;
        let head = self.weights.leaves(forward.networks().precision());
        let detection = loss(hidden_btd, &head, &uploaded.replaced_bt(), uploaded.valid_bt.as_ref(), *label_one);
        let count = forward.batch().valid(view) as f64;
        ObjectiveOutput { metrics: detection.metrics("gain", count), sums: vec![detection.sum] }
    }
}

impl Detection {
    /// Returns the share of replaced tokens among `count` valid tokens, the accuracy on all, replaced and original
    /// tokens, and as `gain` the nats below a constant guess at that share.
    pub(super) fn metrics(&self, gain: &'static str, count: f64) -> Vec<Metric> {
        let handle = Tensor::shallow_clone;
        vec![
            Metric::gain(gain, &self.sum, count, "replaced_rate"),
            Metric::new("replaced_rate", handle(&self.replaced), count),
            Metric::new("accuracy", &self.replaced_hits + &self.original_hits, count),
            Metric::ratio("accuracy_replaced", handle(&self.replaced_hits), handle(&self.replaced)),
            Metric::ratio("accuracy_original", handle(&self.original_hits), handle(&self.original)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use trainer_plan::metric_name::MetricName;

    use super::{LabelOne, of_logits};
    use crate::training::metric_accumulator::{MetricAccumulator, PendingAdditions};
    use crate::training::process_group::SingleProcess;

    fn number(tensor: &Tensor) -> f64 {
        f64::try_from(tensor).expect("one number")
    }

    fn whole(tensor: &Tensor) -> i64 {
        i64::try_from(tensor).expect("one count")
    }

    /// Four positions; the last one is replaced.
    fn example() -> (Tensor, Tensor) {
        (
            Tensor::from_slice(&[0.5, 1.5, 0.5, 1.5]).view([1, 4]),
            Tensor::from_slice(&[false, false, false, true]).view([1, 4]),
        )
    }

    #[test]
    fn the_two_labellings_are_mirrors() {
        let (z_bt, replaced_bt) = example();
        for (logits_bt, label_one) in [(z_bt.shallow_clone(), LabelOne::IsOriginal), (-z_bt, LabelOne::IsReplaced)] {
            let found = of_logits(&logits_bt, &replaced_bt, None, label_one);
            assert!((number(&found.sum) / 4.0 - 0.712_745_131_081).abs() < 1e-11, "{found:?}");
            let counts = [&found.replaced, &found.original, &found.replaced_hits, &found.original_hits].map(whole);
            assert_eq!(counts, [1, 3, 0, 3]);
        }
    }

    /// One of four is replaced: H(1/4) = 0.562 335 144 619, less the mean loss.
    #[test]
    fn gain_is_what_a_constant_guess_costs_more() {
        let (z_bt, replaced_bt) = example();
        let gain = |z_bt: &Tensor| {
            let found = of_logits(z_bt, &replaced_bt, None, LabelOne::IsOriginal);
            let mut tally = MetricAccumulator::new(tch::Device::Cpu);
            let mut sums = PendingAdditions::default();
            found.metrics("gain", 4.0).iter().for_each(|metric| tally.add_metric("rtd", metric, &mut sums));
            sums.settle().expect("scalars");
            tally.read(&SingleProcess, &[]).expect("read").0.gains[&MetricName::new("rtd", "gain")].value
        };
        assert!((gain(&z_bt) - (0.562_335_144_619 - 0.712_745_131_081)).abs() < 1e-11);
        let constant = Tensor::full([1, 4], 3_f64.ln(), (tch::Kind::Double, tch::Device::Cpu));
        assert!(gain(&constant).abs() < 1e-12, "three of four are originals");
        let certain = Tensor::from_slice(&[50.0, 50.0, 50.0, -50.0]).view([1, 4]);
        assert!((gain(&certain) - 0.562_335_144_619).abs() < 1e-12);
    }

    #[test]
    fn padding_has_no_loss_and_no_gradient() {
        let (z_bt, replaced_bt) = example();
        let z_bt = z_bt.set_requires_grad(true);
        let valid_bt = Tensor::from_slice(&[true, true, false, false]).view([1, 4]);
        let found = of_logits(&z_bt, &replaced_bt, Some(&valid_bt), LabelOne::IsOriginal);
        found.sum.backward();
        assert!((number(&found.sum) - 0.474_076_984 - 0.201_413_278).abs() < 1e-8);
        assert_eq!([whole(&found.replaced), whole(&found.original)], [0, 2]);
        let gradient: Vec<f64> = Vec::try_from(z_bt.grad().view([-1])).expect("a vector");
        assert!(gradient[0] < 0.0 && gradient[1] < 0.0, "{gradient:?}");
        assert!(gradient[2].abs() + gradient[3].abs() < f64::MIN_POSITIVE, "{gradient:?}");
    }

    #[test]
    fn huge_logits_keep_their_gradient() {
        let z_bt = Tensor::from_slice(&[-800.0_f32, 800.0]).view([1, 2]).set_requires_grad(true);
        let replaced_bt = Tensor::from_slice(&[true, false]).view([1, 2]);
        let sum = of_logits(&z_bt, &replaced_bt, None, LabelOne::IsReplaced).sum;
        sum.backward();
        assert!((number(&sum) - 1600.0).abs() < 1e-3, "{sum:?}");
        let gradient: Vec<f32> = Vec::try_from(z_bt.grad().view([-1])).expect("a vector");
        assert!((gradient[0] + 1.0).abs() + (gradient[1] - 1.0).abs() < 1e-6, "{gradient:?}");
    }
}
