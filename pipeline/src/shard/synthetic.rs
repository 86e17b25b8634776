//! A prepared folder of random ids: what benchmarks and tests read when no corpus is at hand.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt16Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use schemas::atomic::Folder;
use schemas::manifest::{CorpusReport, Pack, Tokenizer, VERSION};
use schemas::sample::{id_type, shard_schema};
use schemas::{Epoch, Manifest, SampleIndex, Shard, SpecialIds, Split};

use crate::error::{Error, Result};
use crate::rng::{Key, Rng};

/// What to make up.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Number of ids; those of BERT's vocabularies that are special are so here.
    pub vocab_size: u32,
    /// Content ids are uniform over this range.
    pub ids: Range<u32>,
    /// Longest row, frame included.
    pub tokens_max: u32,
    /// Content tokens of a sample are uniform over this range.
    pub lengths: Range<u32>,
    /// Documents of a sample, at most; cut at equal distances.
    pub documents: u32,
    /// Samples per row group.
    pub rows_per_group: u32,
    /// Row groups per shard.
    pub groups_per_shard: u32,
    /// Samples of the training split.
    pub train_rows: u64,
    /// Samples of the validation split.
    pub valid_rows: u64,
    /// Another seed, other ids.
    pub seed: u64,
}

impl Default for Synthetic {
    /// A small folder: 3 shards of 4 groups, rows of up to 62 content tokens.
    fn default() -> Self {
        Self {
            vocab_size: 1000,
            ids: 104..1000,
            tokens_max: 64,
            lengths: 62..63,
            documents: 3,
            rows_per_group: 20,
            groups_per_shard: 4,
            train_rows: 230,
            valid_rows: 33,
            seed: 1,
        }
    }
}

impl Synthetic {
    /// Writes the folder and returns its manifest.
    pub fn write(&self, folder: &Folder) -> Result<Manifest> {
        let mut files = std::collections::BTreeMap::new();
        for (name, bytes) in [("vocab.parquet", self.vocab()?), ("tokenizer.json", b"{}\n".to_vec())] {
            folder.write(name, &bytes)?;
            files.insert(name.to_owned(), blake3::hash(&bytes).to_hex().to_string());
        }
        let special = SpecialIds { pad: 0, unk: Some(100), cls: 101, sep: 102, mask: 103 };
        let manifest = Manifest {
            version: VERSION,
            tokenizer: Tokenizer {
                fingerprint: String::new(),
                kind: "synthetic".into(),
                vocab_size: self.vocab_size,
                lowercase: true,
                special,
                specials: vec![0, 100, 101, 102, 103],
            },
            tokens_max: self.tokens_max,
            pack: Pack::Block,
            train: self.split(folder, "train", self.train_rows)?,
            valid: self.split(folder, "valid", self.valid_rows)?,
            corpus: CorpusReport::default(),
            files,
            checksum: String::new(),
        };
        let bytes = manifest.to_json();
        folder.write("manifest.json", &bytes)?;
        crate::load::open(folder.path())
    }

    fn split(&self, folder: &Folder, name: &str, rows: u64) -> Result<Split> {
        let shard_rows = u64::from(self.rows_per_group) * u64::from(self.groups_per_shard);
        let shards = (0..rows.div_ceil(shard_rows)).map(|part| {
            let end = rows.min((part + 1) * shard_rows);
            self.shard(folder, &format!("{name}/part-{part:05}-00.parquet"), name, part * shard_rows..end)
        });
        Ok(Split { shards: shards.collect::<Result<_>>()? })
    }

