//! Parquet format: each row is a document.
//!
//! # What
//! One column contains the text, and an optional second one the document id. No other column is read.
//!
//! # Why
//! `datasets` and most current dumps store corpora as Parquet.
//!
//! # Definition
//! `prepare.text_field` names a column of strings or bytes, optionally dictionary-encoded. Invalid UTF-8 of either is
//! repaired and counted as in the text formats. `prepare.id_field` names one
//! of these types or of integers. A row that lacks one of them is skipped and counted. Files are cut between row
//! groups. Pages may be plain or compressed by any codec of the format (except LZO, which no common writer uses). A
//! file that is compressed as a whole is decompressed as a whole, into memory.
//!
//! # Reference
//! The Apache Parquet format, <https://parquet.apache.org/docs/file-format/>.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::basic::Type as PhysicalType;
use ::parquet::file::metadata::{ColumnChunkMetaData, FileMetaData, ParquetMetaDataBuilder, RowGroupMetaData};
use ::parquet::schema::types::{SchemaDescriptor, Type};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, FieldRef, Schema};
use runtime::catch_decoder;

use super::input_split::{PieceEnd, PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::piece_ranges::group_units;
use super::record::{Record, RecordBuffers};
use super::{Format, columns};
use crate::{Error, Result};

mod object_source;
mod pages;
mod raw;

use self::pages::Pages;
use self::raw::Raw;
use super::bytes::ReadHash;
use super::memory_budget::{Reservation, ResourcesExhausted};
use super::sniff::FileCheck;

/// Maximum number of rows decoded at a time.
const ROWS: u64 = 256;

/// Parquet: each row is a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParquetRows;

impl Format for ParquetRows {
    fn extensions(&self) -> &'static [&'static str] {
        &["parquet"]
    }

    fn has_fields(&self) -> bool {
        true
    }

    fn has_rows(&self) -> bool {
        true
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        let (raw, _hold) = Raw::open(file, &reading.uncounted())?;
        let metadata = match catch_decoder(|| ArrowReaderMetadata::load(&raw, ArrowReaderOptions::default())) {
            Ok(metadata) => metadata,
            Err(error) => return Ok(FileCheck::unfit(columns::damage("Parquet", &error))),
        };
        let schema = metadata.schema();
        let records = u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        Ok(columns::check(schema, records, reading))
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        let metadata = load(file, &Raw::open(file, reading)?.0, reading)?;
        let size = |group: &RowGroupMetaData| u64::try_from(group.compressed_size()).unwrap_or(0);
        let sizes = metadata.metadata().row_groups().iter().map(size);
        // A file compressed as a whole is one piece, since it is decompressed as a whole.
        Ok(group_units(sizes, stride, !Raw::is_wrapped(file)))
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
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

fn load(file: &InputFile, raw: &Raw, reading: &ReadOptions) -> Result<ArrowReaderMetadata> {
    let metadata = catch_decoder(|| {
        let metadata = ArrowReaderMetadata::load(raw, ArrowReaderOptions::default())?;
        let names: Vec<&str> = columns::names(reading).map(|(_, name)| name).collect();
        text_as_bytes(&metadata, &names)
    });
    metadata.map_err(|error| damaged(file, &error))
}

/// Returns the metadata with these text columns declared as bytes.
///
/// The reader refuses a batch with one invalid character in a column of strings. Other writers produce such columns, so
/// bytes are read and repaired as in the other formats.
fn text_as_bytes(metadata: &ArrowReaderMetadata, names: &[&str]) -> ::parquet::errors::Result<ArrowReaderMetadata> {
    let all = metadata.metadata();
    let file = all.file_metadata();
    let is_text = |name: &str| names.contains(&name);
    let columns = file.schema().get_fields().iter().map(|column| {
        if !(is_text(column.name()) && column.is_primitive() && column.get_physical_type() == PhysicalType::BYTE_ARRAY)
        {
            return Ok(Arc::clone(column));
        }
        let bytes = Type::primitive_type_builder(column.name(), PhysicalType::BYTE_ARRAY)
            .with_repetition(column.get_basic_info().repetition());
        bytes.build().map(Arc::new)
    });
    let columns = columns.collect::<::parquet::errors::Result<Vec<_>>>()?;
    let root = Type::group_type_builder(file.schema().name()).with_fields(columns).build()?;
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        None,
        Arc::new(SchemaDescriptor::new(Arc::new(root))),
        file.column_orders().cloned(),
    );
    let all = Arc::new(ParquetMetaDataBuilder::new(file).set_row_groups(all.row_groups().to_vec()).build());
    let declared = ArrowReaderMetadata::try_new(Arc::clone(&all), ArrowReaderOptions::default())?;
    // Offsets of 64 bits, since the rows of a batch may have more than 2 GiB of text.
    let large: Vec<FieldRef> = declared
        .schema()
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Binary if is_text(field.name()) => {
                Arc::new(field.as_ref().clone().with_data_type(DataType::LargeBinary))
            }
            _ => Arc::clone(field),
        })
        .collect();
    let options = ArrowReaderOptions::default().with_schema(Arc::new(Schema::new(large)));
    ArrowReaderMetadata::try_new(all, options)
}

