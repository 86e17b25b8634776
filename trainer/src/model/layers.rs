//! What an encoder's layers are made of: products, norms, dropout.

use tch::{Device, Tensor};

use super::parameters::Path;
use super::weight::Weight;
use crate::device::precision::{INDEX, LANE, MASTER, Precision};

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
    pub(crate) fn build(path: &mut Path<'_>, from: i64, to: i64, precision: Precision) -> Self {
        Self { weight: path.matrix("weight", &[to, from]), bias: path.bias("bias", to), precision }
    }

    /// Applies to the last axis. The result has the precision's compute type.
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.precision.compute(x);
        let [weight, bias] = [&self.weight, &self.bias].map(|weight| weight.beside(&x));
        x.linear(&weight, Some(&bias))
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
    pub(crate) fn build(path: &mut Path<'_>, d: i64, eps: f64) -> Self {
        Self { weight: path.gain("weight", d), bias: path.bias("bias", d), eps }
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

/// Sets numbers to 0 with `probability` and scales the others up by as much (Srivastava et al. 2014).
///
/// On the CPU libtorch draws one number at a time on one thread, 8 ns each, while the other cores wait. We draw 64 bits
/// at a time and let all cores compare 16-bit lanes: a quarter of the draws, and a probability that is right to 2⁻¹⁷.
pub(super) fn dropout(x: &Tensor, probability: f64, mode: Mode) -> Tensor {
    if mode == Mode::Eval || probability == 0.0 {
        x.shallow_clone()
    } else if x.device() == Device::Cpu {
        x * kept(&x.size(), probability)
    } else {
        x.dropout(probability, true)
    }
}

/// 0 with `probability`, else the factor that keeps the mean.
fn kept(shape: &[i64], probability: f64) -> Tensor {
    const LANES: i64 = 4;
    let count: i64 = shape.iter().product();
    let draws = Tensor::empty([(count + LANES - 1) / LANES], (INDEX, Device::Cpu)).random_from(i64::MIN, None);
    let lanes = draws.view_dtype(LANE).narrow(0, 0, count).view(shape);
    // Lanes are uniform over −2¹⁵ .. 2¹⁵.
    let threshold = (probability * 65_536.0).round();
    lanes.ge(threshold - 32_768.0).to_kind(MASTER) * (65_536.0 / (65_536.0 - threshold))
}

#[cfg(test)]
mod tests {
    use super::*;
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
