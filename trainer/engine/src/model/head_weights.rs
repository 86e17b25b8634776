//! Weights of prediction heads. Their `leaves` methods return the types of [`heads`](super::heads).
//!
//! Axes: `i` inputs, `o` outputs, `d` hidden, `e` embedding, `v` ids.

use trainer_plan::encoder::{EncoderConfig, Gelu};

use super::heads::{Decoder, Dense, TokenHead, Transform};
use crate::device::precision::Precision;
use crate::model::parameters::Path;
use crate::model::weight::Weight;

/// Weights of `x Wᵀ + b`.
#[derive(Debug)]
pub(crate) struct DenseWeights {
    weight_oi: Weight,
    bias_o: Weight,
}

impl DenseWeights {
    /// Builds the map from `weight` `[to, from]` and `bias` `[to]` below `path`.
    #[must_use]
    pub(crate) fn build(path: &Path<'_>) -> Self {
        Self { weight_oi: path.weight("weight"), bias_o: path.weight("bias") }
    }

    /// Returns leaves for products in `precision`.
    #[must_use]
    pub(crate) fn leaves(&self, precision: Precision) -> Dense {
        Dense { weight_oi: self.weight_oi.use_leaf(precision), bias_o: self.bias_o.use_leaf(precision) }
    }
}

/// Weights of `LN(gelu(x Wᵀ + b))`.
#[derive(Debug)]
pub(crate) struct TransformWeights {
    dense: DenseWeights,
    norm_gain_d: Weight,
    norm_bias_d: Weight,
    gelu: Gelu,
    norm_eps: f64,
}

impl TransformWeights {
    /// Builds the transform of an encoder of that shape from `dense` and `norm` below `path`.
    #[must_use]
    pub(crate) fn build(shape: &EncoderConfig, path: &Path<'_>) -> Self {
        let norm = path.sub("norm");
        Self {
            dense: DenseWeights::build(&path.sub("dense")),
            norm_gain_d: norm.weight("weight"),
            norm_bias_d: norm.weight("bias"),
            gelu: shape.gelu,
            norm_eps: shape.layer_norm_eps,
        }
    }

    /// Returns leaves for products in `precision`.
    #[must_use]
    pub(crate) fn leaves(&self, precision: Precision) -> Transform {
        Transform {
            dense: self.dense.leaves(precision),
            norm_gain_d: self.norm_gain_d.use_leaf_f32(),
            norm_bias_d: self.norm_bias_d.use_leaf_f32(),
            gelu: self.gelu,
            norm_eps: self.norm_eps,
            precision,
        }
    }
}

/// Word table, tied or not, with a bias for each id.
#[derive(Debug)]
pub(crate) struct DecoderWeights {
    words_ve: Weight,
    bias_v: Weight,
}

impl DecoderWeights {
    /// Builds a decoder from `bias` below `path` and the table `words`.
    #[must_use]
    pub(crate) fn tied(words: &Weight, path: &Path<'_>) -> Self {
        Self { words_ve: words.handle(), bias_v: path.weight("bias") }
    }

    /// Builds a decoder from `bias` and its own table, `decoder.weight`, below `path`.
    #[must_use]
    pub(crate) fn own(path: &Path<'_>) -> Self {
        Self { words_ve: path.sub("decoder").weight("weight"), bias_v: path.weight("bias") }
    }

    /// Returns leaves for products in `precision`.
    #[must_use]
    pub(crate) fn leaves(&self, precision: Precision) -> Decoder {
        Decoder { words_vd: self.words_ve.use_leaf(precision), bias_v: self.bias_v.use_leaf(precision), precision }
    }
}

/// Head of masked language modelling.
#[derive(Debug)]
pub(crate) struct TokenHeadWeights {
    transform: TransformWeights,
    decoder: DecoderWeights,
}

impl TokenHeadWeights {
    /// Builds the head of an encoder of that shape below `path`. It is tied to `words` unless that is `None`.
    #[must_use]
    pub(crate) fn build(shape: &EncoderConfig, words: Option<&Weight>, path: &Path<'_>) -> Self {
        let decoder = match words {
            Some(words) => DecoderWeights::tied(words, path),
            None => DecoderWeights::own(path),
        };
        Self { transform: TransformWeights::build(shape, path), decoder }
    }

    /// Returns the head with leaves for products in `precision`.
    #[must_use]
    pub(crate) fn leaves(&self, precision: Precision) -> TokenHead {
        TokenHead { transform: Some(self.transform.leaves(precision)), decoder: self.decoder.leaves(precision) }
    }
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::*;
    use crate::device::precision::MASTER;
    use crate::model::weight::GradLeaves;

    /// bfloat16 would round both gains to 1.
    #[test]
    fn norms_of_heads_have_float32_gains() {
        let leaf = |values: &[f32]| Weight::new(&Tensor::from_slice(values), &GradLeaves::default());
        let identity = Tensor::eye(2, (MASTER, tch::Device::Cpu));
        let transform = TransformWeights {
            dense: DenseWeights {
                weight_oi: Weight::new(&identity, &GradLeaves::default()),
                bias_o: leaf(&[0.0, 0.0]),
            },
            norm_gain_d: leaf(&[1.003, 0.9985]),
            norm_bias_d: leaf(&[0.0, 0.0]),
            gelu: Gelu::Erf,
            norm_eps: 1e-12,
        };
        for precision in [Precision::F32, Precision::Bf16, Precision::Bf16Hidden] {
            let normed_nd = transform.leaves(precision).apply(&Tensor::from_slice2(&[[8.0_f32, 4.0]]));
            let expected = Tensor::from_slice2(&[[1.003_f32, -0.9985]]);
            let error = f64::try_from((&normed_nd - &expected).abs().max()).expect("a number");
            assert!(error < 1e-6, "{precision:?}: {normed_nd:?}");
        }
    }
}