fn rows_before(file: &InputFile, metadata: &ArrowReaderMetadata, range: &Range<u64>) -> Result<u64> {
    let before = usize::try_from(range.start).expect("row groups are few");
    let rows = metadata.metadata().row_groups()[..before].iter().map(RowGroupMetaData::num_rows);
    let sum = rows.map(|rows| u64::try_from(rows).ok()).try_fold(0, |sum: u64, rows| sum.checked_add(rows?));
    sum.ok_or_else(|| damaged(file, &"a row group of less than no rows"))
}

fn damaged(file: &InputFile, error: &dyn std::fmt::Display) -> Error {
    file.unfit_error(columns::damage("Parquet", error))
}

/// Reader of the rows of several row groups, one row group after another.
struct Rows {
    file: InputFile,
    raw: Raw,
    /// Memory of the file if it was compressed as a whole and is large, or of the row group of an object.
    whole: Option<Reservation>,
    /// Memory of the pages of the current row group.
    pages: Option<Reservation>,
    metadata: ArrowReaderMetadata,
    columns: ProjectionMask,
    reading: ReadOptions,
    /// Remaining row groups.
    groups: Range<usize>,
    batches: Option<ParquetRecordBatchReader>,
    batch: Option<(RecordBatch, usize)>,
    first: u64,
    row: u64,
    read: ReadHash,
    /// Bytes of the current row group that are not yet reported, and its rows that are not yet read. Bytes are reported
    /// in proportion to the rows.
    uncounted: u64,
    unreported: u64,
}

