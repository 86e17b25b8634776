//! Contract tests that every format passes.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use super::*;
use crate::testing::write_all;

/// Extensions of all compressions.
const COMPRESSIONS: [&str; 5] = ["gz", "zst", "bz2", "xz", "lz4"];

/// Example files of a format.
pub struct Example {
    /// Writes a file of documents with these texts: words separated by one blank.
    pub(super) write: fn(&[&str]) -> Vec<u8>,
    /// File with invalid content.
    pub(super) dirty: Vec<u8>,
    /// Texts read from `dirty`, and the complaints, as `reason:line`.
    pub(super) texts: &'static [&'static str],
    pub(super) complaints: &'static [&'static str],
}

impl Example {
    /// Returns a file with invalid content.
    pub(crate) fn dirty(&self) -> Vec<u8> {
        self.dirty.clone()
    }

    /// Returns a file of documents with these texts.
    pub(crate) fn written(&self, texts: &[&str]) -> Vec<u8> {
        (self.write)(texts)
    }
}

/// Returns a Parquet file with `rows_per_group` rows per row group, and columns for text and key.
pub(super) fn parquet_file(texts: &[Option<&str>], rows_per_group: usize) -> Vec<u8> {
    let fields = vec![Field::new("text", DataType::Utf8, true), Field::new("key", DataType::Int64, false)];
    let schema = Arc::new(Schema::new(fields));
    let mut bytes = Vec::new();
    let mut writer = ::parquet::arrow::ArrowWriter::try_new(&mut bytes, schema.clone(), None).expect("in memory");
    for (group, texts) in texts.chunks(rows_per_group).enumerate() {
        let key = |row| i64::try_from(group * rows_per_group + row).expect("a few");
        let keys: Int64Array = (0..texts.len()).map(key).collect();
        let columns: Vec<arrow_array::ArrayRef> = vec![Arc::new(StringArray::from(texts.to_vec())), Arc::new(keys)];
        let batch = RecordBatch::try_new(schema.clone(), columns).expect("matches");
        writer.write(&batch).expect("in memory");
        writer.flush().expect("in memory");
    }
    writer.close().expect("in memory");
    bytes
}

struct Member {
    format: AnyFormat,
    example: Example,
    extension: &'static str,
}

fn members() -> Vec<Member> {
    let member = |format: AnyFormat| {
        let example = format.example();
        let extension = format.extensions()[0];
        Member { format, example, extension }
    };
    AnyFormat::examples().into_iter().map(member).collect()
}

impl Member {
    fn config(&self, home: &Path, part_bytes: Option<u64>) -> super::tests::Cut {
        super::tests::config(home, self.format.clone(), part_bytes)
    }

    /// Returns documents and complaints of a file with these bytes, cut into parts of that size.
    fn read(&self, name: &str, bytes: &[u8], part_bytes: Option<u64>) -> Result<(Vec<String>, Vec<String>)> {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[(name, bytes)]);
        super::tests::read(&self.config(home.path(), part_bytes))
    }

    fn written(&self, count: usize) -> Vec<u8> {
        let texts: Vec<String> =
            (0..count).map(|index| format!("text {index} {}", "word ".repeat(index % 5))).collect();
        (self.example.write)(&texts.iter().map(|text| text.trim()).collect::<Vec<_>>())
    }
}

#[test]
fn every_format_finds_the_same_documents_whole_and_in_parts() {
    for member in members() {
        let name = format!("a.{}", member.extension);
        let bytes = member.written(60);
        let whole = member.read(&name, &bytes, None).expect("readable");
        let joined = whole.0.join(" ").replace('\n', " ");
        let mut rest = joined.as_str();
        for index in 0..60 {
            let wanted = format!("text {index} ");
            let at = format!("{rest} ").find(&wanted).unwrap_or_else(|| panic!("{name}: `{wanted}` in {rest}"));
            rest = &rest[at..];
        }
        for part_bytes in [1, 7, 64, 200, 5000] {
            let cut = member.read(&name, &bytes, Some(part_bytes)).expect("readable");
            assert_eq!(cut, whole, "{name} in parts of {part_bytes} bytes");
        }
        for compressed in COMPRESSIONS.map(|extension| format!("{name}.{extension}")) {
            assert_eq!(member.read(&compressed, &bytes, Some(64)).expect("readable"), whole, "{compressed}");
        }
    }
}

#[test]
fn every_format_counts_bad_records_with_their_location() {
    for member in members() {
        let compressed = COMPRESSIONS.map(|extension| format!("a.{}.{extension}", member.extension));
        for name in std::iter::once(format!("a.{}", member.extension)).chain(compressed) {
            let found = member.read(&name, &member.example.dirty, Some(1)).expect("dirt is no error");
            let place = |complaint: &&str| complaint.replace(':', &format!("@{name}:"));
            let complaints: Vec<String> = member.example.complaints.iter().map(place).collect();
            assert_eq!(
                (found.0, found.1),
                (member.example.texts.iter().map(ToString::to_string).collect(), complaints)
            );
        }
    }
}

