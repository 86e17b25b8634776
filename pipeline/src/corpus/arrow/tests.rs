use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema};

use crate::corpus::tests::{config, read};
use crate::corpus::{AnyFormat, InvalidFilePolicy, RecordBuffers, RejectReason};
use crate::testing::write_all;

/// Schema of [`batch`].
pub(super) fn schema() -> Schema {
    Schema::new(vec![Field::new("key", DataType::Int64, false), Field::new("text", DataType::Utf8, true)])
}

pub(super) fn batch(texts: &[Option<&str>]) -> RecordBatch {
    let keys: Int64Array = (0..).take(texts.len()).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(StringArray::from(texts.to_vec()))];
    RecordBatch::try_new(Arc::new(schema()), columns).expect("matches")
}

/// Returns a stream of these batches.
pub(super) fn stream(batches: &[&[Option<&str>]]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &schema()).expect("in memory");
    for texts in batches {
        writer.write(&batch(texts)).expect("in memory");
    }
    writer.into_inner().expect("in memory")
}

fn written(columns: &[RecordBatch], is_file: bool, compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).expect("built in");
    let schema = columns[0].schema();
    if is_file {
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options).expect("in memory");
        for batch in columns {
            writer.write(batch).expect("in memory");
        }
        return writer.into_inner().expect("in memory");
    }
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).expect("in memory");
    for batch in columns {
        writer.write(batch).expect("in memory");
    }
    writer.into_inner().expect("in memory")
}

#[test]
fn texts_of_every_type_are_read_from_files_and_streams() {
    let texts = ["one", "größer", "one", "a longer text than twelve bytes"];
    let arrays: [ArrayRef; 4] = [
        Arc::new(StringArray::from(texts.to_vec())),
        Arc::new(LargeStringArray::from(texts.to_vec())),
        Arc::new(StringViewArray::from(texts.to_vec())),
        Arc::new(texts.into_iter().collect::<DictionaryArray<arrow_array::types::Int32Type>>()),
    ];
    for array in arrays {
        let other: ArrayRef = Arc::new(StringViewArray::from(vec!["not read, and longer than twelve"; 4]));
        let batch = RecordBatch::try_from_iter([("other", other), ("text", array)]).expect("of one length");
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            for is_file in [true, false] {
                let bytes = written(&[batch.clone(), batch.clone()], is_file, compression);
                let home = tempfile::tempdir().expect("a temporary folder");
                write_all(home.path(), &[("a.arrow", bytes)]);
                let found = read(&config(home.path(), AnyFormat::of_kind("arrow").expect("known"), Some(1)));
                let found =
                    found.unwrap_or_else(|error| panic!("{} {compression:?} {is_file}: {error}", batch.schema()));
                assert_eq!(found.0, [texts, texts].concat(), "{} {compression:?}", batch.schema());
            }
        }
    }
}

fn refusal(name: &str, bytes: &[u8], memory: u64) -> String {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[(name, bytes)]);
    let mut cut = config(home.path(), AnyFormat::of_kind("arrow").expect("known"), Some(1));
    cut.config.reading.memory_budget = crate::corpus::MemoryBudget::new(memory, 1);
    read(&cut).expect_err("refused").to_string()
}

#[test]
fn invalid_utf8_is_repaired_and_damage_is_named() {
    let mut bytes = stream(&[&[Some("one"), Some("twXo")]]);
    let at = memchr::memmem::find(&bytes, b"twXo").expect("it is plain");
    bytes[at + 2] = 0xff;
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("a.arrow", &bytes)]);
    let found = read(&config(home.path(), AnyFormat::of_kind("arrow").expect("known"), None)).expect("readable");
    assert_eq!(found, (vec!["one".into(), "tw\u{fffd}o".into()], vec!["invalid_utf8@a.arrow:2".into()]));

    let file = written(&[batch(&[Some("one")])], true, None);
    for (bytes, words) in [
        (&file[..file.len() - 3], "it is truncated, or its writer was not closed"),
        (&bytes[..bytes.len() - 30], "it is truncated"),
        (b"some words of a text", "not a readable Arrow file"),
        (b"FEA1....", "write_feather"),
    ] {
        let error = refusal("a.arrow", bytes, 256 << 20);
        assert!(error.contains(words) && error.contains("a.arrow"), "{error}");
    }
}

