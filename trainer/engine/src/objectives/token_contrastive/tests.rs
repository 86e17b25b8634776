use tch::{Device, Kind, Tensor};

use super::{Candidates, loss, unit};
use crate::testing;

fn f64s(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.to_kind(Kind::Double).reshape([-1])).expect("a vector of numbers")
}

fn close(found: &Tensor, expected: &[f64], tolerance: f64) {
    let found = f64s(found);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }
}

/// Two rows of three positions, two negatives each; small enough for a pocket calculator.
struct Example {
    hidden_btd: Tensor,
    static_btd: Tensor,
    positives: [i64; 6],
    negatives: [i64; 12],
}

fn example() -> Example {
    let hidden = [1.0, 1.0, 2.0, 0.0, 0.0, 2.0, -1.0, 0.0, 0.0, -1.0, 1.0, -1.0_f64];
    let fixed = [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0_f64];
    Example {
        hidden_btd: Tensor::from_slice(&hidden).view([2, 3, 2]),
        static_btd: Tensor::from_slice(&fixed).view([2, 3, 2]),
        positives: [1, 0, 1, 4, 5, 4],
        negatives: [3, 4, 3, 5, 4, 4, 0, 2, 1, 2, 0, 1],
    }
}

impl Example {
    fn sum_of(&self, anchors: &[i64], temperature: f64) -> Tensor {
        let anchors_n = Tensor::from_slice(anchors);
        let candidates = Candidates {
            positives_n: &Tensor::from_slice(&self.positives).index_select(0, &anchors_n),
            negatives_nk: &Tensor::from_slice(&self.negatives).view([6, 2]).index_select(0, &anchors_n),
            anchors_n: &anchors_n,
            excluded_nk: None,
            weights_n: None,
        };
        loss(&self.hidden_btd, &self.static_btd, candidates, temperature, true).sum
    }
}

#[test]
fn losses_equal_hand_computed_values() {
    // ln(e + 1/e + 1) − 1 for the first anchor, ln(1 + 2/e) for the third, ln 3 for the last.
    let at_one = [0.407_605_964, 0.632_035_894, 0.551_444_714, 0.861_994_804, 0.515_489_845, 1.098_612_289];
    let at_7_hundredths = [6.2488e-7, 0.015_119_678_0, 1.2497e-6, 0.693_147_493_0, 4.1016e-5, 1.098_612_288_7];
    for (temperature, each, tolerance) in [(1.0, at_one, 5.1e-10), (0.07, at_7_hundredths, 6e-10)] {
        for (anchor, expected) in (0..).zip(each) {
            close(&example().sum_of(&[anchor], temperature), &[expected], tolerance);
        }
    }
    for (temperature, mean) in [(1.0, 0.677_863_918_354), (0.5, 0.489_617_043_869), (0.07, 0.301_153_725_070)] {
        close(&(example().sum_of(&[0, 1, 2, 3, 4, 5], temperature) / 6.0), &[mean], 1e-12);
    }
    close(&example().sum_of(&[0], 1.0), &[(1_f64.exp() + (-1_f64).exp() + 1.0).ln() - 1.0], 1e-15);
}

/// Indices for random tensors: anchors in any order, with repeated and missing ones.
struct Drawn {
    anchors_n: Tensor,
    positives_n: Tensor,
    negatives_nk: Tensor,
    excluded_nk: Tensor,
    weights_n: Tensor,
}

fn drawn(kind: Kind) -> Drawn {
    tch::manual_seed(7);
    Drawn {
        anchors_n: Tensor::from_slice(&[4_i64, 0, 9, 5, 4]),
        positives_n: Tensor::from_slice(&[5_i64, 1, 8, 4, 3]),
        negatives_nk: Tensor::randint(12, [5, 4], (Kind::Int64, Device::Cpu)),
        excluded_nk: Tensor::rand([5, 4], (Kind::Double, Device::Cpu)).lt(0.2),
        weights_n: Tensor::rand([5], (kind, Device::Cpu)),
    }
}

impl Drawn {
    fn candidates(&self) -> Candidates<'_> {
        Candidates {
            anchors_n: &self.anchors_n,
            positives_n: &self.positives_n,
            negatives_nk: &self.negatives_nk,
            excluded_nk: Some(&self.excluded_nk),
            weights_n: Some(&self.weights_n),
        }
    }

    /// Computes the definition with a copy of every candidate, as the reference for `loss`.
    fn plain(&self, gap_btd: &Tensor, candidates_btd: &Tensor) -> Tensor {
        let width = gap_btd.size()[2];
        let anchor_md = unit(&gap_btd.view([-1, width]));
        let candidate_md = unit(&candidates_btd.view([-1, width]));
        let rows = |index: &Tensor| candidate_md.index_select(0, &index.reshape([-1]));
        let chosen_nkd =
            Tensor::cat(&[rows(&self.positives_n).unsqueeze(1), rows(&self.negatives_nk).view([5, 4, width])], 1);
        let cosines_nc = (anchor_md.index_select(0, &self.anchors_n).unsqueeze(1) * chosen_nkd).sum_dim_intlist(
            -1,
            false,
            gap_btd.kind(),
        );
        let excluded_nc =
            Tensor::cat(&[self.excluded_nk.narrow(1, 0, 1).zeros_like(), self.excluded_nk.shallow_clone()], 1);
        let logits_nc = (cosines_nc / 0.3).masked_fill(&excluded_nc, f64::NEG_INFINITY);
        ((logits_nc.logsumexp([1], false) - logits_nc.select(1, 0)) * &self.weights_n).sum(gap_btd.kind())
    }
}

