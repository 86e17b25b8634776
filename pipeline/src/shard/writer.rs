//! Writer of samples as shards.

use std::io::{self, Write};
use std::mem::take;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, UInt16Type, UInt64Type};
use arrow_array::{ArrayRef, ListArray, UInt16Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use schemas::manifest::Frame;
use schemas::sample::{OptionalColumns, ROWS_PER_GROUP, id_type, shard_schema};
use schemas::{PartId, Sample, Shard, TokenIds};
use store::{ObjectWriter, Store};

use super::ids::Encoder;
use super::{ContentHasher, range};
use crate::pack::Packed;
use crate::{Error, Result};

/// Row groups per shard: about 270 M tokens of 510-token rows, a file of some 400 MB.
const GROUPS_PER_SHARD: usize = 256;

/// Maximum number of rows of a shard.
pub(crate) const ROWS_PER_SHARD: u64 = (GROUPS_PER_SHARD * ROWS_PER_GROUP) as u64;

/// Parameters of the shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOptions {
    /// Part of the shards.
    pub part: PartId,
    /// Number of the part's rows in that split before the first sample.
    pub first_row: u32,
    /// Prefix of the names: `PREFIX-00.parquet`, `PREFIX-01.parquet`, …
    pub prefix: String,
    /// Number of ids.
    pub vocab_size: u32,
    /// Columns that not every corpus has.
    pub optional: OptionalColumns,
    /// Compression level, 1 to 22.
    pub zstd_level: i32,
}

impl Default for ShardOptions {
    fn default() -> Self {
        let part = PartId(0);
        let prefix = "train/part-00000-00".to_owned();
        Self { part, first_row: 0, prefix, vocab_size: 1 << 16, optional: OptionalColumns::default(), zstd_level: 1 }
    }
}

/// Writer of the shards of one split of one segment, one object at a time.
#[derive(Debug)]
pub struct ShardWriter {
    store: Store,
    options: ShardOptions,
    schema: SchemaRef,
    properties: WriterProperties,
    encoder: Encoder,
    rows_per_group: usize,
    groups_per_shard: usize,
    rows: Rows,
    open: Option<OpenShard>,
    shards: Vec<Shard>,
}

/// Rows of a row group.
#[derive(Debug, Default)]
struct Rows {
    wide: bool,
    narrow_ids: Vec<u16>,
    wide_ids: Vec<u32>,
    id_offsets: Vec<i32>,
    document_starts: Vec<u16>,
    documents: Vec<u64>,
    document_offsets: Vec<i32>,
    sources: Vec<u16>,
    optional: OptionalColumns,
    sentence_starts: Vec<u16>,
    sentence_offsets: Vec<i32>,
    targets: Vec<i32>,
    target_offsets: Vec<i32>,
}

#[derive(Debug)]
struct OpenShard {
    file: SerializedFileWriter<Hashing>,
    columns: ArrowRowGroupWriterFactory,
    content: ContentHasher,
    tokens: u64,
    groups: Vec<u32>,
}

impl ShardWriter {
    /// Creates a writer.
    #[must_use]
    pub fn new(store: &Store, options: ShardOptions) -> Self {
        let ShardOptions { vocab_size, optional, zstd_level, .. } = options;
        Self {
            store: store.clone(),
            options,
            schema: shard_schema(vocab_size, optional),
            properties: properties(level(zstd_level)),
            encoder: Encoder::new(level(zstd_level)),
            rows_per_group: ROWS_PER_GROUP,
            groups_per_shard: GROUPS_PER_SHARD,
            rows: Rows { wide: id_type(vocab_size) == DataType::UInt32, optional, ..Rows::default() },
            open: None,
            shards: Vec::new(),
        }
    }

    /// Sets smaller row groups and shards, for tests and benchmarks.
    ///
    /// # Panics
    /// If row groups would be empty, or larger than the format allows.
    #[must_use]
    pub fn sized(self, rows_per_group: usize, groups_per_shard: usize) -> Self {
        assert!((1..=ROWS_PER_GROUP).contains(&rows_per_group) && groups_per_shard > 0, "row groups have rows");
        Self { rows_per_group, groups_per_shard, ..self }
    }

    /// Adds a sample.
    pub fn write(&mut self, sample: Packed<'_>) -> Result<()> {
        self.rows.push(sample);
        if self.rows.len() == self.rows_per_group { self.flush_group() } else { Ok(()) }
    }

