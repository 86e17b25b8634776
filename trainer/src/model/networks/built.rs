//! The networks of a run, built, and the tables that they and the objectives share.

use std::collections::BTreeMap;

use schemas::SpecialIds;
use tch::{Device, Tensor};

use super::sampler::Sampler;
use super::{AnyNetwork, MAIN};
use crate::device::precision::Precision;
use crate::model::encoder::{Encoder, Shared};
use crate::model::layers::Mode;
use crate::model::parameters::Parameters;
use crate::model::shape::{EncoderConfig, VocabFacts};
use crate::model::weights::HeadWeights;

/// One network, built.
#[derive(Debug)]
pub struct Network {
    encoder: Encoder,
    // Always in eval mode.
    is_still: bool,
}

impl Network {
    /// Its encoder.
    #[must_use]
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// How it is run when the run is in `mode`.
    #[must_use]
    pub fn mode(&self, mode: Mode) -> Mode {
        if self.is_still { Mode::Eval } else { mode }
    }
}

/// Every network of the run.
#[derive(Debug)]
pub struct Networks {
    by_name: BTreeMap<String, Network>,
    generators: BTreeMap<String, Sampler>,
    config: EncoderConfig,
    precision: Precision,
    vocab_size: i64,
    special: SpecialIds,
    device: Device,
}

impl Networks {
    /// Makes the main encoder, under `encoder`, and the others, each under its name.
    #[must_use]
    pub fn build(
        config: &EncoderConfig,
        others: &BTreeMap<String, AnyNetwork>,
        vocab: &VocabFacts,
        precision: Precision,
        parameters: &mut Parameters,
    ) -> Self {
        let main = Encoder::build(config, vocab.size, precision, &Shared::default(), &mut parameters.path("encoder"));
        let mut networks = Self {
            by_name: BTreeMap::new(),
            generators: BTreeMap::new(),
            config: config.clone(),
            precision,
            vocab_size: i64::from(vocab.size),
            special: vocab.special,
            device: parameters.device(),
        };
        for (name, network) in others {
            match network {
                AnyNetwork::Teacher(teacher) => {
                    let mut path = parameters.path(name);
                    let mut path = path.frozen(true);
                    let encoder =
                        Encoder::build(config, vocab.size, precision, &Shared::default(), &mut path.sub("encoder"));
                    networks.by_name.insert(name.clone(), Network { encoder, is_still: !teacher.dropout });
                }
                AnyNetwork::Generator(generator) => {
                    let (encoder, sampler) = generator.build(name, &main, config, vocab, precision, parameters);
                    let is_still = generator.is_still();
                    networks.by_name.extend(encoder.map(|encoder| (name.clone(), Network { encoder, is_still })));
                    networks.generators.insert(name.clone(), sampler);
                }
            }
        }
        networks.by_name.insert(MAIN.to_owned(), Network { encoder: main, is_still: false });
        networks
    }

    /// The network of that name; plans make a wrong one impossible.
    #[must_use]
    pub fn get(&self, network: &str) -> &Network {
        self.by_name.get(network).unwrap_or_else(|| panic!("the plan knows every network, not `{network}`"))
    }

    /// The generator that makes `view`, with its name; `None` for a view of the batch.
    #[must_use]
    pub fn maker(&self, view: &str) -> Option<(&str, &Sampler)> {
        let mut generators = self.generators.iter();
        generators.find(|(_, generator)| generator.makes() == view).map(|(name, generator)| (name.as_str(), generator))
    }

    /// The view of the batch that has the same tokens to predict and the same real tokens as `view`: itself, or the one
    /// that a generator fills to make it. What is counted on the host is counted there.
    #[must_use]
    pub fn host_view<'a>(&'a self, view: &'a str) -> &'a str {
        self.maker(view).map_or(view, |(_, generator)| generator.fills())
    }

    /// The head that predicts tokens from hidden states of a generator.
    ///
    /// # Panics
    /// If it has none; plans make that impossible.
    #[must_use]
    pub fn head(&self, generator: &str) -> &HeadWeights {
        let head = self.generators.get(generator).and_then(Sampler::head);
        head.unwrap_or_else(|| panic!("the plan knows which networks predict, `{generator}` does not"))
    }

    /// The shape of the main network.
    #[must_use]
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Width of the main network's hidden states.
    #[must_use]
    pub fn hidden(&self) -> i64 {
        i64::from(self.config.hidden)
    }

    /// Where the weights live.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// How matrix products are computed.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Number of ids, without padding.
    #[must_use]
    pub fn vocab_size(&self) -> i64 {
        self.vocab_size
    }

    /// The same, as ids are counted.
    #[must_use]
    pub fn vocab_ids(&self) -> u32 {
        u32::try_from(self.vocab_size).expect("it came from 32 bits")
    }

    /// The ids of frames and masks.
    #[must_use]
    pub fn special(&self) -> SpecialIds {
        self.special
    }

    /// The word table of a network, `[padded_rows(vocab_size), e]`, for tying.
    pub fn word_table(&self, network: &str) -> &Tensor {
        self.get(network).encoder.word_table()
    }
}

/// Copies the main encoder's weights to every teacher: once, when a run begins.
pub fn teach(networks: &BTreeMap<String, AnyNetwork>, parameters: &Parameters) {
    let teachers = networks.iter().filter(|(_, network)| matches!(network, AnyNetwork::Teacher(_)));
    for prefix in teachers.map(|(name, _)| format!("{name}.")) {
        let copies = parameters.iter().filter_map(|(name, weight)| Some((name.strip_prefix(&prefix)?, &weight.tensor)));
        for (name, copy) in copies {
            let main = parameters.get(name).expect("a teacher has the main network's weights");
            let copy_from = |copy: &Tensor| copy.shallow_clone().copy_(&main.detach());
            tch::no_grad(|| copy_from(copy));
        }
    }
}
