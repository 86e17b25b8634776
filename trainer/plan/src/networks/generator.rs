//! Generator: a small encoder whose samples replace masked tokens.
//!
//! Clark et al. 2020, ELECTRA, section 2; Meng et al. 2021, COCO-LM, section 3. It runs in `trainer::model::networks::generator`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MainNetwork, Network, NetworkContext, OutputView};
use crate::encoder::EncoderConfig;
use crate::weights::{self, SharedTables, WeightPath};

/// A small encoder that reads a masked view and samples an id for every position to predict.
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

/// A part of the embedding block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharedTable {
    /// The word table, which the head's decoder is tied to.
    Word,
    /// The position table.
    Position,
    /// The table of segments.
    TokenType,
    /// The norm over the sum.
    EmbeddingNorm,
}

/// Dropout while a generator samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Off, by its own pass.
    Eval,
    /// On: the pass that its loss is computed from.
    Train,
    /// The generator has none at all. The released mode also has positions and an embedding norm of its own: leave them
    /// out of `share` for that.
    ZeroDropout,
    /// There is no generator: every id is equally likely.
    Uniform,
}

/// How a sample comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// From the row's own random bits.
    InverseCdf,
    /// `argmax(logits − ln(−ln u))`, from the device's generator.
    Gumbel,
    /// libtorch's sampler, from the device's generator.
    Multinomial,
}

impl Network for Generator {
    /// `None` for a uniform one.
    fn shape(&self, main: &EncoderConfig) -> Option<EncoderConfig> {
        if self.sampling == Sampling::Uniform {
            return None;
        }
        let hidden = self.hidden.unwrap_or(main.hidden);
        // Its tables are as wide as the main network's, whether they are shared or not.
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

    fn problems(&self, beside: MainNetwork<'_>) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let Some(shape) = self.shape(beside.main) else { return problems };
        if self.output_view == self.input_view {
            problems.push(("output_view", format!("`{}` is what it fills; name another", self.output_view)));
        }
        if self.frozen && !self.share.is_empty() {
            let message = "it is frozen, and the tables that it shares go on learning: set `share = []`".to_owned();
            problems.push(("share", message));
        }
        if beside.in_order && self.sampling_method == Draw::InverseCdf {
            let message = "CUDA adds up probabilities in no fixed order: with `train.deterministic` set `sampling_method = \"gumbel\"`";
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

    fn makes(&self) -> Option<OutputView<'_>> {
        let reads_draws = self.sampling_method == Draw::InverseCdf;
        Some(OutputView { view: &self.output_view, fills: &self.input_view, reads_draws })
    }

    fn learns(&self) -> bool {
        !self.frozen
    }

    fn predicts_tokens(&self) -> bool {
        self.sampling != Sampling::Uniform
    }

    fn init(&self) -> Option<&std::path::Path> {
        self.init_from.as_deref()
    }

    fn passes_beside(&self, trained: bool) -> f64 {
        match self.sampling {
            Sampling::Uniform => 0.0,
            Sampling::Eval => 1.0,
            Sampling::Train | Sampling::ZeroDropout => f64::from(u8::from(!trained)),
        }
    }

    /// The encoder and its head, unless it is uniform.
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
