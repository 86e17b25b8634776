//! The auxiliary model that makes a task of its guesses.
//!
//! # What
//! A small encoder with a masked language model's head. It reads a masked view (`fills`), samples an id for every
//! position to predict, and so makes a view (`makes`) in which some tokens are replaced: what ELECTRA's discriminator
//! and COCO-LM's main network read. No gradient passes through the samples.
//!
//! # Why
//! A token that a small model found likely is harder to tell from the original than `[MASK]` or a random one, and every
//! token of the row has something to teach.
//!
//! # Definition
//! `x̃_i ~ softmax(logits_i)` at temperature 1 for `i ∈ M`, original ids elsewhere. By default the sample is the inverse
//! of the cumulative distribution at a number that the row brings along (column `draws`), drawn at the row's address:
//! the made view is then a function of weights and batch, whatever the micro-batches and after any resume.
//!
//! # Reference
//! Clark et al., *ELECTRA*, ICLR 2020, section 2; Meng et al., *COCO-LM*, 2021, section 3 and appendix D.
//! ELECTRA samples with dropout on (`"train"`); COCO-LM's code off, by a pass of its own (`"eval"`), or trains the
//! auxiliary without any (`"zero_dropout"`).

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::network::{BuiltNetwork, Site};
use super::sampler::{Draw, Sampling, TokenSampler};
use super::{Beside, MadeView, Network};
use crate::model::encoder::{Encoder, Shared};
use crate::model::head_weights::TokenHeadWeights;
use crate::model::parameters::Path;
use crate::model::shape::EncoderConfig;

/// A small encoder that reads a masked view and samples an id for every position to predict.
/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Generator {
    /// The masked view that it reads.
    pub fills: String,
    /// The name of the view that it makes.
    pub makes: String,
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
    /// Tables that are the main network's.
    pub share: Vec<SharedTable>,
    /// Dropout while it samples.
    pub sampling: Sampling,
    /// How a sample comes about.
    pub draw: Draw,
    /// Whether special ids are never sampled.
    pub ban_specials: bool,
    /// Whether it does not learn.
    pub frozen: bool,
    /// A run whose generator of the same name this one starts from, or a Hugging Face folder of an ELECTRA's or BERT's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<PathBuf>,
}

impl Default for Generator {
    fn default() -> Self {
        Self {
            fills: "masked".to_owned(),
            makes: "corrupted".to_owned(),
            layers: 4,
            hidden: None,
            heads: None,
            feed_forward: None,
            share: vec![SharedTable::Word, SharedTable::Position, SharedTable::EmbeddingNorm],
            sampling: Sampling::Eval,
            draw: Draw::InverseCdf,
            ban_specials: false,
            frozen: false,
            init: None,
        }
    }
}

/// A part of the embedding block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SharedTable {
    /// The word table, which the head's decoder is tied to.
    Word,
    /// The position table.
    Position,
    /// The table of segments.
    TokenType,
    /// The norm over the sum.
    EmbeddingNorm,
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

    fn problems(&self, beside: Beside<'_>) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let Some(shape) = self.shape(beside.main) else { return problems };
        if self.makes == self.fills {
            problems.push(("makes", format!("`{}` is what it fills; name another", self.makes)));
        }
        if self.frozen && !self.share.is_empty() {
            let message = "it is frozen, and the tables that it shares go on learning: set `share = []`".to_owned();
            problems.push(("share", message));
        }
        if beside.in_order && self.draw == Draw::InverseCdf {
            let message =
                "CUDA adds up probabilities in no fixed order: with `train.deterministic` set `draw = \"gumbel\"`";
            problems.push(("draw", message.to_owned()));
        }
        if shape.layers == 0 {
            problems.push(("layers", "at least one layer is needed".to_owned()));
        }
        if shape.heads == 0 || shape.hidden == 0 || !shape.hidden.is_multiple_of(shape.heads) {
            problems.push(("hidden", format!("{} is not a multiple of {} heads", shape.hidden, shape.heads)));
        }
        problems
    }

    fn makes(&self) -> Option<MadeView<'_>> {
        let reads_draws = self.draw == Draw::InverseCdf;
        Some(MadeView { view: &self.makes, fills: &self.fills, reads_draws })
    }

    fn learns(&self) -> bool {
        !self.frozen
    }

    fn predicts_tokens(&self) -> bool {
        self.sampling != Sampling::Uniform
    }

    fn init(&self) -> Option<&std::path::Path> {
        self.init.as_deref()
    }

    fn passes_beside(&self, learnt: bool) -> f64 {
        match self.sampling {
            Sampling::Uniform => 0.0,
            Sampling::Eval => 1.0,
            Sampling::Train | Sampling::ZeroDropout => f64::from(u8::from(!learnt)),
        }
    }

    /// The encoder, unless it is uniform, and what samples.
    fn build(&self, site: &Site<'_>, path: &mut Path<'_>) -> BuiltNetwork {
        let mut path = path.frozen(self.frozen);
        let parts = self.shape(site.shape).map(|shape| {
            let block = site.main.embedding_block();
            let shares = |part| self.share.contains(&part);
            let shared = Shared {
                word: block.word.filter(|_| shares(SharedTable::Word)),
                position: block.position.filter(|_| shares(SharedTable::Position)),
                token_type: block.token_type.filter(|_| shares(SharedTable::TokenType)),
                norm: block.norm.filter(|_| shares(SharedTable::EmbeddingNorm)),
            };
            let size = site.vocab.size;
            let encoder = Encoder::build(&shape, size, site.precision, &shared, &mut path.sub("encoder"));
            let head = TokenHeadWeights::build(&shape, size, Some(encoder.word_table()), &mut path.sub("head"));
            (encoder, head)
        });
        let (encoder, head) = parts.unzip();
        let sampler = TokenSampler {
            fills: self.fills.clone(),
            makes: self.makes.clone(),
            sampling: self.sampling,
            draw: self.draw,
            ban_specials: self.ban_specials,
            head,
            vocab_size: i64::from(site.vocab.size),
            special: site.vocab.special,
        };
        let is_still = self.frozen && self.sampling != Sampling::Train;
        BuiltNetwork { encoder, is_still, sampler: Some(sampler) }
    }
}
