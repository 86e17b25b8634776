//! Custom reader and writer of the ids of a row group as a Parquet column chunk.
//!
//! # Why
//! Nearly all data of a shard are ids. Parquet's own writer makes two 16-bit levels of each id before it encodes them
//! in runs. It widens the id to 32 bits and compares it with the minimum and maximum so far. Its reader takes the same
//! steps back. Here a row is two runs from the start, and a byte stream needs no conversion. Any reader sees a standard
//! Parquet file.
//!
//! # The chunk
//! Data pages of version 1 that contain whole rows, each compressed by zstd as a whole:
//!
//! | bytes | content |
//! |---|---|
//! | 4, then that many | repetition levels in runs: for each row one 0, then 1 for the other tokens |
//! | 4, then that many | definition levels in runs: 1 for a token, 0 for a row without any |
//! | 4 × tokens | the ids as `BYTE_STREAM_SPLIT` of 32 bits: all lowest bytes, then the next |
//!
//! The reader accepts exactly this layout. All other input, including damaged data, is left to Parquet's reader.
//!
//! # Budget
//! Reading takes 2 ns per token; Parquet's reader takes 5. Writing takes half the time of its writer. Most of the rest
//! is zstd.

use std::ops::Range;

use arrow_buffer::ScalarBuffer;
use bytes::{Buf as _, Bytes};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageReader as _, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::SerializedPageReader;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use schemas::TokenIds;
use zstd::zstd_safe::CParameter;

use super::runs::{Runs, runs};
use super::shard_file::Excerpt;
use super::{index, range};

/// Minimum number of tokens of a page, if the group has as many. Page and streams then stay in the second-level cache.
const PAGE_TOKENS: usize = 1 << 17;

/// Bytes of an id in the file.
const WIDTH: usize = 4;

/// Log2 of the number of match positions that level 1 remembers. Bytes of ids hardly repeat, so nearly all compression
/// comes from their frequencies. A table that fills the first-level cache and is cleared for each page took two thirds
/// of the time, for 0.1 % of the size. Higher levels keep zstd's default.
const FEW_PLACES_LOG2: u32 = 10;

/// Encoder of column chunks, with buffers that all chunks share.
pub(super) struct Encoder {
    compressor: zstd::bulk::Compressor<'static>,
    level: ZstdLevel,
    plain: Vec<u8>,
    repetition: Runs,
    definition: Runs,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Encoder").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Encoder {
    /// Creates an encoder with that compression level.
    pub(super) fn new(level: ZstdLevel) -> Self {
        let mut compressor = zstd::bulk::Compressor::new(level.compression_level()).expect("a level that zstd has");
        if level.compression_level() == 1 {
            compressor.set_parameter(CParameter::HashLog(FEW_PLACES_LOG2)).expect("a table that zstd has");
        }
        Self { compressor, level, plain: Vec::new(), repetition: Runs::default(), definition: Runs::default() }
    }

    /// Encodes the rows between `offsets` in `ids` as the chunk of that column. Returns it with its metadata.
    pub(super) fn encode(
        &mut self,
        column: &ColumnDescPtr,
        ids: TokenIds<'_>,
        offsets: &[i32],
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let mut chunk = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut chunk);
        let mut row = 0;
        let mut plain_bytes = 0;
        let mut levels = 0;
        while row + 1 < offsets.len() {
            let end = page_end(offsets, row);
            let page = self.page(ids, &offsets[row..=end])?;
            let written = pages.write_page(page)?;
            plain_bytes += written.uncompressed_size;
            levels += i64::from(written.num_values);
            row = end;
        }
        pages.close()?;
        let chunk = Bytes::from(chunk.into_inner()?);
        let metadata = ColumnChunkMetaData::builder(column.clone())
            .set_compression(Compression::ZSTD(self.level))
            .set_encodings(vec![Encoding::RLE, Encoding::BYTE_STREAM_SPLIT])
            .set_num_values(levels)
            .set_total_uncompressed_size(signed(plain_bytes))
            .set_total_compressed_size(signed(chunk.len()))
            .set_data_page_offset(0)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: chunk.len() as u64,
            rows_written: offsets.len() as u64 - 1,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((chunk, close))
    }

    fn page(&mut self, ids: TokenIds<'_>, offsets: &[i32]) -> Result<CompressedPage> {
        self.repetition.clear();
        self.definition.clear();
        for pair in offsets.windows(2) {
            let length = range(pair, 0).len();
            self.repetition.push(false, 1);
            self.repetition.push(true, length.saturating_sub(1));
            self.definition.push(length > 0, length.max(1));
        }
        self.plain.clear();
        let levels = self.repetition.finish(&mut self.plain);
        self.definition.finish(&mut self.plain);
        split(ids.slice(index(offsets[0])..index(offsets[offsets.len() - 1])), &mut self.plain);
        let page = Page::DataPage {
            buf: self.compressor.compress(&self.plain)?.into(),
            num_values: u32::try_from(levels).map_err(|_| ParquetError::General("a page of 2^32 tokens".into()))?,
            encoding: Encoding::BYTE_STREAM_SPLIT,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        Ok(CompressedPage::new(page, self.plain.len()))
    }
}

/// Returns the row after the last one of the page that begins with row `row`.
fn page_end(offsets: &[i32], row: usize) -> usize {
    let enough = |&end: &i32| index(end) - index(offsets[row]) >= PAGE_TOKENS;
    (row + 1 + offsets[row + 1..].iter().position(enough).unwrap_or(offsets.len())).min(offsets.len() - 1)
}

