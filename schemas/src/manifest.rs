//! What `prepare` promises and `train` believes.
//!
//! # The prepared folder, version 3
//!
//! ```text
//! manifest.json                       this file, sealed (see `sealed`): written last
//! tokenizer.json                      the tokenizer, as used
//! versions/00000.json …            part lists, each sealed and written before its first part; never changed
//! provisional_manifest.json                      all of the manifest that is known before the first part, sealed: written before it
//! vocab/announced.parquet             as the next, without counts
//! vocab/00000.parquet …               token, word_start, count: one row per id; counts of what is in effect
//! train/part-00000-00-00.parquet …    shards (see `sample`)
//! valid/part-00000-00-00.parquet …
//! documents/part-00000-00.parquet …   which documents are where, one row each, in the order of their source
//! parts/part-00000-00.json …          commit records, one per segment of a part, sealed: what is folded into the manifest
//! lock                                who works on the folder, or did
//! ```
//!
//! A folder is a list of **dataset versions**. The first holds the parts of the corpus as it was; each later one adds parts,
//! drops parts, or both. What is *in effect* in a dataset version is what it and those before it added and none of them
//! dropped. A part's number is never used again, so that a sample is known forever by (part, row): see
//! [`SampleAddress`](crate::SampleAddress).
//!
//! A part that is long (a large file that cannot be entered) is made of **segments**, each with shards and a record of its
//! own; its rows count on over them. `documents/` has the columns `id` (string), `document` (uint64, as in the shards),
//! `source` (string, the name of the file), `start` and `end` (uint64: bytes of the decompressed file, or rows of a Parquet
//! file), `valid` (bool), `row` (uint64: where it begins among the part's rows of that split; a row that packing dropped is
//! not there) and `tokens` (uint32).
//!
//! A dataset version that was superseded before it was whole, or whose parts are gone from a manifest that had to be rebuilt,
//! has an empty `content`, no vocabulary, and no shards of the parts that are gone: nothing can begin with it.
//!
//! But for the lock, nothing in it depends on time, host, absolute paths or the number of actors. A reader must refuse another version.

mod check;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ordinal::{DatasetVersion, PartId};
use crate::sealed::{SealError, Sealed};
use crate::vocab::SpecialIds;

/// The manifest's name in a prepared folder.
pub const NAME: &str = "manifest.json";

/// The tokenizer's.
pub const TOKENIZER: &str = "tokenizer.json";

/// The version of the prepared folder's format.
pub const VERSION: u32 = 3;

/// Rows per row group: the unit of shuffling and of decoding. 2048 rows of 510 `uint16` are 2 MiB, about 5 ms to decode.
pub const ROWS_PER_GROUP: usize = 2048;

/// Why a manifest is refused.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Made by another version.
    #[error(
        "format version {found}, this program reads {VERSION}; prepare the corpus again with this version, into another folder"
    )]
    Version {
        /// The version found.
        found: u64,
    },
    /// Not a manifest at all, a cut one, or some byte was changed.
    #[error("{0}; run `cloze prepare` again, it makes it again from `parts/`")]
    Damaged(SealError),
    /// A sealed manifest that contradicts itself.
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

/// The manifest of a prepared folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The tokenizer in a few words.
    pub tokenizer: TokenizerInfo,
    /// Longest row that a frame may make of a sample, frame tokens included.
    pub max_seq_len: u32,
    /// How documents were packed.
    pub pack: Pack,
    /// BLAKE3 of files that all dataset versions share, by name: `tokenizer.json`.
    pub files: BTreeMap<String, String>,
    /// What was prepared, and what was added and dropped since; at least one.
    pub dataset_versions: Vec<DatasetVersionEntry>,
}

/// One dataset version of a prepared folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetVersionEntry {
    /// Parts of earlier dataset versions that it drops, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<PartId>,
    /// Parts that it adds, in order.
    pub parts: Vec<PartEntry>,
    /// The vocabulary with the counts of what is in effect.
    pub vocab: FileEntry,
    /// What was read and rejected of what is in effect.
    pub corpus: CorpusReport,
    /// One name for the training data in effect, whatever its compression: see [`Split::content`]. Empty if it was never
    /// whole, or is no longer known.
    pub content: String,
}

/// A file of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Path within the folder, `/` separated.
    pub path: String,
    /// BLAKE3 of it.
    pub blake3: String,
}

/// One part of a dataset version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartEntry {
    /// Its number, never used for another.
    pub id: PartId,
    /// Its training shards, in order.
    pub train: Vec<Shard>,
    /// Its validation shards, in order.
    pub valid: Vec<Shard>,
}

/// What is in effect in a dataset version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effective {
    /// The training split.
    pub train: Split,
    /// The validation split; may be empty.
    pub valid: Split,
}

