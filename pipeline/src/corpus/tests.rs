//! What every format must keep: nothing lost at the cuts, complaints with their lines, silence where it is due.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use super::*;
use crate::testing::write_all;

fn config(home: &Path, format: Format) -> CorpusConfig {
    CorpusConfig {
        inputs: vec![home.display().to_string()],
        format,
        text_field: "text".into(),
        id_field: None,
        part_bytes: None,
        document_bytes_max: 4 << 20,
    }
}

/// Texts in order, and complaints as `reason@line`.
fn read(config: &CorpusConfig) -> Result<(Vec<String>, Vec<String>)> {
    let corpus = Corpus::open(config)?;
    let (mut texts, mut complaints) = (Vec::new(), Vec::new());
    for part in corpus.parts()? {
        for found in corpus.documents(&part) {
            let found = found?;
            for complaint in &found.complaints {
                let (path, line) = (corpus.path(&part.pieces[complaint.piece]), corpus.line(&part, complaint)?);
                let name = path.file_name().and_then(|name| name.to_str()).expect("plain names");
                complaints.push(format!("{}@{name}:{line}", complaint.reason));
            }
            texts.extend(found.document.map(|(_, document)| document.text));
        }
    }
    Ok((texts, complaints))
}

fn check(format: Format, file: (&str, &[u8]), texts: &[&str], complaints: &[&str]) {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[file, ("empty.txt", b""), ("empty.jsonl", b""), ("empty.txt.zst", b"")]);
    let found = read(&config(home.path(), format)).expect("readable");
    assert_eq!(
        (found.0, found.1),
        (
            texts.iter().map(ToString::to_string).collect(),
            complaints.iter().map(ToString::to_string).collect::<Vec<_>>()
        ),
        "{file:?}"
    );
}

/// 9 KiB of spaces: what follows is past the window in which a NUL means a binary file.
fn far(tail: &[u8]) -> Vec<u8> {
    [vec![b' '; 9 << 10], tail.to_vec()].concat()
}

#[test]
fn dirty_text_is_repaired_and_counted() {
    use Format::{Jsonl, TextFile, TextLines, TextParagraphs};
    let spaces = " ".repeat(9 << 10);
    check(TextFile, ("a.txt", b"one\ntwo\xff\n"), &["one\ntwo\u{fffd}\n"], &["invalid_utf8@a.txt:2"]);
    check(TextFile, ("a.txt", &far(b"x\ny\0z")), &[&format!("{spaces}x\nyz")], &["nul@a.txt:2"]);
    check(TextFile, ("a.txt", b" \n\t\n"), &[], &["empty_document@a.txt:1"]);
    check(TextFile, ("a.txt", b"\xef\xbb\xbfone\r\ntwo"), &["one\ntwo"], &[]);
    check(TextLines, ("a.txt", b"\xef\xbb\xbfone\r\n\r\n \ntwo"), &["one", "two"], &[]);
    check(TextLines, ("a.txt", b"one\n\xc3\x28\nthree\n"), &["one", "\u{fffd}(", "three"], &["invalid_utf8@a.txt:2"]);
    check(TextParagraphs, ("a.txt", b"\n\na\nb\n \nc\xff\n\n\n"), &["a\nb", "c\u{fffd}"], &["invalid_utf8@a.txt:6"]);
    check(Jsonl, ("a.jsonl", b"{\"text\": \"a\", \"x\": [1, {}]}\n\n{\"text\": \"b\"}"), &["a", "b"], &[]);
    let lines = b"{\"text\": 1}\n{\"tex\": \"a\"}\n[1]\n{\"text\": \"a\"} x\n{\"text\": \" \"}\n{\"text\": \"a\\u0000b\"}\n{\"text\": \"\xff\"}\n{\"text\": null}\n";
    let complaints = [
        "non_string_field@a.jsonl:1",
        "missing_field@a.jsonl:2",
        "broken_json@a.jsonl:3",
        "broken_json@a.jsonl:4",
        "empty_document@a.jsonl:5",
        "nul@a.jsonl:6",
        "invalid_utf8@a.jsonl:7",
        "non_string_field@a.jsonl:8",
    ];
    check(Jsonl, ("a.jsonl", lines), &["ab", "\u{fffd}"], &complaints);
}

