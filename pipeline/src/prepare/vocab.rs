//! `vocab/00000.parquet` …: `token` (string), `word_start` (bool) and `count` (uint64), one row per id, ascending.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use schemas::Vocab;

pub(super) fn to_parquet(vocab: &Vocab) -> Vec<u8> {
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
