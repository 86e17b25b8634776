use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, ListArray, PrimitiveArray, RecordBatch};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;
use store::Store;

use super::*;

/// Rows of ids of one width.
trait Width: ArrowPrimitiveType<Native: Id> {
    fn ids(ids: &[Self::Native]) -> TokenIds<'_>;
}

impl Width for UInt16Type {
    fn ids(ids: &[u16]) -> TokenIds<'_> {
        TokenIds::U16(ids)
    }
}

impl Width for UInt32Type {
    fn ids(ids: &[u32]) -> TokenIds<'_> {
        TokenIds::U32(ids)
    }
}

const LEVEL: i32 = 1;

fn level() -> ZstdLevel {
    ZstdLevel::try_new(LEVEL).expect("a level")
}

fn schema<T: Width>() -> SchemaRef {
    let item = Arc::new(Field::new("item", T::DATA_TYPE, false));
    Arc::new(Schema::new(vec![Field::new("input_ids", DataType::List(item), false)]))
}

fn ends(lengths: &[usize]) -> Vec<i32> {
    let sum = |sum: &mut usize, length: &usize| {
        *sum += length;
        Some(*sum)
    };
    let ends = [0].into_iter().chain(lengths.iter().scan(0, sum));
    ends.map(|end| i32::try_from(end).expect("small")).collect()
}

/// Writes a file with one column with this module.
fn by_hand<T: Width>(ids: &[T::Native], offsets: &[i32]) -> Bytes {
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level())).build();
    let writer = ArrowWriter::try_new(Vec::new(), schema::<T>(), Some(properties)).expect("a writer");
    let (mut file, _) = writer.into_serialized_writer().expect("a writer");
    let column = file.schema_descr().column(0);
    let (chunk, close) = Encoder::new(level()).encode(&column, T::ids(ids), offsets).expect("encoded");
    let mut group = file.next_row_group().expect("a group");
    group.append_column(&chunk, close).expect("a column");
    group.close().expect("a group");
    file.into_inner().expect("a file").into()
}

/// Writes the same file with Parquet's own writer.
fn by_parquet<T: Width>(ids: &[T::Native], offsets: &[i32], properties: WriterProperties) -> Bytes {
    let values = Arc::new(PrimitiveArray::<T>::new(ids.to_vec().into(), None));
    let item = Arc::new(Field::new("item", T::DATA_TYPE, false));
    let list: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::new(offsets.to_vec().into()), values, None));
    let batch = RecordBatch::try_new(schema::<T>(), vec![list]).expect("one column");
    let mut writer = ArrowWriter::try_new(Vec::new(), schema::<T>(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.into_inner().expect("a file").into()
}

/// Reads a file with Parquet's own reader.
fn read_by_parquet<T: Width>(file: Bytes, rows: usize) -> (Vec<T::Native>, Vec<i32>) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a file").with_batch_size(rows.max(1));
    let batch = reader.build().expect("readable").next().expect("a group").expect("readable");
    let list = batch.column(0).as_list::<i32>();
    (list.values().as_primitive::<T>().values().to_vec(), list.offsets().to_vec())
}

fn read_by_hand<T: Width>(file: &Bytes) -> Option<(Vec<T::Native>, Vec<i32>)> {
    let store = Store::in_memory(store::FaultConfig::none());
    store.put("file", file).expect("put");
    let length = file.len() as u64;
    let excerpt = Excerpt::read(&store, "file", length, 0..length).expect("read");
    let metadata = ParquetMetaDataReader::new().parse_and_finish(file).expect("a file");
    let decoded = decode::<T::Native>(&excerpt, metadata.row_group(0), 1 << 20)?;
    Some((decoded.ids.to_vec(), decoded.offsets.to_vec()))
}

/// Writer properties of files that were written before this module existed.
fn split_properties() -> WriterProperties {
    let path = ["input_ids", "list", "item"].map(String::from).to_vec();
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(level()))
        .set_dictionary_enabled(false)
        .set_column_encoding(parquet::schema::types::ColumnPath::new(path), Encoding::BYTE_STREAM_SPLIT)
        .build()
}

fn check<T: Width>(ids: &[T::Native], lengths: &[usize]) {
    let offsets = ends(lengths);
    let expected = (ids.to_vec(), offsets.clone());
    let file = by_hand::<T>(ids, &offsets);
    assert_eq!(read_by_parquet::<T>(file.clone(), lengths.len()), expected, "written by hand, read by Parquet");
    let is_plain = !lengths.contains(&0);
    for file in [file, by_parquet::<T>(ids, &offsets, split_properties())] {
        let found = read_by_hand::<T>(&file);
        assert!(found.is_some() || !is_plain, "what is as it should be is read by hand");
        assert!(found.is_none_or(|found| found == expected), "read by hand");
    }
}

/// Rows, most of them with tokens.
fn rows() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![8 => 1_usize..40, 2 => 1_usize..1200, 1 => 0_usize..2];
    prop::collection::vec(length, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn both_readers_read_what_both_writers_write(lengths in rows(), seed in any::<u32>()) {
        let count = lengths.iter().sum::<usize>();
        let ids: Vec<u32> = (0..31).cycle().map(|bits| seed.rotate_left(bits)).take(count).collect();
        check::<UInt32Type>(&ids, &lengths);
        let narrow: Vec<u16> = ids.iter().map(|id| id.to_le_bytes()[0].into()).collect();
        check::<UInt16Type>(&narrow, &lengths);
    }
}

#[test]
fn rows_of_many_pages_are_whole_in_each() {
    let lengths = [vec![510; 700], vec![PAGE_TOKENS + 1], vec![1; 9]].concat();
    let ids: Vec<u16> = (0..30_522).cycle().take(lengths.iter().sum()).collect();
    check::<UInt16Type>(&ids, &lengths);
}

#[test]
fn other_encodings_are_decoded_by_the_parquet_crate() {
    let ids = (0..2000).collect::<Vec<u32>>();
    let lengths = [500; 4];
    let plain = WriterProperties::builder().set_dictionary_enabled(false).build();
    let version_2 = WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_2_0).build();
    for properties in [plain, version_2, WriterProperties::default()] {
        let file = by_parquet::<UInt32Type>(&ids, &ends(&lengths), properties);
        assert_eq!(read_by_hand::<UInt32Type>(&file), None);
    }
    // An id that is too large for 16 bits is not truncated.
    let wide = by_hand::<UInt32Type>(&[1, 70_000], &[0, 2]);
    assert_eq!(read_by_hand::<UInt16Type>(&wide), None);
    assert_eq!(read_by_hand::<UInt32Type>(&wide), Some((vec![1, 70_000], vec![0, 2])));
}

#[test]
fn a_changed_byte_makes_no_other_shape() {
    let lengths = [7, 1, 12];
    let ids: Vec<u16> = (100..120).collect();
    let file = by_hand::<UInt16Type>(&ids, &ends(&lengths));
    let chunk = file.len().min(160);
    for (place, bit) in (4..chunk).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
        let mut bytes = file.to_vec();
        bytes[place] ^= 1 << bit;
        let bytes = Bytes::from(bytes);
        if ParquetMetaDataReader::new().parse_and_finish(&bytes).is_ok()
            && let Some((ids, offsets)) = read_by_hand::<UInt16Type>(&bytes)
        {
            assert_eq!((ids.len(), offsets.len()), (20, 4), "byte {place}, bit {bit}");
            assert!(offsets.is_sorted() && offsets[3] == 20, "{offsets:?}");
        }
    }
}
