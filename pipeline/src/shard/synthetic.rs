//! Prepared folder of random ids for benchmarks and tests without a corpus.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use schemas::manifest::{CorpusReport, DatasetVersionEntry, FileEntry, PartEntry, TokenizerInfo};
use schemas::sample::OptionalColumns;
use schemas::{Document, Epoch, Manifest, PartId, SampleAddress, Shard, SpecialIds};
use store::Store;

use super::{ShardOptions, ShardWriter};
use crate::error::{Error, Result};
use crate::pack::{AnyPacking, Packed};
use crate::rng::{Key, Rng};

/// Parameters of the folder.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Number of ids. Special ids are those of BERT's vocabularies.
    pub vocab_size: u32,
    /// Content ids are uniform over this range.
    pub ids: Range<u32>,
    /// Longest row, including its frame.
    pub max_seq_len: u32,
    /// Content tokens of a sample are uniform over this range.
    pub lengths: Range<u32>,
    /// Maximum number of documents of a sample, cut at equal distances.
    pub documents: u32,
    /// Adjacent samples that belong to the same documents.
    pub rows_per_document: u64,
    /// Packing in the manifest.
    pub pack: AnyPacking,
    /// Maximum and most frequent number of tokens of a sentence, if the packing keeps sentences.
    pub sentence_tokens: u16,
    /// Samples per row group.
    pub rows_per_group: u32,
    /// Row groups per shard.
    pub groups_per_shard: u32,
    /// Samples of the training split.
    pub train_rows: u64,
    /// Samples of the validation split.
    pub valid_rows: u64,
    /// Seed of the ids.
    pub seed: u64,
}

impl Default for Synthetic {
    /// Returns a small folder: 3 shards of 4 groups, rows of up to 62 content tokens.
    fn default() -> Self {
        Self {
            vocab_size: 1000,
            ids: 104..1000,
            max_seq_len: 64,
            lengths: 62..63,
            documents: 3,
            rows_per_document: 1,
            pack: AnyPacking::default(),
            sentence_tokens: 9,
            rows_per_group: 20,
            groups_per_shard: 4,
            train_rows: 230,
            valid_rows: 33,
            seed: 1,
        }
    }
}

/// Returns the manifest of the folder.
fn written(store: &Store) -> Result<Manifest> {
    let place = store.place("manifest.json");
    Manifest::from_json(&store.get("manifest.json")?).map_err(|why| Error::Manifest { place, why })
}

/// Tokenizer of the special tokens alone. No text is tokenized with it.
const TOKENIZER: &[u8] = br#"{"model": {"type": "WordLevel", "unk_token": "[UNK]",
"vocab": {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}}}
"#;

impl Synthetic {
    /// Writes the folder, of one part, and returns its manifest.
    pub fn write(&self, store: &Store) -> Result<Manifest> {
        store.put("tokenizer.json", TOKENIZER)?;
        let special = SpecialIds { pad: 0, unk: Some(100), cls: 101, sep: 102, mask: 103 };
        let manifest = Manifest {
            tokenizer: TokenizerInfo {
                fingerprint: String::new(),
                kind: "synthetic".into(),
                vocab_size: self.vocab_size,
                lowercase: true,
                special,
                specials: vec![0, 100, 101, 102, 103],
            },
            max_seq_len: self.max_seq_len,
            pack: self.pack.facts(self.max_seq_len),
            files: [("tokenizer.json".to_owned(), blake3::hash(TOKENIZER).to_hex().to_string())].into(),
            dataset_versions: Vec::new(),
        };
        self.dataset_version(store, manifest, &[0], &[])
    }

    /// Adds a dataset version with these new parts and without the `dropped` ones. Returns the manifest.
    pub fn add(&self, store: &Store, parts: &[u32], dropped: &[u32]) -> Result<Manifest> {
        self.dataset_version(store, written(store)?, parts, dropped)
    }

