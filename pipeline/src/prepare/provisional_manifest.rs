//! Manifest of a folder before its first part: `provisional_manifest.json`, sealed, and the tables of a vocabulary.
//!
//! A manifest is written last. The keys of it that do not depend on the text are known with the first part list. A run that
//! reads the folder while it is filled needs only these keys, the part lists and the commit records. The provisional
//! manifest is never changed, and stays when the manifest is there.
//!
//! A vocabulary is `vocab/00000.parquet` …: `token` (string), `word_start` (bool) and `count` (uint64), one row per id,
//! ascending.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use schemas::manifest::{DatasetVersionEntry, FileEntry, Pack};
use schemas::{Manifest, Sealed, Vocab, manifest};
use serde::{Deserialize, Serialize};
use store::Store;

use super::config::PrepareConfig;
use super::part_check::PartExpectation;
use crate::tokenize::{Facts, TOKENIZER_CONFIG};
use crate::{Error, Result};

/// Name of the object.
pub(super) const NAME: &str = "provisional_manifest.json";

/// Name of the vocabulary: token and word start of each id, with count 0.
const VOCAB: &str = "vocab/announced.parquet";

/// Manifest without dataset versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProvisionalManifest {
    tokenizer: manifest::TokenizerInfo,
    max_seq_len: u32,
    pack: Pack,
    files: BTreeMap<String, String>,
    vocab: FileEntry,
}

impl Sealed for ProvisionalManifest {
    const FORMAT: &'static str = "cloze provisional manifest";
    const VERSION: u32 = 2;
    const PRETTY: bool = true;
}

impl ProvisionalManifest {
    /// Writes the provisional manifest unless it exists: first the tokenizer and its vocabulary, then the object that
    /// names them. Returns whether anything was written.
    pub(super) fn write(store: &Store, config: &PrepareConfig, facts: &Facts) -> Result<bool> {
        let vocab = vocab_to_parquet(&facts.vocab(vec![0; facts.tokens.len()]));
        let name = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
        let announcement = Self {
            tokenizer: facts.manifest.clone(),
            max_seq_len: config.max_seq_len,
            pack: config.packing.facts(config.max_seq_len),
            files: [(manifest::TOKENIZER.to_owned(), name(&facts.json))].into(),
            vocab: FileEntry { path: VOCAB.to_owned(), blake3: name(&vocab) },
        };
        let mut written = false;
        for (name, bytes) in [(manifest::TOKENIZER, facts.json.clone()), (VOCAB, vocab), (NAME, announcement.seal())] {
            written |= store.put_if_changed(name, &bytes)?;
        }
        Ok(written)
    }

    /// Reads the provisional manifest.
    pub(super) fn read(store: &Store) -> Result<Self> {
        let refused = |message: String| Error::Unfinished { place: store.place(NAME), message };
        let again = "run `cloze prepare` again, which writes it before it continues";
        let Some((bytes, _)) = store.get_with_stat(NAME)? else {
            return Err(refused(format!("it is missing; {again}")));
        };
        Self::unseal(&bytes).map_err(|error| refused(format!("{error}; {again}")))
    }

    /// Number of content tokens of a full sample.
    pub(super) fn content(&self) -> u32 {
        self.pack.content
    }

    /// Returns the expectation of shards and tokens.
    pub(super) fn part_expectation(&self) -> PartExpectation {
        PartExpectation::new(&self.tokenizer, &self.pack)
    }

    /// Returns the objects that it names, each with its BLAKE3.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter().map(|(name, blake3)| (name.as_str(), blake3.as_str()));
        files.chain([(self.vocab.path.as_str(), self.vocab.blake3.as_str())])
    }

    /// Whether a manifest has the announced tokenizer, packing and row length.
    pub(super) fn announces(&self, manifest: &Manifest) -> bool {
        self.tokenizer == manifest.tokenizer
            && self.pack == manifest.pack
            && self.max_seq_len == manifest.max_seq_len
            && self.files == manifest.files
    }

    /// Removes the object and the objects that it names, but keeps the tokenizer on request.
    pub(super) fn remove(store: &Store, keeps_tokenizer: bool) -> Result<()> {
        let tokenizer = if keeps_tokenizer { &[][..] } else { &[manifest::TOKENIZER, TOKENIZER_CONFIG] };
        [NAME, VOCAB].iter().chain(tokenizer).try_for_each(|name| Ok(store.delete(name)?))
    }

    /// Returns the manifest of the available parts of these dataset versions, validated as if it had been read. It
    /// contains no counts and no content hashes, so only a streamed run can begin with it.
    pub(super) fn manifest(&self, dataset_versions: impl Iterator<Item = DatasetVersionEntry>) -> Result<Manifest> {
        let Self { tokenizer, max_seq_len, pack, files, vocab } = self.clone();
        let dataset_versions =
            dataset_versions.map(|entry| DatasetVersionEntry { vocab: vocab.clone(), ..entry }).collect();
        let manifest = Manifest { tokenizer, max_seq_len, pack, files, dataset_versions };
        Manifest::from_json(&manifest.to_json()).map_err(|why| Error::Manifest { place: NAME.to_owned(), why })
    }
}

/// Returns a vocabulary with its counts as the bytes of a file.
pub(crate) fn vocab_to_parquet(vocab: &Vocab) -> Vec<u8> {
    let field = |name, data_type| Field::new(name, data_type, false);
    let fields =
        vec![field("token", DataType::Utf8), field("word_start", DataType::Boolean), field("count", DataType::UInt64)];
    let ids = 0..vocab.size();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(ids.clone().map(|id| Some(vocab.token(id))).collect::<StringArray>()),
        Arc::new(ids.map(|id| Some(vocab.is_word_start(id))).collect::<BooleanArray>()),
        Arc::new(UInt64Array::from(vocab.counts().to_vec())),
    ];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("one value per id in each column");
    let level = ZstdLevel::try_new(3).expect("a zstd level");
    let properties =
        WriterProperties::builder().set_created_by("cloze".into()).set_compression(Compression::ZSTD(level)).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a supported schema");
    writer.write(&batch).expect("memory does not fail");
    writer.close().expect("memory does not fail");
    bytes
}
