//! A network next to the main one, built.

use trainer_plan::encoder::{EncoderConfig, VocabFacts};

use crate::device::precision::Precision;
use crate::model::encoder::Encoder;
use crate::model::networks::sampler::TokenSampler;

/// Where a network is built.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    /// The main network, whose tables may be shared.
    pub main: &'a Encoder,
    /// Its shape.
    pub shape: &'a EncoderConfig,
    /// The run's vocabulary.
    pub vocab: &'a VocabFacts,
    /// How matrix products are computed.
    pub precision: Precision,
}

/// What a network has.
#[derive(Debug)]
pub(crate) struct BuiltNetwork {
    /// Its encoder, if it has one.
    pub encoder: Option<Encoder>,
    /// Whether it is in eval mode always.
    pub is_still: bool,
    /// What makes its view, if it makes one.
    pub sampler: Option<TokenSampler>,
}
