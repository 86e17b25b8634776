//! Reader of a shard's row groups: decodes them into flat buffers and checks them against the manifest.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ListArray, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use runtime::catch_decoder;
use schemas::manifest::{Frame, Pack};
use schemas::sample::{OptionalColumns, id_type, shard_schema};
use schemas::{Manifest, Sample, Shard, TokenIds};
use store::Store;

use super::ids;
use super::range;
use super::shard_file::Excerpt;
use crate::error::Error;

/// Reason why a shard is refused. Cloneable form of [`Error::Shard`] that several workers can return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    place: String,
    group: Option<usize>,
    message: String,
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Shard { place: damage.place, group: damage.group, message: damage.message }
    }
}

/// Guarantees of the manifest for every shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardExpectation {
    /// Upper limit of ids, exclusive.
    pub vocab_size: u32,
    /// Maximum number of content tokens of a sample.
    pub content_max: u32,
    /// Special tokens that a frame adds to the content.
    pub frame: Frame,
    /// Columns that not every corpus has.
    pub optional: OptionalColumns,
}

impl ShardExpectation {
    /// Returns the expectation that a manifest defines.
    #[must_use]
    pub fn from_manifest(manifest: &Manifest) -> Self {
        Self::new(manifest.tokenizer.vocab_size, &manifest.pack)
    }

    /// Returns the expectation of a vocabulary and a packing.
    pub(crate) fn new(vocab_size: u32, pack: &Pack) -> Self {
        Self {
            vocab_size,
            content_max: pack.content,
            frame: pack.frame,
            optional: OptionalColumns { sentences: pack.keeps_sentences, targets: pack.has_targets },
        }
    }
}

/// Shard that matches the manifest: its length, its BLAKE3, its schema and its row groups agree.
#[derive(Debug)]
pub struct ShardReader {
    store: Store,
    name: String,
    length: u64,
    expectation: ShardExpectation,
    metadata: ArrowReaderMetadata,
}

impl ShardReader {
    /// Opens and verifies a shard. Reads all of it once, at the speed of BLAKE3 (a few GB/s).
    pub fn open(store: &Store, shard: &Shard, promise: ShardExpectation) -> Result<Self, Damage> {
        let reader = Self::reopen(store, shard, promise)?;
        reader.verify_hash(shard)?;
        Ok(reader)
    }

    /// Opens a shard that was verified before.
    pub(super) fn reopen(store: &Store, shard: &Shard, promise: ShardExpectation) -> Result<Self, Damage> {
        let reader = Self::parse(store, shard, promise)?;
        let groups = reader.metadata.metadata().row_groups();
        let found: Vec<i64> = groups.iter().map(RowGroupMetaData::num_rows).collect();
        if found.len() != shard.groups.len() || found.iter().zip(&shard.groups).any(|(&a, &b)| a != i64::from(b)) {
            return Err(
                reader.damage(None, format!("row groups of {found:?} rows, the manifest says {:?}", shard.groups))
            );
        }
        let expected = shard_schema(promise.vocab_size, promise.optional);
        if !same_columns(reader.metadata.schema(), &expected) {
            let found = reader.metadata.schema().to_string();
            return Err(reader.damage(None, format!("its columns are {found}, a shard has {expected}")));
        }
        Ok(reader)
    }

