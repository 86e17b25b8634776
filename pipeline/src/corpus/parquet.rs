//! Parquet: a row is a document; a column holds the text, and perhaps another one the name.

use std::fs::File;
use std::ops::Range;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::file::metadata::RowGroupMetaData;
use ::parquet::file::reader::ChunkReader;
use arrow_array::{Array, ArrayRef, LargeStringArray, RecordBatch, StringArray, StringViewArray};
use arrow_schema::DataType;

use super::open::Compression;
use super::{Fields, FileFormat, PieceRange, Reason, Record, Records, Source, from_text, text};
use crate::foreign::decoded;
use crate::{Error, Result};

/// Rows decoded at a time.
const ROWS: usize = 256;

pub(super) struct Parquet {
    pub(super) fields: Fields,
    pub(super) limit: u64,
}

impl FileFormat for Parquet {
    fn extensions(&self) -> &'static [&'static str] {
        &["parquet"]
    }

    fn check(&self, source: &Source) -> Result<()> {
        let schema = self.metadata(source)?.schema().clone();
        let names = [("prepare.text_field", Some(&self.fields.text)), ("prepare.id_field", self.fields.id.as_ref())];
        for (key, name) in names.into_iter().filter_map(|(key, name)| Some((key, name?))) {
            let Ok(field) = schema.field_with_name(name) else {
                let columns: Vec<_> = schema.fields().iter().map(|field| format!("`{}`", field.name())).collect();
                let message = format!("no column `{name}`; it has {}; set `{key}`", columns.join(", "));
                return Err(corpus_error(source, message));
            };
            let usable = is_text(field.data_type()) || (key == "prepare.id_field" && field.data_type().is_integer());
            if !usable {
                let message = format!("column `{name}` holds {}, not text; set `{key}`", field.data_type());
                return Err(corpus_error(source, message));
            }
        }
        Ok(())
    }

    fn pieces(&self, source: &Source, stride: u64) -> Result<Vec<PieceRange>> {
        let metadata = self.metadata(source)?;
        let groups = metadata.metadata().row_groups();
        let mut pieces: Vec<PieceRange> = Vec::new();
        for (index, group) in (0_u64..).zip(groups) {
            let bytes = u64::try_from(group.compressed_size()).unwrap_or(0);
            match pieces.last_mut() {
                // Compressed as a whole, it is one piece: it is decompressed as a whole.
                Some((range, sum)) if *sum + bytes <= stride || is_wrapped(source) => {
                    range.end = index + 1;
                    *sum += bytes;
                }
                _ => pieces.push((index..index + 1, bytes)),
            }
        }
        Ok(pieces)
    }

    fn records(&self, source: &Source, range: &Range<u64>) -> Result<Records> {
        let batches = if is_wrapped(source) {
            let bytes = text::read_whole(&source.path, &(0..source.bytes), self.limit)?;
            self.batches(source, bytes::Bytes::from(bytes), range)?
        } else {
            self.batches(source, open_file(source)?, range)?
        };
        let (fields, source) = (self.fields.clone(), source.clone());
        // Kept as long as it can be relied upon.
        let mut whole = Some(batches);
        let batches = std::iter::from_fn(move || {
            let mut reader = whole.take()?;
            let batch = decoded(|| reader.next().transpose()).transpose()?;
            whole = batch.is_ok().then_some(reader);
            Some(batch)
        });
        let mut row = self.lines_before(&source, range)?;
        let first = row;
        Ok(Box::new(batches.flat_map(move |batch| {
            let records = match batch {
                Ok(batch) => batch_records(&fields, &batch, row, first),
                Err(error) => vec![Err(damaged(&source, &error))],
            };
            row += records.len() as u64;
            records
        })))
    }

    fn lines_before(&self, source: &Source, range: &Range<u64>) -> Result<u64> {
        let metadata = self.metadata(source)?;
        let before = usize::try_from(range.start).expect("row groups are few");
        let rows = metadata.metadata().row_groups()[..before].iter().map(RowGroupMetaData::num_rows);
        Ok(u64::try_from(rows.sum::<i64>()).expect("Parquet counts rows up from 0"))
    }
}

