use tch::{Kind, Tensor};

use super::{Correction, CorrectionHead, LmForm, RestoreTargets, loss};
use crate::device::precision::Precision;
use crate::model::heads::Decoder;
use crate::objectives::replaced_token;

/// Four ids and four positions. Positions 1 and 3 are masked; position 1 is filled with its original token.
struct Example {
    hidden_btd: Tensor,
    words_vd: Tensor,
    bias_v: Tensor,
    weight_d: Tensor,
    bias_1: Tensor,
}

const FED: [i64; 4] = [3, 0, 1, 0];
const ORIGINAL: [i64; 4] = [3, 0, 1, 2];

fn example() -> Example {
    let leaf = |values: &[f64]| Tensor::from_slice(values);
    Example {
        hidden_btd: leaf(&[0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 1.0, 1.0]).view([1, 4, 2]).set_requires_grad(true),
        words_vd: leaf(&[1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0, -1.0]).view([4, 2]).set_requires_grad(true),
        bias_v: leaf(&[0.0; 4]).set_requires_grad(true),
        weight_d: leaf(&[1.0, 0.0]).set_requires_grad(true),
        bias_1: leaf(&[0.5]).set_requires_grad(true),
    }
}

impl Example {
    fn loss(&self, positions: &[i64], form: LmForm, stop_grad: bool) -> Correction {
        let copy = replaced_token::DetectionHead {
            dense: None,
            weight_d: self.weight_d.shallow_clone(),
            bias_1: self.bias_1.shallow_clone(),
            precision: Precision::F32,
        };
        let words_vd = self.words_vd.shallow_clone();
        let bias_v = self.bias_v.shallow_clone();
        let decoder = Decoder { words_vd, bias_v, precision: Precision::F32 };
        let positions_n = Tensor::from_slice(positions);
        let at = |ids: &[i64]| Tensor::from_slice(ids).index_select(0, &positions_n);
        let predicted = RestoreTargets { positions_n: &positions_n, fed_n: &at(&FED), targets_n: &at(&ORIGINAL) };
        let replaced_bt = Tensor::from_slice(&FED).ne_tensor(&Tensor::from_slice(&ORIGINAL)).view([1, 4]);
        loss(&self.hidden_btd, &CorrectionHead { copy, decoder }, &replaced_bt, None, predicted, form, stop_grad)
    }
}

fn number(tensor: &Tensor) -> f64 {
    f64::try_from(tensor.to_kind(Kind::Double)).expect("one number")
}

fn whole(tensor: &Tensor) -> i64 {
    i64::try_from(tensor).expect("one count")
}

fn check(what: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() < 2e-11, "{what}: {found} is not {expected}");
}

#[test]
fn sums_are_those_of_the_worked_example() {
    let example = example();
    let mixture = example.loss(&[1, 3], LmForm::Mixture, true);
    check("copy", number(&mixture.copy.sum), 2.850_980_524_326);
    check("mixture", number(&mixture.lm_sum) / 2.0, 2.305_120_944_020);
    let means = 50.0 * number(&mixture.copy.sum) / 4.0 + number(&mixture.lm_sum) / 2.0;
    check("means", means, 37.942_377_498_091);
    let sums = 50.0 * number(&mixture.copy.sum) + number(&mixture.lm_sum);
    assert!((sums - 147.159_268_104_325).abs() < 1e-10, "{sums}");
    let weighted = number(&example.loss(&[1, 3], LmForm::WeightedCe, true).lm_sum) / 2.0;
    check("weighted", weighted, 0.314_373_774_435);
    check("plain", number(&example.loss(&[1, 3], LmForm::SoftmaxOnly, true).lm_sum) / 2.0, 1.723_299_283_320);
    let all = number(&example.loss(&[0, 1, 2, 3], LmForm::Mixture, false).lm_sum) / 4.0;
    check("all tokens", all, 1.257_894_920_237);
}

#[test]
fn stop_grad_limits_the_gate_to_the_copy_loss() {
    for (form, stop_grad, expected) in [
        (LmForm::Mixture, true, false),
        (LmForm::Mixture, false, true),
        (LmForm::WeightedCe, true, false),
        (LmForm::WeightedCe, false, true),
        (LmForm::SoftmaxOnly, false, false),
    ] {
        let example = example();
        example.loss(&[1, 3], form, stop_grad).lm_sum.backward();
        let reached = example.weight_d.grad().defined() && number(&example.weight_d.grad().abs().max()) > 0.0;
        assert_eq!(reached, expected, "{form:?} with stop_grad {stop_grad}");
        assert!(number(&example.words_vd.grad().abs().max()) > 0.0, "{form:?}: the word table gets a gradient");
    }
}

#[test]
fn a_saturated_gate_keeps_the_loss_finite() {
    let mut example = example();
    for logit in [-2000.0, 2000.0] {
        example.bias_1 = Tensor::from_slice(&[logit]).set_requires_grad(true);
        let sum = example.loss(&[1, 3], LmForm::Mixture, false).lm_sum;
        sum.backward();
        let gradient = number(&example.hidden_btd.grad().abs().max());
        assert!(number(&sum).is_finite() && gradient.is_finite(), "{sum:?} with a gradient of {gradient}");
    }
}

#[test]
fn the_likeliest_id_is_that_of_the_mixture() {
    let mut example = example();
    let hits = |example: &Example| {
        let found = example.loss(&[0, 1, 2, 3], LmForm::Mixture, true);
        assert_eq!([whole(&found.replaced), whole(&found.original)], [1, 3]);
        [whole(&found.replaced_hits), whole(&found.original_hits)]
    };
    // p₁ of 0.62 and 0.82 exceed any q.
    assert_eq!(hits(&example), [0, 3]);
    // A gate that predicts "replaced" everywhere leaves the argmax of q: position 0 ties, 1 and 2 are right, 3 is not.
    example.bias_1 = Tensor::from_slice(&[-50.0]);
    example.bias_v = Tensor::from_slice(&[0.01, 0.0, 0.0, 0.0]);
    assert_eq!(hits(&example), [0, 2]);
    // Id 2 has a large bias: position 3 is restored, 1 and 2 become wrong.
    example.bias_v = Tensor::from_slice(&[0.0, 0.0, 9.0, 0.0]);
    assert_eq!(hits(&example), [1, 0]);
}

#[test]
fn nothing_to_restore_is_a_loss_of_0() {
    let example = example();
    let found = example.loss(&[], LmForm::Mixture, false);
    (&found.copy.sum * 0.0 + &found.lm_sum).backward();
    assert_eq!([whole(&found.replaced), whole(&found.original_hits)], [0; 2]);
    let largest = number(&found.lm_sum).abs() + number(&example.words_vd.grad().abs().max());
    assert!(largest < f64::MIN_POSITIVE, "{largest}");
}