#[test]
fn every_format_reads_none_and_one_and_refuses_or_skips_a_document_that_is_too_long() {
    for member in members() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let names = ["none", "one"].map(|name| format!("{name}.{}", member.extension));
        write_all(home.path(), &[(names[0].as_str(), (member.example.write)(&[])), (&names[1], member.written(1))]);
        let (texts, complaints) = super::tests::read(&member.config(home.path(), None)).expect("readable");
        assert_eq!((texts.concat().split_whitespace().collect::<Vec<_>>(), complaints), (vec!["text", "0"], vec![]));
        let long = (member.example.write)(&[&"word ".repeat(100)]);
        write_all(home.path(), &[(names[1].as_str(), &long)]);
        let mut config = member.config(home.path(), None);
        config.config.reading.max_document_bytes = 200;
        let error = super::tests::read(&config).expect_err("too long").to_string();
        assert!(error.contains(&names[1]) && error.contains("max_memory_bytes"), "{error}");
        assert!(error.contains("`prepare.max_document_bytes`"), "{error}");
        config.config.reading.skip_above_bytes = Some(200);
        let (texts, complaints) = super::tests::read(&config).expect("skipped");
        let place = format!("too_long@{}:", names[1]);
        assert!(texts.is_empty() && complaints.len() == 1 && complaints[0].starts_with(&place), "{complaints:?}");
    }
}

#[test]
fn every_format_covers_its_files_with_ranges_that_ascend() {
    for member in members() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let name = format!("a.{}", member.extension);
        write_all(home.path(), &[(name.as_str(), member.written(60))]);
        for part_bytes in [1, 64, 1 << 20] {
            let corpus = Corpus::open(&member.config(home.path(), Some(part_bytes)).config).expect("readable");
            let mut end = 0;
            let mut last = 0;
            for part in super::tests::parts(&corpus, part_bytes).expect("cut") {
                let range = &part.pieces[0].range;
                assert_eq!((range.start, part.pieces.len()), (end, 1), "{name}: pieces without gaps");
                end = range.end;
                let mut documents = corpus.format().open(&corpus.files()[0], range, corpus.reading()).expect("opened");
                while let Some(record) = documents.next(&mut RecordBuffers::default()).expect("readable") {
                    assert!(record.range.start >= last && record.range.end > record.range.start, "{name}: {record:?}");
                    assert!(record.range.end <= documents.reached().to, "{name}: {record:?}");
                    last = record.range.end;
                }
            }
        }
    }
}

#[test]
fn every_format_continues_after_any_record() {
    for member in members() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let name = format!("a.{}.zst", member.extension);
        write_all(home.path(), &[(name.as_str(), member.written(40))]);
        let corpus = Corpus::open(&member.config(home.path(), None).config).expect("readable");
        let parts = super::tests::parts(&corpus, 1 << 20).expect("cut");
        let open = || {
            let range = &parts[0].pieces[0].range;
            corpus.format().open(&corpus.files()[0], range, corpus.reading()).expect("opened")
        };
        let mut baseline = open();
        let mut reached = vec![baseline.reached()];
        let mut records = Vec::new();
        while let Some(record) = baseline.next(&mut RecordBuffers::default()).expect("readable") {
            records.push(record);
            reached.push(baseline.reached());
        }
        for (index, place) in reached.iter().enumerate() {
            let mut late = open();
            late.skip(place.to).expect("it was there");
            assert_eq!(late.reached(), *place, "{name} behind record {index}");
            for record in &records[index..] {
                assert_eq!(
                    late.next(&mut RecordBuffers::default()).expect("readable").as_ref(),
                    Some(record),
                    "{name} behind record {index}"
                );
            }
            assert_eq!(
                (late.next(&mut RecordBuffers::default()).expect("readable"), late.reached()),
                (None, baseline.reached()),
                "{name}"
            );
        }
    }
}

#[test]
fn every_format_names_a_file_that_was_cut_short() {
    for member in members() {
        let bytes = member.written(3000);
        for name in COMPRESSIONS.map(|extension| format!("a.{}.{extension}", member.extension)) {
            let home = tempfile::tempdir().expect("a temporary folder");
            write_all(home.path(), &[(name.as_str(), &bytes)]);
            let whole = std::fs::read(home.path().join(&name)).expect("written");
            write_all(home.path(), &[("cut", &whole[..whole.len() / 2])]);
            std::fs::rename(home.path().join("cut"), home.path().join(&name)).expect("renamed");
            let error = super::tests::read(&member.config(home.path(), None)).expect_err("truncated").to_string();
            assert!(error.contains(&name) && error.contains("truncated"), "{error}");
        }
        let name = format!("a.{}", member.extension);
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[(name.as_str(), &bytes)]);
        let corpus = Corpus::open(&member.config(home.path(), Some(4000)).config).expect("readable");
        let parts = super::tests::parts(&corpus, 4000).expect("cut");
        write_all(home.path(), &[(name.as_str(), &bytes[..bytes.len() - 9])]);
        for part in &parts {
            let mut documents = super::tests::documents(&corpus, part).expect("nothing is opened yet");
            let error = documents.find_map(Result::err).expect("half of it is gone").to_string();
            assert!(error.contains(&name), "{error}");
        }
    }
}

/// An id is the document's own id, or the hash of its text. It does not depend on the position of the text.
#[test]
fn every_format_gives_equal_texts_one_id_and_others_another() {
    for member in members() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let [one, two] = ["one", "two"].map(|name| format!("{name}.{}", member.extension));
        write_all(home.path(), &[(one.as_str(), member.written(20)), (&two, member.written(20))]);
        let corpus = Corpus::open(&member.config(home.path(), None).config).expect("readable");
        let ids = |part: &Part| -> Vec<String> {
            let documents = super::tests::documents(&corpus, part).expect("opened");
            documents.filter_map(|found| found.expect("readable").document).map(|document| document.id).collect()
        };
        let parts = super::tests::parts(&corpus, 1 << 20).expect("cut");
        let first = ids(&parts[0]);
        let second = ids(&parts[1]);
        assert_eq!(first, second, "{one}");
        assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), first.len(), "{one}");
    }
}
