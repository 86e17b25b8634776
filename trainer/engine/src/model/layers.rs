//! Building blocks of encoder layers: linear maps, layer norms, dropout.

use tch::{Device, Kind, Tensor};

use super::parameters::Path;
use super::weight::Weight;
use crate::device::native::dropout;
use crate::device::native::linear::linear;
use crate::device::precision::Precision;
use crate::device::precision::PrecisionCast as _;

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
    /// Builds the map from `weight` `[to, from]` and `bias` `[to]` below `path`.
    pub(crate) fn build(path: &Path<'_>, precision: Precision) -> Self {
        Self { weight: path.weight("weight"), bias: path.weight("bias"), precision }
    }

    /// Applies the map to the last axis. The result has the precision's compute type.
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.precision.compute(x);
        let [weight, bias] = [&self.weight, &self.bias].map(|weight| weight.pass_leaf(&x));
        linear(&x, &weight, &bias)
    }
}

/// Normalisation over the last axis with a gain and a bias (Ba et al. 2016). Sums are at least float32.
#[derive(Debug)]
pub(crate) struct LayerNorm {
    weight: Weight,
    bias: Weight,
    eps: f64,
}

impl LayerNorm {
    /// Builds the norm from `weight` and `bias`, `[d]` each, below `path`.
    pub(crate) fn build(path: &Path<'_>, eps: f64) -> Self {
        Self { weight: path.weight("weight"), bias: path.weight("bias"), eps }
    }

    /// Returns another handle to the same weights.
    pub(super) fn handle(&self) -> Self {
        Self { weight: self.weight.handle(), bias: self.bias.handle(), eps: self.eps }
    }

    /// Normalises the last axis. The result has the type of `x`.
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        let [weight, bias] = [&self.weight, &self.bias].map(|weight| weight.pass_leaf(x));
        x.layer_norm(weight.size(), Some(&weight), Some(&bias), self.eps, true)
    }
}

/// Sets values to 0 with `probability` and scales the others up to keep the mean (Srivastava et al. 2014). The result
/// has the type of `x`.
pub(crate) fn dropout(x: &Tensor, probability: f64, mode: Mode) -> Tensor {
    dropout_to(x.kind(), x, probability, mode)
}

/// Applies dropout to a value that continues in the type `kind`. On the CPU the result is rounded once, to `kind`. On
/// other devices the result keeps the type of `x`, and the consumer converts it.
///
/// On the CPU, libtorch's dropout draws one number at a time on one thread, 8 ns each, while the other cores are idle.
/// This implementation takes 16 bits for each value from the same generator, many at a time. It needs a quarter of the
/// draws, and its probability is exact to 2⁻¹⁷.
pub(super) fn dropout_to(kind: Kind, x: &Tensor, probability: f64, mode: Mode) -> Tensor {
    if mode == Mode::Eval || probability == 0.0 {
        x.shallow_clone()
    } else if x.device() == Device::Cpu {
        // The 16-bit draws are uniform over −2¹⁵ .. 2¹⁵.
        let threshold = (probability * 65_536.0).round();
        #[expect(clippy::cast_possible_truncation, reason = "between −2¹⁵ and 2¹⁵")]
        let least = (threshold - 32_768.0) as i32;
        dropout::dropout(x, least, 65_536.0 / (65_536.0 - threshold), kind).expect("hidden states have a float type")
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
