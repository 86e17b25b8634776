//! The parts that prediction heads are made of. Weights are borrowed: who owns them is the objective's business.
//!
//! Axes: `n` positions, `i` inputs, `o` outputs, `d` hidden, `v` ids.

use tch::Tensor;

use crate::plan::Gelu;
use crate::precision::Precision;

/// `x Wᵀ + b`.
#[derive(Clone, Copy, Debug)]
pub struct Dense<'a> {
    /// `W`, `[o, i]`.
    pub weight_oi: &'a Tensor,
    /// `b`, `[o]`.
    pub bias_o: &'a Tensor,
}

impl Dense<'_> {
    /// `[…, o]` of `[…, i]`, the product computed in `precision`, the result at least float32.
    pub fn apply(&self, x: &Tensor, precision: Precision) -> Tensor {
        let compute = |tensor: &Tensor| precision.compute(tensor);
        precision.widen(&compute(x).linear(&compute(self.weight_oi), Some(&compute(self.bias_o))))
    }
}

/// `LN(gelu(x Wᵀ + b))`: what BERT puts between the encoder and the word table, and COCO-LM before its sequence
/// contrast.
#[derive(Clone, Copy, Debug)]
pub struct Transform<'a> {
    /// `W` and `b`, `[d, d]` and `[d]`.
    pub dense: Dense<'a>,
    /// γ of the norm, `[d]`.
    pub norm_gain_d: &'a Tensor,
    /// β of the norm, `[d]`.
    pub norm_bias_d: &'a Tensor,
    /// Which gelu.
    pub gelu: Gelu,
    /// Added to the variance in the norm.
    pub norm_eps: f64,
    /// How the matrix product is computed.
    pub precision: Precision,
}

impl Transform<'_> {
    /// `[n, d]` of `[n, d]`.
    pub fn apply(&self, hidden_nd: &Tensor) -> Tensor {
        let width = self.norm_gain_d.size()[0];
        let (gain, bias) = (Some(self.norm_gain_d), Some(self.norm_bias_d));
        let gelu_nd = self.dense.apply(hidden_nd, self.precision).gelu(self.gelu.name());
        gelu_nd.layer_norm([width], gain, bias, self.norm_eps, true)
    }
}

/// `x Eᵀ + c` over the tied word table.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    /// `E`, `[v, d]` or more rows: those past the bias are padding.
    pub words_vd: &'a Tensor,
    /// `c`, `[v]`.
    pub bias_v: &'a Tensor,
    /// How the matrix product is computed.
    pub precision: Precision,
}

impl Decoder<'_> {
    /// Scores `[n, rows of E]` of all ids for `[n, d]`, float32 or float64 as these are.
    ///
    /// Padding rows of `E` score −∞: they take no probability and their gradient is exactly 0.
    pub fn logits(&self, hidden_nd: &Tensor) -> Tensor {
        Dense { weight_oi: self.words_vd, bias_o: &self.padded_bias() }.apply(hidden_nd, self.precision)
    }

    fn padded_bias(&self) -> Tensor {
        let padding = self.words_vd.size()[0] - self.bias_v.size()[0];
        assert!(padding >= 0, "the word table has a row for every id");
        if padding == 0 {
            return self.bias_v.shallow_clone();
        }
        let padding_p = Tensor::full([padding], f64::NEG_INFINITY, (self.bias_v.kind(), self.bias_v.device()));
        Tensor::cat(&[self.bias_v, &padding_p], 0)
    }
}
