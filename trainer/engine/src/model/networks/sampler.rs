//! Sampling of the ids that replace masked tokens.
//!
//! Axes: `n` positions to predict, `v` ids.

use schemas::SpecialIds;
use tch::{Device, Kind, Tensor};
use trainer_plan::networks::generator::{Draw, Sampling};

use crate::device::precision::{INDEX, MASTER};
use crate::device::tensors::as_i64;
use crate::model::head_weights::TokenHeadWeights;
use crate::model::layers::Mode;

/// Sampler of a generator, with its prediction head.
#[derive(Debug)]
pub(crate) struct TokenSampler {
    pub(super) input_view: String,
    pub(super) makes: String,
    pub(super) sampling: Sampling,
    pub(super) draw: Draw,
    pub(super) exclude_special_tokens: bool,
    pub(super) head: Option<TokenHeadWeights>,
    pub(super) vocab_size: i64,
    pub(super) special: SpecialIds,
}

impl TokenSampler {
    /// Returns the name of the input view.
    #[must_use]
    pub(crate) fn input_view(&self) -> &str {
        &self.input_view
    }

    /// Returns the name of the output view.
    #[must_use]
    pub(crate) fn output_view(&self) -> &str {
        &self.makes
    }

    /// Returns the head; `None` for a uniform generator.
    #[must_use]
    pub(crate) fn head(&self) -> Option<&TokenHeadWeights> {
        self.head.as_ref()
    }

    /// Returns whether sampling uses the random bits that rows carry.
    #[must_use]
    pub(crate) fn uses_row_draws(&self) -> bool {
        self.draw == Draw::InverseCdf
    }

    /// Returns the encoder's mode for sampling when the run is in `mode`.
    #[must_use]
    pub(crate) fn sampling_mode(&self, mode: Mode) -> Mode {
        if self.sampling == Sampling::Eval { Mode::Eval } else { mode }
    }

    /// Samples an id for each position, `[n]`, int64, from logits `[n, v]` without gradient. If rows carry their draws,
    /// `draws_n` has a number in (0, 1) for each position.
    pub(crate) fn sample(&self, logits_nv: &Tensor, draws_n: Option<&Tensor>) -> Tensor {
        let logits_nv = logits_nv.narrow(1, 0, self.vocab_size).to_kind(MASTER);
        let logits_nv = if self.exclude_special_tokens { without(&logits_nv, self.special) } else { logits_nv };
        match self.draw {
            Draw::InverseCdf => inverse_cdf(&logits_nv, draws_n.expect("the draws of the rows are on the device")),
            Draw::Gumbel => gumbel(&logits_nv),
            Draw::Multinomial => multinomial(&logits_nv),
        }
    }

    /// Samples an id for each of `count` positions, uniformly over all ids.
    pub(crate) fn sample_uniform(&self, draws_n: Option<&Tensor>, count: usize, device: Device) -> Tensor {
        if count == 0 {
            return Tensor::zeros([0], (INDEX, device));
        }
        self.sample(&Tensor::zeros([as_i64(count), self.vocab_size], (MASTER, device)), draws_n)
    }
}

fn without(logits_nv: &Tensor, special: SpecialIds) -> Tensor {
    // One id at a time: a list of ids would have to be copied to the device.
    special.iter().fold(logits_nv.copy(), |logits_nv, id| {
        let _ = logits_nv.select(1, i64::from(id)).fill_(f64::NEG_INFINITY);
        logits_nv
    })
}

/// Returns the first id at which the cumulative probability exceeds `draws_n` of the total. An id without probability
/// is never chosen. If the scores are not numbers, the result is the last id: the step is then skipped and does not
/// crash.
pub(crate) fn inverse_cdf(logits_nv: &Tensor, draws_n: &Tensor) -> Tensor {
    let cumulative_nv = logits_nv.softmax(-1, MASTER).cumsum(-1, MASTER);
    let last = logits_nv.size()[1] - 1;
    // Slightly less than the total, so that rounding cannot exceed it: 2⁻²² of the draws move.
    let whole_n1 = cumulative_nv.narrow(1, last, 1) * (1.0 - 2_f64.powi(-22));
    let target_n1 = draws_n.unsqueeze(1) * whole_n1;
    target_n1.searchsorted(&cumulative_nv, false, true, "right", None::<&Tensor>).squeeze_dim(-1).clamp_max(last)
}

