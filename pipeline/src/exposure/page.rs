//! A page of the ledger, as Parquet.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use runtime::catch_decoder;
use schemas::DatasetVersion;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::error::{Error, Result};

/// The metadata that counts the rows of a page.
const ROWS: &str = "cloze.rows";
/// The metadata that says which rows they are. Pages of earlier programs have none.
const SPAN: &str = "cloze.span";
const COLUMNS: [&str; 3] = ["trained", "skipped", "bad"];

/// What became of the rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The model learned from them.
    Trained,
    /// The step was skipped.
    Skipped,
}

/// Rows, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// The model learned from them.
    pub trained: u64,
    /// Their step was skipped.
    pub skipped: u64,
    /// They were padding.
    pub left_out: u64,
}

impl Counts {
    pub(super) fn add(&mut self, fate: Fate, left_out: bool) {
        match (fate, left_out) {
            (Fate::Skipped, _) => self.skipped += 1,
            (Fate::Trained, true) => self.left_out += 1,
            (Fate::Trained, false) => self.trained += 1,
        }
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.trained + self.skipped + self.left_out
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.trained += other.trained;
        self.skipped += other.skipped;
        self.left_out += other.left_out;
    }
}

/// A document of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposureEntry {
    /// The source of the mixture that it is of; empty where one folder is all there is.
    pub of: Arc<str>,
    /// The dataset version of the data that its rows were of.
    pub dataset_version: DatasetVersion,
    /// Its name in shards.
    pub document: u64,
    /// The rows that it is in.
    pub counts: Counts,
}

/// Which rows a page tells of.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Span {
    from: u64,
    to: u64,
    first: u64,
}

/// What became of some rows that follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposurePage {
    /// Where the first page of its ledger begins; none where it does not say so.
    pub first: Option<u64>,
    /// The first of them.
    pub from: u64,
    /// Behind the last of them.
    pub to: u64,
    /// What became of them.
    pub rows: Counts,
    /// Their documents, by source, dataset version and name.
    pub entries: Vec<ExposureEntry>,
}

impl ExposurePage {
    pub(super) fn name(&self) -> String {
        format!("rows-{:012}-{:012}.parquet", self.from, self.to)
    }

    /// The rows of a page of that name; none if it is the name of something else.
    pub(super) fn rows_of(name: &str) -> Option<(u64, u64)> {
        let (_, rows) = name.split_once("rows-").filter(|(number, _)| number.is_empty() || number.ends_with('-'))?;
        let (from, to) = rows.strip_suffix(".parquet")?.split_once('-')?;
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        (from < to && !name.contains('/')).then_some((from, to))
    }

    /// Writes it, whole or not at all.
    pub(super) fn put(&self, folder: &Store, name: &str) -> Result<()> {
        let bytes = self.to_parquet().map_err(|error| damaged(folder, name, error.to_string()))?;
        folder.put(name, &bytes)?;
        Ok(())
    }