/// Bytes of the end mark of a stream.
const MARK_BYTES: usize = 8;

/// The format allows a stream without the mark, so it is no error.
#[test]
fn a_stream_without_its_end_mark_is_read_and_counted_once() {
    let first: &[Option<&str>] = &[Some("one"), Some("two")];
    let whole = stream(&[first, &[Some("three")]]);
    let cut_after = |bytes: Vec<u8>| bytes[..bytes.len() - MARK_BYTES].to_vec();
    let complaint = |line: u64| vec![format!("unfinished_stream@a.arrow:{line}")];
    let old_mark = [cut_after(whole.clone()), vec![0; 4]].concat();
    for (bytes, texts, complaints) in [
        (whole.clone(), 3, vec![]),
        (old_mark, 3, vec![]),
        (cut_after(whole), 3, complaint(4)),
        (cut_after(stream(&[first])), 2, complaint(3)),
        (cut_after(stream(&[])), 0, complaint(1)),
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("a.arrow", &bytes)]);
        let found = read(&config(home.path(), AnyFormat::of_kind("arrow").expect("known"), Some(1))).expect("readable");
        assert_eq!((&found.0[..], found.1), (&["one", "two", "three"].map(str::to_owned)[..texts], complaints));
    }
}

/// A reader that continues behind the last row finds the end too.
#[test]
fn the_missing_mark_is_counted_after_a_restart() {
    let bytes = stream(&[&[Some("one"), Some("two")]]);
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("a.arrow", &bytes[..bytes.len() - MARK_BYTES])]);
    let cut = config(home.path(), AnyFormat::of_kind("arrow").expect("known"), None);
    let corpus = crate::corpus::Corpus::open(&cut.config).expect("found");
    let file = &corpus.files()[0];
    for to in 0..=2 {
        let mut reader = corpus.format().open(file, &(0..file.bytes), corpus.reading()).expect("opened");
        reader.skip(to).expect("there");
        let mut complaints = Vec::new();
        while let Some(record) = reader.next(&mut RecordBuffers::default()).expect("read") {
            complaints.extend(record.complaints);
        }
        assert_eq!(complaints, [(RejectReason::UnfinishedStream, 2)], "after row {to}");
        assert_eq!((reader.reached().to, reader.reached().lines), (2, 2));
    }
}

/// The check finds it, so that it can be skipped: an error of its part would end the run.
#[test]
fn a_file_of_0_bytes_is_refused_or_skipped_before_it_is_read() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("a.arrow", stream(&[&[Some("one")]])), ("b.arrow", Vec::new())]);
    let mut cut = config(home.path(), AnyFormat::of_kind("arrow").expect("known"), None);
    let error = read(&cut).expect_err("refused").to_string();
    assert!(error.contains("b.arrow: not a readable Arrow file (it has 0 bytes)"), "{error}");
    cut.config.on_invalid_file = InvalidFilePolicy::Skip;
    assert_eq!(read(&cut).expect("the other one").0, ["one"]);
}

#[test]
fn a_batch_of_more_memory_than_there_is_is_refused_before_it_is_decompressed() {
    let long = "x".repeat(8 << 20);
    let bytes = written(&[batch(&[Some(&long)])], false, Some(CompressionType::ZSTD));
    assert!(bytes.len() < 1 << 20);
    let error = refusal("a.arrow", &bytes, 8 << 20);
    assert!(error.contains("a record batch of 8") && error.contains("smaller record batches"), "{error}");
}