/// Appends the byte streams, lowest bytes first.
fn split(ids: TokenIds<'_>, plain: &mut Vec<u8>) {
    match ids {
        TokenIds::U16(ids) => {
            plain.extend(ids.iter().map(|id| id.to_le_bytes()[0]));
            plain.extend(ids.iter().map(|id| id.to_le_bytes()[1]));
            plain.resize(plain.len() + (WIDTH - 2) * ids.len(), 0);
        }
        TokenIds::U32(ids) => {
            for byte in 0..WIDTH {
                plain.extend(ids.iter().map(|id| id.to_le_bytes()[byte]));
            }
        }
    }
}

/// Ids and row ends of a decoded chunk.
#[derive(Debug)]
pub(super) struct Decoded<T: Id> {
    pub(super) ids: ScalarBuffer<T>,
    pub(super) offsets: ScalarBuffer<i32>,
}

/// Integer type of an id in memory.
pub(super) trait Id: arrow_buffer::ArrowNativeType {
    /// Appends the ids from byte streams. Returns `None` if an id does not fit the type.
    fn join(streams: [&[u8]; WIDTH], ids: &mut Vec<Self>) -> Option<()>;
}

impl Id for u16 {
    fn join([low, high, zeros @ ..]: [&[u8]; WIDTH], ids: &mut Vec<Self>) -> Option<()> {
        let rest = zeros.iter().flat_map(|zeros| zeros.iter()).fold(0, |all, byte| all | byte);
        ids.extend(low.iter().zip(high).map(|(&low, &high)| Self::from_le_bytes([low, high])));
        (rest == 0).then_some(())
    }
}

impl Id for u32 {
    fn join([a, b, c, d]: [&[u8]; WIDTH], ids: &mut Vec<Self>) -> Option<()> {
        let bytes = a.iter().zip(b).zip(c.iter().zip(d));
        ids.extend(bytes.map(|((&a, &b), (&c, &d))| Self::from_le_bytes([a, b, c, d])));
        Some(())
    }
}

/// Decodes the first column of a row group. Returns `None` unless it has the layout of this module, with rows of at
/// most `row_max` tokens.
pub(super) fn decode<T: Id>(file: &Excerpt, group: &RowGroupMetaData, row_max: u32) -> Option<Decoded<T>> {
    let column = group.column(0);
    let rows = usize::try_from(group.num_rows()).ok()?;
    let tokens = usize::try_from(column.num_values()).ok()?;
    if column.dictionary_page_offset().is_some() || tokens > rows.checked_mul(usize::try_from(row_max).ok()?)? {
        return None;
    }
    let mut pages = SerializedPageReader::new(file.clone().into(), column, rows, None).ok()?;
    let mut ids = Vec::with_capacity(tokens);
    let mut offsets = Vec::with_capacity(rows + 1);
    offsets.push(0);
    while let Some(page) = pages.get_next_page().ok()? {
        let Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } = page else {
            return None;
        };
        let encodings = [encoding, def_level_encoding, rep_level_encoding];
        if encodings != [Encoding::BYTE_STREAM_SPLIT, Encoding::RLE, Encoding::RLE] {
            return None;
        }
        let more = usize::try_from(num_values).ok()?;
        // Stop early if pages contain more than the metadata promises.
        if more > tokens - ids.len() || offsets.len() > rows + 1 {
            return None;
        }
        join_page(&buf, more, &mut ids, &mut offsets)?;
    }
    let is_whole = ids.len() == tokens && offsets.len() == rows + 1;
    is_whole.then(|| Decoded { ids: ids.into(), offsets: offsets.into() })
}

/// Appends a page's ids and its row ends.
fn join_page<T: Id>(page: &[u8], tokens: usize, ids: &mut Vec<T>, offsets: &mut Vec<i32>) -> Option<()> {
    let mut rest = page;
    let repetition = take_levels(&mut rest)?;
    let definition = take_levels(&mut rest)?;
    if rest.len() != tokens.checked_mul(WIDTH)? {
        return None;
    }
    is_defined(definition, tokens)?;
    push_ends(repetition, ids.len()..ids.len() + tokens, offsets)?;
    let stream = |number: usize| &rest[number * tokens..][..tokens];
    T::join([0, 1, 2, 3].map(stream), ids)
}

/// Returns the levels after their length prefix.
fn take_levels<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (mut length, tail) = rest.split_at_checked(4)?;
    let (levels, tail) = tail.split_at_checked(usize::try_from(length.get_u32_le()).ok()?)?;
    *rest = tail;
    Some(levels)
}

/// Checks that all of these definition levels mark a token, as in a page without empty rows.
fn is_defined(definition: &[u8], tokens: usize) -> Option<()> {
    let mut defined = 0_usize;
    for run in runs(definition) {
        // Bits after the last level of a page are padding.
        if defined >= tokens {
            break;
        }
        let (is_there, count) = run?;
        defined = defined.saturating_add(if is_there || count == 0 { count } else { return None });
    }
    (defined >= tokens).then_some(())
}

/// Converts the repetition levels of the tokens in that range to row ends. A row ends where the next one begins.
fn push_ends(repetition: &[u8], tokens: Range<usize>, offsets: &mut Vec<i32>) -> Option<()> {
    let mut at = tokens.start;
    for run in runs(repetition) {
        let (is_repeated, count) = run?;
        let count = count.min(tokens.end - at);
        if is_repeated {
            // A page begins with a row.
            if at == tokens.start {
                return None;
            }
        } else {
            // The first row of the page begins at the end of the previous row.
            let skipped = usize::from(at == tokens.start);
            for start in (at..at + count).skip(skipped) {
                offsets.push(i32::try_from(start).ok()?);
            }
        }
        at += count;
    }
    if at == tokens.end && !tokens.is_empty() {
        offsets.push(i32::try_from(at).ok()?);
    }
    (at == tokens.end).then_some(())
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).expect("no chunk has 2^63 bytes")
}

#[cfg(test)]
mod tests;
