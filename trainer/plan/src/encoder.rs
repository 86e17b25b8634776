//! Shape of a network (`[encoder]`) and facts about its vocabulary.

use std::path::PathBuf;

use schemars::JsonSchema;
use schemas::SpecialIds;
use serde::{Deserialize, Serialize};

use crate::relative_positions::{BucketForm, Buckets};

/// `[encoder]`: the shape of the network. The default is BERT-base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EncoderConfig {
    /// Transformer layers.
    pub layers: u32,
    /// Width of hidden states; a multiple of `heads`.
    pub hidden: u32,
    /// Attention heads.
    pub heads: u32,
    /// Width of the feed-forward layer.
    pub feed_forward: u32,
    /// Dropout probability of all layers.
    pub dropout: f64,
    /// Variant of gelu. Published checkpoints differ.
    pub gelu: Gelu,
    /// Constant added to the variances of layer norms: 1e-12 in BERT, 1e-5 in RoBERTa.
    pub layer_norm_eps: f64,
    /// Maximum number of tokens of a row.
    pub max_positions: u32,
    /// Width of the embedding tables if it differs from `hidden`; a matrix projects one to the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<u32>,
    /// Relative position bias of attention, in addition to the position table.
    pub relative_positions: RelativePositions,
    /// Tokens of a row that attend to each other.
    #[serde(skip_serializing_if = "Attend::is_row")]
    pub attention_scope: Attend,
    /// Weights that are not trained: `["word"]`, `["encoder"]`, or `[{ layers = 6 }]` for the embeddings and the first
    /// six layers. They have no gradients and no moments. Dropout stays on in training.
    pub frozen: Vec<Frozen>,
    /// Run, checkpoint or Hugging Face folder whose word embeddings initialize those of this run. It takes precedence
    /// over `train.init_from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word_init: Option<PathBuf>,
}

/// `encoder.relative_positions`: relative position bias of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RelativePositions {
    /// Function from distance to bucket.
    pub kind: RelativeForm,
    /// Number of buckets, for both directions together.
    pub num_buckets: u16,
    /// Distance from which all distances share a bucket.
    pub max_distance: u16,
}

/// Function from distance to bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RelativeForm {
    /// No relative positions.
    #[default]
    None,
    /// Buckets of COCO-LM.
    CocoLm,
    /// Buckets of T5.
    T5,
}

impl Default for RelativePositions {
    fn default() -> Self {
        let Buckets { buckets, max_distance, .. } = Buckets::default();
        Self { kind: RelativeForm::None, num_buckets: buckets, max_distance }
    }
}

impl RelativePositions {
    /// Relative positions of MPNet.
    pub const MPNET: Self = Self { kind: RelativeForm::T5, num_buckets: 32, max_distance: 128 };

    /// Bucket function; `None` without relative positions.
    #[must_use]
    pub fn buckets(self) -> Option<Buckets> {
        let form = match self.kind {
            RelativeForm::None => return None,
            RelativeForm::CocoLm => BucketForm::CocoLm,
            RelativeForm::T5 => BucketForm::T5,
        };
        Some(Buckets { form, buckets: self.num_buckets, max_distance: self.max_distance })
    }
}

/// Tokens of a row that attend to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attend {
    /// All tokens of the row, as in the papers, even if several documents share the row.
    #[default]
    Row,
    /// Tokens of the same document. Positions restart at 0, so each document is encoded as if it were alone.
    Document,
}

impl Attend {
    /// Skips the default in serialization, so that runs from before this key existed keep their identity.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    fn is_row(&self) -> bool {
        *self == Self::Row
    }
}

/// Part of the encoder that is not trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Frozen {
    /// Word table, and a decoder that is tied to it. Positions, norms and the decoder's bias are trained.
    Word,
    /// Whole encoder: only heads are trained.
    Encoder,
    /// Embeddings, relative positions and this number of layers, counted from the input; 0 for the embeddings alone.
    Layers(u32),
}

impl EncoderConfig {
    /// Width of the embedding tables.
    #[must_use]
    pub fn embedding_width(&self) -> i64 {
        i64::from(self.embedding.unwrap_or(self.hidden))
    }

    /// Number of layers, counted from the input, that are frozen together with the embeddings. `None` if embeddings are
    /// trained.
    #[must_use]
    pub fn frozen_layers(&self) -> Option<u32> {
        let layers = |frozen: &Frozen| match frozen {
            Frozen::Word => None,
            Frozen::Encoder => Some(self.layers),
            Frozen::Layers(layers) => Some(*layers),
        };
        self.frozen.iter().filter_map(layers).max()
    }
}

impl Default for EncoderConfig {
    fn default() -> Self {
        Self {
            layers: 12,
            hidden: 768,
            heads: 12,
            feed_forward: 3072,
            dropout: 0.1,
            gelu: Gelu::Erf,
            layer_norm_eps: 1e-12,
            max_positions: 512,
            embedding: None,
            relative_positions: RelativePositions::default(),
            attention_scope: Attend::Row,
            frozen: Vec::new(),
            word_init: None,
        }
    }
}

/// Variant of gelu (Hendrycks & Gimpel 2016).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gelu {
    /// Exact, with the error function: BERT, `"gelu"` of Hugging Face.
    #[default]
    Erf,
    /// Approximation with the hyperbolic tangent: `"gelu_new"` of Hugging Face.
    Tanh,
}

impl Gelu {
    /// Name of the variant in libtorch.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Erf => "none",
            Self::Tanh => "tanh",
        }
    }
}

/// Facts about the vocabulary that training needs.
#[derive(Clone, Debug, PartialEq)]
pub struct VocabFacts {
    /// Number of ids.
    pub size: u32,
    /// Special ids: padding, unknown, frame tokens and mask.
    pub special: SpecialIds,
    /// Natural logarithm of each id's share of the training split, smoothed so that no value is −∞. Empty if the ids
    /// were not counted.
    pub unigram_log_probabilities: Vec<f64>,
}

/// Divisor of the number of rows of the word table, for aligned matrix products on tensor cores.
const ROWS_MULTIPLE: u32 = 64;

/// Number of rows of the word table for a vocabulary of `size` ids.
#[must_use]
pub(crate) fn padded_rows(size: u32) -> i64 {
    i64::from(size.next_multiple_of(ROWS_MULTIPLE))
}