    fn to_parquet(&self) -> std::result::Result<Vec<u8>, ParquetError> {
        let Self { from, to, .. } = *self;
        let rows = KeyValue::new(ROWS.to_owned(), serde_json::to_string(&self.rows).expect("plain data"));
        let span = self.first.map(|first| serde_json::to_string(&Span { from, to, first }).expect("plain data"));
        let span = span.map(|span| KeyValue::new(SPAN.to_owned(), span));
        let properties = WriterProperties::builder()
            .set_created_by("cloze".into())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("a zstd level")))
            .set_key_value_metadata(Some([rows].into_iter().chain(span).collect()))
            .build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, schema(), Some(properties))?;
        writer.write(&self.columns())?;
        writer.close()?;
        Ok(bytes)
    }

    fn columns(&self) -> RecordBatch {
        let counts = |of: fn(&Counts) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(self.entries.iter().map(|entry| of(&entry.counts))))
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(self.entries.iter().map(|entry| &entry.of))),
            Arc::new(UInt32Array::from_iter_values(self.entries.iter().map(|entry| entry.dataset_version.0))),
            Arc::new(UInt64Array::from_iter_values(self.entries.iter().map(|entry| entry.document))),
            counts(|counts| counts.trained),
            counts(|counts| counts.skipped),
            counts(|counts| counts.left_out),
        ];
        RecordBatch::try_new(schema(), columns).expect("the columns are those of the schema")
    }

    /// Reads one of `ledger/` or `ledger/undone/`.
    ///
    /// # Errors
    /// [`Error::Shard`] if it is not as it was written.
    pub fn read(folder: &Store, name: &str) -> Result<Self> {
        let damaged = |message: String| {
            let way_on = "restore it from a copy, or move the ledger's folder away: counting then starts over";
            damaged(folder, name, format!("{message}; {way_on}"))
        };
        let (from, to) = Self::rows_of(name).ok_or_else(|| damaged("it is no name of a page".to_owned()))?;
        let bytes = bytes::Bytes::from(folder.read(name)?);
        let read = catch_decoder(|| {
            let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
            let metadata = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
            let batches: std::result::Result<Vec<RecordBatch>, _> = builder.build()?.collect();
            Ok::<_, ParquetError>((metadata, batches?))
        });
        let (metadata, batches) = read.map_err(damaged)?;
        let said = |key| metadata.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref());
        let rows: Option<Counts> = said(ROWS).and_then(|rows| serde_json::from_str(rows).ok());
        let rows = rows.filter(|rows| rows.total() == to - from);
        let rows = rows.ok_or_else(|| damaged(format!("its rows are not the {} of its name", to - from)))?;
        let span: Option<Span> =
            said(SPAN).map(serde_json::from_str).transpose().map_err(|e| damaged(e.to_string()))?;
        if let Some(span) = span.filter(|span| (span.from, span.to) != (from, to)) {
            return Err(damaged(format!("it tells of the rows from {} to {}", span.from, span.to)));
        }
        let entries: Option<Vec<Vec<ExposureEntry>>> = batches.iter().map(entries).collect();
        let entries = entries.ok_or_else(|| damaged("its columns are not those of a page".to_owned()))?.concat();
        Ok(Self { first: span.map(|span| span.first), from, to, rows, entries })
    }
}

fn schema() -> SchemaRef {
    let counts = COLUMNS.map(|name| Field::new(name, DataType::UInt64, false));
    let names = [("of", DataType::Utf8), ("dataset_version", DataType::UInt32), ("document", DataType::UInt64)];
    let names = names.map(|(name, kind)| Field::new(name, kind, false));
    Arc::new(Schema::new(names.into_iter().chain(counts).collect::<Vec<_>>()))
}

fn entries(batch: &RecordBatch) -> Option<Vec<ExposureEntry>> {
    let numbers = |name| Some(batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>()?.values());
    let sources = batch.column_by_name("of")?.as_string_opt::<i32>()?;
    let dataset_versions = batch.column_by_name("dataset_version")?.as_primitive_opt::<UInt32Type>()?.values();
    let documents = numbers("document")?;
    let [trained, skipped, left_out] = COLUMNS.map(numbers);
    let (trained, skipped, left_out) = (trained?, skipped?, left_out?);
    // A row is mostly of the source of the row before.
    let mut of: Arc<str> = "".into();
    let entry = |row: usize| ExposureEntry {
        of: {
            if *of != *sources.value(row) {
                of = sources.value(row).into();
            }
            Arc::clone(&of)
        },
        dataset_version: DatasetVersion(dataset_versions[row]),
        document: documents[row],
        counts: Counts { trained: trained[row], skipped: skipped[row], left_out: left_out[row] },
    };
    Some((0..batch.num_rows()).map(entry).collect())
}

fn damaged(folder: &Store, name: &str, message: String) -> Error {
    Error::Shard { place: folder.place(name), group: None, message }
}
