//! What an encoder's layers are made of: products, norms, dropout.

use tch::{Device, Kind, Tensor};

use super::parameters::Path;
use super::weight::Weight;
use crate::device::native::dropout;
use crate::device::native::linear::linear;
use crate::device::precision::Cast as _;
use crate::device::precision::Precision;

/// Whether dropout applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Dropout on.
    Train,
    /// Dropout off.
    Eval,
}

/// `x Wᵀ + b` in the run's precision.
#[derive(Debug)]
pub(crate) struct Linear {
    weight: Weight,
    bias: Weight,
    precision: Precision,
}

impl Linear {
    /// `weight` `[to, from]` and `bias` `[to]` below `path`.
    pub(crate) fn build(path: &Path<'_>, precision: Precision) -> Self {
        Self { weight: path.weight("weight"), bias: path.weight("bias"), precision }
    }

    /// Applies to the last axis. The result has the precision's compute type.
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.precision.compute(x);
        let [weight, bias] = [&self.weight, &self.bias].map(|weight| weight.beside(&x));
        linear(&x, &weight, &bias)
    }
}

/// Normalisation over the last axis with a gain and a bias (Ba et al. 2016), added up in float32 at least.
#[derive(Debug)]
pub(crate) struct LayerNorm {
    weight: Weight,
    bias: Weight,
    eps: f64,
}

impl LayerNorm {
    /// `weight` and `bias`, `[d]` each, below `path`.
    pub(crate) fn build(path: &Path<'_>, eps: f64) -> Self {
        Self { weight: path.weight("weight"), bias: path.weight("bias"), eps }
    }

    /// The same weights once more.
    pub(super) fn handle(&self) -> Self {
        Self { weight: self.weight.handle(), bias: self.bias.handle(), eps: self.eps }
    }

    /// Normalises the last axis. The result has the type of `x`.
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        let [weight, bias] = [&self.weight, &self.bias].map(|weight| weight.beside(x));
        x.layer_norm(weight.size(), Some(&weight), Some(&bias), self.eps, true)
    }
}

/// Sets numbers to 0 with `probability` and scales the others up by as much (Srivastava et al. 2014). The result has the
/// type of `x`.
pub(super) fn dropout(x: &Tensor, probability: f64, mode: Mode) -> Tensor {
    dropout_to(x.kind(), x, probability, mode)
}

/// The same of what continues in the type `kind`. On the CPU it is rounded to it, once; elsewhere whoever takes it does that.
///
/// On the CPU libtorch draws one number at a time on one thread, 8 ns each, while the other cores wait. Ours takes 16 bits
/// for each from the same generator, many at a time: a quarter of the draws, and a probability that is right to 2⁻¹⁷.
pub(super) fn dropout_to(kind: Kind, x: &Tensor, probability: f64, mode: Mode) -> Tensor {
    if mode == Mode::Eval || probability == 0.0 {
        x.shallow_clone()
    } else if x.device() == Device::Cpu {
        // Workers are uniform over −2¹⁵ .. 2¹⁵.
        let threshold = (probability * 65_536.0).round();
        #[expect(clippy::cast_possible_truncation, reason = "between −2¹⁵ and 2¹⁵")]
        let least = (threshold - 32_768.0) as i32;
        dropout::dropout(x, least, 65_536.0 / (65_536.0 - threshold), kind)
            .expect("hidden states are numbers of floats")
    } else {
        x.dropout(probability, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::precision::MASTER;
    use crate::testing;

    #[test]
    fn dropout_keeps_its_share_and_the_mean() {
        let _alone = testing::generator();
        tch::manual_seed(5);
        let n = 1_000_003;
        for probability in [0.1, 0.5] {
            let kept = dropout(&Tensor::ones([n], (MASTER, Device::Cpu)), probability, Mode::Train);
            let zeros = f64::try_from(kept.eq(0.0).sum(MASTER)).expect("one number") / 1_000_003.0;
            let mean = f64::try_from(kept.mean(MASTER)).expect("one number");
            // Five standard deviations.
            let spread = 5.0 * (probability * (1.0 - probability) / 1e6).sqrt();
            assert!((zeros - probability).abs() < spread, "{zeros} of the numbers are 0, not {probability}");
            assert!((mean - 1.0).abs() < spread / (1.0 - probability), "the mean is {mean}");
        }
    }
}
