//! Everything a run needs, already checked. The command line makes it; nothing here is checked twice.

use serde::{Deserialize, Serialize};

use schemas::SpecialIds;

/// `[encoder]`: the shape of the network. The default is BERT-base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Which approximation of gelu; checkpoints differ.
    pub gelu: Gelu,
    /// Added to variances: 1e-12 in BERT, 1e-5 in RoBERTa.
    pub layer_norm_eps: f64,
    /// Longest row.
    pub positions: u32,
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
            positions: 512,
        }
    }
}

/// The two gelus of the field (Hendrycks & Gimpel 2016).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// ln of each id's share of the training split, smoothed so that none is −∞.
    pub unigram_log_probabilities: Vec<f64>,
}
