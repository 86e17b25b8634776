//! The encoders of a run, by name, and the tables that objectives share with them.

use std::collections::BTreeMap;

use schemas::SpecialIds;
use tch::{Device, Tensor};

use crate::encoder::Encoder;
use crate::parameters::Parameters;
use crate::plan::{EncoderConfig, VocabFacts};
use crate::precision::{MASTER, Precision};

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
    // −inf for each padding row of the word table.
    padding_p: Tensor,
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
        let padding = padded_rows(vocab.size) - i64::from(vocab.size);
        let padding_p = Tensor::full([padding], f64::NEG_INFINITY, (MASTER, parameters.device()));
        let main = Encoder::build(config, vocab.size, precision, &mut parameters.path("encoder"));
        let by_name = BTreeMap::from([(MAIN.to_owned(), main)]);
        Self {
            by_name,
            config: config.clone(),
            precision,
            vocab_size: i64::from(vocab.size),
            special: vocab.special,
            padding_p,
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
        self.padding_p.device()
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

    /// Scores of all ids against a tied word table: `transformed_nd · Eᵀ + bias_v`, float32, `[n, padded rows]`.
    ///
    /// `bias_v` has one entry per id. The scores of padding rows are −inf: they take no probability and their rows
    /// get a gradient of exactly 0.
    pub fn tied_logits(&self, network: &str, transformed_nd: &Tensor, bias_v: &Tensor) -> Tensor {
        let bias_p = Tensor::cat(&[bias_v, &self.padding_p], 0);
        let compute = |tensor: &Tensor| self.precision.compute(tensor);
        let table = compute(self.word_table(network));
        self.precision.widen(&compute(transformed_nd).linear(&table, Some(&compute(&bias_p))))
    }
}
