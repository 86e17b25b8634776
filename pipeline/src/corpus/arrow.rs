//! Arrow IPC format: each row is a document.
//!
//! # What
//! Files (`ARROW1`, Feather version 2) and streams of record batches, plain or with buffers compressed by LZ4 or zstd.
//! One column contains the text, and an optional second one the document id.
//!
//! # Why
//! `datasets` stores its cache as Arrow streams, and `pyarrow`, Polars and DuckDB write both kinds.
//!
//! # Definition
//! The columns are as in Parquet: strings or bytes in any layout, optionally dictionary-encoded; for ids also integers.
//! Invalid UTF-8 is repaired and counted, and a row that lacks one of the columns is skipped and counted. The position of
//! row `r` of record batch `b` is `2^32 b + r`. A file is cut between record batches, unless it is compressed as a whole or
//! has a dictionary after its first batch. A stream is one piece, since only a reader from its beginning finds the
//! batches. One batch is in memory at a time. A stream without batches still has a schema, so a file of 0 bytes is
//! damaged. A stream may end without its end mark (8 bytes), since a writer may also close it; but a stream that was cut
//! between two batches looks the same. So it is read, and counted once as `unfinished_stream`.
//!
//! # Reference
//! Arrow columnar format, "Serialization and Interprocess Communication",
//! <https://arrow.apache.org/docs/format/Columnar.html>.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::{MessageHeader, MetadataVersion};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use runtime::catch_decoder;

use super::input_split::{PieceEnd, PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::piece_ranges::{group_units, whole};
use super::record::{Record, RecordBuffers, RejectReason};
use super::sniff::FileCheck;
use super::{Format, columns};
use crate::{Error, Result};

mod footer;
mod messages;

use self::footer::FooterBlocks;
use self::messages::{Message, Messages, damaged};

/// Arrow IPC: each row is a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpcRows;

impl Format for IpcRows {
    fn extensions(&self) -> &'static [&'static str] {
        &["arrow", "feather", "ipc"]
    }

    fn has_fields(&self) -> bool {
        true
    }

    fn has_rows(&self) -> bool {
        true
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        let begun = Messages::open(file, 0..file.bytes, &binary(reading).uncounted()).and_then(|mut messages| {
            let schema = read_schema(&mut messages)?;
            Ok((schema, messages.rows_of_first_batch()?))
        });
        match begun {
            Ok((schema, rows)) => Ok(columns::check(&schema, rows, reading)),
            Err(Error::UnusableFile { message, .. }) => Ok(FileCheck::unfit(message)),
            Err(error) => Err(error),
        }
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        let Some(blocks) = FooterBlocks::read(file, &binary(reading))? else { return Ok(whole(file)) };
        let sizes = blocks.batches.iter().map(|block| block.end - block.start);
        Ok(group_units(sizes, stride, blocks.can_be_cut()))
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
        Ok(Box::new(Rows::open(file, range, &binary(reading))?))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| {
                let texts: Vec<_> = texts.iter().copied().map(Some).collect();
                let mut writer =
                    arrow_ipc::writer::FileWriter::try_new(Vec::new(), &tests::schema()).expect("in memory");
                texts.chunks(3).for_each(|texts| writer.write(&tests::batch(texts)).expect("in memory"));
                writer.into_inner().expect("in memory")
            },
            dirty: tests::stream(&[&[Some("one"), None], &[], &[Some(""), Some("two")]]),
            texts: &["one", "two"],
            complaints: &["missing_field:2", "empty_document:3"],
        }
    }
}

/// Returns the options for a file that is no text.
fn binary(reading: &ReadOptions) -> ReadOptions {
    ReadOptions { encoding: None, ..reading.clone() }
}

/// Reads the schema, with columns of text declared as bytes.
///
/// The decoder refuses a batch with one invalid character in a column of strings. Other writers produce such columns, so
/// bytes are read and repaired as in the other formats.
fn read_schema(messages: &mut Messages) -> Result<SchemaRef> {
    let file = messages.file().clone();
    let reason = if file.bytes == 0 { "it has 0 bytes" } else { "it has no schema" };
    let message = messages.next()?.ok_or_else(|| damaged(&file, &reason))?;
    let schema = catch_decoder(|| {
        let header = message.header()?.header_as_schema();
        let header = header.ok_or_else(|| ArrowError::IpcError("the first message is no schema".to_owned()))?;
        arrow_ipc::convert::try_fb_to_schema(header)
    });
    let schema = schema.map_err(|error| damaged(&file, &error))?;
    let fields: Vec<FieldRef> = schema
        .fields()
        .iter()
        .map(|field| Arc::new(field.as_ref().clone().with_data_type(as_bytes(field.data_type()))))
        .collect();
    Ok(Arc::new(Schema::new(fields)))
}

fn as_bytes(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::Utf8View => DataType::BinaryView,
        DataType::Dictionary(keys, values) => DataType::Dictionary(keys.clone(), Box::new(as_bytes(values))),
        other => other.clone(),
    }
}

