//! Weights of prediction heads, owned; handed out in the forms of [`heads`](super::heads).
//!
//! Axes: `i` inputs, `o` outputs, `d` hidden, `e` embedding, `v` ids.

use trainer_plan::encoder::{EncoderConfig, Gelu};

use super::heads::{Decoder, Dense, TokenHead, Transform};
use crate::device::precision::Precision;
use crate::model::parameters::Path;
use crate::model::weight::Weight;

/// `x Wᵀ + b`.
#[derive(Debug)]
pub(crate) struct DenseWeights {
    weight_oi: Weight,
    bias_o: Weight,
}

impl DenseWeights {
    /// `weight` `[to, from]` and `bias` `[to]` below `path`.
    #[must_use]
    pub(crate) fn build(path: &Path<'_>) -> Self {
        Self { weight_oi: path.weight("weight"), bias_o: path.weight("bias") }
    }

    /// Lends them to products in that precision.
    #[must_use]
    pub(crate) fn lend(&self, precision: Precision) -> Dense {
        Dense { weight_oi: self.weight_oi.lend(precision), bias_o: self.bias_o.lend(precision) }
    }
}

/// `LN(gelu(x Wᵀ + b))`.
#[derive(Debug)]
pub(crate) struct TransformWeights {
    dense: DenseWeights,
    norm_gain_d: Weight,
    norm_bias_d: Weight,
    gelu: Gelu,
    norm_eps: f64,
}

impl TransformWeights {
    /// `dense` and `norm` below `path`: from the hidden states of an encoder of that shape to `to` numbers.
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

    /// Lends them.
    #[must_use]
    pub(crate) fn lend(&self, precision: Precision) -> Transform {
        Transform {
            dense: self.dense.lend(precision),
            norm_gain_d: self.norm_gain_d.lend(precision),
            norm_bias_d: self.norm_bias_d.lend(precision),
            gelu: self.gelu,
            norm_eps: self.norm_eps,
            precision,
        }
    }
}

/// A word table, tied or not, with a number for each id.
#[derive(Debug)]
pub(crate) struct DecoderWeights {
    words_ve: Weight,
    bias_v: Weight,
}

impl DecoderWeights {
    /// `bias` below `path`; the table is that of `words`.
    #[must_use]
    pub(crate) fn tied(words: &Weight, path: &Path<'_>) -> Self {
        Self { words_ve: words.handle(), bias_v: path.weight("bias") }
    }

    /// `bias` and its own table, `decoder.weight`, below `path`.
    #[must_use]
    pub(crate) fn own(path: &Path<'_>) -> Self {
        Self { words_ve: path.sub("decoder").weight("weight"), bias_v: path.weight("bias") }
    }

    /// Lends them.
    #[must_use]
    pub(crate) fn lend(&self, precision: Precision) -> Decoder {
        Decoder { words_vd: self.words_ve.lend(precision), bias_v: self.bias_v.lend(precision), precision }
    }
}

/// The head of masked language modelling.
#[derive(Debug)]
pub(crate) struct TokenHeadWeights {
    transform: TransformWeights,
    decoder: DecoderWeights,
}

impl TokenHeadWeights {
    /// The head of an encoder of that shape, below `path`; it is tied to `words` unless `None`.
    #[must_use]
    pub(crate) fn build(shape: &EncoderConfig, words: Option<&Weight>, path: &Path<'_>) -> Self {
        let decoder = match words {
            Some(words) => DecoderWeights::tied(words, path),
            None => DecoderWeights::own(path),
        };
        Self { transform: TransformWeights::build(shape, path), decoder }
    }

    /// Lends it.
    #[must_use]
    pub(crate) fn lend(&self, precision: Precision) -> TokenHead {
        TokenHead { transform: Some(self.transform.lend(precision)), decoder: self.decoder.lend(precision) }
    }
}
