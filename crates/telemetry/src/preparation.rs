//! Payloads of the events of a preparation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemas::DatasetVersion;
use schemas::manifest::FilterReport;
use serde::{Deserialize, Serialize};

use crate::number::{Float, OptionalNumber};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Plan of a preparation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrepareStart {
    /// Number of input files.
    pub files: u64,
    /// Size of the input files on disk in bytes.
    pub bytes: u64,
    /// Number of parts.
    pub parts: u64,
    /// Number of worker threads.
    pub workers: u64,
    /// Upper bound of the text in memory, in bytes.
    pub text_bytes_max: u64,
    /// Largest compressed file. It cannot be split, so one worker reads it from start to end.
    pub largest_compressed: Option<LargestFile>,
    /// Newest dataset version of the folder after the preparation.
    #[serde(default)]
    pub dataset_version: DatasetVersion,
    /// Tokenizer implementation, and the reason if no faster one is used, as text.
    #[serde(default)]
    pub tokenized_by: String,
    /// Changes since the previous dataset version, as text. None if this preparation starts no new version.
    #[serde(default)]
    pub change: Option<String>,
}

/// File and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LargestFile {
    /// Name of the file.
    pub name: String,
    /// Size on disk in bytes.
    pub bytes: u64,
}

/// Progress of a preparation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrepareProgress {
    /// Input bytes on disk that are done, including those of earlier processes.
    pub bytes: u64,
    /// Input bytes that earlier processes completed.
    pub bytes_kept: u64,
    /// Input bytes on disk of all parts.
    pub bytes_total: u64,
    /// Finished parts, including those of earlier processes.
    pub parts: u64,
    /// Number of parts.
    pub parts_total: u64,
    /// Bytes of text tokenized by this process.
    pub text_bytes: u64,
    /// Tokens made by this process.
    pub tokens: u64,
    /// Bytes of text per second of this process.
    #[serde(with = "Float")]
    pub text_bytes_per_s: f64,
    /// Tokens per second of this process.
    #[serde(with = "Float")]
    pub tokens_per_s: f64,
    /// Estimated seconds to the end at the rate of this process. None before its first bytes are done.
    #[serde(default, with = "OptionalNumber")]
    pub eta_s: Option<f64>,
}

impl PrepareProgress {
    /// Sets the rates and the estimate from the counts and the elapsed `seconds` of this process.
    #[must_use]
    pub fn with_elapsed(mut self, seconds: f64) -> Self {
        let seconds = seconds.max(1e-9);
        self.text_bytes_per_s = self.text_bytes as f64 / seconds;
        self.tokens_per_s = self.tokens as f64 / seconds;
        let done = self.bytes.saturating_sub(self.bytes_kept);
        let left = self.bytes_total.saturating_sub(self.bytes);
        self.eta_s = (done > 0).then(|| left as f64 * seconds / done as f64);
        self
    }

    /// Returns the fraction of all bytes that is done.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.bytes as f64 / self.bytes_total.max(1) as f64
    }
}

/// Completed part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartDone {
    /// Number of the part.
    pub part: u32,
    /// Input bytes on disk of the part.
    pub bytes: u64,
    /// Documents kept.
    pub documents: u64,
    /// Tokens of these documents.
    pub tokens: u64,
    /// Samples of both splits.
    pub samples: u64,
    /// Whether an earlier process had made the part.
    pub kept: bool,
}

