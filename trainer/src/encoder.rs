//! The BERT encoder, all of it.
//!
//! Post-LayerNorm, as in Devlin et al. 2019 and Hugging Face's `BertModel`: embeddings are the sum of word, position
//! and token-type rows, normalised and dropped out; a layer is `x = LN(x + drop(attention(x)))`, then
//! `x = LN(x + drop(W₂ gelu(W₁ x)))`. Dropout applies to attention probabilities and to both sublayers' outputs.
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `h` heads, `k` = d / h, `f` feed-forward, `v` words.
//!
//! | weight, below `encoder.` | shape | Hugging Face, below `bert.` |
//! |---|---|---|
//! | `embeddings.word.weight` | padded `v`, d | `embeddings.word_embeddings.weight` (`v` rows) |
//! | `embeddings.position.weight` | positions, d | `embeddings.position_embeddings.weight` |
//! | `embeddings.token_type.weight` | 2, d | `embeddings.token_type_embeddings.weight` |
//! | `embeddings.norm.{weight,bias}` | d | `embeddings.LayerNorm.*` |
//! | `layers.N.attention.qkv.{weight,bias}` | 3d, d | `encoder.layer.N.attention.self.{query,key,value}.*`, in that order |
//! | `layers.N.attention.output.{weight,bias}` | d, d | `encoder.layer.N.attention.output.dense.*` |
//! | `layers.N.attention.norm.{weight,bias}` | d | `encoder.layer.N.attention.output.LayerNorm.*` |
//! | `layers.N.feed_forward.input.{weight,bias}` | f, d | `encoder.layer.N.intermediate.dense.*` |
//! | `layers.N.feed_forward.output.{weight,bias}` | d, f | `encoder.layer.N.output.dense.*` |
//! | `layers.N.feed_forward.norm.{weight,bias}` | d | `encoder.layer.N.output.LayerNorm.*` |

use tch::Tensor;

use crate::networks::padded_rows;
use crate::parameters::Path;
use crate::plan::{EncoderConfig, Gelu};
use crate::precision::Precision;

/// Whether dropout applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Dropout on.
    Train,
    /// Dropout off.
    Eval,
}

/// What one pass over one view gives.
#[derive(Debug)]
pub struct Encoded {
    /// Output of the last layer, float32.
    pub hidden_btd: Tensor,
    /// Output of the embedding block, after norm and dropout, of the same pass ("hidden state 0"), float32.
    pub embeddings_btd: Tensor,
}

/// The encoder.
#[derive(Debug)]
pub struct Encoder {
    word: Tensor,
    position: Tensor,
    token_type: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
    dropout: f64,
}

impl Encoder {
    /// Makes the weights below `path`.
    #[must_use]
    pub fn build(config: &EncoderConfig, vocab_size: u32, precision: Precision, path: &mut Path<'_>) -> Self {
        let hidden = i64::from(config.hidden);
        let mut embeddings = path.sub("embeddings");
        let shape = [padded_rows(vocab_size), hidden];
        let word = embeddings.sub("word").table("weight", &shape, i64::from(vocab_size));
        let position = embeddings.sub("position").matrix("weight", &[i64::from(config.positions), hidden]);
        // Rows are single segments, type 0; the second row is kept for the checkpoints of others.
        let token_type = embeddings.sub("token_type").matrix("weight", &[2, hidden]);
        let norm = LayerNorm::build(&mut embeddings.sub("norm"), hidden, config.layer_norm_eps);
        let mut layers = path.sub("layers");
        let layers =
            (0..config.layers).map(|n| Layer::build(&mut layers.sub(&n.to_string()), config, precision)).collect();
        Self { word, position, token_type, norm, layers, dropout: config.dropout }
    }

    /// The word table, `[padded rows, d]`.
    pub fn word_table(&self) -> &Tensor {
        &self.word
    }

    /// Encodes rows. `valid_bt` is true on real tokens; `None` where all are, which is faster.
    #[must_use]
    pub fn forward(&self, ids_bt: &Tensor, valid_bt: Option<&Tensor>, mode: Mode) -> Encoded {
        let embeddings_btd = self.embed(ids_bt, mode);
        let valid_b11t = valid_bt.map(|valid| valid.unsqueeze(1).unsqueeze(1));
        let mut hidden_btd = embeddings_btd.shallow_clone();
        for layer in &self.layers {
            hidden_btd = layer.forward(&hidden_btd, valid_b11t.as_ref(), mode);
        }
        Encoded { hidden_btd, embeddings_btd }
    }