impl Parquet {
    fn metadata(&self, source: &Source) -> Result<ArrowReaderMetadata> {
        let options = ArrowReaderOptions::default();
        let metadata = if is_wrapped(source) {
            let bytes = bytes::Bytes::from(text::read_whole(&source.path, &(0..source.bytes), self.limit)?);
            decoded(|| ArrowReaderMetadata::load(&bytes, options))
        } else {
            let file = open_file(source)?;
            decoded(|| ArrowReaderMetadata::load(&file, options))
        };
        metadata.map_err(|error| damaged(source, &error))
    }

    fn batches<R: ChunkReader + 'static>(
        &self,
        source: &Source,
        reader: R,
        range: &Range<u64>,
    ) -> Result<ParquetRecordBatchReader> {
        let builder = decoded(|| ParquetRecordBatchReaderBuilder::try_new(reader));
        let builder = builder.map_err(|error| damaged(source, &error))?;
        let columns = [Some(self.fields.text.as_str()), self.fields.id.as_deref()].into_iter().flatten();
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns);
        let groups = range.clone().map(|group| usize::try_from(group).expect("row groups are few")).collect();
        let reader = decoded(|| builder.with_projection(mask).with_row_groups(groups).with_batch_size(ROWS).build());
        reader.map_err(|error| damaged(source, &error))
    }
}

fn is_wrapped(source: &Source) -> bool {
    Compression::of(&source.path) != Compression::Plain
}

fn open_file(source: &Source) -> Result<File> {
    File::open(&source.path).map_err(|error| corpus_error(source, error.to_string()))
}

fn corpus_error(source: &Source, message: String) -> Error {
    Error::Corpus { path: source.path.clone(), line: None, message }
}

fn damaged(source: &Source, error: &dyn std::fmt::Display) -> Error {
    corpus_error(source, format!("not a readable Parquet file ({error}); replace it"))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The records of a batch whose first row has number `row`; complaints count from the piece's `first` row.
fn batch_records(fields: &Fields, batch: &RecordBatch, row: u64, first: u64) -> Vec<Result<Record>> {
    let texts = batch.column_by_name(&fields.text).expect("checked before the first part");
    let ids = fields.id.as_ref().map(|id| batch.column_by_name(id).expect("checked before the first part"));
    let record = |(index, number): (usize, u64)| {
        let id = match ids {
            None => Some(number.to_string()),
            Some(ids) => value(ids, index),
        };
        match (id, value(texts, index)) {
            (Some(id), Some(text)) => from_text(id, text, number - first),
            _ => Record::rejected(Reason::MissingField, number - first),
        }
    };
    (0..batch.num_rows()).zip(row..).map(record).map(Ok).collect()
}

/// A cell as text; `None` for null.
fn value(column: &ArrayRef, index: usize) -> Option<String> {
    if column.is_null(index) {
        return None;
    }
    let any = column.as_any();
    any.downcast_ref::<StringArray>()
        .map(|texts| texts.value(index))
        .or_else(|| any.downcast_ref::<LargeStringArray>().map(|texts| texts.value(index)))
        .or_else(|| any.downcast_ref::<StringViewArray>().map(|texts| texts.value(index)))
        .map(str::to_owned)
        .or_else(|| integer(column, index))
}

fn integer(column: &ArrayRef, index: usize) -> Option<String> {
    use arrow_array::types::{
        Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    };
    macro_rules! first_of {
        ($($kind:ty),*) => {
            None$(.or_else(|| {
                let numbers = column.as_any().downcast_ref::<arrow_array::PrimitiveArray<$kind>>()?;
                Some(numbers.value(index).to_string())
            }))*
        };
    }
    first_of!(Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type)
}