    /// Reads row group `group` in one request, and decodes it.
    pub fn read(&self, group: usize) -> Result<Group, Damage> {
        let damage = |message: String| self.damage(Some(group), message);
        let row_group = self.metadata.metadata().row_group(group);
        let rows = usize::try_from(row_group.num_rows()).unwrap_or(0);
        let range = catch_decoder(|| extent(row_group)).map_err(damage)?;
        let bytes = Excerpt::read(&self.store, &self.name, self.length, range);
        let bytes = bytes.map_err(|error| damage(error.to_string()))?;
        // Chunks of another layout and damaged ones are left to Parquet's reader.
        let by_hand = catch_decoder(|| self.by_hand(&bytes, row_group).ok_or("it is none of ours")).ok();
        let first = usize::from(by_hand.is_some());
        let columns = self.metadata.parquet_schema().num_columns();
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, self.metadata.clone())
            .with_projection(ProjectionMask::leaves(self.metadata.parquet_schema(), first..columns))
            .with_row_groups(vec![group])
            .with_batch_size(rows.max(1));
        let record = catch_decoder(|| builder.build()?.next().transpose().map_err(ParquetError::from))
            .map_err(damage)?
            .ok_or_else(|| damage("no rows".into()))?;
        if record.num_rows() != rows {
            return Err(damage(format!("{} rows decoded, {rows} expected", record.num_rows())));
        }
        Group::new(by_hand, &record, self.expectation).map_err(damage)
    }

    fn by_hand(&self, bytes: &Excerpt, group: &RowGroupMetaData) -> Option<(Ids, ScalarBuffer<i32>)> {
        let row_max = self.expectation.content_max;
        if id_type(self.expectation.vocab_size) == DataType::UInt16 {
            ids::decode(bytes, group, row_max).map(|read| (Ids::U16(read.ids), read.offsets))
        } else {
            ids::decode(bytes, group, row_max).map(|read| (Ids::U32(read.ids), read.offsets))
        }
    }

    fn parse(store: &Store, shard: &Shard, promise: ShardExpectation) -> Result<Self, Damage> {
        let name = &shard.path;
        let damage = |message: String| Damage { place: store.place(name), group: None, message };
        let hint = "; run `cloze verify --repair` to remake the part";
        let elsewise = "; if it is not a file, move it elsewhere and run `cloze prepare` again to remake the part";
        let found = store.head(name).map_err(|error| damage(format!("{error}{elsewise}")))?;
        let gone = "it is missing; if the corpus has changed, run the same command again: it reports what the run \
                    can still do; otherwise run `cloze prepare` to remake the part";
        let length = found.ok_or_else(|| damage(gone.into()))?.bytes;
        if length != shard.bytes {
            return Err(damage(format!("{length} bytes long, the manifest says {}{hint}", shard.bytes)));
        }
        let bytes = Excerpt::metadata(store, name, length).map_err(|error| damage(error.to_string()))?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = catch_decoder(|| ArrowReaderMetadata::load(&bytes, options))
            .map_err(|message| damage(format!("{message}{hint}")))?;
        Ok(Self { store: store.clone(), name: name.clone(), length, expectation: promise, metadata })
    }

    fn verify_hash(&self, shard: &Shard) -> Result<(), Damage> {
        let hash = self.store.hash(&self.name, self.length);
        let hash = hash.map_err(|error| self.damage(None, error.to_string()))?;
        if hash.to_hex().as_str() == shard.blake3 {
            return Ok(());
        }
        // The hash shows that a byte has changed. The first group that cannot be decoded, if any, locates the damage.
        let broken = (0..shard.groups.len()).find(|&group| self.read(group).is_err());
        let message = "damaged: its BLAKE3 differs from the manifest; run `cloze verify --repair` to remake the part";
        Err(self.damage(broken, message.into()))
    }

    fn damage(&self, group: Option<usize>, message: String) -> Damage {
        Damage { place: self.store.place(&self.name), group, message }
    }
}

/// Returns the byte range of a row group in the file.
fn extent(group: &RowGroupMetaData) -> Result<Range<u64>, ParquetError> {
    let ranges = group.columns().iter().map(ColumnChunkMetaData::byte_range);
    let ends = ranges.map(|(start, length)| Some((start, start.checked_add(length)?)));
    let extent = ends.reduce(|a, b| a.zip(b).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))));
    let (start, end) = extent.flatten().ok_or_else(|| ParquetError::General("columns past any file".into()))?;
    Ok(start..end)
}

/// Compares columns by name and type. Writers may choose any name for the items of a list.
fn same_columns(found: &SchemaRef, expected: &SchemaRef) -> bool {
    use arrow_schema::DataType::List;
    found.fields().len() == expected.fields().len()
        && found.fields().iter().zip(expected.fields()).all(|(a, b)| {
            let types = match (a.data_type(), b.data_type()) {
                (List(a), List(b)) => a.data_type() == b.data_type() && a.is_nullable() == b.is_nullable(),
                (a, b) => a == b,
            };
            a.name() == b.name() && a.is_nullable() == b.is_nullable() && types
        })
}

/// Decoded row group: flat buffers, as Parquet's reader returns them.
#[derive(Debug)]
pub struct Group {
    ids: Ids,
    id_offsets: ScalarBuffer<i32>,
    starts: ScalarBuffer<u16>,
    documents: ScalarBuffer<u64>,
    document_offsets: ScalarBuffer<i32>,
    sources: ScalarBuffer<u16>,
    /// Sentence starts and offsets, if sentences are kept.
    sentences: Option<(ScalarBuffer<u16>, ScalarBuffer<i32>)>,
    /// Targets and offsets, if samples have targets.
    targets: Option<(ScalarBuffer<i32>, ScalarBuffer<i32>)>,
    frame: Frame,
}

#[derive(Debug)]
enum Ids {
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
}

