//! What `prepare` promises and `train` believes.
//!
//! # The prepared folder, version 1
//!
//! ```text
//! manifest.json                    this file: written last
//! tokenizer.json                   the tokenizer, as used
//! vocab.parquet                    token, word_start, count: one row per id
//! train/part-00000-00.parquet …    shards (see `sample`)
//! valid/part-00000-00.parquet …
//! parts/part-00000.json …          commit records, one per part, from which the manifest is folded
//! ```
//!
//! Nothing in it depends on time, host, absolute paths or the number of actors. `manifest.json` is strict JSON in
//! exactly the form that [`Manifest::to_json`] writes; it ends with a BLAKE3 of itself, so that any changed byte is
//! noticed. A reader must refuse another `version`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::vocab::SpecialIds;

/// The version of the prepared folder's format.
pub const VERSION: u32 = 1;

/// Why a manifest is refused.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not a manifest at all, or a cut one.
    #[error("not a manifest: {0}; run `cloze prepare` again, it rebuilds the manifest from `parts/`")]
    Syntax(#[from] serde_json::Error),
    /// Made by another version.
    #[error("format version {found}, this program reads {VERSION}; prepare the corpus again with this version")]
    Version {
        /// The version found.
        found: u64,
    },
    /// Some byte was changed.
    #[error(
        "damaged: it does not match its own checksum; run `cloze prepare` again, it rebuilds the manifest from `parts/`"
    )]
    Checksum,
}

/// The manifest of a prepared folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`VERSION`].
    pub version: u32,
    /// The tokenizer in a few words.
    pub tokenizer: Tokenizer,
    /// Longest row that a frame may make of a sample, frame tokens included.
    pub tokens_max: u32,
    /// How documents were packed.
    pub pack: Pack,
    /// Whether frames add tokens of their own; absent where they do.
    #[serde(default, skip_serializing_if = "Frame::is_default")]
    pub frame: Frame,
    /// The training split.
    pub train: Split,
    /// The validation split; may be empty.
    pub valid: Split,
    /// What was read, and what was rejected.
    pub corpus: CorpusReport,
    /// BLAKE3 of every other file beside this one, by name: `tokenizer.json`, `vocab.parquet`.
    pub files: BTreeMap<String, String>,
    /// BLAKE3 of this manifest with this field empty.
    pub checksum: String,
}

/// What training needs to know of the tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokenizer {
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

/// How documents become samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pack {
    /// Content cut to `tokens_max − 2`, a separator between documents, no frame tokens.
    #[default]
    Block,
    /// Every document with its own `[CLS]` and `[SEP]`, one after another, cut into exactly `tokens_max`; what is left at
    /// the end of a part is dropped. As TACO's released code does.
    Taco,
    /// A sample is the first `tokens_max − 2` tokens of a document.
    Document,
    /// A sample is a run of whole sentences of one document, of `tokens_max − 3` tokens at most, and says where each
    /// begins: what segments and pairs are made of.
    Sentences,
}

impl Pack {
    /// Content tokens of a full sample. 0 if `tokens_max` has no room for any.
    #[must_use]
    pub fn content(self, tokens_max: u32) -> u32 {
        match self {
            Self::Block | Self::Document => tokens_max.saturating_sub(2),
            Self::Taco => tokens_max,
            Self::Sentences => tokens_max.saturating_sub(3),
        }
    }

    /// What a frame adds to such samples.
    #[must_use]
    pub fn frame(self) -> Frame {
        if self == Self::Taco { Frame::None } else { Frame::ClsSep }
    }

    /// Whether samples say where their sentences begin.
    #[must_use]
    pub fn keeps_sentences(self) -> bool {
        self == Self::Sentences
    }

    /// The name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Taco => "taco",
            Self::Document => "document",
            Self::Sentences => "sentences",
        }
    }
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
    /// Sentences that were longer than a sample, hence cut.
    pub cut_sentences: u64,
    /// Documents that were longer than a sample, hence truncated.
    pub cut_documents: u64,
    /// Tokens that no sample holds: those of truncated documents, or those left at the end of a part.
    pub cut_tokens: u64,
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
        for (reason, count) in &other.rejected {
            *self.rejected.entry(reason.clone()).or_default() += count;
        }
        self.packing.add(&other.packing);
    }
}

impl Manifest {
    /// The bytes of `manifest.json`, checksum filled in.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut sealed = Self { checksum: String::new(), ..self.clone() };
        sealed.checksum = blake3::hash(&sealed.render()).to_hex().to_string();
        sealed.render()
    }

    /// Reads `manifest.json`.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ManifestError> {
        let value: serde_json::Value = serde_json::from_slice(bytes)?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if found != u64::from(VERSION) => return Err(ManifestError::Version { found }),
            _ => {}
        }
        let manifest: Self = serde_json::from_slice(bytes)?;
        if manifest.to_json() == bytes { Ok(manifest) } else { Err(ManifestError::Checksum) }
    }

    fn render(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a manifest has string keys and finite numbers");
        bytes.push(b'\n');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small manifest for tests.
    fn example() -> Manifest {
        Manifest {
            version: VERSION,
            tokenizer: Tokenizer {
                fingerprint: "f".into(),
                kind: "wordpiece".into(),
                vocab_size: 100,
                lowercase: true,
                special: SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 },
                specials: vec![0, 1, 2, 3, 4],
            },
            tokens_max: 128,
            pack: Pack::Block,
            frame: Frame::ClsSep,
            train: Split {
                shards: vec![Shard {
                    path: "train/part-00000-00.parquet".into(),
                    rows: 3,
                    tokens: 300,
                    groups: vec![3],
                    bytes: 1000,
                    blake3: "a".into(),
                    content: "b".into(),
                }],
            },
            valid: Split::default(),
            corpus: CorpusReport::default(),
            files: BTreeMap::new(),
            checksum: String::new(),
        }
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let bytes = example().to_json();
        let back = Manifest::from_json(&bytes).expect("as written");
        assert_eq!(back.train, example().train);
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1;
            assert!(Manifest::from_json(&damaged).is_err(), "byte {index} of {}", bytes.len());
        }
        assert!(Manifest::from_json(&bytes[..bytes.len() - 1]).is_err(), "a cut tail");
    }

    #[test]
    fn what_is_usual_is_not_written() {
        let plain = String::from_utf8(example().to_json()).expect("JSON is UTF-8");
        assert!(!plain.contains("frame") && !plain.contains("packing"), "{plain}");
        let packing = PackReport { cut_tokens: 5, ..PackReport::default() };
        let corpus = CorpusReport { packing, ..CorpusReport::default() };
        let taco = Manifest { pack: Pack::Taco, frame: Pack::Taco.frame(), corpus, ..example() };
        let bytes = taco.to_json();
        assert!(String::from_utf8_lossy(&bytes).contains("\"frame\": \"none\""));
        let back = Manifest::from_json(&bytes).expect("as written");
        assert_eq!((back.pack, back.frame, back.corpus), (taco.pack, taco.frame, taco.corpus));
    }

    #[test]
    fn packs_have_the_names_of_configurations() {
        for pack in [Pack::Block, Pack::Taco, Pack::Document, Pack::Sentences] {
            assert_eq!(serde_json::to_value(pack).expect("a name"), pack.name());
        }
    }

    #[test]
    fn another_version_says_so() {
        let text = String::from_utf8(example().to_json()).expect("JSON is UTF-8");
        let newer = text.replacen("\"version\": 1", "\"version\": 9", 1);
        assert!(matches!(Manifest::from_json(newer.as_bytes()), Err(ManifestError::Version { found: 9 })));
    }
}