fn leaf(kind: Kind) -> Tensor {
    Tensor::randn([3, 4, 5], (kind, Device::Cpu)).set_requires_grad(true)
}

#[test]
fn gradients_are_those_of_the_plain_formula() {
    let _generator = testing::generator();
    for detach in [true, false] {
        let drawn = drawn(Kind::Double);
        let hidden_btd = leaf(Kind::Double);
        let static_btd = leaf(Kind::Double);
        let found = loss(&hidden_btd, &static_btd, drawn.candidates(), 0.3, detach).sum;
        // A factor of the loss must reach the gradient.
        (&found * 3.0).backward();
        let gap_btd = (&hidden_btd - &static_btd).detach().set_requires_grad(true);
        let expected = drawn.plain(&gap_btd, &if detach { gap_btd.detach() } else { gap_btd.shallow_clone() });
        (&expected * 3.0).backward();
        close(&found, &f64s(&expected), 1e-12);
        close(&hidden_btd.grad(), &f64s(&gap_btd.grad()), 1e-12);
        close(&static_btd.grad(), &f64s(&-gap_btd.grad()), 1e-12);
    }
}

#[test]
fn gradients_are_central_differences() {
    const STEP: f64 = 1e-6;
    let _generator = testing::generator();
    for detach in [true, false] {
        let drawn = drawn(Kind::Double);
        let hidden_btd = leaf(Kind::Double);
        let static_btd = leaf(Kind::Double).detach();
        loss(&hidden_btd, &static_btd, drawn.candidates(), 0.3, detach).sum.backward();
        let base_btd = (&hidden_btd - &static_btd).detach();
        let shifted = |at: i64, by: f64| {
            let step = Tensor::zeros([60], (Kind::Double, Device::Cpu)).index_fill(0, &Tensor::from(at).view([1]), by);
            let gap_btd = &base_btd + step.view([3, 4, 5]);
            // Detached candidates keep their values while the anchors change.
            f64s(&drawn.plain(&gap_btd, if detach { &base_btd } else { &gap_btd }))[0]
        };
        let differences: Vec<f64> = (0..60).map(|at| (shifted(at, STEP) - shifted(at, -STEP)) / (2.0 * STEP)).collect();
        close(&hidden_btd.grad(), &differences, 1e-8);
    }
}

#[test]
fn single_precision_is_near_double() {
    let _generator = testing::generator();
    let single = drawn(Kind::Float);
    let double = drawn(Kind::Double);
    let hidden_btd = leaf(Kind::Double).detach();
    let static_btd = hidden_btd.roll([1], [0]);
    let narrow = |tensor: &Tensor| tensor.to_kind(Kind::Float);
    let single = Candidates { weights_n: Some(&narrow(&double.weights_n)), ..single.candidates() };
    let found = loss(&narrow(&hidden_btd), &narrow(&static_btd), single, 0.3, false).sum;
    let expected = loss(&hidden_btd, &static_btd, double.candidates(), 0.3, false).sum;
    close(&found, &f64s(&expected), 1e-5);
}

#[test]
fn without_anchors_or_negatives_loss_and_gradient_are_0() {
    let _generator = testing::generator();
    for (n, k) in [(0, 3), (0, 0), (2, 0)] {
        let hidden_btd = leaf(Kind::Float);
        let index = |shape: &[i64]| Tensor::zeros(shape, (Kind::Int64, Device::Cpu));
        let candidates = Candidates {
            anchors_n: &index(&[n]),
            positives_n: &index(&[n]),
            negatives_nk: &index(&[n, k]),
            excluded_nk: None,
            weights_n: None,
        };
        let contrast = loss(&hidden_btd, &hidden_btd.detach(), candidates, 0.07, true);
        contrast.sum.backward();
        close(&contrast.sum, &[0.0], 0.0);
        close(&hidden_btd.grad(), &[0.0; 60], 0.0);
    }
}

#[test]
fn a_vector_of_zeros_has_cosine_0_and_finite_gradients() {
    let _generator = testing::generator();
    let gap_btd = leaf(Kind::Double).detach().index_fill(0, &Tensor::from_slice(&[1_i64]), 0.0).set_requires_grad(true);
    let drawn = drawn(Kind::Double);
    let found = loss(&gap_btd, &gap_btd.zeros_like(), drawn.candidates(), 0.3, false).sum;
    found.backward();
    close(&found, &f64s(&drawn.plain(&gap_btd, &gap_btd)), 1e-12);
    assert!(f64s(&gap_btd.grad()).iter().all(|gradient| gradient.is_finite()));
}
