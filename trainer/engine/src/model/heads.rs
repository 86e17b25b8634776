//! Building blocks of prediction heads. They hold handles to weights; the objective owns the weights.
//!
//! Axes: `n` positions, `i` inputs, `o` outputs, `d` hidden, `v` ids.

use tch::Tensor;
use trainer_plan::encoder::Gelu;

use crate::device::precision::Precision;
use crate::device::precision::PrecisionCast as _;

/// `x Wᵀ + b`.
#[derive(Debug)]
pub(crate) struct Dense {
    /// `W`, `[o, i]`, in the type of the products.
    pub weight_oi: Tensor,
    /// `b`, `[o]`, in the type of the products.
    pub bias_o: Tensor,
}

impl Dense {
    /// Maps `[…, i]` to `[…, o]`. The computation and the result have the type of `precision`.
    pub(crate) fn apply(&self, x: &Tensor, precision: Precision) -> Tensor {
        precision.compute(x).linear(&self.weight_oi, Some(&self.bias_o))
    }
}

/// Transform `LN(gelu(x Wᵀ + b))`. BERT has it between the encoder and the word table, COCO-LM before its sequence
/// contrast.
#[derive(Debug)]
pub(crate) struct Transform {
    /// `W` and `b`, `[d, d]` and `[d]`.
    pub dense: Dense,
    /// γ of the norm, `[d]`, at least float32.
    pub norm_gain_d: Tensor,
    /// β of the norm, `[d]`, at least float32.
    pub norm_bias_d: Tensor,
    /// Variant of GELU.
    pub gelu: Gelu,
    /// Epsilon added to the variance in the norm.
    pub norm_eps: f64,
    /// Precision of the computation.
    pub precision: Precision,
}

impl Transform {
    /// Maps `[n, d]` to `[n, d]`. The norm and the result are at least float32.
    pub(crate) fn apply(&self, hidden_nd: &Tensor) -> Tensor {
        let width = self.norm_gain_d.size()[0];
        let gain = Some(&self.norm_gain_d);
        let bias = Some(&self.norm_bias_d);
        let gelu_nd = self.dense.apply(hidden_nd, self.precision).gelu(self.gelu.name());
        self.precision.upcast(&gelu_nd).layer_norm([width], gain, bias, self.norm_eps, true)
    }
}

/// `x Eᵀ + c` over the tied word table.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// `E`, `[v, d]` or with more rows: rows past the bias are padding.
    pub words_vd: Tensor,
    /// `c`, `[v]`.
    pub bias_v: Tensor,
    /// Precision of the matrix product.
    pub precision: Precision,
}

impl Decoder {
    /// Returns the scores `[n, rows of E]` of all ids for `[n, d]`. The result is float64 for float64 input, else
    /// float32.
    ///
    /// Padding rows of `E` score −∞: their probability is 0 and their gradient is exactly 0.
    pub(crate) fn logits(&self, hidden_nd: &Tensor) -> Tensor {
        self.scores(&self.dense(), hidden_nd)
    }

    /// Returns the table with a bias for each row, to be built once for all positions.
    pub(super) fn dense(&self) -> Dense {
        Dense { weight_oi: self.words_vd.shallow_clone(), bias_o: self.padded_bias() }
    }

    /// Computes the same as [`logits`](Self::logits), with a prebuilt [`dense`](Self::dense).
    pub(super) fn scores(&self, dense: &Dense, hidden_nd: &Tensor) -> Tensor {
        self.precision.upcast(&dense.apply(hidden_nd, self.precision))
    }

    fn padded_bias(&self) -> Tensor {
        let padding = self.words_vd.size()[0] - self.bias_v.size()[0];
        assert!(padding >= 0, "the word table needs a row for every id");
        if padding == 0 {
            return self.bias_v.shallow_clone();
        }
        let padding_p = Tensor::full([padding], f64::NEG_INFINITY, (self.bias_v.kind(), self.bias_v.device()));
        Tensor::cat(&[&self.bias_v, &padding_p], 0)
    }
}

/// Prediction head: an optional transform, then the word table.
#[derive(Debug)]
pub(crate) struct TokenHead {
    /// `LN(gelu(h Wᵀ + b))`; `None` if the table is applied to the hidden states directly.
    pub transform: Option<Transform>,
    /// `· Eᵀ + c`.
    pub decoder: Decoder,
}

impl TokenHead {
    /// Returns the scores `[n, rows of E]` of all ids for hidden states `[n, d]`. Padding rows of `E` score −∞.
    pub(crate) fn logits(&self, hidden_nd: &Tensor) -> Tensor {
        self.decoder.logits(&self.transformed(hidden_nd))
    }

    /// Returns the scores `[…, k]` of the ids `ids_k` for hidden states `[…, d]`. Only their rows of the table are read.
    pub(crate) fn logits_of(&self, hidden: &Tensor, ids_k: &Tensor) -> Tensor {
        let Decoder { words_vd, bias_v, precision } = &self.decoder;
        let dense = Dense { weight_oi: words_vd.index_select(0, ids_k), bias_o: bias_v.index_select(0, ids_k) };
        precision.upcast(&dense.apply(&self.transformed(hidden), *precision))
    }

    /// Returns the input of the table, `[n, d]`.
    pub(super) fn transformed(&self, hidden_nd: &Tensor) -> Tensor {
        self.transform.as_ref().map_or_else(|| hidden_nd.shallow_clone(), |transform| transform.apply(hidden_nd))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read values back to the host")]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::Decoder;
    use crate::device::precision::Precision;

    const F64: (Kind, Device) = (Kind::Double, Device::Cpu);

    #[test]
    fn padding_rows_of_the_table_have_no_effect() {
        let hidden_nd = Tensor::arange(6, F64).view([2, 3]);
        let words_vd = Tensor::arange(12, F64).view([4, 3]) / 10.0;
        let bias_v = Tensor::arange(4, F64);
        let padded_vd = Tensor::cat(&[words_vd.shallow_clone(), Tensor::ones([2, 3], F64)], 0).set_requires_grad(true);
        let words_vd = words_vd.set_requires_grad(true);
        let normaliser = |words_vd: &Tensor| {
            let words_vd = words_vd.shallow_clone();
            let bias_v = bias_v.shallow_clone();
            let logits_nv = Decoder { words_vd, bias_v, precision: Precision::F32 }.logits(&hidden_nd);
            let sum = logits_nv.logsumexp([1], false).sum(Kind::Double);
            sum.backward();
            f64::try_from(sum).expect("one number")
        };
        assert!((normaliser(&words_vd) - normaliser(&padded_vd)).abs() < 1e-12);
        let grad_vd = padded_vd.grad();
        assert!(grad_vd.narrow(0, 0, 4).allclose(&words_vd.grad(), 1e-12, 1e-12, false));
        assert_eq!(i64::try_from(grad_vd.narrow(0, 4, 2).count_nonzero(None)).expect("a count"), 0);
    }
}
