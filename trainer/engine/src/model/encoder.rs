//! BERT encoder: embeddings, layers, attention.
//!
//! Post-LayerNorm, as in Devlin et al. 2019 and Hugging Face's `BertModel`. Embeddings are the sum of word, position
//! and token-type rows, followed by norm and dropout. A layer computes `x = LN(x + drop(attention(x)))`, then
//! `x = LN(x + drop(W₂ gelu(W₁ x)))`. Dropout applies to attention probabilities and to both sublayers' outputs.
//!
//! Three options: tables narrower than the hidden states, with one matrix between (Clark et al. 2020); tables that
//! belong to another network of the run (ELECTRA, COCO-LM); and a learned bias for each head and bucket of relative
//! positions, added to the scaled products of queries and keys
//! ([`relative_positions`](crate::model::relative_positions)).
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `e` embedding (= d unless configured), `h` heads, `k` = d / h,
//! `f` feed-forward, `v` words, `u` buckets.
//!
//! | weight, below `encoder.` | shape | Hugging Face, below `bert.`, `roberta.` or `electra.` ([`hf`](crate::hf)) |
//! |---|---|---|
//! | `embeddings.word.weight` | padded `v`, e | `embeddings.word_embeddings.weight` (`v` rows) |
//! | `embeddings.position.weight` | positions, e | `embeddings.position_embeddings.weight` |
//! | `embeddings.token_type.weight` | 2, e | `embeddings.token_type_embeddings.weight` |
//! | `embeddings.norm.{weight,bias}` | e | `embeddings.LayerNorm.*` |
//! | `embeddings.project.{weight,bias}` where e ≠ d | d, e | `embeddings_project.*` (ELECTRA) |
//! | `relative.weight` where configured | u, h | |
//! | `layers.N.attention.qkv.{weight,bias}` | 3d, d | `encoder.layer.N.attention.self.{query,key,value}.*`, in that order |
//! | `layers.N.attention.output.{weight,bias}` | d, d | `encoder.layer.N.attention.output.dense.*` |
//! | `layers.N.attention.norm.{weight,bias}` | d | `encoder.layer.N.attention.output.LayerNorm.*` |
//! | `layers.N.feed_forward.input.{weight,bias}` | f, d | `encoder.layer.N.intermediate.dense.*` |
//! | `layers.N.feed_forward.output.{weight,bias}` | d, f | `encoder.layer.N.output.dense.*` |
//! | `layers.N.feed_forward.norm.{weight,bias}` | d | `encoder.layer.N.output.LayerNorm.*` |

use tch::{Device, Tensor};
use trainer_plan::encoder::{EncoderConfig, Gelu};

use crate::device::precision::{MASTER, Precision, PrecisionCast};
use crate::device::step_timer::{ATTENTION, EMBEDDINGS, FEED_FORWARD, NORM, timed};
use crate::model::layers::{LayerNorm, Linear, Mode, dropout, dropout_to};
use crate::model::parameters::Path;
use crate::model::relative_positions::PositionBias;
use crate::model::weight::Weight;

/// Output of one pass over one view.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// Output of the last layer, float32.
    pub hidden_btd: Tensor,
    // Output of the embedding block, in the type of its last operation.
    block_btd: Tensor,
    // Outputs of all layers, in the type of hidden states. Empty unless they were asked for.
    layers: Vec<Tensor>,
    precision: Precision,
}

impl Encoded {
    /// Returns the output of a layer, float32: that of the embedding block for 0.
    ///
    /// # Panics
    /// If the pass did not keep its layers.
    pub(crate) fn layer_btd(&self, layer: usize) -> Tensor {
        match layer {
            0 => self.embeddings_btd(),
            _ => self.precision.upcast(&self.layers[layer - 1]),
        }
    }

    /// Returns the output of the embedding block of the same pass, after norm, dropout and projection ("hidden state
    /// 0"), float32.
    pub(crate) fn embeddings_btd(&self) -> Tensor {
        self.precision.upcast(&self.block_btd)
    }
}

/// Input of an encoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    /// Ids, int64, `[b, t]`.
    pub ids_bt: &'a Tensor,
    /// Segments, 0 or 1, int64, `[b, t]`; `None` if all are 0.
    pub token_types_bt: Option<&'a Tensor>,
    /// True on real tokens, `[b, t]`, or `[1, t]` if all rows are equally long. `None` if all tokens are real, which is
    /// faster.
    pub valid_bt: Option<&'a Tensor>,
    /// Document structure, if attention is limited to documents that share rows.
    pub packed: Option<Documents<'a>>,
}

