//! Generator: a small encoder whose samples replace masked tokens.
//!
//! Clark et al. 2020, ELECTRA, section 2; Meng et al. 2021, COCO-LM, section 3. It runs in
//! `trainer::model::networks::generator`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Network, NetworkCheckContext, NetworkContext, OutputView};
use crate::encoder::EncoderConfig;
use crate::weights::{self, SharedTables, WeightPath};

/// Small encoder that reads a masked view and samples an id for every position to predict.
/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Generator {
    /// Masked view that the generator reads.
    pub input_view: String,
    /// Name of the view that the generator makes.
    pub output_view: String,
    /// Transformer layers.
    pub layers: u32,
    /// Width of hidden states; the main network's unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u32>,
    /// Attention heads; the main network's unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// Width of the feed-forward layer; the main network's unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_forward: Option<u32>,
    /// Tables that the generator shares with the main network.
    pub share: Vec<SharedTable>,
    /// Dropout while sampling.
    pub sampling: Sampling,
    /// Sampling method.
    pub sampling_method: Draw,
    /// Whether special ids are never sampled.
    pub exclude_special_tokens: bool,
    /// Whether the generator is not trained.
    pub frozen: bool,
    /// Run whose generator of the same name initializes this one, or a Hugging Face folder of an ELECTRA or BERT
    /// model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_from: Option<PathBuf>,
}

impl Default for Generator {
    fn default() -> Self {
        Self {
            input_view: "masked".to_owned(),
            output_view: "corrupted".to_owned(),
            layers: 4,
            hidden: None,
            heads: None,
            feed_forward: None,
            share: vec![SharedTable::Word, SharedTable::Position, SharedTable::EmbeddingNorm],
            sampling: Sampling::Eval,
            sampling_method: Draw::InverseCdf,
            exclude_special_tokens: false,
            frozen: false,
            init_from: None,
        }
    }
}

/// Part of the embedding block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharedTable {
    /// Word table, which the decoder of the head is tied to.
    Word,
    /// Position table.
    Position,
    /// Segment table.
    TokenType,
    /// Norm of the sum of the embeddings.
    EmbeddingNorm,
}

/// Dropout while a generator samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// No dropout: a separate pass computes the scores that are sampled.
    Eval,
    /// Dropout: the scores come from the pass that computes the generator's loss.
    Train,
    /// No dropout in any pass of the generator. COCO-LM's released mode also has separate positions and a separate
    /// embedding norm: to match it, remove both from `share`.
    ZeroDropout,
    /// No generator: every id is equally likely.
    Uniform,
}

/// Sampling method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// Inverse distribution function, with the random bits of the row.
    InverseCdf,
    /// `argmax(logits − ln(−ln u))`, with the random generator of the device.
    Gumbel,
    /// Sampler of libtorch, with the random generator of the device.
    Multinomial,
}

impl Network for Generator {
    /// Returns `None` for a uniform generator.
    fn shape(&self, main: &EncoderConfig) -> Option<EncoderConfig> {
        if self.sampling == Sampling::Uniform {
            return None;
        }
        let hidden = self.hidden.unwrap_or(main.hidden);
        // The embedding tables are as wide as those of the main network, even if they are not shared.
        let embedding = main.embedding.unwrap_or(main.hidden);
        Some(EncoderConfig {
            layers: self.layers,
            hidden,
            heads: self.heads.unwrap_or(main.heads),
            feed_forward: self.feed_forward.unwrap_or(main.feed_forward),
            embedding: (embedding != hidden).then_some(embedding),
            dropout: if self.sampling == Sampling::ZeroDropout { 0.0 } else { main.dropout },
            frozen: Vec::new(),
            word_init: None,
            ..main.clone()
        })
    }

    fn problems(&self, context: NetworkCheckContext<'_>) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let Some(shape) = self.shape(context.main) else { return problems };
        if self.output_view == self.input_view {
            problems.push(("output_view", format!("`{}` is its `input_view`; choose another name", self.output_view)));
        }
        if self.frozen && !self.share.is_empty() {
            let message = "it is frozen, but the tables that it shares are trained; set `share = []`".to_owned();
            problems.push(("share", message));
        }
        if context.in_order && self.sampling_method == Draw::InverseCdf {
            let message = "with `train.deterministic`, `inverse_cdf` is not supported on CUDA, which adds up \
                           probabilities in no fixed order; set `sampling_method = \"gumbel\"`";
            problems.push(("sampling_method", message.to_owned()));
        }
        if shape.layers == 0 {
            problems.push(("layers", "at least one layer is needed".to_owned()));
        }
        if shape.heads == 0 || shape.hidden == 0 || !shape.hidden.is_multiple_of(shape.heads) {
            problems.push(("hidden", format!("{} is not a multiple of {} heads", shape.hidden, shape.heads)));
        }
        problems
    }

    fn output_view(&self) -> Option<OutputView<'_>> {
        let reads_draws = self.sampling_method == Draw::InverseCdf;
        Some(OutputView { view: &self.output_view, input_view: &self.input_view, reads_draws })
    }

    fn is_trained(&self) -> bool {
        !self.frozen
    }

    fn predicts_tokens(&self) -> bool {
        self.sampling != Sampling::Uniform
    }

    fn init(&self) -> Option<&std::path::Path> {
        self.init_from.as_deref()
    }

    fn additional_passes(&self, trained: bool) -> f64 {
        match self.sampling {
            Sampling::Uniform => 0.0,
            Sampling::Eval => 1.0,
            Sampling::Train | Sampling::ZeroDropout => f64::from(u8::from(!trained)),
        }
    }

    /// Declares the encoder and its head. A uniform generator has no weights.
    fn declare(&self, context: NetworkContext<'_>, path: &mut WeightPath<'_>) {
        let Some(shape) = self.shape(context.main) else { return };
        let mut path = path.frozen(self.frozen);
        let shares = |table| self.share.contains(&table);
        let shared = SharedTables {
            word: shares(SharedTable::Word),
            position: shares(SharedTable::Position),
            token_type: shares(SharedTable::TokenType),
            norm: shares(SharedTable::EmbeddingNorm),
        };
        weights::encoder(&shape, context.vocab_size, shared, &mut path.sub("encoder"));
        weights::token_head(&shape, context.vocab_size, true, &mut path.sub("head"));
    }
}
