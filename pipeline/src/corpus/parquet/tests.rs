//! Columns and pages as other programs write them.

use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use ::parquet::file::properties::WriterProperties;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, Int64Array, LargeBinaryArray, LargeStringArray, NullArray,
    RecordBatch, StringArray, StringViewArray, StructArray,
};

use crate::corpus::tests::{Cut, config, read};
use crate::corpus::{AnyFormat, MemoryBudget};
use crate::testing::write_all;

fn write(home: &Path, columns: Vec<(&str, ArrayRef)>, compression: Compression) -> Cut {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("of one length");
    let mut bytes = Vec::new();
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("in memory");
    writer.write(&batch).expect("in memory");
    writer.close().expect("in memory");
    write_all(home, &[("a.parquet", bytes)]);
    config(home, AnyFormat::of_kind("parquet").expect("known"), None)
}

fn strings(texts: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(texts.to_vec()))
}

#[test]
fn pages_of_every_codec_are_read() {
    let texts: Vec<String> = (0..400).map(|row| format!("the text of row {row}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let cut = write(home.path(), vec![("text", strings(&texts))], compression);
        assert_eq!(read(&cut).expect("readable").0, texts, "{compression}");
    }
}

#[test]
fn text_is_read_from_any_column_type() {
    let texts = ["one", "two", "one"];
    let columns: Vec<ArrayRef> = vec![
        strings(&texts),
        Arc::new(LargeStringArray::from(texts.to_vec())),
        Arc::new(StringViewArray::from(texts.to_vec())),
        Arc::new(BinaryArray::from(texts.map(str::as_bytes).to_vec())),
        Arc::new(LargeBinaryArray::from(texts.map(str::as_bytes).to_vec())),
        Arc::new(BinaryViewArray::from(texts.map(str::as_bytes).to_vec())),
        Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>()),
    ];
    for column in columns {
        let home = tempfile::tempdir().expect("a temporary folder");
        let kind = column.data_type().clone();
        let mut cut = write(home.path(), vec![("key", column.clone()), ("text", column)], Compression::SNAPPY);
        cut.config.reading.id_field = Some("key".into());
        assert_eq!(read(&cut).expect("readable"), (texts.map(String::from).to_vec(), vec![]), "{kind}");
    }
}

/// Bytes that are not text are replaced and counted, as in other formats; rows of a dictionary are complete.
#[test]
fn bytes_that_are_no_text_are_counted_and_nulls_in_a_dictionary_too() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"fine"[..], b"caf\xe9"]));
    let found = read(&write(home.path(), vec![("text", bytes)], Compression::SNAPPY)).expect("readable");
    assert_eq!(found, (vec!["fine".into(), "caf\u{fffd}".into()], vec!["invalid_utf8@a.parquet:2".into()]));
    let texts: DictionaryArray<Int32Type> = [Some("a"), None, Some("a")].into_iter().collect();
    let cut = write(home.path(), vec![("text", Arc::new(texts))], Compression::SNAPPY);
    assert_eq!(read(&cut).expect("readable").1, ["missing_field@a.parquet:2"]);
}

/// Some writers declare a column without a value as of type null.
#[test]
fn rows_of_a_column_of_type_null_lack_their_text() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write(home.path(), vec![("text", Arc::new(NullArray::new(2)))], Compression::SNAPPY);
    let nothing = std::fs::read(home.path().join("a.parquet")).expect("there");
    let cut = write(home.path(), vec![("text", strings(&["one", "two"]))], Compression::SNAPPY);
    write_all(home.path(), &[("b.parquet", nothing)]);
    let expected = ["missing_field@b.parquet:1", "missing_field@b.parquet:2"].map(String::from);
    assert_eq!(read(&cut).expect("readable"), (vec!["one".into(), "two".into()], expected.to_vec()));
}

/// A dot in a name is not a path, and a column with the same suffix is another column.
#[test]
fn a_column_is_known_by_its_whole_name() {
    let nested = StructArray::try_from(vec![("text", strings(&["inner"])), ("more", strings(&["x"]))]).expect("two");
    for (name, expected) in [("a.text", "dotted"), ("text", "plain"), ("b.", "end")] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(nested.clone())),
            ("a.text", strings(&["dotted"])),
            ("text", strings(&["plain"])),
            ("b.", strings(&["end"])),
            ("key", Arc::new(Int64Array::from(vec![7]))),
        ];
        let mut cut = write(home.path(), columns, Compression::SNAPPY);
        cut.config.reading.text_field = name.into();
        cut.config.reading.id_field = Some("key".into());
        assert_eq!(read(&cut).expect("readable").0, [expected]);
        cut.config.reading.text_field = "a".into();
        let error = read(&cut).expect_err("it is not text").to_string();
        assert!(error.contains("`a` holds Struct") && error.contains("set `prepare.text_field`"), "{error}");
    }
}

/// A page is decompressed as a whole: one that does not fit is refused before that.
#[test]
fn a_page_beyond_the_bound_is_refused_with_the_way_out() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let long = "a long text of words ".repeat(50_000);
    let mut cut = write(home.path(), vec![("text", strings(&[&long, &long]))], Compression::SNAPPY);
    cut.config.reading.memory_budget = MemoryBudget::new(4 << 20, 1);
    let error = read(&cut).expect_err("a page of a megabyte").to_string();
    assert!(error.contains("a.parquet") && error.contains("`prepare.max_memory_bytes`; raise it"), "{error}");
    cut.config.reading.memory_budget = MemoryBudget::new(128 << 20, 1);
    assert_eq!(read(&cut).expect("the way out").0, [long.clone(), long]);
}

/// Files compressed as a whole are held in memory: those beyond a worker's share come one after another.
#[test]
fn a_file_that_was_compressed_as_a_whole_is_refused_where_it_does_not_fit() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let texts: Vec<String> = (0..400_000_u64).map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut cut = write(home.path(), vec![("text", strings(&texts))], Compression::UNCOMPRESSED);
    let bytes = std::fs::read(home.path().join("a.parquet")).expect("there");
    std::fs::remove_file(home.path().join("a.parquet")).expect("there");
    write_all(home.path(), &[("a.parquet.zst", bytes)]);
    cut.config.reading.memory_budget = MemoryBudget::new(4 << 20, 1);
    let error = read(&cut).expect_err("half a megabyte is allowed").to_string();
    assert!(error.contains("a.parquet.zst") && error.contains("raise it, or decompress the file"), "{error}");
    for room in [128 << 20, 512 << 20] {
        cut.config.reading.memory_budget = MemoryBudget::new(room, 1);
        assert_eq!(read(&cut).expect("the way out").0, texts, "by turns, and within the share");
    }
}