    /// Completes and commits the last shard. Returns all shards in order.
    pub fn finish(self) -> Result<Vec<Shard>> {
        let (shards, last) = self.finish_uncommitted()?;
        last.map_or(Ok(()), |last| last.commit().map(drop))?;
        Ok(shards)
    }

    /// Completes the last shard. Returns all shards in order, and the object of the last one for the caller to commit.
    pub(crate) fn finish_uncommitted(mut self) -> Result<(Vec<Shard>, Option<ObjectWriter>)> {
        if self.rows.len() > 0 {
            self.flush_group()?;
        }
        let last = self.close_shard()?;
        Ok((self.shards, last))
    }

    fn flush_group(&mut self) -> Result<()> {
        let name = self.shard_name();
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(OpenShard::begin(&self.store, &name, &self.schema, &self.properties)?),
        };
        self.rows.hash(&mut open.content);
        open.groups.push(u32::try_from(self.rows.len()).expect("a row group is small"));
        open.tokens += self.rows.ids().len() as u64;
        let written = open.write(&mut self.rows, &mut self.encoder, &self.schema);
        written.map_err(|error| write_error(&self.store, &name, error))?;
        if open.groups.len() == self.groups_per_shard
            && let Some(object) = self.close_shard()?
        {
            object.commit()?;
        }
        Ok(())
    }

    fn shard_name(&self) -> String {
        format!("{}-{:02}.parquet", self.options.prefix, self.shards.len())
    }

    /// Completes the open shard, if there is one. Returns its object, which is not committed.
    fn close_shard(&mut self) -> Result<Option<ObjectWriter>> {
        let Some(open) = self.open.take() else { return Ok(None) };
        let path = self.shard_name();
        let object = open.file.into_inner().map_err(|error| write_error(&self.store, &path, error))?;
        let blake3 = object.hasher.finalize().to_hex().to_string();
        let bytes = object.put.bytes();
        let rows = open.groups.iter().map(|&rows| u64::from(rows)).sum();
        let before: u64 = self.shards.iter().map(|shard| shard.rows).sum();
        let part = self.options.part;
        let Ok(first_row) = u32::try_from(u64::from(self.options.first_row) + before) else {
            return Err(shard_error(
                &self.store,
                &path,
                format!("part {part} has 2^32 rows; lower `prepare.part_bytes`"),
            ));
        };
        let content = open.content.finish();
        let OpenShard { tokens, groups, .. } = open;
        self.shards.push(Shard { path, part, first_row, rows, tokens, groups, bytes, blake3, content });
        Ok(Some(object.put))
    }
}

fn level(zstd_level: i32) -> ZstdLevel {
    ZstdLevel::try_new(zstd_level).expect("checked by the configuration")
}

/// Returns the properties that the format requires. They do not vary with the machine or the program version.
fn properties(level: ZstdLevel) -> WriterProperties {
    WriterProperties::builder()
        .set_created_by("cloze".into())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
        .set_dictionary_enabled(false)
        // Groups are read whole, so statistics to skip groups are unnecessary.
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build()
}

impl OpenShard {
    fn begin(store: &Store, name: &str, schema: &SchemaRef, properties: &WriterProperties) -> Result<Self> {
        let object = Hashing { put: store.writer(name)?, hasher: blake3::Hasher::new() };
        let (file, columns) = ArrowWriter::try_new(object, schema.clone(), Some(properties.clone()))
            .and_then(ArrowWriter::into_serialized_writer)
            .map_err(|error| write_error(store, name, error))?;
        Ok(Self { file, columns, content: ContentHasher::default(), tokens: 0, groups: Vec::new() })
    }

    /// Writes the rows as a row group and clears them. The custom encoder writes the ids, Parquet's own code the other
    /// columns.
    fn write(&mut self, rows: &mut Rows, encoder: &mut Encoder, schema: &SchemaRef) -> Result<(), ParquetError> {
        let ids = self.file.schema_descr().column(0);
        let (chunk, close) = encoder.encode(&ids, rows.ids(), &rows.id_offsets)?;
        let writers = self.columns.create_column_writers(self.groups.len() - 1)?.into_iter().skip(1);
        let mut group = self.file.next_row_group()?;
        group.append_column(&chunk, close)?;
        for (mut writer, (field, column)) in writers.zip(schema.fields().iter().skip(1).zip(rows.take_others())) {
            for leaf in compute_leaves(field, &column)? {
                writer.write(&leaf)?;
            }
            writer.close()?.append_to_row_group(&mut group)?;
        }
        group.close().map(drop)
    }
}

