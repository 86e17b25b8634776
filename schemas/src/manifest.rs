//! Manifest of a prepared folder: the contract between `prepare` and `train`.
//!
//! # The prepared folder, version 3
//!
//! ```text
//! manifest.json                       this file, sealed (see `sealed`): written last
//! tokenizer.json                      the tokenizer, as used
//! versions/00000.json …            part lists, each sealed and written before its first part; never changed
//! provisional_manifest.json           manifest fields known before the first part, sealed: written before it
//! vocab/announced.parquet             vocabulary without counts, columns as in the next file
//! vocab/00000.parquet …               token, word_start, count: one row per id; counts of the parts in effect
//! train/part-00000-00-00.parquet …    shards (see `sample`)
//! valid/part-00000-00-00.parquet …
//! documents/part-00000-00.parquet …   positions of documents, one row each, in the order of their source
//! removed/part-00000-00.jsonl.zst …   removed documents, one JSON object each: only by choice
//! parts/part-00000-00.json …          commit records, one per segment of a part, sealed: merged into the manifest
//! signatures/part-00000.bin, .json    signatures of documents, and their sealed record: only if duplicates are removed
//! verdicts/part-00000.bin             removed duplicates of each part; `verdicts/00000.json` of each version is sealed
//!                                     with lists of removed documents, `part-00000.jsonl.zst` in both: ids, partners
//! lock                                current or last holder of the folder's lock
//! ```
//!
//! A folder is a list of **dataset versions**. The first contains the parts of the original corpus. Each later one adds
//! parts, drops parts, or both. The parts *in effect* in a dataset version are those that it or an earlier version
//! added and none of them dropped. A part's number is never used again, so (part, row) identifies a sample permanently:
//! see [`SampleAddress`](crate::SampleAddress).
//!
//! A long part (a large file without entry points) consists of **segments**. Each segment has separate shards and a
//! separate record; row numbers continue across segments. `documents/` has the columns `id` (string), `document`
//! (uint64, as in the shards), `source` (string, the name of the file), `start` and `end` (uint64: bytes of the
//! decompressed file, or rows of a Parquet file), `valid` (bool), `row` (uint64: first row among the part's rows of
//! that split; rows dropped by packing are absent) and `tokens` (uint32).
//!
//! Some dataset versions have an empty `content`, no vocabulary, and no shards of their missing parts: those superseded
//! before they were complete, and those whose parts are missing from a rebuilt manifest. No run can start with them.
//!
//! Except for the lock, no content depends on time, host, absolute paths or the number of workers. A reader must refuse
//! another version.

mod check;
mod filter_report;
mod removed;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::filter_report::{FilterReport, TextCount};
pub use self::removed::{ContaminationCounts, DuplicateCounts, TestSetCounts};
use crate::ordinal::{DatasetVersion, PartId};
use crate::sealed::{SealError, Sealed};
use crate::vocab::SpecialIds;

/// File name of the manifest in a prepared folder.
pub const NAME: &str = "manifest.json";

/// File name of the tokenizer.
pub const TOKENIZER: &str = "tokenizer.json";

/// Version of the prepared folder's format.
pub const VERSION: u32 = 3;

/// Rows per row group: the unit of shuffling and of decoding. 2048 rows of 510 `uint16` are 2 MiB, about 5 ms to
/// decode.
pub const ROWS_PER_GROUP: usize = 2048;

/// Error of a refused manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Written by another format version.
    #[error(
        "format version {found}, this program reads {VERSION}; prepare the corpus again with this version, into another folder"
    )]
    Version {
        /// Version found.
        found: u64,
    },
    /// Not a manifest, a truncated one, or one with a changed byte.
    #[error("{0}; run `cloze prepare` again, it makes it again from `parts/`")]
    Damaged(SealError),
    /// Sealed manifest with inconsistent content.
    #[error("{0}; it was not written by this program: prepare the corpus again, into another folder")]
    Contradiction(String),
}

impl From<SealError> for ManifestError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Version { found, .. } => Self::Version { found },
            other => Self::Damaged(other),
        }
    }
}

/// Manifest of a prepared folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Summary of the tokenizer.
    pub tokenizer: TokenizerInfo,
    /// Longest row that a frame may make of a sample, frame tokens included.
    pub max_seq_len: u32,
    /// Packing of the documents.
    pub pack: Pack,
    /// BLAKE3 of files that all dataset versions share, by name: `tokenizer.json`.
    pub files: BTreeMap<String, String>,
    /// Dataset versions, oldest first; at least one.
    pub dataset_versions: Vec<DatasetVersionEntry>,
}

