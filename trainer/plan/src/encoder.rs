//! What a network is made to: its shape, `[encoder]`, and its vocabulary.

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
    /// Probability of dropout, everywhere.
    pub dropout: f64,
    /// Approximation of gelu; checkpoints differ.
    pub gelu: Gelu,
    /// Added to variances: 1e-12 in BERT, 1e-5 in RoBERTa.
    pub layer_norm_eps: f64,
    /// Maximum number of tokens of a row.
    pub max_positions: u32,
    /// Width of the embedding tables if it differs from `hidden`; a matrix projects one to the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<u32>,
    /// What attention is told about distances, next to the position table.
    pub relative_positions: RelativePositions,
    /// Tokens of a row that attend to each other.
    #[serde(skip_serializing_if = "Attend::is_row")]
    pub attention_scope: Attend,
    /// Weights that are not trained.
    pub frozen: Vec<Frozen>,
    /// Run, checkpoint or Hugging Face folder whose word embeddings initialize those of this run. It takes precedence
    /// over `train.init_from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word_init: Option<PathBuf>,
}

/// `encoder.relative_positions`.
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

/// The functions of distance that a configuration can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RelativeForm {
    /// No relative positions.
    #[default]
    None,
    /// COCO-LM's.
    CocoLm,
    /// T5's.
    T5,
}

impl Default for RelativePositions {
    fn default() -> Self {
        let Buckets { buckets, max_distance, .. } = Buckets::default();
        Self { kind: RelativeForm::None, num_buckets: buckets, max_distance }
    }
}

impl RelativePositions {
    /// The buckets, if there are any.
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

/// Which tokens of a row see each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attend {
    /// All of them, as in the papers, whatever documents share the row.
    #[default]
    Row,
    /// Those of one document, whose positions begin from 0: each is encoded as if it were alone.
    Document,
}

impl Attend {
    /// Runs from before there was a choice are the same runs.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
    fn is_row(&self) -> bool {
        *self == Self::Row
    }
}

/// A part of the encoder that can be kept from learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Frozen {
    /// The word table, and with it a decoder that is tied to it. Positions, norms and the decoder's bias learn.
    Word,
}

impl EncoderConfig {
    /// Width of the embedding tables.
    #[must_use]
    pub fn embedding_width(&self) -> i64 {
        i64::from(self.embedding.unwrap_or(self.hidden))
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

/// The two gelus of the field (Hendrycks & Gimpel 2016).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gelu {
    /// Exact, by the error function: BERT, `"gelu"` of Hugging Face.
    #[default]
    Erf,
    /// By the hyperbolic tangent: `"gelu_new"` of Hugging Face.
    Tanh,
}

impl Gelu {
    /// libtorch's name of the approximation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Erf => "none",
            Self::Tanh => "tanh",
        }
    }
}

/// What training knows of the vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct VocabFacts {
    /// Number of ids.
    pub size: u32,
    /// The ids of frames and masks.
    pub special: SpecialIds,
    /// ln of each id's share of the training split, smoothed so that none is −∞; empty where nobody has counted.
    pub unigram_log_probabilities: Vec<f64>,
}

/// Rows of the word table are a multiple of this: matrix products over it stay aligned on tensor cores.
const ROWS_MULTIPLE: u32 = 64;

/// Rows of a word table for a vocabulary of `size` ids.
#[must_use]
pub(crate) fn padded_rows(size: u32) -> i64 {
    i64::from(size.next_multiple_of(ROWS_MULTIPLE))
}
