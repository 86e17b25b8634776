//! Parquet: a row is a document.
//!
//! # What
//! One column holds the text, and perhaps another one the document's name; no other column is read.
//!
//! # Why
//! What `datasets` and most dumps of today keep their corpora in.
//!
//! # Definition
//! `prepare.text_field` names a column of strings or bytes, in a dictionary or not, `prepare.id_field` one of these or of
//! integers; a row that lacks one of them is skipped and counted. Files are cut between row groups; pages may be plain
//! or compressed by any codec of the format (but LZO, which nothing writes). A file that is compressed as a whole is
//! decompressed as a whole, into memory.
//!
//! # Reference
//! The Apache Parquet format, <https://parquet.apache.org/docs/file-format/>.

use std::convert::Infallible;
use std::mem::take;
use std::ops::Range;
use std::string::FromUtf8Error;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::file::metadata::RowGroupMetaData;
use arrow_array::RecordBatch;
use runtime::catch_decoder;

use super::Format;
use super::input_split::{BytesRead, PieceRange, PieceReader, Reached, Reading};
use super::inputs::InputFile;
use super::record::{Record, RejectReason, Spare};
use crate::{Error, Result};

mod cells;
mod pages;
mod raw;

use self::cells::is_text;
use self::pages::Pages;
use self::raw::Raw;
use super::bytes::{ReadHash, make_room};
use super::memory_budget::{Reservation, ResourcesExhausted};
use super::sniff::Fitness;

/// Rows decoded at a time, at most.
const ROWS: u64 = 256;

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

    fn check(&self, file: &InputFile, reading: &Reading) -> Result<Fitness> {
        let (raw, _hold) = Raw::open(file, &Reading { bytes_read: BytesRead::default(), ..reading.clone() })?;
        let metadata = match catch_decoder(|| ArrowReaderMetadata::load(&raw, ArrowReaderOptions::default())) {
            Ok(metadata) => metadata,
            Err(error) => return Ok(Fitness::unfit(format!("not a readable Parquet file ({error}); replace it"))),
        };
        let schema = metadata.schema();
        for (key, name) in fields(reading) {
            let Ok(field) = schema.field_with_name(name) else {
                let columns: Vec<_> = schema.fields().iter().map(|field| format!("`{}`", field.name())).collect();
                let message = format!("no column `{name}`; it has {}; set `{key}`", columns.join(", "));
                return Ok(Fitness::unfit(message));
            };
            let usable = is_text(field.data_type()) || (key == "prepare.id_field" && field.data_type().is_integer());
            if !usable {
                let message = format!("column `{name}` holds {}, not text; set `{key}`", field.data_type());
                return Ok(Fitness::unfit(message));
            }
        }
        Ok(Fitness::default())
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &Reading) -> Result<Vec<PieceRange>> {
        let metadata = load(file, &Raw::open(file, reading)?.0)?;
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
    let metadata = catch_decoder(|| ArrowReaderMetadata::load(raw, ArrowReaderOptions::default()));
    metadata.map_err(|error| damaged(file, &error))
}

fn rows_before(file: &InputFile, metadata: &ArrowReaderMetadata, range: &Range<u64>) -> Result<u64> {
    let before = usize::try_from(range.start).expect("row groups are few");
    let rows = metadata.metadata().row_groups()[..before].iter().map(RowGroupMetaData::num_rows);
    let sum = rows.map(|rows| u64::try_from(rows).ok()).try_fold(0, |sum: u64, rows| sum.checked_add(rows?));
    sum.ok_or_else(|| damaged(file, &"a row group of less than no rows"))
}

fn damaged(file: &InputFile, error: &dyn std::fmt::Display) -> Error {
    raw::unfit(file, format!("not a readable Parquet file ({error}); replace it"))
}

/// The rows of some row groups, decoded one row group after another.
struct Rows {
    file: InputFile,
    raw: Raw,
    /// Room for the file, if it was compressed as a whole and is large.
    whole: Option<Reservation>,
    /// Room for the pages of the row group in hand.
    pages: Option<Reservation>,
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
    /// Bytes of the row group in hand that nobody was told of yet, and its rows that did not come out of it: with them, its bytes
    /// are told.
    uncounted: u64,
    untold: u64,
}

