//! What a preparation says.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemas::DatasetVersion;
use serde::{Deserialize, Serialize};

use crate::number::{Float, Maybe};

/// What will be prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrepareStart {
    /// Files.
    pub files: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Parts.
    pub parts: u64,
    /// Threads.
    pub workers: u64,
    /// Bound of all text in memory at once.
    pub text_bytes_max: u64,
    /// The largest compressed file: nobody can cut it, so one worker reads it from end to end.
    pub largest_compressed: Option<LargestFile>,
    /// The newest dataset version of the folder once this is done.
    #[serde(default)]
    pub dataset_version: DatasetVersion,
    /// What makes ids of text, and why nothing faster does, in words.
    #[serde(default)]
    pub tokenized_by: String,
    /// What has changed since the one before, in words, if this preparation begins it.
    #[serde(default)]
    pub change: Option<String>,
}

/// A file and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LargestFile {
    /// Its name.
    pub name: String,
    /// Bytes on disk.
    pub bytes: u64,
}

/// How far a preparation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrepareProgress {
    /// Bytes on disk that are done, those of earlier runs among them.
    pub bytes: u64,
    /// Those of earlier runs.
    pub bytes_kept: u64,
    /// Bytes on disk of all parts.
    pub bytes_total: u64,
    /// Finished parts, those of earlier runs among them.
    pub parts: u64,
    /// Number of parts.
    pub parts_total: u64,
    /// Bytes of text tokenized in this run.
    pub text_bytes: u64,
    /// Tokens made in this run.
    pub tokens: u64,
    /// Bytes of text per second of this run.
    #[serde(with = "Float")]
    pub text_bytes_per_s: f64,
    /// Tokens per second of this run.
    #[serde(with = "Float")]
    pub tokens_per_s: f64,
    /// Seconds to the end at this run's rate; none before its first bytes are done.
    #[serde(default, with = "Maybe")]
    pub eta_s: Option<f64>,
}

impl PrepareProgress {
    /// The same counts, with the rates that they have after so many seconds of this run.
    #[must_use]
    pub fn after(mut self, seconds: f64) -> Self {
        let seconds = seconds.max(1e-9);
        self.text_bytes_per_s = self.text_bytes as f64 / seconds;
        self.tokens_per_s = self.tokens as f64 / seconds;
        let (done, left) = (self.bytes.saturating_sub(self.bytes_kept), self.bytes_total.saturating_sub(self.bytes));
        self.eta_s = (done > 0).then(|| left as f64 * seconds / done as f64);
        self
    }

    /// The share of all bytes that is done.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.bytes as f64 / self.bytes_total.max(1) as f64
    }
}

/// A part that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartDone {
    /// Its number.
    pub part: u32,
    /// Bytes on disk that it was read from.
    pub bytes: u64,
    /// Documents kept.
    pub documents: u64,
    /// Tokens made of them.
    pub tokens: u64,
    /// Samples of both splits.
    pub samples: u64,
    /// Whether an earlier run had made it.
    pub kept: bool,
}

/// What a preparation found and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrepareEnd {
    /// The prepared folder.
    pub place: String,
    /// Its newest dataset version.
    #[serde(default)]
    pub dataset_version: DatasetVersion,
    /// What has changed since the one before, in words, if this preparation began it.
    #[serde(default)]
    pub change: Option<String>,
    /// How documents became samples: the name in configurations.
    pub pack: String,
    /// Parts made by this run.
    pub parts_made: u64,
    /// Parts that were there already.
    pub parts_kept: u64,
    /// Whether nothing at all was left to do.
    pub nothing_to_do: bool,
    /// Bytes of input files that were read, to make parts or to see that they are what they were.
    #[serde(default)]
    pub bytes_read: u64,
    /// Bytes of text tokenized by this run.
    #[serde(default)]
    pub text_bytes_made: u64,
    /// Lines or documents looked at.
    pub lines: u64,
    /// Documents kept.
    pub documents: u64,
    /// Bytes of text in them.
    pub text_bytes: u64,
    /// Words (runs of non-white-space) in them.
    pub words: u64,
    /// Tokens made of them, separators not counted.
    pub tokens: u64,
    /// Unknown tokens among these.
    pub unknown: u64,
    /// Documents that were left out because they are to be forgotten.
    #[serde(default)]
    pub forgotten: u64,
    /// Lines or documents rejected or repaired, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Sentences, where they are kept.
    pub sentences: u64,
    /// Sentences that were longer than a sample, so cut.
    pub cut_sentences: u64,
    /// Documents that were longer than a sample, so truncated.
    pub cut_documents: u64,
    /// Tokens that no sample holds.
    pub cut_tokens: u64,
    /// The training split.
    pub train: SplitFigures,
    /// The validation split.
    pub valid: SplitFigures,
    /// Samples of both splits, those that were thrown away to measure among them.
    pub samples: u64,
    /// Content tokens of both splits, separators among them.
    pub stored_tokens: u64,
    /// Content tokens that the same samples could hold.
    pub tokens_capacity: u64,
    /// Bytes of all shards.
    pub shard_bytes: u64,
    /// Busy time by stage, summed over the workers.
    pub stages: StageSeconds,
    /// What the operator should know: a sentence each.
    pub warnings: Vec<String>,
    /// Wall time.
    #[serde(with = "Float")]
    pub seconds: f64,
}

/// One side of the split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SplitFigures {
    /// Samples.
    pub samples: u64,
    /// Content tokens.
    pub tokens: u64,
}

/// Seconds by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageSeconds {
    /// Reading, decompressing and cleaning.
    #[serde(with = "Float")]
    pub read: f64,
    /// Text to ids.
    #[serde(with = "Float")]
    pub tokenize: f64,
    /// Ids to samples, and what a document came to.
    #[serde(with = "Float")]
    pub pack: f64,
    /// Samples to Parquet on disk.
    #[serde(with = "Float")]
    pub write: f64,
}

impl PrepareEnd {
    /// Tokens per word.
    #[must_use]
    pub fn tokens_per_word(&self) -> f64 {
        self.tokens as f64 / self.words.max(1) as f64
    }

    /// Share of unknown tokens.
    #[must_use]
    pub fn unknown_rate(&self) -> f64 {
        self.unknown as f64 / self.tokens.max(1) as f64
    }

    /// Share of padding that rows of full length would have.
    #[must_use]
    pub fn padding_share(&self) -> f64 {
        self.tokens_capacity.saturating_sub(self.stored_tokens) as f64 / self.tokens_capacity.max(1) as f64
    }

    /// Bytes on disk per stored token.
    #[must_use]
    pub fn bytes_per_token(&self) -> f64 {
        self.shard_bytes as f64 / self.stored_tokens.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::PrepareProgress;

    #[test]
    fn an_estimate_goes_by_what_this_run_did() {
        let progress = PrepareProgress {
            bytes: 600,
            bytes_kept: 500,
            bytes_total: 1000,
            text_bytes: 300,
            tokens: 50,
            ..PrepareProgress::default()
        };
        let after = progress.after(10.0);
        assert_eq!((after.text_bytes_per_s, after.tokens_per_s, after.eta_s), (30.0, 5.0, Some(40.0)));
        assert!((after.share() - 0.6).abs() < 1e-12);
        // Nothing done yet in this run: any estimate would be a guess.
        assert_eq!(PrepareProgress { bytes: 500, ..progress }.after(10.0).eta_s, None);
        // No time, no corpus: no division by nothing.
        assert!(PrepareProgress::default().after(0.0).tokens_per_s.abs() < 1e-12);
    }
}