/// What training needs to know of the tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerInfo {
    /// BLAKE3 of `tokenizer.json` without padding and truncation, keys sorted.
    pub fingerprint: String,
    /// `wordpiece` or `byte_bpe`, or the model type that the file names.
    pub kind: String,
    /// Number of ids.
    pub vocab_size: u32,
    /// Whether text is lowercased.
    pub lowercase: bool,
    /// The special ids.
    pub special: SpecialIds,
    /// All ids that are never masked, ascending; those of `special` among them.
    pub specials: Vec<u32>,
}

/// How documents became samples: all that training has to know of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pack {
    /// The name in configurations.
    pub name: String,
    /// Content tokens of a full sample.
    pub content: u32,
    /// What a frame adds around them.
    #[serde(default, skip_serializing_if = "Frame::is_default")]
    pub frame: Frame,
    /// Whether samples say where their sentences begin.
    pub keeps_sentences: bool,
    /// Whether a sample may be cut anywhere, so that narrower rows are made of its pieces.
    pub cuts: bool,
}

/// What a frame adds around the content of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// `[CLS]` before and `[SEP]` behind.
    #[default]
    ClsSep,
    /// Nothing: these tokens are inside the sample already.
    None,
}

impl Frame {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One side of the train/valid split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Its shards, in order.
    pub shards: Vec<Shard>,
}

impl Split {
    /// Stored samples.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.shards.iter().map(|shard| shard.rows).sum()
    }

    /// Content tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.shards.iter().map(|shard| shard.tokens).sum()
    }

    /// One name for the data, whatever its compression: BLAKE3 over the shards' content hashes.
    #[must_use]
    pub fn content(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for shard in &self.shards {
            hasher.update(shard.content.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// One shard of a split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Path within the folder, `/` separated.
    pub path: String,
    /// The part that it is of.
    pub part: PartId,
    /// Rows of the part and split before its first.
    pub first_row: u32,
    /// Samples.
    pub rows: u64,
    /// Content tokens.
    pub tokens: u64,
    /// Rows of each row group, in order: what the sampler counts with, so that planning opens no shard.
    pub groups: Vec<u32>,
    /// Length of the file.
    pub bytes: u64,
    /// BLAKE3 of the file.
    pub blake3: String,
    /// BLAKE3 of the decoded columns: equal after recompressing or repairing, and what checkpoints refer to.
    pub content: String,
}

/// What `prepare` saw. Counts are over the whole corpus, both splits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusReport {
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
    /// Documents that were left out because they are to be forgotten; absent where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forgotten: u64,
    /// Lines or documents rejected or repaired, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// What packing found and cut; absent where there is nothing to tell.
    #[serde(default, skip_serializing_if = "PackReport::is_empty")]
    pub packing: PackReport,
}

/// What packing found and cut, over both splits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackReport {
    /// Sentences, where they are kept.
    pub sentences: u64,
    /// Sentences that were longer than a sample, so cut.
    pub cut_sentences: u64,
    /// Documents that were longer than a sample, so truncated.
    pub cut_documents: u64,
    /// Tokens that no sample holds: those of truncated documents, or those left at the end of a part.
    pub cut_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl PackReport {
    /// Adds another's counts.
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
        for (reason, count) in &other.rejected {
            *self.rejected.entry(reason.clone()).or_default() += count;
        }
        self.packing.add(&other.packing);
    }
}

impl Sealed for Manifest {
    const FORMAT: &'static str = "cloze manifest";
    const VERSION: u32 = VERSION;
    const PRETTY: bool = true;
}

impl Manifest {
    /// The bytes of `manifest.json`.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        self.seal()
    }

    /// Reads `manifest.json`.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest = Self::unseal(bytes)?;
        manifest.check().map_err(ManifestError::Contradiction)?;
        Ok(manifest)
    }

    /// The dataset version that was added last.
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

    /// What a dataset version adds and drops.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn dataset_version(&self, dataset_version: DatasetVersion) -> &DatasetVersionEntry {
        &self.dataset_versions[dataset_version.0 as usize]
    }

    /// The shards in effect in a dataset version: those of its parts and of the parts before, in order, without what was dropped
    /// up to then.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn effective(&self, dataset_version: DatasetVersion) -> Effective {
        let mut effective = Effective::default();
        for part in self.parts(dataset_version) {
            effective.train.shards.extend_from_slice(&part.train);
            effective.valid.shards.extend_from_slice(&part.valid);
        }
        effective
    }

    /// The parts in effect in a dataset version, in order.
    ///
    /// # Panics
    /// If it is not there.
    pub fn parts(&self, dataset_version: DatasetVersion) -> impl Iterator<Item = &PartEntry> {
        let so_far = &self.dataset_versions[..=dataset_version.0 as usize];
        let dropped: BTreeSet<PartId> = so_far.iter().flat_map(|entry| &entry.dropped).copied().collect();
        so_far.iter().flat_map(|entry| &entry.parts).filter(move |part| !dropped.contains(&part.id))
    }

    /// The shards in effect in the newest dataset version.
    #[must_use]
    pub fn now(&self) -> Effective {
        self.effective(self.newest())
    }

    /// The parts that a later dataset version dropped though they are in effect in this one, each with the dataset version that did.
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