impl Rows {
    fn open(file: &InputFile, range: &Range<u64>, reading: &Reading) -> Result<Self> {
        let (raw, whole) = Raw::open(file, reading)?;
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
            untold: 0,
        })
    }

    /// Begins the next row group behind its first `offset` rows. False if there is none.
    fn begin_group(&mut self, offset: usize) -> Result<bool> {
        (self.batches, self.batch, self.pages) = (None, None, None);
        self.tell(self.untold);
        let Some(group) = self.groups.next() else { return Ok(false) };
        self.untold = u64::try_from(self.metadata.metadata().row_group(group).num_rows()).unwrap_or(0);
        let mut page_bytes = 0;
        let chunks = self.metadata.metadata().row_group(group).columns().iter().enumerate();
        for (_, chunk) in chunks.filter(|&(leaf, _)| self.columns.leaf_included(leaf)) {
            let place = catch_decoder(|| Ok::<_, Infallible>(chunk.byte_range()));
            let (start, length) = place.map_err(|error| damaged(&self.file, &error))?;
            // One that cannot be told is of no use to the decoder either, which says why.
            page_bytes +=
                Pages::read(&self.raw, start..start.saturating_add(length)).map_or(0, |pages| pages.page_bytes_max);
            let (read, uncounted) = (&mut self.read, &mut self.uncounted);
            let take = |bytes: &[u8]| {
                read.push(bytes);
                *uncounted += bytes.len() as u64;
            };
            self.raw.each(start..start.saturating_add(length), take).map_err(|error| {
                raw::unfit(&self.file, format!("row group {group} cannot be read ({error}); replace the file"))
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

    /// Tells the bytes of so many of the row group's rows. What was decompressed as a whole was told when it was read.
    fn tell(&mut self, rows: u64) {
        let share = if rows < self.untold { self.uncounted / self.untold.max(1) * rows } else { self.uncounted };
        self.uncounted -= share;
        self.untold -= rows.min(self.untold);
        if !Raw::is_wrapped(&self.file) {
            self.reading.bytes_read.add(share);
        }
    }

    /// Makes room for the pages of a row group of which the largest, of all columns, come to so many bytes: one page as
    /// it is and decompressed, and as many rows as fit next to it. No cell is longer than a page.
    fn rows_at_a_time(&mut self, page_bytes: u64) -> Result<usize> {
        let (room, least) = (&self.reading.room, page_bytes.saturating_mul(3));
        let refused = |ResourcesExhausted { wanted, most }| {
            let hint = "raise it, or write the file again with smaller pages";
            let message =
                format!("pages that take {wanted} bytes; {most} are allowed by `prepare.max_memory_bytes`; {hint}");
            raw::unfit(&self.file, message)
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

    fn record(&self, batch: &RecordBatch, index: usize, spare: &mut Spare) -> Result<Record> {
        let column = |name| batch.column_by_name(name).expect("checked before the first part");
        let (row, line) = (self.row, self.row - self.first);
        let cell = |name, mut bytes| cells::append(column(name), index, &mut bytes).map(|()| bytes);
        let id = self.reading.id_field.as_ref().map(|id| cell(id, take(&mut spare.id).into_bytes()));
        let text = cell(&self.reading.text_field, take(&mut spare.text));
        let (Some(text), None | Some(Some(_))) = (text, &id) else {
            return Ok(Record::rejected(RejectReason::MissingField, row..row + 1, line));
        };
        make_room(&self.file.path, line, text.len() as u64, &self.reading)?;
        let mut record = Record::of_bytes(text, row..row + 1, line);
        if let Some(document) = &mut record.document {
            let repaired = |id: FromUtf8Error| String::from_utf8_lossy(id.as_bytes()).into_owned();
            document.id = id.flatten().map(|id| String::from_utf8(id).unwrap_or_else(repaired));
        }
        // Rows are their own places: line breaks within a cell are none of the file's.
        record.complaints.iter_mut().for_each(|(_, at)| *at = line);
        Ok(record)
    }
}

impl PieceReader for Rows {
    fn next(&mut self, spare: &mut Spare) -> Result<Option<Record>> {
        self.reading.room.put_down();
        loop {
            if let Some((batch, index)) = self.batch.take_if(|(batch, index)| *index < batch.num_rows()) {
                let record = self.record(&batch, index, spare)?;
                self.batch = Some((batch, index + 1));
                self.row += 1;
                return Ok(Some(record));
            }
            let batches = self.batches.as_mut();
            let batch = catch_decoder(|| batches.and_then(Iterator::next).transpose());
            match batch.map_err(|error| damaged(&self.file, &error))? {
                Some(batch) => {
                    self.tell(batch.num_rows() as u64);
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
            self.tell(passed);
            self.row += passed;
        }
        Ok(())
    }

    fn reached(&self) -> Reached {
        Reached { to: self.row, lines: self.row - self.first, blake3: self.read.hex() }
    }
}

#[cfg(test)]
mod tests;
