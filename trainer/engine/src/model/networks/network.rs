//! Built network in addition to the main one, and the inputs for building it.

use trainer_plan::encoder::{EncoderConfig, VocabFacts};

use crate::device::precision::Precision;
use crate::model::encoder::Encoder;
use crate::model::networks::sampler::TokenSampler;

/// Inputs for building a network.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    /// Main network, whose tables may be shared.
    pub main: &'a Encoder,
    /// Shape of the main network.
    pub shape: &'a EncoderConfig,
    /// Vocabulary of the run.
    pub vocab: &'a VocabFacts,
    /// Precision of matrix products.
    pub precision: Precision,
}

/// Parts of a built network.
#[derive(Debug)]
pub(crate) struct BuiltNetwork {
    /// Encoder, if the network has one.
    pub encoder: Option<Encoder>,
    /// Whether the network always runs in eval mode.
    pub is_still: bool,
    /// Sampler of its output view, if it makes one.
    pub sampler: Option<TokenSampler>,
}