impl Rows {
    fn open(file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Self> {
        let (raw, whole) = Raw::open(file, reading)?;
        let metadata = load(file, &raw, reading)?;
        let group = |index| usize::try_from(index).expect("row groups are few");
        if group(range.end) > metadata.metadata().num_row_groups() {
            return Err(raw::error(file, "it has fewer row groups than it had: it was changed meanwhile".into()));
        }
        let schema = metadata.schema();
        let roots = columns::names(reading).filter_map(|(_, name)| schema.index_of(name).ok()).collect::<Vec<_>>();
        let first = rows_before(file, &metadata, range)?;
        Ok(Self {
            columns: ProjectionMask::roots(metadata.parquet_schema(), roots),
            file: file.clone(),
            raw,
            whole,
            pages: None,
            metadata,
            reading: reading.clone(),
            groups: group(range.start)..group(range.end),
            batches: None,
            batch: None,
            first,
            row: first,
            read: ReadHash::default(),
            uncounted: 0,
            unreported: 0,
        })
    }

    /// Begins the next row group after its first `offset` rows. Returns false if there is none.
    fn begin_group(&mut self, offset: usize) -> Result<bool> {
        (self.batches, self.batch, self.pages) = (None, None, None);
        self.report_rows(self.unreported);
        let Some(group) = self.groups.next() else { return Ok(false) };
        self.unreported = u64::try_from(self.metadata.metadata().row_group(group).num_rows()).unwrap_or(0);
        let mut page_bytes = 0;
        let chunks = self.chunks(group)?;
        if !Raw::is_wrapped(&self.file) {
            self.whole = None;
            self.whole = self
                .raw
                .prefetch(&chunks, &self.reading.memory_budget)
                .map_err(|error| raw::error(&self.file, format!("{error}; run the same command again")))?;
        }
        for chunk in chunks {
            // A chunk with unreadable headers is left to the decoder, which reports the error.
            page_bytes += Pages::read(&self.raw, chunk.clone()).map_or(0, |pages| pages.page_bytes_max);
            let read = &mut self.read;
            let uncounted = &mut self.uncounted;
            let take = |bytes: &[u8]| {
                read.push(bytes);
                *uncounted += bytes.len() as u64;
            };
            self.raw.each(chunk, take).map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    self.file.unfit_error(format!("row group {group} cannot be read ({error}); replace the file"))
                }
                _ => raw::error(&self.file, format!("row group {group}: {error}; run the same command again")),
            })?;
        }
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.raw.clone(), self.metadata.clone())
            .with_projection(self.columns.clone())
            .with_row_groups(vec![group])
            .with_offset(offset)
            .with_batch_size(self.rows_at_a_time(page_bytes)?);
        let reader = catch_decoder(|| builder.build());
        self.batches = Some(reader.map_err(|error| damaged(&self.file, &error))?);
        Ok(true)
    }

    /// Returns the ranges of the column chunks of a row group that are read.
    fn chunks(&self, group: usize) -> Result<Vec<Range<u64>>> {
        let chunks = self.metadata.metadata().row_group(group).columns().iter().enumerate();
        let range = |(_, chunk): (usize, &ColumnChunkMetaData)| {
            let place = catch_decoder(|| Ok::<_, Infallible>(chunk.byte_range()));
            let (start, length) = place.map_err(|error| damaged(&self.file, &error))?;
            Ok(start..start.saturating_add(length))
        };
        chunks.filter(|&(leaf, _)| self.columns.leaf_included(leaf)).map(range).collect()
    }

    /// Reports the bytes of `rows` rows of the group. A file decompressed as a whole was reported when it was read.
    fn report_rows(&mut self, rows: u64) {
        let share =
            if rows < self.unreported { self.uncounted / self.unreported.max(1) * rows } else { self.uncounted };
        self.uncounted -= share;
        self.unreported -= rows.min(self.unreported);
        if !Raw::is_wrapped(&self.file) {
            self.reading.bytes_read.add(share);
        }
    }

    /// Reserves memory for the pages of a row group whose largest pages, over all columns, sum to `page_bytes`: each
    /// page both compressed and decompressed. Returns the number of rows that fit in addition. No cell is longer than a
    /// page.
    fn rows_at_a_time(&mut self, page_bytes: u64) -> Result<usize> {
        let room = &self.reading.memory_budget;
        let least = page_bytes.saturating_mul(3);
        let refused = |ResourcesExhausted { wanted, most }| {
            let hint = "raise it, or write the file again with smaller pages";
            let message =
                format!("pages that take {wanted} bytes; {most} are allowed by `prepare.max_memory_bytes`; {hint}");
            self.file.unfit_error(message)
        };
        let most = if self.whole.is_some() { room.file_max() / 4 } else { room.share() };
        if self.whole.is_none() {
            self.pages = room.file(least).map_err(refused)?;
        } else if least > most {
            return Err(refused(ResourcesExhausted { wanted: least, most }));
        }
        let rows = most.saturating_sub(least) / page_bytes.max(1);
        Ok(usize::try_from(rows.clamp(1, ROWS)).expect("a few"))
    }
}

impl PieceReader for Rows {
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>> {
        self.reading.memory_budget.release();
        loop {
            if let Some((batch, index)) = self.batch.take_if(|(batch, index)| *index < batch.num_rows()) {
                let range = self.row..self.row + 1;
                let line = self.row - self.first;
                let record = columns::record(&self.file, &batch, index, (range, line), &self.reading, spare)?;
                self.batch = Some((batch, index + 1));
                self.row += 1;
                return Ok(Some(record));
            }
            let batches = self.batches.as_mut();
            let batch = catch_decoder(|| batches.and_then(Iterator::next).transpose());
            match batch.map_err(|error| damaged(&self.file, &error))? {
                Some(batch) => {
                    self.report_rows(batch.num_rows() as u64);
                    self.batch = Some((batch, 0));
                }
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
            self.report_rows(passed);
            self.row += passed;
        }
        Ok(())
    }

    fn reached(&self) -> PieceEnd {
        PieceEnd { to: self.row, lines: self.row - self.first, blake3: self.read.hex() }
    }
}

#[cfg(test)]
mod tests;
