//! What a run found and did.

use std::time::Duration;

use schemas::Generation;
use schemas::manifest::CorpusReport;

use super::change::Change;
use super::stages::Stages;

/// A share of unknown tokens above which the tokenizer does not fit the corpus.
const UNKNOWN_RATE_MAX: f64 = 0.05;

/// What a run found and did.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The newest generation.
    pub generation: Generation,
    /// What had changed since the one before, if this run began it.
    pub change: Option<Change>,
    /// How documents became samples.
    pub pack: &'static str,
    /// Documents, words, tokens, what packing cut, and rejected lines by reason: of what is in effect.
    pub corpus: CorpusReport,
    /// Lines or documents looked at.
    pub lines: u64,
    /// Parts made by this run.
    pub parts_made: u64,
    /// Parts that were there already.
    pub parts_skipped: u64,
    /// Whether nothing at all was left to do.
    pub nothing_to_do: bool,
    /// Bytes of input files that were read, to make parts or to see that they are what they were.
    pub bytes_read: u64,
    /// Bytes of text tokenized by this run.
    pub text_bytes_made: u64,
    /// Samples of both splits.
    pub rows: u64,
    /// Content tokens of both splits, separators among them.
    pub stored_tokens: u64,
    /// Bytes of all shards.
    pub shard_bytes: u64,
    /// Samples and content tokens of the training split.
    pub train: (u64, u64),
    /// Samples and content tokens of the validation split.
    pub valid: (u64, u64),
    /// Content tokens that the same samples could hold.
    pub tokens_capacity: u64,
    /// Busy time by stage, summed over the lanes.
    pub stages: Stages,
    /// Wall time.
    pub elapsed: Duration,
}

impl Summary {
    /// Tokens per word.
    #[must_use]
    pub fn tokens_per_word(&self) -> f64 {
        self.corpus.tokens as f64 / self.corpus.words.max(1) as f64
    }

    /// Share of unknown tokens.
    #[must_use]
    pub fn unknown_rate(&self) -> f64 {
        self.corpus.unknown as f64 / self.corpus.tokens.max(1) as f64
    }

    /// A sentence for the operator where the tokenizer does not fit the corpus.
    #[must_use]
    pub fn unknown_warning(&self) -> Option<String> {
        let rate = self.unknown_rate();
        (rate > UNKNOWN_RATE_MAX).then(|| {
            format!("{:.1} % of the tokens are unknown; the tokenizer does not fit this corpus: check `lowercase` and the language, or train one with `cloze tokenizer train`", rate * 100.0)
        })
    }

    /// Share of padding that rows of `tokens_max` would have.
    #[must_use]
    pub fn padding_share(&self) -> f64 {
        (self.tokens_capacity - self.stored_tokens) as f64 / self.tokens_capacity.max(1) as f64
    }

    /// Bytes on disk per stored token.
    #[must_use]
    pub fn bytes_per_token(&self) -> f64 {
        self.shard_bytes as f64 / self.stored_tokens.max(1) as f64
    }
}
