//! The auxiliary model that makes a task of its guesses.
//!
//! # What
//! A small encoder with a masked language model's head. It reads a masked view (`fills`), samples an id for every
//! position to predict, and so makes a view (`makes`) in which some tokens are replaced: what ELECTRA's discriminator
//! and COCO-LM's main network read. No gradient passes through the samples.
//!
//! # Definition
//! `x̃_i ~ softmax(logits_i)` at temperature 1 for `i ∈ M`, original ids elsewhere. By default the sample is the inverse
//! of the cumulative distribution at a number that the row brings along (column `draws`), drawn at the row's address:
//! the made view is then a function of weights and batch, whatever the micro-batches and after any resume.
//!
//! # Reference
//! Clark et al., *ELECTRA*, ICLR 2020, section 2; Meng et al., *COCO-LM*, 2021, section 3.1 and appendix C.
//! ELECTRA samples with dropout on (`"train"`); COCO-LM's code off, by a pass of its own (`"eval"`), or trains the
//! auxiliary without any (`"zero_dropout"`).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::sampler::{Draw, Sampler, Sampling};
use crate::device::precision::Precision;
use crate::model::encoder::{Encoder, Shared};
use crate::model::parameters::Parameters;
use crate::model::shape::{EncoderConfig, VocabFacts};
use crate::model::weights::HeadWeights;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Generator {
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
    pub share: Vec<Share>,
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
            share: vec![Share::Word, Share::Position, Share::EmbeddingNorm],
            sampling: Sampling::Eval,
            draw: Draw::InverseCdf,
            ban_specials: false,
            frozen: false,
            init: None,
        }
    }
}

/// A part of the embedding block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// The word table, which the head's decoder is tied to.
    Word,
    /// The position table.
    Position,
    /// The table of segments.
    TokenType,
    /// The norm over the sum.
    EmbeddingNorm,
}

impl Generator {
    /// The shape of its encoder; `None` for a uniform one.
    #[must_use]
    pub fn encoder(&self, main: &EncoderConfig) -> Option<EncoderConfig> {
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

    /// Whether the rows of the filled view must bring random bits along.
    #[must_use]
    pub fn reads_draws(&self) -> bool {
        self.draw == Draw::InverseCdf
    }

    /// Passes of its encoder without gradient that sampling takes, beside the one that it learns from, if it learns.
    #[must_use]
    pub fn sampling_passes(&self, learns: bool) -> f64 {
        match self.sampling {
            Sampling::Uniform => 0.0,
            Sampling::Eval => 1.0,
            Sampling::Train | Sampling::ZeroDropout => f64::from(u8::from(!learns)),
        }
    }

    /// The encoder, unless it is uniform, and what samples.
    pub(super) fn build(
        &self,
        name: &str,
        main: &Encoder,
        config: &EncoderConfig,
        vocab: &VocabFacts,
        precision: Precision,
        parameters: &mut Parameters,
    ) -> (Option<Encoder>, Sampler) {
        let mut path = parameters.path(name);
        let mut path = path.frozen(self.frozen);
        let parts = self.encoder(config).map(|shape| {
            let block = main.embedding_block();
            let shares = |part| self.share.contains(&part);
            let shared = Shared {
                word: block.word.filter(|_| shares(Share::Word)),
                position: block.position.filter(|_| shares(Share::Position)),
                token_type: block.token_type.filter(|_| shares(Share::TokenType)),
                norm: block.norm.filter(|_| shares(Share::EmbeddingNorm)),
            };
            let encoder = Encoder::build(&shape, vocab.size, precision, &shared, &mut path.sub("encoder"));
            let head = HeadWeights::build(&shape, vocab.size, Some(encoder.word_table()), &mut path.sub("head"));
            (encoder, head)
        });
        let (encoder, head) = parts.unzip();
        let sampler = Sampler {
            fills: self.fills.clone(),
            makes: self.makes.clone(),
            sampling: self.sampling,
            draw: self.draw,
            ban_specials: self.ban_specials,
            head,
            vocab_size: i64::from(vocab.size),
            special: vocab.special,
        };
        (encoder, sampler)
    }

    /// Whether it is always in eval mode.
    pub(super) fn is_still(&self) -> bool {
        self.frozen && self.sampling != Sampling::Train
    }
}