/// Document structure of rows, int64, `[b, t]` each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Documents<'a> {
    /// Index of the document within the row.
    pub documents_bt: &'a Tensor,
    /// Position within the document, which selects the row of the position table.
    pub places_bt: &'a Tensor,
}

/// Weights of the embedding block that another network of the run owns.
#[derive(Debug, Default)]
pub(crate) struct Shared<'a> {
    /// Word table.
    pub word: Option<&'a Weight>,
    /// Position table.
    pub position: Option<&'a Weight>,
    /// Table of segments.
    pub token_type: Option<&'a Weight>,
    /// Norm.
    pub norm: Option<&'a LayerNorm>,
}

/// Encoder with handles to its weights.
#[derive(Debug)]
pub(crate) struct Encoder {
    word: Weight,
    position: Weight,
    token_type: Weight,
    norm: LayerNorm,
    project: Option<Linear>,
    relative: Option<PositionBias>,
    layers: Vec<Layer>,
    // Layers from the input that are not trained, if the embeddings are not either.
    frozen_layers: usize,
    dropout: f64,
    precision: Precision,
}

impl Encoder {
    /// Builds the encoder from the weights below `path`, except those that are `shared`.
    #[must_use]
    pub(crate) fn build(config: &EncoderConfig, precision: Precision, shared: &Shared<'_>, path: &Path<'_>) -> Self {
        let embeddings = path.sub("embeddings");
        let own = |shared: Option<&Weight>, name| {
            shared.map_or_else(|| embeddings.sub(name).weight("weight"), Weight::handle)
        };
        let word = own(shared.word, "word");
        let position = own(shared.position, "position");
        let token_type = own(shared.token_type, "token_type");
        let norm = shared
            .norm
            .map_or_else(|| LayerNorm::build(&embeddings.sub("norm"), config.layer_norm_eps), LayerNorm::handle);
        let is_projected = config.embedding_width() != i64::from(config.hidden);
        let project = is_projected.then(|| Linear::build(&embeddings.sub("project"), precision));
        let buckets = config.relative_positions.buckets();
        let relative = buckets.map(|buckets| PositionBias::build(buckets, config.max_positions, path));
        let layers = path.sub("layers");
        let layers = (0..config.layers).map(|n| Layer::build(&layers.sub(&n.to_string()), config, precision)).collect();
        let frozen_layers = config.frozen_layers().unwrap_or(0) as usize;
        let dropout = config.dropout;
        Self { word, position, token_type, norm, project, relative, layers, frozen_layers, dropout, precision }
    }

    /// Returns the word table, `[padded rows, e]`.
    pub(crate) fn word_table(&self) -> &Weight {
        &self.word
    }

