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
//!
//! Axes: `n` positions to predict, `v` ids, `d` hidden.

use std::path::PathBuf;

use schemas::SpecialIds;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::{Network, Networks};
use crate::encoder::{Encoder, Mode, Shared};
use crate::error::Error;
use crate::objectives::weights::HeadWeights;
use crate::parameters::Parameters;
use crate::plan::{EncoderConfig, VocabFacts};
use crate::precision::{INDEX, MASTER, Precision};

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

/// Dropout while a generator samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Off, by a pass of its own.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// From the row's own random bits.
    InverseCdf,
    /// `argmax(logits − ln(−ln u))`, from the device's generator.
    Gumbel,
    /// libtorch's sampler, from the device's generator.
    Multinomial,
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
    ) -> (Option<Network>, BuiltGenerator) {
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
            (Network { encoder, is_still: self.frozen && self.sampling != Sampling::Train }, head)
        });
        let (network, head) = parts.map_or((None, None), |(network, head)| (Some(network), Some(head)));
        (network, BuiltGenerator { config: self.clone(), head })
    }
}

/// A generator with its head.
#[derive(Debug)]
pub struct BuiltGenerator {
    config: Generator,
    head: Option<HeadWeights>,
}

impl BuiltGenerator {
    /// The view that it reads.
    #[must_use]
    pub fn fills(&self) -> &str {
        &self.config.fills
    }

    /// The view that it makes.
    #[must_use]
    pub fn makes(&self) -> &str {
        &self.config.makes
    }

    /// The head, unless it is uniform.
    #[must_use]
    pub fn head(&self) -> Option<&HeadWeights> {
        self.head.as_ref()
    }

    /// How its encoder is run to sample when the run is in `mode`.
    #[must_use]
    pub fn sampling_mode(&self, mode: Mode) -> Mode {
        if self.config.sampling == Sampling::Eval { Mode::Eval } else { mode }
    }

    /// An id for each of `count` positions, `[n]`, int64, from logits `[n, v]` (`None`: uniform) without gradient.
    /// `draws_n` gives a number in (0, 1) for each.
    pub fn sample(
        &self,
        logits_nv: Option<&Tensor>,
        count: usize,
        networks: &Networks,
        draws_n: impl FnOnce() -> Result<Tensor, Error>,
    ) -> Result<Tensor, Error> {
        let device = networks.device();
        if count == 0 {
            return Ok(Tensor::zeros([0], (INDEX, device)));
        }
        let shape = [crate::upload::as_i64(count), networks.vocab_size()];
        let logits_nv = match logits_nv {
            Some(logits_nv) => logits_nv.narrow(1, 0, networks.vocab_size()).to_kind(MASTER),
            None => Tensor::zeros(shape, (MASTER, device)),
        };
        let logits_nv = if self.config.ban_specials { without(&logits_nv, networks.special()) } else { logits_nv };
        Ok(match self.config.draw {
            Draw::InverseCdf => inverse_cdf(&logits_nv, &draws_n()?),
            Draw::Gumbel => gumbel(&logits_nv),
            Draw::Multinomial => logits_nv.softmax(-1, MASTER).multinomial(1, true).squeeze_dim(-1),
        })
    }
}

fn without(logits_nv: &Tensor, special: SpecialIds) -> Tensor {
    let ids: Vec<i64> = special.iter().map(i64::from).collect();
    logits_nv.index_fill(1, &Tensor::from_slice(&ids).to_device(logits_nv.device()), f64::NEG_INFINITY)
}

/// The first id up to which the probabilities add up to more than `draws_n` of their whole. An id without probability
/// is never the first.
pub fn inverse_cdf(logits_nv: &Tensor, draws_n: &Tensor) -> Tensor {
    let cumulative_nv = logits_nv.softmax(-1, MASTER).cumsum(-1, MASTER);
    let last = logits_nv.size()[1] - 1;
    // A little less than the whole, so that rounding cannot pass it: 2⁻²² of the draws move.
    let whole_n1 = cumulative_nv.narrow(1, last, 1) * (1.0 - 2_f64.powi(-22));
    let target_n1 = draws_n.unsqueeze(1) * whole_n1;
    target_n1.searchsorted(&cumulative_nv, false, true, "right", None::<&Tensor>).squeeze_dim(-1)
}

fn gumbel(logits_nv: &Tensor) -> Tensor {
    let uniform_nv = Tensor::rand(logits_nv.size(), (Kind::Float, logits_nv.device())).clamp(1e-20, 1.0 - 1e-7);
    (logits_nv - uniform_nv.log().neg().log()).argmax(-1, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Shares of each id among samples, and the probabilities that they should have.
    fn check(sample: impl Fn(&Tensor, i64) -> Tensor) {
        let rows = 40_000;
        let logits_v = Tensor::from_slice(&[0.0_f32, 1.0, f32::NEG_INFINITY, -1.0, 2.0, 0.5]);
        let ids_n = sample(&logits_v.unsqueeze(0).expand([rows, 6], false), rows);
        let counts = ids_n.bincount(None::<&Tensor>, 6).to_kind(Kind::Double);
        let expected = logits_v.softmax(-1, Kind::Double) * rows as f64;
        assert!(f64::try_from(counts.get(2)).expect("one number") < 0.5, "an id without probability was drawn");
        let rest = Tensor::from_slice(&[0_i64, 1, 3, 4, 5]);
        let (counts, expected) = (counts.index_select(0, &rest), expected.index_select(0, &rest));
        let chi_square = f64::try_from(((&counts - &expected).square() / &expected).sum(Kind::Double)).expect("one");
        // 4 degrees of freedom: 18.5 is passed once in a thousand.
        assert!(chi_square < 18.5, "{chi_square}: {counts:?} against {expected:?}");
    }

    #[test]
    fn samples_follow_the_softmax() {
        let _alone = testing::generator();
        tch::manual_seed(11);
        check(|logits_nv, rows| {
            let draws_n = (Tensor::randperm(rows, (Kind::Float, tch::Device::Cpu)) + 0.5) / rows as f64;
            inverse_cdf(logits_nv, &draws_n)
        });
        check(|logits_nv, _| gumbel(logits_nv));
        check(|logits_nv, _| logits_nv.softmax(-1, MASTER).multinomial(1, true).squeeze_dim(-1));
    }

    #[test]
    fn the_ends_of_the_unit_interval_are_ids() {
        let logits_nv = Tensor::from_slice(&[f32::NEG_INFINITY, 0.0, 0.0, f32::NEG_INFINITY]).expand([2, 4], false);
        let draws_n = Tensor::from_slice(&[1.0 / 16_777_216.0, 16_777_215.0 / 16_777_216.0_f32]);
        assert_eq!(Vec::<i64>::try_from(inverse_cdf(&logits_nv, &draws_n)).expect("ids"), [1, 2]);
    }
}
