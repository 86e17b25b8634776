//! Parquet: a row is a document.
//!
//! # What
//! One column holds the text, and perhaps another one the document's name; no other column is read.
//!
//! # Why
//! What `datasets` and most dumps of today keep their corpora in.
//!
//! # Definition
//! `prepare.text_field` names a column of strings, `prepare.id_field` one of strings or integers; a row that lacks one of
//! them is passed over and counted. Files are cut between row groups. A file that is compressed as a whole is
//! decompressed as a whole, into memory.
//!
//! # Reference
//! The Apache Parquet format, <https://parquet.apache.org/docs/file-format/>.

use std::convert::Infallible;
use std::ops::Range;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::file::metadata::RowGroupMetaData;
use arrow_array::RecordBatch;

use super::Format;
use super::inputs::InputFile;
use super::piece::{PieceRange, PieceReader, Reached, Reading};
use super::record::{Reason, Record};
use crate::foreign::decoded;
use crate::{Error, Result};

mod cells;
mod raw;

use self::cells::{integer_or_text, is_text};
use self::raw::Raw;
use super::bytes::{ReadHash, too_long};

/// Rows decoded at a time.
const ROWS: usize = 256;

/// A row is a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParquetRows;

impl Format for ParquetRows {
    fn extensions(&self) -> &'static [&'static str] {
        &["parquet"]
    }

    fn has_fields(&self) -> bool {
        true
    }

    fn check(&self, file: &InputFile, reading: &Reading) -> Result<()> {
        let schema = load(file, &Raw::open(file, reading)?)?.schema().clone();
        for (key, name) in fields(reading) {
            let Ok(field) = schema.field_with_name(name) else {
                let columns: Vec<_> = schema.fields().iter().map(|field| format!("`{}`", field.name())).collect();
                let message = format!("no column `{name}`; it has {}; set `{key}`", columns.join(", "));
                return Err(raw::error(file, message));
            };
            let usable = is_text(field.data_type()) || (key == "prepare.id_field" && field.data_type().is_integer());
            if !usable {
                let message = format!("column `{name}` holds {}, not text; set `{key}`", field.data_type());
                return Err(raw::error(file, message));
            }
        }
        Ok(())
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &Reading) -> Result<Vec<PieceRange>> {
        let metadata = load(file, &Raw::open(file, reading)?)?;
        let groups = metadata.metadata().row_groups();
        let mut pieces: Vec<PieceRange> = Vec::new();
        for (index, group) in (0_u64..).zip(groups) {
            let bytes = u64::try_from(group.compressed_size()).unwrap_or(0);
            match pieces.last_mut() {
                // Compressed as a whole, it is one piece: it is decompressed as a whole.
                Some((range, sum)) if *sum + bytes <= stride || Raw::is_wrapped(file) => {
                    range.end = index + 1;
                    *sum += bytes;
                }
                _ => pieces.push((index..index + 1, bytes)),
            }
        }
        Ok(pieces)
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &Reading) -> Result<Box<dyn PieceReader>> {
        Ok(Box::new(Rows::open(file, range, reading)?))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| super::contract::parquet_file(&texts.iter().copied().map(Some).collect::<Vec<_>>(), 3),
            dirty: super::contract::parquet_file(&[Some("one"), None, Some(""), Some("two")], 2),
            texts: &["one", "two"],
            complaints: &["missing_field:2", "empty_document:3"],
        }
    }
}

/// The columns that are read, with the key of each.
fn fields(reading: &Reading) -> impl Iterator<Item = (&'static str, &str)> {
    let id = reading.id_field.as_deref().map(|name| ("prepare.id_field", name));
    [("prepare.text_field", reading.text_field.as_str())].into_iter().chain(id)
}

fn load(file: &InputFile, raw: &Raw) -> Result<ArrowReaderMetadata> {
    let metadata = decoded(|| ArrowReaderMetadata::load(raw, ArrowReaderOptions::default()));
    metadata.map_err(|error| damaged(file, &error))
}

fn rows_before(file: &InputFile, metadata: &ArrowReaderMetadata, range: &Range<u64>) -> Result<u64> {
    let before = usize::try_from(range.start).expect("row groups are few");
    let rows = metadata.metadata().row_groups()[..before].iter().map(RowGroupMetaData::num_rows);
    let sum = rows.map(|rows| u64::try_from(rows).ok()).try_fold(0, |sum: u64, rows| sum.checked_add(rows?));
    sum.ok_or_else(|| damaged(file, &"a row group of less than no rows"))
}

fn damaged(file: &InputFile, error: &dyn std::fmt::Display) -> Error {
    raw::error(file, format!("not a readable Parquet file ({error}); replace it"))
}