    fn shard(&self, folder: &Folder, path: &str, split: &str, rows: Range<u64>) -> Result<Shard> {
        let failed = |error: parquet::errors::ParquetError| Error::Shard {
            path: folder.path().join(path),
            group: None,
            message: error.to_string(),
        };
        let mut bytes = Vec::new();
        let mut hasher = blake3::Hasher::new();
        let (mut groups, mut tokens) = (Vec::new(), 0);
        let mut writer =
            ArrowWriter::try_new(&mut bytes, shard_schema(self.vocab_size), Some(properties())).map_err(failed)?;
        let key = Key::new(self.seed, Epoch(0), split, "synthetic");
        for start in rows.clone().step_by(self.rows_per_group as usize) {
            let end = rows.end.min(start + u64::from(self.rows_per_group));
            let samples: Vec<Vec<u32>> =
                (start..end).map(|row| self.sample(&mut key.row(SampleIndex(row), 0))).collect();
            for sample in &samples {
                tokens += sample.len() as u64;
                for id in sample {
                    hasher.update(&id.to_le_bytes());
                }
            }
            writer.write(&self.record(&samples, start)).map_err(failed)?;
            writer.flush().map_err(failed)?;
            groups.push(u32::try_from(end - start).expect("at most `rows_per_group`"));
        }
        writer.close().map_err(failed)?;
        folder.write(path, &bytes)?;
        Ok(Shard {
            path: path.to_owned(),
            rows: rows.end - rows.start,
            tokens,
            groups,
            bytes: bytes.len() as u64,
            blake3: blake3::hash(&bytes).to_hex().to_string(),
            content: hasher.finalize().to_hex().to_string(),
        })
    }

    fn sample(&self, rng: &mut Rng) -> Vec<u32> {
        let length = self.lengths.start + rng.below(self.lengths.end - self.lengths.start);
        (0..length).map(|_| self.ids.start + rng.below(self.ids.end - self.ids.start)).collect()
    }

    fn record(&self, samples: &[Vec<u32>], first: u64) -> RecordBatch {
        let starts: Vec<Vec<u32>> = samples.iter().map(|sample| self.document_starts(sample.len())).collect();
        let documents = starts.iter().zip(first..).map(|(starts, row)| {
            (0..starts.len() as u64)
                .map(move |document| schemas::Document::hash("synthetic", &format!("{row}-{document}")))
        });
        let narrow = |id: &u32| u16::try_from(*id).expect("a vocabulary of 16-bit ids, or a place in a sample");
        let ids: ArrayRef = match id_type(self.vocab_size) {
            DataType::UInt16 => list::<UInt16Type>(samples.iter().map(|sample| sample.iter().map(narrow))),
            _ => list::<UInt32Type>(samples.iter().map(|sample| sample.iter().copied())),
        };
        let columns: Vec<ArrayRef> = vec![
            ids,
            list::<UInt16Type>(starts.iter().map(|starts| starts.iter().map(narrow))),
            list::<UInt64Type>(documents),
            Arc::new(UInt16Array::from(vec![0; samples.len()])),
        ];
        RecordBatch::try_new(shard_schema(self.vocab_size), columns).expect("columns of the schema's types")
    }

    fn document_starts(&self, length: usize) -> Vec<u32> {
        let length = u32::try_from(length).expect("a sample is short");
        let count = self.documents.min(length).max(1);
        (0..count).map(|document| document * length / count).collect()
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

fn list<T: ArrowPrimitiveType>(rows: impl Iterator<Item = impl Iterator<Item = T::Native>>) -> ArrayRef {
    let item = Field::new("item", T::DATA_TYPE, false);
    let mut builder = ListBuilder::new(PrimitiveBuilder::<T>::new()).with_field(item);
    for row in rows {
        row.for_each(|value| builder.values().append_value(value));
        builder.append(true);
    }
    Arc::new(builder.finish())
}

/// The encodings of `schemas::sample`.
fn properties() -> WriterProperties {
    let ids = ColumnPath::new(["input_ids", "list", "item"].map(String::from).to_vec());
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("1 is a level")))
        .set_column_encoding(ids.clone(), Encoding::BYTE_STREAM_SPLIT)
        .set_column_dictionary_enabled(ids, false)
        .set_created_by("cloze".into())
        .build()
}