    fn dataset_version(
        &self,
        store: &Store,
        mut manifest: Manifest,
        parts: &[u32],
        dropped: &[u32],
    ) -> Result<Manifest> {
        let entry = |&id: &u32| {
            let train = self.shards(store, id, "train", self.train_rows)?;
            let valid = self.shards(store, id, "valid", self.valid_rows)?;
            Ok(PartEntry { id: PartId(id), train, valid })
        };
        let parts = parts.iter().map(entry).collect::<Result<Vec<_>>>()?;
        let path = format!("vocab/{:05}.parquet", manifest.dataset_versions.len());
        let vocab = self.vocab()?;
        store.put(&path, &vocab)?;
        manifest.dataset_versions.push(DatasetVersionEntry {
            dropped: dropped.iter().copied().map(PartId).collect(),
            parts,
            vocab: FileEntry { path, blake3: blake3::hash(&vocab).to_hex().to_string() },
            corpus: CorpusReport::default(),
            content: String::new(),
        });
        let content = manifest.now().train.content();
        manifest.dataset_versions.last_mut().expect("it was just added").content = content;
        store.put("manifest.json", &manifest.to_json())?;
        Ok(manifest)
    }

    fn shards(&self, store: &Store, part: u32, name: &str, rows: u64) -> Result<Vec<Shard>> {
        let options = ShardOptions {
            part: PartId(part),
            prefix: format!("{name}/part-{part:05}-00"),
            vocab_size: self.vocab_size,
            optional: OptionalColumns { sentences: self.pack.keeps_sentences(), targets: false },
            ..ShardOptions::default()
        };
        let mut writer =
            ShardWriter::new(store, options).sized(self.rows_per_group as usize, self.groups_per_shard as usize);
        let key = Key::new(self.seed, Epoch(0), name, "synthetic");
        for row in (0..rows).map(|row| u64::from(part) << 32 | row) {
            let input_ids = self.sample(&mut key.row(SampleAddress::numbered(row), 0));
            let document_starts = self.document_starts(input_ids.len());
            let documents: Vec<u64> = (0..document_starts.len())
                .map(|document| {
                    Document::hash(&format!("synthetic {name}-{}-{document}", row / self.rows_per_document))
                })
                .collect();
            let sentence_starts = self.sentence_starts(input_ids.len());
            writer.write(Packed {
                input_ids: &input_ids,
                document_starts: &document_starts,
                documents: &documents,
                sentence_starts: &sentence_starts,
                targets: &[],
                source: 0,
            })?;
        }
        writer.finish()
    }

    fn sample(&self, rng: &mut Rng) -> Vec<u32> {
        let length = self.lengths.start + rng.below(self.lengths.end - self.lengths.start);
        (0..length).map(|_| self.ids.start + rng.below(self.ids.end - self.ids.start)).collect()
    }

    fn document_starts(&self, length: usize) -> Vec<u16> {
        let count = (self.documents as usize).min(length).max(1);
        let start = |document| u16::try_from(document * length / count).expect("a sample is short");
        (0..count).map(start).collect()
    }

    fn sentence_starts(&self, length: usize) -> Vec<u16> {
        let kept = if self.pack.keeps_sentences() { length } else { 0 };
        (0..kept).step_by(usize::from(self.sentence_tokens)).map(|at| u16::try_from(at).expect("short")).collect()
    }

    fn vocab(&self) -> Result<Vec<u8>> {
        let special = |id| match id {
            0 => "[PAD]".to_owned(),
            100 => "[UNK]".to_owned(),
            101 => "[CLS]".to_owned(),
            102 => "[SEP]".to_owned(),
            103 => "[MASK]".to_owned(),
            _ => format!("w{id}"),
        };
        let size = self.vocab_size as usize;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values((0..self.vocab_size).map(special))),
            Arc::new(BooleanArray::from(vec![true; size])),
            Arc::new(UInt64Array::from(vec![1; size])),
        ];
        let field = |name, data_type| Field::new(name, data_type, false);
        let schema = Arc::new(Schema::new(vec![
            field("token", DataType::Utf8),
            field("word_start", DataType::Boolean),
            field("count", DataType::UInt64),
        ]));
        let record = RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of the schema's types");
        let failed = |error: parquet::errors::ParquetError| Error::Config(error.to_string());
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).map_err(failed)?;
        writer.write(&record).map_err(failed)?;
        writer.close().map_err(failed)?;
        Ok(bytes)
    }
}
