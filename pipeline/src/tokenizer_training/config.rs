//! The `[tokenizer]` section.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::split::{BertSplit, ByteSplit, Split};
use crate::{Error, Result};

/// Which tokenizer to train: the `[tokenizer]` section of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerConfig {
    /// The family.
    pub kind: Family,
    /// Number of ids, special tokens and alphabet included.
    pub vocab_size: u32,
    /// Whether text is lowercased and stripped of accents (WordPiece only).
    pub lowercase: bool,
    /// Pairs that occur less often are not merged.
    pub min_frequency: u64,
    /// Characters that get an id of their own, the most frequent ones (WordPiece only).
    pub limit_alphabet: usize,
    /// Share of documents that it learns from, chosen by their hash; above 0, at most 1. A document of the training split is
    /// among them if the second 8 bytes of the BLAKE3 of its id, little endian, are less than this share of 2^64: the same
    /// ones whatever the order of files and the number of workers, and those of a smaller share among those of a larger one.
    pub sample: f64,
}

impl Default for TokenizerConfig {
    /// BERT's English vocabulary in size and treatment (Devlin et al. 2019).
    fn default() -> Self {
        Self {
            kind: Family::Wordpiece,
            vocab_size: 30_522,
            lowercase: true,
            min_frequency: 2,
            limit_alphabet: 1000,
            sample: 1.0,
        }
    }
}

impl TokenizerConfig {
    /// Refuses values that make no sense.
    pub(super) fn check(&self) -> Result<()> {
        let Self { vocab_size, sample, .. } = self;
        if *vocab_size > IDS_MAX {
            return Err(Error::Config(format!(
                "`tokenizer.vocab_size = {vocab_size}`: a tokenizer is trained to {IDS_MAX} ids at most; 30,522 and 50,265 \
                 are usual"
            )));
        }
        if !(*sample > 0.0 && *sample <= 1.0) {
            return Err(Error::Config(format!(
                "`tokenizer.sample = {sample:?}`: not a share of documents to learn from; give more than 0 and at most 1, \
                 or leave it out to learn from all"
            )));
        }
        Ok(())
    }

    /// How its family splits text.
    pub(super) fn split(&self) -> Result<Arc<dyn Split>> {
        Ok(match self.kind {
            Family::Wordpiece => Arc::new(BertSplit::new(self.lowercase)),
            Family::ByteBpe => Arc::new(ByteSplit::new()?),
        })
    }
}

/// A family of tokenizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// BERT: normalizer, pre-tokenizer, `##` for continued words.
    #[default]
    Wordpiece,
    /// GPT-2's byte-level pairs with RoBERTa's special tokens.
    ByteBpe,
}

impl Family {
    pub(super) fn specials(self) -> [&'static str; 5] {
        match self {
            Self::Wordpiece => ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            Self::ByteBpe => ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        }
    }

    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Wordpiece => "##",
            Self::ByteBpe => "",
        }
    }
}

/// Ids of a trained tokenizer, at most: some room is taken for each before any word is counted.
const IDS_MAX: u32 = 1 << 22;