    fn embed(&self, ids_bt: &Tensor, mode: Mode) -> Tensor {
        let width = ids_bt.size()[1];
        let place_td = self.position.narrow(0, 0, width) + self.token_type.get(0);
        let sum_btd = Tensor::embedding(&self.word, ids_bt, -1, false, false) + place_td;
        dropout(&self.norm.forward(&sum_btd), self.dropout, mode)
    }
}

#[derive(Debug)]
struct Layer {
    qkv: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    input: Linear,
    output: Linear,
    norm: LayerNorm,
    heads: i64,
    gelu: Gelu,
    dropout: f64,
    precision: Precision,
}

impl Layer {
    fn build(path: &mut Path<'_>, config: &EncoderConfig, precision: Precision) -> Self {
        let (d, f) = (i64::from(config.hidden), i64::from(config.feed_forward));
        let mut attention = path.sub("attention");
        let qkv = Linear::build(&mut attention.sub("qkv"), d, 3 * d, precision);
        let attention_output = Linear::build(&mut attention.sub("output"), d, d, precision);
        let attention_norm = LayerNorm::build(&mut attention.sub("norm"), d, config.layer_norm_eps);
        let mut feed_forward = path.sub("feed_forward");
        Self {
            qkv,
            attention_output,
            attention_norm,
            input: Linear::build(&mut feed_forward.sub("input"), d, f, precision),
            output: Linear::build(&mut feed_forward.sub("output"), f, d, precision),
            norm: LayerNorm::build(&mut feed_forward.sub("norm"), d, config.layer_norm_eps),
            heads: i64::from(config.heads),
            gelu: config.gelu,
            dropout: config.dropout,
            precision,
        }
    }

    fn forward(&self, x_btd: &Tensor, valid_b11t: Option<&Tensor>, mode: Mode) -> Tensor {
        let attended_btd = self.attend(x_btd, valid_b11t, mode);
        let x_btd = self.attention_norm.forward(&(x_btd + dropout(&attended_btd, self.dropout, mode)));
        let inner_btf = self.input.forward(&x_btd).gelu(self.gelu.name());
        let outer_btd = self.precision.widen(&self.output.forward(&inner_btf));
        self.norm.forward(&(x_btd + dropout(&outer_btd, self.dropout, mode)))
    }

    fn attend(&self, x_btd: &Tensor, valid_b11t: Option<&Tensor>, mode: Mode) -> Tensor {
        let (b, t, d) = x_btd.size3().expect("hidden states have three axes");
        let qkv = self.qkv.forward(x_btd).view([b, t, 3, self.heads, d / self.heads]).permute([2, 0, 3, 1, 4]);
        let dropped = if mode == Mode::Train { self.dropout } else { 0.0 };
        let mixed_bhtk = Tensor::scaled_dot_product_attention(
            &qkv.get(0),
            &qkv.get(1),
            &qkv.get(2),
            valid_b11t,
            dropped,
            false,
            None,
            false,
        );
        let mixed_btd = mixed_bhtk.transpose(1, 2).reshape([b, t, d]);
        self.precision.widen(&self.attention_output.forward(&mixed_btd))
    }
}

/// `x Wᵀ + b` in the run's precision.
#[derive(Debug)]
pub struct Linear {
    weight: Tensor,
    bias: Tensor,
    precision: Precision,
}

impl Linear {
    /// `weight` `[to, from]` and `bias` `[to]` below `path`.
    pub fn build(path: &mut Path<'_>, from: i64, to: i64, precision: Precision) -> Self {
        Self { weight: path.matrix("weight", &[to, from]), bias: path.bias("bias", to), precision }
    }

    /// Applies to the last axis. The result has the precision's compute type.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let compute = |tensor: &Tensor| self.precision.compute(tensor);
        compute(x).linear(&compute(&self.weight), Some(&compute(&self.bias)))
    }
}

/// Normalisation over the last axis with a gain and a bias (Ba et al. 2016), in float32.
#[derive(Debug)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

impl LayerNorm {
    /// `weight` and `bias`, `[d]` each, below `path`.
    pub fn build(path: &mut Path<'_>, d: i64, eps: f64) -> Self {
        Self { weight: path.gain("weight", d), bias: path.bias("bias", d), eps }
    }

    /// Normalises the last axis.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(self.weight.size(), Some(&self.weight), Some(&self.bias), self.eps, true)
    }
}

fn dropout(x: &Tensor, probability: f64, mode: Mode) -> Tensor {
    if mode == Mode::Eval || probability == 0.0 { x.shallow_clone() } else { x.dropout(probability, true) }
}