/// Returns the winner of a race of exponential clocks: bit for bit the result of libtorch's `multinomial` for one
/// sample. libtorch's version reads values back from the device twice and aborts the process if a probability is not a
/// number. Here such probabilities count as equal.
fn multinomial(logits_nv: &Tensor) -> Tensor {
    let probabilities_nv = logits_nv.softmax(-1, MASTER).nan_to_num(1.0, None, None);
    let clocks_nv = probabilities_nv.empty_like().exponential_(1.0);
    (probabilities_nv / clocks_nv).argmax(-1, false)
}

fn gumbel(logits_nv: &Tensor) -> Tensor {
    let uniform_nv = Tensor::rand(logits_nv.size(), (Kind::Float, logits_nv.device())).clamp(1e-20, 1.0 - 1e-7);
    (logits_nv - uniform_nv.log().neg().log()).argmax(-1, false)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read values back to the host")]
mod tests {
    use super::*;
    use crate::testing;

    /// Compares the share of each id among samples with its expected probability (chi-square test).
    fn check(sample: impl Fn(&Tensor, i64) -> Tensor) {
        let rows = 40_000;
        let logits_v = Tensor::from_slice(&[0.0_f32, 1.0, f32::NEG_INFINITY, -1.0, 2.0, 0.5]);
        let ids_n = sample(&logits_v.unsqueeze(0).expand([rows, 6], false), rows);
        let counts = ids_n.bincount(None::<&Tensor>, 6).to_kind(Kind::Double);
        let expected = logits_v.softmax(-1, Kind::Double) * rows as f64;
        assert!(f64::try_from(counts.get(2)).expect("one number") < 0.5, "an id without probability was drawn");
        let rest = Tensor::from_slice(&[0_i64, 1, 3, 4, 5]);
        let counts = counts.index_select(0, &rest);
        let expected = expected.index_select(0, &rest);
        let chi_square = f64::try_from(((&counts - &expected).square() / &expected).sum(Kind::Double)).expect("one");
        // 4 degrees of freedom: the probability of exceeding 18.5 is 0.001.
        assert!(chi_square < 18.5, "{chi_square}: {counts:?} against {expected:?}");
    }

    #[test]
    fn samples_follow_the_softmax() {
        let _alone = testing::generator();
        tch::manual_seed(11);
        check(|logits_nv, rows| {
            let draws_n = (Tensor::randperm(rows, (Kind::Float, tch::Device::Cpu)) + 0.5) / rows as f64;
            inverse_cdf(logits_nv, &draws_n)
        });
        check(|logits_nv, _| gumbel(logits_nv));
        check(|logits_nv, _| multinomial(logits_nv));
    }

    #[test]
    fn a_race_of_clocks_draws_what_libtorch_draws() {
        let _alone = testing::generator();
        let logits_nv = Tensor::from_slice(&[0.0_f32, 1.0, f32::NEG_INFINITY, -1.0, 2.0, 0.5]).expand([500, 6], false);
        tch::manual_seed(12);
        let ours = multinomial(&logits_nv);
        tch::manual_seed(12);
        assert_eq!(ours, logits_nv.softmax(-1, MASTER).multinomial(1, true).squeeze_dim(-1));
    }

    #[test]
    fn scores_that_are_no_numbers_give_ids_of_the_vocabulary() {
        let _alone = testing::generator();
        // The vocabulary size equals the number of rows of the table: one more id would be out of range.
        for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let logits_nv = Tensor::full([3, 64], f64::from(broken), (MASTER, Device::Cpu));
            let draws_n = Tensor::from_slice(&[1e-7_f32, 0.5, 1.0 - 1e-7]);
            for ids_n in [inverse_cdf(&logits_nv, &draws_n), gumbel(&logits_nv), multinomial(&logits_nv)] {
                let ids = Vec::<i64>::try_from(ids_n).expect("ids");
                assert!(ids.iter().all(|id| (0..64).contains(id)), "{broken}: {ids:?}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_unit_interval_are_ids() {
        let logits_nv = Tensor::from_slice(&[f32::NEG_INFINITY, 0.0, 0.0, f32::NEG_INFINITY]).expand([2, 4], false);
        let draws_n = Tensor::from_slice(&[1.0 / 16_777_216.0, 16_777_215.0 / 16_777_216.0_f32]);
        assert_eq!(Vec::<i64>::try_from(inverse_cdf(&logits_nv, &draws_n)).expect("ids"), [1, 2]);
    }
}