/// Result of a preparation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrepareEnd {
    /// Prepared folder.
    pub place: String,
    /// Newest dataset version of the folder.
    #[serde(default)]
    pub dataset_version: DatasetVersion,
    /// Changes since the previous dataset version, as text. None if this preparation started no new version.
    #[serde(default)]
    pub change: Option<String>,
    /// Packing of documents into samples, as the configuration names it.
    pub pack: String,
    /// Parts made by this process.
    pub parts_made: u64,
    /// Parts that existed already.
    pub parts_kept: u64,
    /// Whether nothing was left to do.
    pub nothing_to_do: bool,
    /// Bytes of input files that were read, to make parts or to verify that the files are unchanged.
    #[serde(default)]
    pub bytes_read: u64,
    /// Bytes of text tokenized by this process.
    #[serde(default)]
    pub text_bytes_made: u64,
    /// Lines or documents read.
    pub lines: u64,
    /// Documents kept.
    pub documents: u64,
    /// Bytes of text in the documents.
    pub text_bytes: u64,
    /// Words (runs of non-white-space) in the documents.
    pub words: u64,
    /// Tokens of the documents, without separators.
    pub tokens: u64,
    /// Unknown tokens among them.
    pub unknown: u64,
    /// Documents that were excluded because they are to be forgotten.
    #[serde(default)]
    pub forgotten: u64,
    /// Documents removed because their words equal those of an earlier document.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exact_duplicates: u64,
    /// Documents removed because they are similar to an earlier document.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub near_duplicates: u64,
    /// Bytes of text in removed duplicates.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicate_bytes: u64,
    /// Documents removed because they share text with test sets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contaminated: u64,
    /// Bytes of text in these documents.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contaminated_bytes: u64,
    /// Documents that share text with each test set, also if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub contaminated_by: BTreeMap<String, u64>,
    /// Lines or documents rejected or repaired, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Counts of the normalization and of each filter, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterReport>,
    /// Sentences, if the packing keeps them.
    pub sentences: u64,
    /// Sentences that were cut because they are longer than a sample.
    pub cut_sentences: u64,
    /// Documents that were truncated because they are longer than a sample.
    pub cut_documents: u64,
    /// Tokens that are in no sample.
    pub cut_tokens: u64,
    /// Training split.
    pub train: SplitCounts,
    /// Validation split.
    pub valid: SplitCounts,
    /// Samples of both splits, including those that a measurement discarded.
    pub samples: u64,
    /// Content tokens of both splits, including separators.
    pub stored_tokens: u64,
    /// Capacity of these samples in content tokens.
    pub tokens_capacity: u64,
    /// Size of all shards in bytes.
    pub shard_bytes: u64,
    /// Busy time by stage, summed over the workers.
    pub stages: StageSeconds,
    /// Warnings for the operator, one sentence each.
    pub warnings: Vec<String>,
    /// Wall time in seconds.
    #[serde(with = "Float")]
    pub seconds: f64,
}

/// Size of one split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SplitCounts {
    /// Number of samples.
    pub samples: u64,
    /// Number of content tokens.
    pub tokens: u64,
}

/// Busy time by stage, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageSeconds {
    /// Reading, decompressing and cleaning.
    #[serde(with = "Float")]
    pub read: f64,
    /// Converting text to ids.
    #[serde(with = "Float")]
    pub tokenize: f64,
    /// Packing ids into samples, and document statistics.
    #[serde(with = "Float")]
    pub pack: f64,
    /// Writing samples as Parquet to disk.
    #[serde(with = "Float")]
    pub write: f64,
}

impl PrepareEnd {
    /// Returns the mean number of tokens per word.
    #[must_use]
    pub fn tokens_per_word(&self) -> f64 {
        self.tokens as f64 / self.words.max(1) as f64
    }

    /// Returns the fraction of unknown tokens.
    #[must_use]
    pub fn unknown_rate(&self) -> f64 {
        self.unknown as f64 / self.tokens.max(1) as f64
    }

    /// Returns the fraction of padding in rows of full length.
    #[must_use]
    pub fn padding_share(&self) -> f64 {
        self.tokens_capacity.saturating_sub(self.stored_tokens) as f64 / self.tokens_capacity.max(1) as f64
    }

    /// Returns the bytes on disk per stored token.
    #[must_use]
    pub fn bytes_per_token(&self) -> f64 {
        self.shard_bytes as f64 / self.stored_tokens.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::PrepareProgress;

    #[test]
    fn the_estimate_uses_the_rate_of_this_process() {
        let progress = PrepareProgress {
            bytes: 600,
            bytes_kept: 500,
            bytes_total: 1000,
            text_bytes: 300,
            tokens: 50,
            ..PrepareProgress::default()
        };
        let after = progress.with_elapsed(10.0);
        assert_eq!((after.text_bytes_per_s, after.tokens_per_s, after.eta_s), (30.0, 5.0, Some(40.0)));
        assert!((after.share() - 0.6).abs() < 1e-12);
        // This process has done nothing yet, so there is no rate.
        assert_eq!(PrepareProgress { bytes: 500, ..progress }.with_elapsed(10.0).eta_s, None);
        // Zero time and an empty corpus do not divide by zero.
        assert!(PrepareProgress::default().with_elapsed(0.0).tokens_per_s.abs() < 1e-12);
    }
}