/// One dataset version of a prepared folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetVersionEntry {
    /// Parts of earlier dataset versions that this one drops, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<PartId>,
    /// Parts that this one adds, in order.
    pub parts: Vec<PartEntry>,
    /// Vocabulary with the counts of the parts in effect.
    pub vocab: FileEntry,
    /// Counts of read and rejected documents of the parts in effect.
    pub corpus: CorpusReport,
    /// Hash of the training data in effect, independent of compression: see [`Split::content`]. Empty if the version
    /// was never complete, or if its content is unknown.
    pub content: String,
}

/// File of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Path within the folder, `/` separated.
    pub path: String,
    /// BLAKE3 of the file.
    pub blake3: String,
}

/// Part of a dataset version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartEntry {
    /// Number of the part, never reused.
    pub id: PartId,
    /// Training shards, in order.
    pub train: Vec<Shard>,
    /// Validation shards, in order.
    pub valid: Vec<Shard>,
}

/// Data in effect in a dataset version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effective {
    /// Training split.
    pub train: Split,
    /// Validation split; may be empty.
    pub valid: Split,
}

/// Tokenizer facts that training needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerInfo {
    /// BLAKE3 of `tokenizer.json` without padding and truncation, keys sorted.
    pub fingerprint: String,
    /// `wordpiece` or `byte_bpe`, or the model type named in the file.
    pub kind: String,
    /// Number of ids.
    pub vocab_size: u32,
    /// True if text is lowercased.
    pub lowercase: bool,
    /// Special ids.
    pub special: SpecialIds,
    /// All ids that are never masked, ascending; includes those of `special`.
    pub specials: Vec<u32>,
}

/// Packing facts that training needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pack {
    /// Name in configurations.
    pub name: String,
    /// Content tokens of a full sample.
    pub content: u32,
    /// Frame tokens around the content.
    #[serde(default, skip_serializing_if = "Frame::is_default")]
    pub frame: Frame,
    /// True if samples record the starts of their sentences.
    pub keeps_sentences: bool,
    /// True if a sample may be cut anywhere, so that its pieces can fill narrower rows.
    pub cuts: bool,
    /// True if samples are labelled examples with targets.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_targets: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Frame tokens around the content of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// `[CLS]` before and `[SEP]` after the content.
    #[default]
    ClsSep,
    /// None: these tokens are inside the sample already.
    None,
}

impl Frame {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Training or validation split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Shards, in order.
    pub shards: Vec<Shard>,
}