    /// Returns the parts of the embedding block, to be shared with another network.
    #[must_use]
    pub(crate) fn embedding_block(&self) -> Shared<'_> {
        Shared {
            word: Some(&self.word),
            position: Some(&self.position),
            token_type: Some(&self.token_type),
            norm: Some(&self.norm),
        }
    }

    /// Encodes rows.
    #[must_use]
    pub(crate) fn forward(&self, input: Input<'_>, mode: Mode) -> Encoded {
        self.pass(None, input, mode, false)
    }

    /// Encodes rows and keeps the output of every layer, for [`Encoded::layer_btd`].
    #[must_use]
    pub(crate) fn forward_keeping_layers(&self, input: Input<'_>, mode: Mode) -> Encoded {
        self.pass(None, input, mode, true)
    }

    /// Encodes rows with the first `layers` layers. The random draws are those of the same layers of a whole pass.
    /// Autograd records only what depends on a trained weight: frozen layers keep nothing for a backward pass.
    #[must_use]
    pub(crate) fn forward_to(&self, layers: Option<u32>, input: Input<'_>, mode: Mode) -> Encoded {
        self.pass(layers, input, mode, false)
    }

    fn pass(&self, depth: Option<u32>, input: Input<'_>, mode: Mode, keeps_layers: bool) -> Encoded {
        let block_btd = self.embed(input, mode);
        let bias = self.attention_bias(input, mode);
        // The alias makes autograd sum the gradients from the layers before those from the objectives. Activation
        // checkpointing uses the same order.
        let mut hidden_btd = self.precision.hidden(&block_btd.alias());
        let mut layers = Vec::new();
        for layer in self.first(depth) {
            hidden_btd = layer.forward(&hidden_btd, bias.as_ref(), mode);
            if keeps_layers {
                layers.push(hidden_btd.shallow_clone());
            }
        }
        Encoded { hidden_btd: self.precision.upcast(&hidden_btd), block_btd, layers, precision: self.precision }
    }

    /// Returns the first `layers` layers.
    fn first(&self, layers: Option<u32>) -> &[Layer] {
        &self.layers[..layers.map_or(self.layers.len(), |layers| layers as usize)]
    }

    fn embed(&self, input: Input<'_>, mode: Mode) -> Tensor {
        timed(EMBEDDINGS, || self.embedded(input, mode))
    }

    fn embedded(&self, input: Input<'_>, mode: Mode) -> Tensor {
        let position = match input.packed {
            None => self.position.pass_leaf_f32().narrow(0, 0, input.ids_bt.size()[1]),
            Some(packed) => Tensor::embedding(&self.position.pass_leaf_f32(), packed.places_bt, -1, false, false),
        };
        let place = match input.token_types_bt {
            None => position + self.token_type.pass_leaf_f32().get(0),
            Some(types_bt) => {
                Tensor::embedding(&self.token_type.pass_leaf_f32(), types_bt, -1, false, false) + position
            }
        };
        let sum_bte = Tensor::embedding(&self.word.pass_leaf_f32(), input.ids_bt, -1, false, false) + place;
        let normed_bte = dropout(&self.norm.forward(&sum_bte), self.dropout, mode);
        self.project.as_ref().map_or_else(|| normed_bte.shallow_clone(), |project| project.forward(&normed_bte))
    }

    /// Computes the attention bias or mask, once for all layers.
    fn attention_bias(&self, input: Input<'_>, mode: Mode) -> Option<Bias> {
        timed(ATTENTION, || self.bias_for(input, mode))
    }

    fn bias_for(&self, input: Input<'_>, mode: Mode) -> Option<Bias> {
        let seen = visible_keys(input);
        let in_steps = uses_unfused_attention(input.ids_bt.device(), dropped(self.dropout, mode));
        let Some(relative) = &self.relative else {
            return seen.map(|seen| if in_steps { Bias::Seen(seen) } else { self.added(&seen) });
        };
        let bias_1htt = relative.bias(input.ids_bt.size()[1]).unsqueeze(0);
        let bias_1htt = if in_steps { bias_1htt } else { self.precision.compute(&bias_1htt) };
        Some(Bias::Added(match seen {
            None => bias_1htt,
            Some(seen) => bias_1htt.masked_fill(&seen.logical_not(), f64::NEG_INFINITY),
        }))
    }

    /// Converts flags to an additive bias. libtorch's attention would do so itself in every layer.
    fn added(&self, seen: &Tensor) -> Bias {
        let mut masked = Tensor::full(seen.size(), f64::NEG_INFINITY, (self.precision.kind(), seen.device()));
        Bias::Added(masked.masked_fill_(seen, 0.0))
    }
}

/// Returns true where a key is visible, `[1 or b, 1, 1 or t, t]`, or `None` if all keys are. Every query has at least
/// one visible key: padding sees the preceding document.
fn visible_keys(input: Input<'_>) -> Option<Tensor> {
    let valid_b11t = input.valid_bt.map(|valid| valid.unsqueeze(1).unsqueeze(1));
    let Some(Documents { documents_bt, .. }) = input.packed else { return valid_b11t };
    let own_b1tt = documents_bt.unsqueeze(2).eq_tensor(&documents_bt.unsqueeze(1)).unsqueeze(1);
    Some(match valid_b11t {
        None => own_b1tt,
        Some(valid_b11t) => own_b1tt.logical_and(&valid_b11t),
    })
}

/// Mask or bias of attention for pairs of positions.
#[derive(Debug)]
enum Bias {
    /// True where a key is visible, `[1 or b, 1, 1 or t, t]`, for attention in separate operations.
    Seen(Tensor),
    /// Additive bias, `[1 or b, 1 or h, 1 or t, t]`; −∞ at keys that are not visible. Its type is the precision's, or
    /// float32 for attention in separate operations.
    Added(Tensor),
}