impl Group {
    /// Creates a group from the ids, if the custom reader decoded them, and from all other columns.
    fn new(
        ids: Option<(Ids, ScalarBuffer<i32>)>,
        record: &RecordBatch,
        promise: ShardExpectation,
    ) -> Result<Self, String> {
        let first = usize::from(ids.is_none());
        let list = |column: usize| record.column(first + column).as_list::<i32>();
        let (ids, id_offsets) = ids.unwrap_or_else(|| read_ids(record.column(0).as_list()));
        let starts = list(0);
        let documents = list(1);
        let group = Self {
            ids,
            id_offsets,
            starts: starts.values().as_primitive::<UInt16Type>().values().clone(),
            documents: documents.values().as_primitive::<UInt64Type>().values().clone(),
            document_offsets: offsets(documents),
            sources: record.column(first + 2).as_primitive::<UInt16Type>().values().clone(),
            sentences: promise.optional.sentences.then(|| {
                let sentences = list(3);
                (sentences.values().as_primitive::<UInt16Type>().values().clone(), offsets(sentences))
            }),
            targets: promise.optional.targets.then(|| {
                let targets = list(3 + usize::from(promise.optional.sentences));
                (targets.values().as_primitive::<Int32Type>().values().clone(), offsets(targets))
            }),
            frame: promise.frame,
        };
        if offsets(starts) != group.document_offsets {
            return Err("`document_starts` and `documents` have different lengths".into());
        }
        group.check(promise)?;
        Ok(group)
    }

    fn check(&self, promise: ShardExpectation) -> Result<(), String> {
        let largest = match &self.ids {
            Ids::U16(ids) => ids.iter().copied().max().map(u32::from),
            Ids::U32(ids) => ids.iter().copied().max(),
        };
        if let Some(id) = largest.filter(|&id| id >= promise.vocab_size) {
            return Err(format!("id {id} in a vocabulary of {}; prepare the corpus again", promise.vocab_size));
        }
        for row in 0..self.rows() {
            let sample = self.sample(row);
            if sample.input_ids.len() > promise.content_max as usize {
                let length = sample.input_ids.len();
                return Err(format!("row {row} has {length} tokens, the manifest allows {}", promise.content_max));
            }
            if sample.document_starts.first() != Some(&0) {
                return Err(format!("row {row} belongs to no document"));
            }
            if promise.optional.sentences && !are_starts(sample.sentence_starts, sample.input_ids.len()) {
                return Err(format!("the sentences of row {row} do not ascend from 0 to its end"));
            }
        }
        Ok(())
    }

    /// Number of samples.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.sources.len()
    }

    /// Returns the sample in row `row`.
    #[must_use]
    pub fn sample(&self, row: usize) -> Sample<'_> {
        let documents = range(&self.document_offsets, row);
        let ids = range(&self.id_offsets, row);
        Sample {
            input_ids: match &self.ids {
                Ids::U16(values) => TokenIds::U16(&values[ids]),
                Ids::U32(values) => TokenIds::U32(&values[ids]),
            },
            document_starts: &self.starts[documents.clone()],
            documents: &self.documents[documents],
            sentence_starts: match &self.sentences {
                Some((starts, offsets)) => &starts[range(offsets, row)],
                None => &[],
            },
            targets: match &self.targets {
                Some((targets, offsets)) => &targets[range(offsets, row)],
                None => &[],
            },
            frame: self.frame,
            source: self.sources[row],
            offset: 0,
        }
    }

    /// Number of bytes of its buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let ids = match &self.ids {
            Ids::U16(ids) => ids.inner().capacity(),
            Ids::U32(ids) => ids.inner().capacity(),
        };
        let offsets = self.id_offsets.inner().capacity() + self.document_offsets.inner().capacity();
        let documents = self.documents.inner().capacity() + self.starts.inner().capacity();
        let sentences = self.sentences.as_ref();
        let sentences = sentences.map_or(0, |(a, b)| a.inner().capacity() + b.inner().capacity());
        let targets = self.targets.as_ref();
        let targets = targets.map_or(0, |(a, b)| a.inner().capacity() + b.inner().capacity());
        ids + offsets + documents + self.sources.inner().capacity() + sentences + targets
    }
}

/// Whether `starts` are valid starts of non-empty runs in a row of `length` tokens.
fn are_starts(starts: &[u16], length: usize) -> bool {
    starts.first() == Some(&0)
        && starts.is_sorted_by(|a, b| a < b)
        && starts.last().is_some_and(|&last| usize::from(last) < length)
}

/// Reads the ids and row ends with Parquet's own reader.
fn read_ids(ids: &ListArray) -> (Ids, ScalarBuffer<i32>) {
    let values = match ids.values().as_primitive_opt::<UInt16Type>() {
        Some(values) => Ids::U16(values.values().clone()),
        None => Ids::U32(ids.values().as_primitive::<UInt32Type>().values().clone()),
    };
    (values, offsets(ids))
}

fn offsets(list: &ListArray) -> ScalarBuffer<i32> {
    list.offsets().inner().clone()
}