/// The rows of some row groups, decoded one row group after another.
struct Rows {
    file: InputFile,
    raw: Raw,
    metadata: ArrowReaderMetadata,
    columns: ProjectionMask,
    reading: Reading,
    /// Row groups that are still to come.
    groups: Range<usize>,
    batches: Option<ParquetRecordBatchReader>,
    batch: Option<(RecordBatch, usize)>,
    first: u64,
    row: u64,
    read: ReadHash,
}

impl Rows {
    fn open(file: &InputFile, range: &Range<u64>, reading: &Reading) -> Result<Self> {
        let raw = Raw::open(file, reading)?;
        let metadata = load(file, &raw)?;
        let group = |index| usize::try_from(index).expect("row groups are few");
        if group(range.end) > metadata.metadata().num_row_groups() {
            return Err(raw::error(file, "it has fewer row groups than it had: it was changed meanwhile".into()));
        }
        let schema = metadata.schema();
        let roots = fields(reading).filter_map(|(_, name)| schema.index_of(name).ok()).collect::<Vec<_>>();
        let first = rows_before(file, &metadata, range)?;
        Ok(Self {
            columns: ProjectionMask::roots(metadata.parquet_schema(), roots),
            file: file.clone(),
            raw,
            metadata,
            reading: reading.clone(),
            groups: group(range.start)..group(range.end),
            batches: None,
            batch: None,
            first,
            row: first,
            read: ReadHash::default(),
        })
    }

    /// Begins the next row group behind its first `offset` rows. False if there is none.
    fn begin_group(&mut self, offset: usize) -> Result<bool> {
        let Some(group) = self.groups.next() else { return Ok(false) };
        let chunks = self.metadata.metadata().row_group(group).columns().iter().enumerate();
        for (_, chunk) in chunks.filter(|&(leaf, _)| self.columns.leaf_included(leaf)) {
            let place = decoded(|| Ok::<_, Infallible>(chunk.byte_range()));
            let (start, length) = place.map_err(|error| damaged(&self.file, &error))?;
            let (read, count) = (&mut self.read, self.reading.bytes_read.clone());
            let take = |bytes: &[u8]| {
                read.push(bytes);
                if !Raw::is_wrapped(&self.file) {
                    count.add(bytes.len() as u64);
                }
            };
            self.raw.each(start..start + length, take).map_err(|error| {
                raw::error(&self.file, format!("row group {group} cannot be read ({error}); replace the file"))
            })?;
        }
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.raw.clone(), self.metadata.clone())
            .with_projection(self.columns.clone())
            .with_row_groups(vec![group])
            .with_offset(offset)
            .with_batch_size(ROWS);
        let reader = decoded(|| builder.build());
        self.batches = Some(reader.map_err(|error| damaged(&self.file, &error))?);
        Ok(true)
    }

    fn record(&self, batch: &RecordBatch, index: usize) -> Record {
        let column = |name| batch.column_by_name(name).expect("checked before the first part");
        let (row, line) = (self.row, self.row - self.first);
        let id = self.reading.id_field.as_ref().map(|id| integer_or_text(column(id), index));
        match (id, integer_or_text(column(&self.reading.text_field), index)) {
            (None, Some(text)) => Record::of_text(None, text, row..row + 1, line),
            (Some(Some(id)), Some(text)) => Record::of_text(Some(id), text, row..row + 1, line),
            _ => Record::rejected(Reason::MissingField, row..row + 1, line),
        }
    }
}

impl PieceReader for Rows {
    fn next(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some((batch, index)) = self.batch.take_if(|(batch, index)| *index < batch.num_rows()) {
                let record = self.record(&batch, index);
                let limit = self.reading.document_bytes_max;
                if record.document.as_ref().is_some_and(|document| document.text.len() as u64 > limit) {
                    return Err(too_long(&self.file.path, self.row, limit));
                }
                self.batch = Some((batch, index + 1));
                self.row += 1;
                return Ok(Some(record));
            }
            let batches = self.batches.as_mut();
            let batch = decoded(|| batches.and_then(Iterator::next).transpose());
            match batch.map_err(|error| damaged(&self.file, &error))? {
                Some(batch) => self.batch = Some((batch, 0)),
                None if self.begin_group(0)? => {}
                None => return Ok(None),
            }
        }
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        while self.row < to {
            let Some(group) = self.groups.clone().next() else {
                return Err(raw::error(&self.file, format!("it ends before row {to}, which was read before")));
            };
            let rows = u64::try_from(self.metadata.metadata().row_group(group).num_rows()).unwrap_or(0);
            let passed = rows.min(to - self.row);
            self.begin_group(usize::try_from(passed).expect("a row group is in memory"))?;
            self.row += passed;
        }
        Ok(())
    }

    fn reached(&self) -> Reached {
        Reached { to: self.row, lines: self.row - self.first, blake3: self.read.hex() }
    }
}