/// Returns the dropout probability of attention weights.
fn dropped(dropout: f64, mode: Mode) -> f64 {
    if mode == Mode::Train { dropout } else { 0.0 }
}

/// Returns whether attention runs as separate operations instead of libtorch's fused one. libtorch's dropout on the CPU
/// draws on one thread.
fn uses_unfused_attention(device: Device, dropped: f64) -> bool {
    dropped > 0.0 && device == Device::Cpu
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
    fn build(path: &Path<'_>, config: &EncoderConfig, precision: Precision) -> Self {
        let attention = path.sub("attention");
        let feed_forward = path.sub("feed_forward");
        let linear = |path: &Path<'_>, name| Linear::build(&path.sub(name), precision);
        let norm = |path: &Path<'_>| LayerNorm::build(&path.sub("norm"), config.layer_norm_eps);
        Self {
            qkv: linear(&attention, "qkv"),
            attention_output: linear(&attention, "output"),
            attention_norm: norm(&attention),
            input: linear(&feed_forward, "input"),
            output: linear(&feed_forward, "output"),
            norm: norm(&feed_forward),
            heads: i64::from(config.heads),
            gelu: config.gelu,
            dropout: config.dropout,
            precision,
        }
    }

    fn forward(&self, x_btd: &Tensor, bias: Option<&Bias>, mode: Mode) -> Tensor {
        let attended_btd = timed(ATTENTION, || self.attend(x_btd, bias, mode));
        let x_btd = self.added(&self.attention_norm, x_btd, &attended_btd, mode);
        let outer_btd = timed(FEED_FORWARD, || {
            let inner_btf = self.input.forward(&x_btd).gelu(self.gelu.name());
            self.output.forward(&inner_btf)
        });
        self.added(&self.norm, &x_btd, &outer_btd, mode)
    }

    /// Adds a sublayer's output to its input and applies the norm.
    fn added(&self, norm: &LayerNorm, x_btd: &Tensor, made_btd: &Tensor, mode: Mode) -> Tensor {
        timed(NORM, || norm.forward(&(x_btd + dropout_to(x_btd.kind(), made_btd, self.dropout, mode))))
    }

    fn attend(&self, x_btd: &Tensor, bias: Option<&Bias>, mode: Mode) -> Tensor {
        let (b, t, d) = x_btd.size3().expect("hidden states have three axes");
        // `unbind`, not `select`: the backward pass then stacks three gradients. With `select` it would add three
        // gradients that are mostly zeros.
        let qkv_bt3hk = self.qkv.forward(x_btd).view([b, t, 3, self.heads, d / self.heads]).unbind(2);
        let [q, k, v] = [0, 1, 2].map(|which| qkv_bt3hk[which].transpose(1, 2));
        let dropped = dropped(self.dropout, mode);
        let mixed_bhtk = if uses_unfused_attention(x_btd.device(), dropped) {
            self.attend_unfused(&q, &k, &v, bias, mode)
        } else {
            let mask = bias.map(|(Bias::Seen(mask) | Bias::Added(mask))| mask);
            Tensor::scaled_dot_product_attention(&q, &k, &v, mask, dropped, false, None, false)
        };
        let mixed_btd = mixed_bhtk.transpose(1, 2).reshape([b, t, d]);
        self.attention_output.forward(&mixed_btd)
    }

    /// Computes the same as libtorch's attention with dropout on the CPU, but with [`dropout`].
    fn attend_unfused(&self, q: &Tensor, k: &Tensor, v: &Tensor, bias: Option<&Bias>, mode: Mode) -> Tensor {
        let scale = 1.0 / (q.size()[3] as f64).sqrt();
        // libtorch's fused attention keeps the scores of bfloat16 inputs in float32 as well.
        let [q, k] = [q, k].map(|x| self.precision.upcast(x));
        let scores_bhtt = (q * scale).matmul(&k.transpose(-2, -1));
        let scores_bhtt = match bias {
            None => scores_bhtt,
            Some(Bias::Seen(seen)) => scores_bhtt.masked_fill(&seen.logical_not(), f64::NEG_INFINITY),
            Some(Bias::Added(added)) => scores_bhtt + added,
        };
        let weights_bhtt = scores_bhtt.softmax(-1, MASTER);
        dropout_to(self.precision.kind(), &weights_bhtt, self.dropout, mode).matmul(v)
    }
}

pub(crate) mod activation_checkpointing;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read values back to the host")]
mod tests;
