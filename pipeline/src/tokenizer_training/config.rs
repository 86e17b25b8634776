//! Configuration section `[tokenizer]`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::split::{BertSplit, ByteSplit, Split};
use crate::{Error, Result};

/// Configuration of tokenizer training: the `[tokenizer]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerConfig {
    /// Tokenizer family.
    pub kind: Family,
    /// Number of ids, including special tokens and alphabet.
    pub vocab_size: u32,
    /// Whether text is lowercased and stripped of accents (WordPiece only).
    pub lowercase: bool,
    /// Pairs that occur less often are not merged.
    pub min_frequency: u64,
    /// Maximum number of characters with a separate id, the most frequent ones (WordPiece only).
    pub limit_alphabet: usize,
    /// Share of documents to train on, selected by hash; above 0, at most 1. A document of the training split is
    /// selected if the second 8 bytes of the BLAKE3 of its id, little endian, are less than this share of 2^64. The
    /// selection does not depend on the order of files or the number of workers. A smaller share is a subset of a
    /// larger one.
    pub sample: f64,
}

impl Default for TokenizerConfig {
    /// Size and normalization of BERT's English vocabulary (Devlin et al. 2019).
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
    /// Returns an error for invalid values.
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

    /// Returns the splitter of the family.
    pub(super) fn split(&self) -> Result<Arc<dyn Split>> {
        Ok(match self.kind {
            Family::Wordpiece => Arc::new(BertSplit::new(self.lowercase)),
            Family::ByteBpe => Arc::new(ByteSplit::new()?),
        })
    }
}

/// Tokenizer family.
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

/// Maximum number of ids: memory for each is reserved before any word is counted.
const IDS_MAX: u32 = 1 << 22;
