//! Built networks of a run, and the tables that they share with the objectives.

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

/// All networks of the run.
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
    /// Builds the main encoder below `encoder` and each other network below its name.
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

    /// Sets whether backward passes recompute activations (activation checkpointing).
    #[must_use]
    pub(crate) fn recomputing(self, recomputes: bool) -> Self {
        Self { recomputes, ..self }
    }

    /// Returns whether passes with gradient use activation checkpointing.
    #[must_use]
    pub(crate) fn recomputes(&self) -> bool {
        self.recomputes
    }

    /// Returns the encoder of a network by its name. Plans contain only valid names.
    #[must_use]
    pub(crate) fn encoder(&self, network: &str) -> &Encoder {
        let other = || self.others.get(network).and_then(|other| other.encoder.as_ref());
        let found = if network == MAIN { Some(&self.main) } else { other() };
        found.unwrap_or_else(|| panic!("network `{network}` has no encoder; the plan should have rejected it"))
    }

    /// Returns the mode of a network when the run is in `mode`.
    #[must_use]
    pub(crate) fn mode(&self, network: &str, mode: Mode) -> Mode {
        if self.others.get(network).is_some_and(|other| other.is_still) { Mode::Eval } else { mode }
    }

    fn samplers(&self) -> impl Iterator<Item = (&str, &TokenSampler)> {
        self.others.iter().filter_map(|(name, other)| Some((name.as_str(), other.sampler.as_ref()?)))
    }

    /// Returns the sampler that makes `view`, with the name of its network. Returns `None` for a view of the batch.
    #[must_use]
    pub(crate) fn sampler_of(&self, view: &str) -> Option<(&str, &TokenSampler)> {
        self.samplers().find(|(_, sampler)| sampler.output_view() == view)
    }

    /// Returns the sampler of a network by its name.
    #[must_use]
    pub(crate) fn sampler(&self, network: &str) -> Option<&TokenSampler> {
        self.others.get(network)?.sampler.as_ref()
    }

    /// Returns the view of the batch with the same positions to predict and the same real tokens as `view`. That is
    /// `view` itself, or, for a view that a generator makes, the generator's input view. The host computes its counts
    /// on that view.
    #[must_use]
    pub(crate) fn stored_view<'a>(&'a self, view: &'a str) -> &'a str {
        self.sampler_of(view).map_or(view, |(_, generator)| generator.input_view())
    }

    /// Returns the head that predicts tokens from hidden states of a generator.
    ///
    /// # Panics
    /// If the generator has no head. Validated plans exclude this case.
    #[must_use]
    pub(crate) fn head(&self, generator: &str) -> &TokenHeadWeights {
        let head = self.sampler(generator).and_then(TokenSampler::head);
        head.unwrap_or_else(|| {
            panic!("network `{generator}` has no head that predicts tokens; the plan should have rejected it")
        })
    }

    /// Returns the shape of the main network.
    #[must_use]
    pub(crate) fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Returns the device of the weights.
    #[must_use]
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Returns the precision of matrix products.
    #[must_use]
    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the number of ids, without padding.
    #[must_use]
    pub(crate) fn vocab_ids(&self) -> u32 {
        self.vocab_size
    }

    /// Returns the ids of the special tokens.
    #[must_use]
    pub(crate) fn special(&self) -> SpecialIds {
        self.special
    }

    /// Returns the word table of a network, `[padded_rows(vocab_size), e]`, for tying.
    pub(crate) fn word_table(&self, network: &str) -> &Weight {
        self.encoder(network).word_table()
    }
}

/// Copies the main encoder's weights to every network that is a copy of it, once at the start of a run.
pub(crate) fn copy_to_teacher(networks: &BTreeMap<String, AnyNetwork>, parameters: &Parameters) {
    let copies = networks.iter().filter(|(_, network)| network.copies_main());
    for prefix in copies.map(|(name, _)| format!("{name}.")) {
        let copies = parameters.iter().filter_map(|(name, weight)| Some((name.strip_prefix(&prefix)?, &weight.tensor)));
        for (name, copy) in copies {
            let main = parameters.get(name).expect("every weight of a copy exists in the main network");
            let copy_from = |copy: &Tensor| copy.shallow_clone().copy_(&main.detach());
            tch::no_grad(|| copy_from(copy));
        }
    }
}