/// Values of the dictionaries, by id.
#[expect(clippy::disallowed_types, reason = "the type of the decoder; its order is not used")]
type Dictionaries = std::collections::HashMap<i64, ArrayRef>;

/// Reader of the rows of consecutive record batches.
struct Rows {
    messages: Messages,
    reading: ReadOptions,
    schema: SchemaRef,
    /// Columns that are read.
    columns: Vec<usize>,
    dictionaries: Dictionaries,
    /// Current batch and its next row.
    batch: Option<(RecordBatch, usize)>,
    /// Number of the next batch.
    next_batch: u64,
    /// Position after the last row, and the rows of the piece up to there.
    to: u64,
    lines: u64,
    /// Whether the end was reached and a missing end mark counted.
    has_ended: bool,
}

impl Rows {
    fn open(file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Self> {
        let blocks = FooterBlocks::read(file, reading)?;
        let head = blocks.as_ref().map_or(0..file.bytes, |blocks| 0..blocks.head_end());
        let mut messages = Messages::open(file, head, reading)?;
        let schema = read_schema(&mut messages)?;
        let columns = columns::names(reading).filter_map(|(_, name)| schema.index_of(name).ok()).collect();
        let mut rows = Self {
            messages,
            reading: reading.clone(),
            schema,
            columns,
            dictionaries: Dictionaries::default(),
            batch: None,
            next_batch: 0,
            to: 0,
            lines: 0,
            has_ended: false,
        };
        if let Some(blocks) = blocks {
            // The dictionaries before the first batch.
            while rows.begin_batch()? {}
            rows.messages.continue_at(blocks.bytes_of(file, range)?)?;
            rows.next_batch = range.start;
            rows.to = range.start << 32;
        }
        Ok(rows)
    }

    /// Decodes messages up to the next record batch. Returns false if there is none.
    fn begin_batch(&mut self) -> Result<bool> {
        self.batch = None;
        while let Some(message) = self.messages.next()? {
            let kind = message.kind(self.messages.file())?;
            if kind != MessageHeader::RecordBatch && kind != MessageHeader::DictionaryBatch {
                continue;
            }
            let batch = catch_decoder(|| self.decode(&message));
            if let Some(batch) = batch.map_err(|error| damaged(self.messages.file(), &error))? {
                if batch.num_rows() as u64 > u64::from(u32::MAX) || self.next_batch > u64::from(u32::MAX >> 1) {
                    return Err(damaged(self.messages.file(), &"more than 2^32 rows in a batch"));
                }
                self.to = self.next_batch << 32;
                self.next_batch += 1;
                self.batch = Some((batch, 0));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the batch of a message; `None` for a dictionary, which is kept.
    fn decode(&mut self, message: &Message) -> std::result::Result<Option<RecordBatch>, ArrowError> {
        let header = message.header()?;
        let version: MetadataVersion = header.version();
        if let Some(dictionary) = header.header_as_dictionary_batch() {
            let dictionaries = &mut self.dictionaries;
            read_dictionary(&message.body, dictionary, &self.schema, dictionaries, &version)?;
            return Ok(None);
        }
        let Some(batch) = header.header_as_record_batch() else { return Ok(None) };
        let schema = Arc::clone(&self.schema);
        RecordBatchDecoder::try_new(&message.body, batch, schema, &self.dictionaries, &version)?
            .with_projection(Some(&self.columns))
            .read_record_batch()
            .map(Some)
    }
}

impl PieceReader for Rows {
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>> {
        self.reading.memory_budget.release();
        loop {
            if let Some((batch, index)) = self.batch.take_if(|(batch, index)| *index < batch.num_rows()) {
                let place = (self.to..self.to + 1, self.lines);
                let record = columns::record(self.messages.file(), &batch, index, place, &self.reading, spare)?;
                self.batch = Some((batch, index + 1));
                self.to += 1;
                self.lines += 1;
                return Ok(Some(record));
            }
            if !self.has_ended && self.begin_batch()? {
                continue;
            }
            let is_cut = !std::mem::replace(&mut self.has_ended, true) && self.messages.is_unfinished();
            let complaint = || Record::rejected(RejectReason::UnfinishedStream, self.to..self.to, self.lines);
            return Ok(is_cut.then(complaint));
        }
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        while self.to < to {
            let rows = self.batch.as_ref().map_or(0, |(batch, index)| batch.num_rows() - index);
            let passed = (rows as u64).min(to - self.to);
            if let Some((_, index)) = &mut self.batch {
                *index += usize::try_from(passed).expect("the rows are in memory");
            }
            self.to += passed;
            self.lines += passed;
            if self.to < to && !self.begin_batch()? {
                let message = format!("it ends before position {to}, which was read before");
                return Err(Error::Corpus { path: self.messages.file().path.clone(), line: None, message });
            }
        }
        Ok(())
    }

    fn reached(&self) -> PieceEnd {
        PieceEnd { to: self.to, lines: self.lines, blake3: self.messages.hash() }
    }
}

#[cfg(test)]
mod tests;
