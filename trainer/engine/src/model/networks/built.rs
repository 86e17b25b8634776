//! The networks of a run, built, and the tables that they and the objectives share.

use std::collections::BTreeMap;

use schemas::SpecialIds;
use tch::{Device, Tensor};
use trainer_plan::encoder::{EncoderConfig, VocabFacts};
use trainer_plan::networks::{AnyNetwork, MAIN};

use super::builder;
use super::network::{BuiltNetwork, Site};
use super::sampler::TokenSampler;
use crate::device::precision::Precision;
use crate::model::encoder::{Encoder, Shared};
use crate::model::head_weights::TokenHeadWeights;
use crate::model::layers::Mode;
use crate::model::parameters::Parameters;
use crate::model::weight::Weight;

/// Every network of the run.
#[derive(Debug)]
pub(crate) struct Networks {
    main: Encoder,
    others: BTreeMap<String, BuiltNetwork>,
    config: EncoderConfig,
    precision: Precision,
    vocab_size: u32,
    special: SpecialIds,
    device: Device,
    recomputes: bool,
}

impl Networks {
    /// Makes the main encoder, under `encoder`, and the others, each under its name.
    #[must_use]
    pub(crate) fn build(
        config: &EncoderConfig,
        others: &BTreeMap<String, AnyNetwork>,
        vocab: &VocabFacts,
        precision: Precision,
        parameters: &Parameters,
    ) -> Self {
        let main = Encoder::build(config, precision, &Shared::default(), &parameters.path("encoder"));
        let site = Site { main: &main, shape: config, vocab, precision };
        let build = |(name, network): (&String, &AnyNetwork)| {
            (name.clone(), builder(network).build(&site, &parameters.path(name)))
        };
        let others = others.iter().map(build).collect();
        Self {
            main,
            others,
            config: config.clone(),
            precision,
            vocab_size: vocab.size,
            special: vocab.special,
            device: parameters.device(),
            recomputes: false,
        }
    }

    /// The same, whose activations are rebuilt for backward passes or not.
    #[must_use]
    pub(crate) fn recomputing(self, recomputes: bool) -> Self {
        Self { recomputes, ..self }
    }

    /// Whether passes that learn keep little.
    #[must_use]
    pub(crate) fn recomputes(&self) -> bool {
        self.recomputes
    }

    /// The encoder of the network of that name; plans make a wrong one impossible.
    #[must_use]
    pub(crate) fn encoder(&self, network: &str) -> &Encoder {
        let other = || self.others.get(network).and_then(|other| other.encoder.as_ref());
        let found = if network == MAIN { Some(&self.main) } else { other() };
        found.unwrap_or_else(|| panic!("the plan knows every network that encodes, not `{network}`"))
    }

    /// How a network is run when the run is in `mode`.
    #[must_use]
    pub(crate) fn mode(&self, network: &str, mode: Mode) -> Mode {
        if self.others.get(network).is_some_and(|other| other.is_still) { Mode::Eval } else { mode }
    }

    fn samplers(&self) -> impl Iterator<Item = (&str, &TokenSampler)> {
        self.others.iter().filter_map(|(name, other)| Some((name.as_str(), other.sampler.as_ref()?)))
    }

    /// What makes `view`, with the name of its network; `None` for a view of the batch.
    #[must_use]
    pub(crate) fn maker(&self, view: &str) -> Option<(&str, &TokenSampler)> {
        self.samplers().find(|(_, sampler)| sampler.makes() == view)
    }

    /// The same by the name of the network.
    #[must_use]
    pub(crate) fn sampler(&self, network: &str) -> Option<&TokenSampler> {
        self.others.get(network)?.sampler.as_ref()
    }

    /// The view of the batch that has the same tokens to predict and the same real tokens as `view`: itself, or the one
    /// that a generator fills to make it. What is counted on the host is counted there.
    #[must_use]
    pub(crate) fn stored_view<'a>(&'a self, view: &'a str) -> &'a str {
        self.maker(view).map_or(view, |(_, generator)| generator.fills())
    }

    /// The head that predicts tokens from hidden states of a generator.
    ///
    /// # Panics
    /// If it has none; plans make that impossible.
    #[must_use]
    pub(crate) fn head(&self, generator: &str) -> &TokenHeadWeights {
        let head = self.sampler(generator).and_then(TokenSampler::head);
        head.unwrap_or_else(|| panic!("the plan knows which networks predict, `{generator}` does not"))
    }

    /// The shape of the main network.
    #[must_use]
    pub(crate) fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Where the weights live.
    #[must_use]
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// How matrix products are computed.
    #[must_use]
    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    /// Number of ids, without padding.
    #[must_use]
    pub(crate) fn vocab_ids(&self) -> u32 {
        self.vocab_size
    }

    /// The ids of frames and masks.
    #[must_use]
    pub(crate) fn special(&self) -> SpecialIds {
        self.special
    }

    /// The word table of a network, `[padded_rows(vocab_size), e]`, for tying.
    pub(crate) fn word_table(&self, network: &str) -> &Weight {
        self.encoder(network).word_table()
    }
}

/// Copies the main encoder's weights to every network that is a copy of it: once, when a run begins.
pub(crate) fn teach(networks: &BTreeMap<String, AnyNetwork>, parameters: &Parameters) {
    let copies = networks.iter().filter(|(_, network)| network.copies_main());
    for prefix in copies.map(|(name, _)| format!("{name}.")) {
        let copies = parameters.iter().filter_map(|(name, weight)| Some((name.strip_prefix(&prefix)?, &weight.tensor)));
        for (name, copy) in copies {
            let main = parameters.get(name).expect("a copy has the main network's weights");
            let copy_from = |copy: &Tensor| copy.shallow_clone().copy_(&main.detach());
            tch::no_grad(|| copy_from(copy));
        }
    }
}