#[test]
fn a_line_of_two_megabytes_is_a_document() {
    let long = "word ".repeat(400_000);
    check(Format::TextLines, ("a.txt", long.as_bytes()), &[&long], &[]);
}

#[test]
fn a_document_past_the_memory_bound_is_named() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("a.txt", format!("ok\n{}", "x".repeat(100)))]);
    for format in [Format::TextFile, Format::TextLines, Format::TextParagraphs] {
        let error =
            read(&CorpusConfig { document_bytes_max: 50, ..config(home.path(), format) }).expect_err("too long");
        assert!(error.to_string().contains("a.txt:") && error.to_string().contains("memory_max"), "{error}");
    }
}

#[test]
fn cuts_lose_nothing_and_lines_keep_their_numbers() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let lines: Vec<String> = (0..200).map(|i| "x".repeat(i * 7 % 23 + 1)).collect();
    let mut text = lines.join("\n").into_bytes();
    text.extend_from_slice(b"\n\xff\n");
    write_all(home.path(), &[("a.txt", &text[..]), ("b.txt", b"tail")]);
    let whole = read(&config(home.path(), Format::TextLines)).expect("readable");
    for part_bytes in [1, 2, 3, 7, 64, 500, 5000] {
        let cut = CorpusConfig { part_bytes: Some(part_bytes), ..config(home.path(), Format::TextLines) };
        assert_eq!(read(&cut).expect("readable"), whole, "parts of {part_bytes} bytes");
    }
    assert_eq!(whole.1, ["invalid_utf8@a.txt:201"]);
}

#[test]
fn paragraphs_are_cut_only_at_blank_lines() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let text: String = (0..80).map(|i| "ab c\n".repeat(i % 5 + 1) + ["\n", " \r\n\n"][i % 2]).collect();
    write_all(home.path(), &[("a.txt", text)]);
    let whole = read(&config(home.path(), Format::TextParagraphs)).expect("readable");
    assert_eq!(whole.0.len(), 80);
    for part_bytes in [1, 3, 11, 100] {
        let cut = CorpusConfig { part_bytes: Some(part_bytes), ..config(home.path(), Format::TextParagraphs) };
        assert_eq!(read(&cut).expect("readable"), whole, "parts of {part_bytes} bytes");
    }
}

#[test]
fn compression_changes_nothing_but_the_name() {
    let text = "one\n\ntwo\nthree\n";
    for name in ["a.txt", "a.txt.gz", "a.txt.zst"] {
        check(Format::TextLines, (name, text.as_bytes()), &["one", "two", "three"], &[]);
    }
}

#[test]
fn small_files_are_grouped_and_large_ones_are_cut() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let large = "line\n".repeat(100);
    write_all(home.path(), &[("a.txt", "1\n"), ("b.txt", "2\n"), ("c.txt", &large), ("d.txt", "3\n")]);
    let config = CorpusConfig { part_bytes: Some(200), ..config(home.path(), Format::TextLines) };
    let parts = Corpus::open(&config).and_then(|corpus| corpus.parts()).expect("readable");
    let shape = |part: &Part| part.pieces.iter().map(|piece| format!("{}{:?}", piece.name, piece.range)).collect();
    let shapes: Vec<Vec<String>> = parts.iter().map(shape).collect();
    assert_eq!(
        shapes,
        [
            vec!["a.txt0..2", "b.txt0..2"],
            vec!["c.txt0..200"],
            vec!["c.txt200..400"],
            vec!["c.txt400..500", "d.txt0..2"]
        ]
    );
}