/// Prefers the disk's error message if there is one: it names the file and the fix.
pub(crate) fn write_error(store: &Store, name: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => Error::Io(*error),
            Err(source) => shard_error(store, name, source.to_string()),
        },
        other => shard_error(store, name, other.to_string()),
    }
}

fn shard_error(store: &Store, name: &str, message: String) -> Error {
    Error::Shard { place: store.place(name), group: None, message }
}

impl Rows {
    fn len(&self) -> usize {
        self.sources.len()
    }

    fn push(&mut self, sample: Packed<'_>) {
        let end = |length: usize| i32::try_from(length).expect("a row group has far fewer than 2^31 tokens");
        if self.id_offsets.is_empty() {
            self.id_offsets.push(0);
            self.document_offsets.push(0);
            self.sentence_offsets.push(0);
            self.target_offsets.push(0);
        }
        if self.wide {
            self.wide_ids.extend_from_slice(sample.input_ids);
        } else {
            to_u16(sample.input_ids, &mut self.narrow_ids);
        }
        self.id_offsets.push(end(self.narrow_ids.len() + self.wide_ids.len()));
        self.document_starts.extend_from_slice(sample.document_starts);
        self.documents.extend_from_slice(sample.documents);
        self.document_offsets.push(end(self.documents.len()));
        self.sources.push(sample.source);
        self.sentence_starts.extend_from_slice(sample.sentence_starts);
        self.sentence_offsets.push(end(self.sentence_starts.len()));
        self.targets.extend_from_slice(sample.targets);
        self.target_offsets.push(end(self.targets.len()));
    }

    fn ids(&self) -> TokenIds<'_> {
        if self.wide { TokenIds::U32(&self.wide_ids) } else { TokenIds::U16(&self.narrow_ids) }
    }

    /// Adds all rows to the content hash.
    fn hash(&self, content: &mut ContentHasher) {
        for (row, &source) in self.sources.iter().enumerate() {
            let ids = range(&self.id_offsets, row);
            let documents = range(&self.document_offsets, row);
            content.row(&Sample {
                input_ids: self.ids().slice(ids),
                document_starts: &self.document_starts[documents.clone()],
                documents: &self.documents[documents],
                sentence_starts: &self.sentence_starts[range(&self.sentence_offsets, row)],
                targets: &self.targets[range(&self.target_offsets, row)],
                // The frame is the same for all rows of the folder, so it is not part of their content.
                frame: Frame::default(),
                source,
                offset: 0,
            });
        }
    }

    /// Returns the columns after the ids and clears the rows.
    fn take_others(&mut self) -> Vec<ArrayRef> {
        self.narrow_ids.clear();
        self.wide_ids.clear();
        self.id_offsets.clear();
        let Self { document_starts, documents, document_offsets, sources, .. } = self;
        let document_offsets = take(document_offsets);
        let mut columns: Vec<ArrayRef> = vec![
            list::<UInt16Type>(take(document_starts), document_offsets.clone()),
            list::<UInt64Type>(take(documents), document_offsets),
            Arc::new(UInt16Array::from(take(sources))),
        ];
        let sentences = list::<UInt16Type>(take(&mut self.sentence_starts), take(&mut self.sentence_offsets));
        columns.extend(self.optional.sentences.then_some(sentences));
        let targets = list::<Int32Type>(take(&mut self.targets), take(&mut self.target_offsets));
        columns.extend(self.optional.targets.then_some(targets));
        columns
    }
}

/// Appends ids of a vocabulary of at most 65,536.
#[expect(clippy::cast_possible_truncation, reason = "none is larger: all were checked")]
fn to_u16(ids: &[u32], narrow: &mut Vec<u16>) {
    let all = ids.iter().fold(0, |all, id| all | id);
    assert!(u16::try_from(all).is_ok(), "an id of a vocabulary of at most 65,536 ids");
    narrow.extend(ids.iter().map(|&id| id as u16));
}

fn list<T: ArrowPrimitiveType>(values: Vec<T::Native>, offsets: Vec<i32>) -> ArrayRef {
    let field = Arc::new(Field::new("item", T::DATA_TYPE, false));
    let values = Arc::new(arrow_array::PrimitiveArray::<T>::new(ScalarBuffer::from(values), None));
    Arc::new(ListArray::new(field, OffsetBuffer::new(ScalarBuffer::from(offsets)), values, None))
}

/// Writer that hashes the bytes it forwards.
#[derive(Debug)]
pub(crate) struct Hashing {
    pub(crate) put: ObjectWriter,
    pub(crate) hasher: blake3::Hasher,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.put.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put.flush()
    }
}
