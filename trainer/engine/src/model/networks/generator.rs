//! Generator network: an auxiliary model whose samples replace masked tokens.
//!
//! # What
//! A small encoder with a masked language model's head. It reads a masked view (`input_view`) and samples an id for
//! each position to predict. The result is a view (`output_view`) in which some tokens are replaced. ELECTRA's
//! discriminator and COCO-LM's main network read that view. No gradient passes through the samples.
//!
//! # Why
//! A token that a small model considers likely is harder to tell from the original than `[MASK]` or a random token.
//! Every token of the row gives a training signal.
//!
//! # Definition
//! `x̃_i ~ softmax(logits_i)` at temperature 1 for `i ∈ M`, original ids elsewhere. By default the sample is the
//! inverse of the cumulative distribution at a number that the row carries (column `draws`). That number depends only
//! on the address of the row. So the made view is a function of weights and batch, independent of micro-batches and
//! resumes.
//!
//! # Reference
//! Clark et al., *ELECTRA*, ICLR 2020, section 2; Meng et al., *COCO-LM*, 2021, section 3 and appendix D. ELECTRA
//! samples with dropout (`"train"`). COCO-LM's code samples without dropout in a separate pass (`"eval"`), or trains
//! the auxiliary model without dropout (`"zero_dropout"`).

use trainer_plan::networks::Network as _;
use trainer_plan::networks::generator::{Generator, Sampling, SharedTable};

use super::Build;
use super::network::{BuiltNetwork, Site};
use super::sampler::TokenSampler;
use crate::model::encoder::{Encoder, Shared};
use crate::model::head_weights::TokenHeadWeights;
use crate::model::parameters::Path;

impl Build for Generator {
    /// Builds the encoder, unless the generator is uniform, and the sampler.
    fn build(&self, site: &Site<'_>, path: &Path<'_>) -> BuiltNetwork {
        let parts = self.shape(site.shape).map(|shape| {
            let block = site.main.embedding_block();
            let shares = |part| self.share.contains(&part);
            let shared = Shared {
                word: block.word.filter(|_| shares(SharedTable::Word)),
                position: block.position.filter(|_| shares(SharedTable::Position)),
                token_type: block.token_type.filter(|_| shares(SharedTable::TokenType)),
                norm: block.norm.filter(|_| shares(SharedTable::EmbeddingNorm)),
            };
            let encoder = Encoder::build(&shape, site.precision, &shared, &path.sub("encoder"));
            let head = TokenHeadWeights::build(&shape, Some(encoder.word_table()), &path.sub("head"));
            (encoder, head)
        });
        let (encoder, head) = parts.unzip();
        let sampler = TokenSampler {
            input_view: self.input_view.clone(),
            makes: self.output_view.clone(),
            sampling: self.sampling,
            draw: self.sampling_method,
            exclude_special_tokens: self.exclude_special_tokens,
            head,
            vocab_size: i64::from(site.vocab.size),
            special: site.vocab.special,
        };
        let is_still = self.frozen && self.sampling != Sampling::Train;
        BuiltNetwork { encoder, is_still, sampler: Some(sampler) }
    }
}
