//! Page of exposure counts, stored as Parquet.

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

/// Metadata key for the row counts of a page.
const ROWS: &str = "cloze.rows";
/// Metadata key for the row range of a page. Pages of earlier program versions do not have it.
const SPAN: &str = "cloze.span";
const COLUMNS: [&str; 3] = ["trained", "skipped", "bad"];

/// Outcome of the rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOutcome {
    /// The model was trained on them.
    Trained,
    /// The step was skipped.
    Skipped,
}

/// Number of rows by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Rows that the model was trained on.
    pub trained: u64,
    /// Rows of skipped steps.
    pub skipped: u64,
    /// Rows that were padding.
    pub bad: u64,
}

impl Counts {
    pub(super) fn add(&mut self, fate: RowOutcome, bad: bool) {
        match (fate, bad) {
            (RowOutcome::Skipped, _) => self.skipped += 1,
            (RowOutcome::Trained, true) => self.bad += 1,
            (RowOutcome::Trained, false) => self.trained += 1,
        }
    }

    /// Sum of all outcomes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.trained + self.skipped + self.bad
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.trained += other.trained;
        self.skipped += other.skipped;
        self.bad += other.bad;
    }
}

/// Counts of one document on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposureEntry {
    /// Mixture source of the document. Empty for a single folder.
    pub of: Arc<str>,
    /// Dataset version of its rows.
    pub dataset_version: DatasetVersion,
    /// Id of the document in shards.
    pub document: u64,
    /// Number of rows that contain it.
    pub counts: Counts,
}

/// Row range of a page.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Span {
    from: u64,
    to: u64,
    first: u64,
}

/// Exposure counts of consecutive rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposurePage {
    /// First row of the first page of the run. `None` if the page does not contain it.
    pub first: Option<u64>,
    /// First row.
    pub from: u64,
    /// Row after the last one.
    pub to: u64,
    /// Counts of the rows.
    pub rows: Counts,
    /// Documents by source, dataset version and id.
    pub entries: Vec<ExposureEntry>,
}

impl ExposurePage {
    pub(super) fn name(&self) -> String {
        format!("rows-{:012}-{:012}.parquet", self.from, self.to)
    }

    /// Returns the rows of a page with this name. `None` if the name is not that of a page.
    pub(super) fn rows_of(name: &str) -> Option<(u64, u64)> {
        let (_, rows) = name.split_once("rows-").filter(|(number, _)| number.is_empty() || number.ends_with('-'))?;
        let (from, to) = rows.strip_suffix(".parquet")?.split_once('-')?;
        let from = from.parse().ok()?;
        let to = to.parse().ok()?;
        (from < to && !name.contains('/')).then_some((from, to))
    }

    /// Writes the page atomically.
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
            counts(|counts| counts.bad),
        ];
        RecordBatch::try_new(schema(), columns).expect("the columns are those of the schema")
    }

    /// Reads a page of `exposure/` or `exposure/rolled_back/`.
    ///
    /// # Errors
    /// [`Error::Shard`] if the page is damaged.
    pub fn read(folder: &Store, name: &str) -> Result<Self> {
        let damaged = |message: String| {
            let fix = "restore it from a copy, or move the `exposure` folder away: counting then starts over";
            damaged(folder, name, format!("{message}; {fix}"))
        };
        let (from, to) = Self::rows_of(name).ok_or_else(|| damaged("its name is not that of a page".to_owned()))?;
        let bytes = bytes::Bytes::from(folder.get(name)?);
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
        let rows = rows.ok_or_else(|| damaged(format!("its number of rows is not the {} of its name", to - from)))?;
        let span: Option<Span> =
            said(SPAN).map(serde_json::from_str).transpose().map_err(|e| damaged(e.to_string()))?;
        if let Some(span) = span.filter(|span| (span.from, span.to) != (from, to)) {
            return Err(damaged(format!("it contains the rows from {} to {}", span.from, span.to)));
        }
        let entries: Option<Vec<Vec<ExposureEntry>>> = batches.iter().map(entries).collect();
        let entries = entries.ok_or_else(|| damaged("its columns are not those of a page".to_owned()))?.concat();
        Ok(Self { first: span.map(|span| span.first), from, to, rows, entries })
    }
}

fn schema() -> SchemaRef {
    let counts = COLUMNS.map(|name| Field::new(name, DataType::UInt64, false));
    let names = [("source", DataType::Utf8), ("dataset_version", DataType::UInt32), ("document", DataType::UInt64)];
    let names = names.map(|(name, kind)| Field::new(name, kind, false));
    Arc::new(Schema::new(names.into_iter().chain(counts).collect::<Vec<_>>()))
}

fn entries(batch: &RecordBatch) -> Option<Vec<ExposureEntry>> {
    let numbers = |name| Some(batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>()?.values());
    let sources = batch.column_by_name("source")?.as_string_opt::<i32>()?;
    let dataset_versions = batch.column_by_name("dataset_version")?.as_primitive_opt::<UInt32Type>()?.values();
    let documents = numbers("document")?;
    let [trained, skipped, bad] = COLUMNS.map(numbers);
    let trained = trained?;
    let skipped = skipped?;
    let bad = bad?;
    // A row usually has the source of the previous row.
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
        counts: Counts { trained: trained[row], skipped: skipped[row], bad: bad[row] },
    };
    Some((0..batch.num_rows()).map(entry).collect())
}

fn damaged(folder: &Store, name: &str, message: String) -> Error {
    Error::Shard { place: folder.place(name), group: None, message }
}