#[test]
fn unusable_files_are_refused_before_the_first_part() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let refuse = |name: &str, bytes: &[u8], format, expected: &str| {
        let folder = home.path().join(name);
        write_all(&folder, &[(name, bytes)]);
        let error = Corpus::open(&config(&folder, format)).expect_err("refused");
        assert!(error.to_string().contains(expected) && error.to_string().contains(name), "{error}");
    };
    refuse("a.txt", b"ELF\0\x01", Format::TextFile, "a binary file");
    refuse("b.txt.gz", b"ELF\0\x01", Format::TextLines, "a binary file");
    refuse("c.txt", b"\xff\xfea\0b\0", Format::TextLines, "UTF-16");
    refuse("d.jsonl", b"{\0", Format::Jsonl, "a binary file");
    refuse("e.parquet", b"PAR1 not really", Format::Parquet, "not a readable Parquet file");
}

#[test]
fn a_truncated_file_is_named() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let text: Vec<u8> =
        (0..50_000_u32).flat_map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761)).into_bytes()).collect();
    for name in ["a.txt.gz", "a.txt.zst"] {
        let folder = home.path().join(name);
        write_all(&folder, &[(name, &text)]);
        let path = folder.join(name);
        let whole = std::fs::read(&path).expect("written");
        write_all(&folder, &[("cut", &whole[..whole.len() / 2])]);
        std::fs::rename(folder.join("cut"), &path).expect("renamed");
        let error = read(&config(&folder, Format::TextLines)).expect_err("truncated");
        assert!(error.to_string().contains(name) && error.to_string().contains("truncated"), "{error}");
    }
}

fn parquet_file(path: &Path, groups: usize) {
    let fields = vec![Field::new("text", DataType::Utf8, true), Field::new("key", DataType::Int64, false)];
    let schema = Arc::new(Schema::new(fields));
    let mut bytes = Vec::new();
    let mut writer = ::parquet::arrow::ArrowWriter::try_new(&mut bytes, schema.clone(), None).expect("in memory");
    for group in 0..i64::try_from(groups).expect("a few") {
        let texts = StringArray::from(vec![Some(format!("text {group}")), None, Some(String::new())]);
        let keys = Int64Array::from(vec![group * 10, group * 10 + 1, group * 10 + 2]);
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(texts), Arc::new(keys)]).expect("matches");
        writer.write(&batch).expect("in memory");
        writer.flush().expect("in memory");
    }
    writer.close().expect("in memory");
    let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
    write_all(path.parent().expect("a folder"), &[(name, bytes)]);
}

#[test]
fn parquet_rows_are_documents_however_they_are_cut_or_wrapped() {
    let home = tempfile::tempdir().expect("a temporary folder");
    for (index, name) in ["a.parquet", "a.parquet.zst", "a.parquet.gz"].into_iter().enumerate() {
        let folder = home.path().join(index.to_string());
        parquet_file(&folder.join(name), 3);
        for part_bytes in [1, 1 << 20] {
            for id_field in [None, Some("key".to_owned())] {
                let config =
                    CorpusConfig { part_bytes: Some(part_bytes), id_field, ..config(&folder, Format::Parquet) };
                let (texts, complaints) = read(&config).expect("readable");
                assert_eq!(texts, ["text 0", "text 1", "text 2"]);
                let expected: Vec<String> = (0..3)
                    .flat_map(|i| {
                        [format!("missing_field@{name}:{}", i * 3 + 2), format!("empty_document@{name}:{}", i * 3 + 3)]
                    })
                    .collect();
                assert_eq!(complaints, expected);
            }
        }
    }
    let absent = CorpusConfig { text_field: "body".into(), ..config(&home.path().join("0"), Format::Parquet) };
    let error = Corpus::open(&absent).expect_err("no such column").to_string();
    assert!(error.contains("no column `body`") && error.contains("`text`"), "{error}");
}