impl Split {
    /// Returns the number of stored samples.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.shards.iter().map(|shard| shard.rows).sum()
    }

    /// Returns the number of content tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.shards.iter().map(|shard| shard.tokens).sum()
    }

    /// Returns a hash of the data that is independent of compression: BLAKE3 over the shards' content hashes.
    #[must_use]
    pub fn content(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for shard in &self.shards {
            hasher.update(shard.content.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Shard of a split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Path within the folder, `/` separated.
    pub path: String,
    /// Part of the shard.
    pub part: PartId,
    /// Rows of the part and split before the shard's first row.
    pub first_row: u32,
    /// Samples.
    pub rows: u64,
    /// Content tokens.
    pub tokens: u64,
    /// Rows of each row group, in order: input of the sampler, so that planning opens no shard.
    pub groups: Vec<u32>,
    /// Length of the file.
    pub bytes: u64,
    /// BLAKE3 of the file.
    pub blake3: String,
    /// BLAKE3 of the decoded columns: unchanged by recompression or repair. Checkpoints refer to it.
    pub content: String,
}

/// Counts of `prepare` over the whole corpus, both splits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusReport {
    /// Documents kept.
    pub documents: u64,
    /// Bytes of text in these documents.
    pub text_bytes: u64,
    /// Words (runs of non-white-space) in these documents.
    pub words: u64,
    /// Tokens of these documents, without separators.
    pub tokens: u64,
    /// Unknown tokens among these.
    pub unknown: u64,
    /// Documents excluded because they are to be forgotten; absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forgotten: u64,
    /// Documents excluded as duplicates; absent if there are none.
    #[serde(default, skip_serializing_if = "DuplicateCounts::is_empty")]
    pub duplicates: DuplicateCounts,
    /// Documents excluded because they share text with test sets; absent if there are none.
    #[serde(default, skip_serializing_if = "ContaminationCounts::is_empty")]
    pub contaminated: ContaminationCounts,
    /// Lines or documents rejected or repaired, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Counts of the normalization and of each filter, in their order; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterReport>,
    /// Sentences and cuts of packing; absent if all counts are 0.
    #[serde(default, skip_serializing_if = "PackReport::is_empty")]
    pub packing: PackReport,
}

/// Sentences and cuts of packing, over both splits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackReport {
    /// Sentences, if they are kept.
    pub sentences: u64,
    /// Sentences that were longer than a sample and therefore cut.
    pub cut_sentences: u64,
    /// Documents that were longer than a sample and therefore truncated.
    pub cut_documents: u64,
    /// Tokens that no sample contains: those of truncated documents, or those left at the end of a part.
    pub cut_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl PackReport {
    /// Adds another report's counts.
    pub fn add(&mut self, other: &Self) {
        self.sentences += other.sentences;
        self.cut_sentences += other.cut_sentences;
        self.cut_documents += other.cut_documents;
        self.cut_tokens += other.cut_tokens;
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl CorpusReport {
    /// Adds another part's report.
    pub fn add(&mut self, other: &Self) {
        self.documents += other.documents;
        self.text_bytes += other.text_bytes;
        self.words += other.words;
        self.tokens += other.tokens;
        self.unknown += other.unknown;
        self.forgotten += other.forgotten;
        self.duplicates.add(&other.duplicates);
        self.contaminated.add(&other.contaminated);
        for (reason, count) in &other.rejected {
            *self.rejected.entry(reason.clone()).or_default() += count;
        }
        FilterReport::add_all(&mut self.filters, &other.filters);
        self.packing.add(&other.packing);
    }
}

impl Sealed for Manifest {
    const FORMAT: &'static str = "cloze manifest";
    const VERSION: u32 = VERSION;
    const PRETTY: bool = true;
}

impl Manifest {
    /// Serializes the manifest to the bytes of `manifest.json`.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        self.seal()
    }

    /// Parses `manifest.json`.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest = Self::unseal(bytes)?;
        manifest.check().map_err(ManifestError::Contradiction)?;
        Ok(manifest)
    }

    /// Returns the dataset version that was added last.
    ///
    /// # Panics
    /// If there is none: a manifest that was read has one.
    #[must_use]
    pub fn newest(&self) -> DatasetVersion {
        DatasetVersion(
            u32::try_from(self.dataset_versions.len())
                .expect("dataset versions are few")
                .checked_sub(1)
                .expect("there is one"),
        )
    }

    /// Returns the parts that a dataset version adds and drops.
    ///
    /// # Panics
    /// If the version does not exist.
    #[must_use]
    pub fn dataset_version(&self, dataset_version: DatasetVersion) -> &DatasetVersionEntry {
        &self.dataset_versions[dataset_version.0 as usize]
    }

    /// Returns the shards in effect in a dataset version: those of its parts and of the parts before, in order, without
    /// the parts dropped up to then.
    ///
    /// # Panics
    /// If the version does not exist.
    #[must_use]
    pub fn effective(&self, dataset_version: DatasetVersion) -> Effective {
        let mut effective = Effective::default();
        for part in self.parts(dataset_version) {
            effective.train.shards.extend_from_slice(&part.train);
            effective.valid.shards.extend_from_slice(&part.valid);
        }
        effective
    }

    /// Returns the parts in effect in a dataset version, in order.
    ///
    /// # Panics
    /// If the version does not exist.
    pub fn parts(&self, dataset_version: DatasetVersion) -> impl Iterator<Item = &PartEntry> {
        let so_far = &self.dataset_versions[..=dataset_version.0 as usize];
        let dropped: BTreeSet<PartId> = so_far.iter().flat_map(|entry| &entry.dropped).copied().collect();
        so_far.iter().flat_map(|entry| &entry.parts).filter(move |part| !dropped.contains(&part.id))
    }

    /// Returns the shards in effect in the newest dataset version.
    #[must_use]
    pub fn now(&self) -> Effective {
        self.effective(self.newest())
    }

    /// Returns the parts that are in effect in this dataset version and that a later one dropped, each with the version
    /// that dropped it.
    #[must_use]
    pub fn dropped_since(&self, dataset_version: DatasetVersion) -> BTreeMap<PartId, DatasetVersion> {
        let (so_far, later) = self.dataset_versions.split_at(dataset_version.0 as usize + 1);
        let known: BTreeSet<PartId> = so_far.iter().flat_map(|entry| &entry.parts).map(|part| part.id).collect();
        let mut dropped = BTreeMap::new();
        for (number, entry) in (dataset_version.0 + 1..).zip(later) {
            dropped
                .extend(entry.dropped.iter().filter(|id| known.contains(id)).map(|&id| (id, DatasetVersion(number))));
        }
        dropped
    }
}

#[cfg(test)]
mod tests;
