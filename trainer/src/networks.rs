//! The encoders of a run, by name, and the tables that objectives share with them.

use std::collections::BTreeMap;

use schemas::SpecialIds;
use tch::{Device, Tensor};

use crate::encoder::Encoder;
use crate::parameters::Parameters;
use crate::plan::{EncoderConfig, VocabFacts};
use crate::precision::Precision;

/// The network that a run exports.
pub const MAIN: &str = "main";

/// Rows of the word table are a multiple of this: matrix products over it stay aligned on tensor cores.
const ROWS_MULTIPLE: u32 = 64;

/// Rows of a word table for a vocabulary of `size` ids.
#[must_use]
pub fn padded_rows(size: u32) -> i64 {
    i64::from(size.next_multiple_of(ROWS_MULTIPLE))
}

/// Every network of the run.
#[derive(Debug)]
pub struct Networks {
    by_name: BTreeMap<String, Encoder>,
    config: EncoderConfig,
    precision: Precision,
    vocab_size: i64,
    special: SpecialIds,
    device: Device,
}

impl Networks {
    /// Makes the main encoder and its weights, under `encoder`.
    #[must_use]
    pub fn build(
        config: &EncoderConfig,
        vocab: &VocabFacts,
        precision: Precision,
        parameters: &mut Parameters,
    ) -> Self {
        let main = Encoder::build(config, vocab.size, precision, &mut parameters.path("encoder"));
        let by_name = BTreeMap::from([(MAIN.to_owned(), main)]);
        Self {
            by_name,
            config: config.clone(),
            precision,
            vocab_size: i64::from(vocab.size),
            special: vocab.special,
            device: parameters.device(),
        }
    }

    /// The network of that name; plans make a wrong one impossible.
    #[must_use]
    pub fn get(&self, network: &str) -> &Encoder {
        self.by_name.get(network).unwrap_or_else(|| panic!("the plan knows every network, not `{network}`"))
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

    /// The ids of frames and masks.
    #[must_use]
    pub fn special(&self) -> SpecialIds {
        self.special
    }

    /// The word table of a network, `[padded_rows(vocab_size), hidden]`, for tying.
    pub fn word_table(&self, network: &str) -> &Tensor {
        self.get(network).word_table()
    }
}
