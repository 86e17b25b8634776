use std::io::{Cursor, Write as _};
use std::path::Path;
use std::sync::Arc;

use ::parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;

use super::*;
use crate::example::{Answer, Gold};
use crate::layout::{ColumnRef, ExampleColumns, GoldColumns, WidthPolicy, WordFileLayout};

pub(super) fn classes() -> TaskOutput {
    TaskOutput::Class { labels: vec!["no".to_owned(), "yes".to_owned()] }
}

pub(super) fn tags() -> TaskOutput {
    TaskOutput::WordLabels { labels: ["O", "B-X", "I-X"].map(str::to_owned).to_vec() }
}

pub(super) fn table(format: TableFormat) -> TableLayout {
    let gold = GoldColumns::Label("label".into());
    let columns = ExampleColumns { id: None, first: "text".into(), second: None, gold };
    TableLayout { format, has_header: true, columns, width: WidthPolicy::Refuse }
}

pub(super) fn read(layout: &FileLayout, output: &TaskOutput, bytes: &[u8], max: usize) -> ExampleReader {
    let input = Box::new(Cursor::new(bytes.to_vec()));
    ExampleReader::from_text(Path::new("some.file"), input, layout, output, max)
}

fn all(layout: &FileLayout, output: &TaskOutput, text: &str) -> Vec<Result<Example, String>> {
    let reader = read(layout, output, text.as_bytes(), 1000);
    reader.map(|read| read.map_err(|error| error.to_string())).collect()
}

fn texts(read: &[Result<Example, String>]) -> Vec<&str> {
    read.iter().map(|read| read.as_ref().map_or_else(String::as_str, |example| example.first.as_str())).collect()
}

#[test]
fn quotes_of_a_tsv_file_are_characters() {
    let layout = FileLayout::Table(table(TableFormat::Tsv));
    let read = all(&layout, &classes(), "\u{feff}text\tlabel\n\" open\tyes\r\nb \"\" \u{2028}\u{85}\tno");
    assert_eq!(texts(&read), ["\" open", "b \"\" \u{2028}\u{85}"]);
    let example = read[1].as_ref().expect("valid");
    assert_eq!((example.id.as_str(), example.line, &example.gold), ("1", 3, &Gold::Class(0)));
}

#[test]
fn each_bad_line_is_one_error_and_the_next_line_is_read() {
    let layout = FileLayout::Table(table(TableFormat::Tsv));
    let read = all(&layout, &classes(), "text\tlabel\na\tmaybe\nb\nc\tyes\tno\n\nd\tyes\ne\0\tno\n");
    assert_eq!(
        texts(&read),
        [
            "some.file:2: column `label`: unknown label `maybe`; the labels are `no`, `yes`, in this order; the key `labels` of a custom task sets others",
            "some.file:3: 1 fields instead of 2; correct the line; tabs and line breaks within a field must be removed or quoted",
            "some.file:4: 3 fields instead of 2; correct the line; tabs and line breaks within a field must be removed or quoted",
            "d",
            "some.file:7: byte 2: NUL character; remove the character, or convert the file to UTF-8 if it is UTF-16",
        ]
    );
}

#[test]
fn lines_of_another_width_are_dropped_and_counted_where_the_layout_says_so() {
    let layout = FileLayout::Table(TableLayout { width: WidthPolicy::Drop, ..table(TableFormat::Tsv) });
    let mut reader = read(&layout, &classes(), b"text\tlabel\na\tyes\nb\nc\tyes\tno\n\nd\tno\n", 1000);
    assert_eq!(reader.by_ref().map(|read| read.expect("valid").id).collect::<Vec<_>>(), ["0", "1"]);
    assert_eq!(reader.counts(), ReadCounts { examples: 2, invalid: 0, dropped: 2, blank: 1 });
}

#[test]
fn columns_are_numbers_without_a_header() {
    let columns = ExampleColumns { id: None, first: 3.into(), second: None, gold: GoldColumns::Label(1.into()) };
    let layout = |columns| FileLayout::Table(TableLayout { has_header: false, columns, ..table(TableFormat::Tsv) });
    let read = all(&layout(columns.clone()), &classes(), "s\tyes\t\tA text.\ns\tno\t*\tB text.");
    assert_eq!(texts(&read), ["A text.", "B text."]);
    let beyond = ExampleColumns { first: 4.into(), ..columns.clone() };
    let refused = all(&layout(beyond), &classes(), "s\tyes\t\tA text.\ns\tno\t*\tB text.");
    assert_eq!(
        texts(&refused),
        [
            "some.file:1: column 4: missing: the first line has 4 fields; choose a smaller number, or check the separator",
        ]
    );
    let named = ExampleColumns { first: "text".into(), ..columns };
    assert!(texts(&all(&layout(named), &classes(), "a\tb"))[0].contains("the file has no header"));
}

#[test]
fn a_header_without_a_column_or_with_it_twice_ends_the_file() {
    let layout = FileLayout::Table(table(TableFormat::Tsv));
    for (header, message) in [
        ("text\tgold\na\tyes\n", "column `label`: missing in the header; the header has `text`, `gold`"),
        ("text\tlabel\tlabel\na\tyes\tno\n", "column `label`: occurs twice in the header"),
        ("", "no header: the file is empty"),
    ] {
        let read = all(&layout, &classes(), header);
        assert_eq!(read.len(), 1, "{header:?}");
        assert!(texts(&read)[0].contains(message), "{read:?}");
    }
}

#[test]
fn huge_lines_are_refused_in_bounded_memory() {
    let layout = FileLayout::Table(table(TableFormat::Tsv));
    let text = format!("text\tlabel\n{}\tyes\nb\tno\n", "a".repeat(5000));
    let read = all(&layout, &classes(), &text);
    assert_eq!(texts(&read)[1], "b");
    assert!(texts(&read)[0].starts_with("some.file:2: longer than 1000 bytes"), "{read:?}");
    let quoted = FileLayout::Table(table(TableFormat::Csv));
    let read = all(&quoted, &classes(), &format!("text,label\n\"{}\n", "a,yes\n".repeat(500)));
    assert!(texts(&read)[0].contains("longer than 1000 bytes"), "{read:?}");
}

#[test]
fn invalid_utf8_is_refused_with_its_place() {
    let layout = FileLayout::Table(table(TableFormat::Tsv));
    let mut reader = read(&layout, &classes(), b"text\tlabel\na\xff\tyes\nb\tno\n", 1000);
    let error = reader.next().expect("a line").expect_err("invalid");
    assert_eq!((error.line, error.column.as_deref()), (2, Some("byte 2")));
    assert_eq!(reader.next().expect("a line").expect("valid").first, "b");
}

#[test]
fn quoted_fields_may_contain_separators_breaks_and_quotes() {
    let layout = FileLayout::Table(table(TableFormat::Csv));
    let read = all(&layout, &classes(), "label,text\nyes,\"a, \"\"b\"\"\r\nc\"\nno,5\" disk\n\"no\",\"\"\n");
    assert_eq!(texts(&read), ["a, \"b\"\nc", "5\" disk", ""]);
    assert_eq!(read[1].as_ref().expect("valid").line, 4, "the record before has two lines");
    let tabs = FileLayout::Table(table(TableFormat::QuotedTsv));
    assert_eq!(texts(&all(&tabs, &classes(), "label\ttext\nyes\t\"a\tb\"\n")), ["a\tb"]);
    let broken = all(&layout, &classes(), "label,text\nyes,\"a\"b\nno,c\nno,\"open\nno,d\n");
    assert!(texts(&broken)[0].starts_with("some.file:2: byte 8: a character after a closing quote"), "{broken:?}");
    assert_eq!(texts(&broken)[1], "c");
    assert!(texts(&broken)[2].starts_with("some.file:4: a quote that is never closed"), "{broken:?}");
}

#[test]
fn a_missing_key_is_named_with_the_way_out() {
    let layout = FileLayout::Table(table(TableFormat::Jsonl));
    let error = |row: &str| texts(&all(&layout, &classes(), row))[0].to_owned();
    let row = "some.file:1: column `text`: missing; the row has `label`; name one of its keys, or correct the row";
    assert_eq!(error("{\"label\": \"yes\"}\n"), row);
    let squad = error("{\"data\": [], \"version\": \"1.1\"}\n");
    assert!(squad.ends_with("the row has `data`, `version`; set `squad_json = true`"), "{squad}");
}

#[test]
fn json_labels_may_be_texts_numbers_or_truth_values() {
    let output = TaskOutput::Class { labels: ["true", "1", "x"].map(str::to_owned).to_vec() };
    let layout = FileLayout::Table(table(TableFormat::Jsonl));
    let lines = "{\"text\":\"a\",\"label\":true}\n{\"label\":1,\"text\":\"b\"}\n\n{\"text\":\"c\",\"label\":\"x\"}\n";
    let read = all(&layout, &output, lines);
    let golds: Vec<_> = read.iter().map(|read| read.as_ref().expect("valid").gold.clone()).collect();
    assert_eq!(golds, [Gold::Class(0), Gold::Class(1), Gold::Class(2)]);
    let bad = "{\"text\":\"a\"}\n[1]\n{\"text\":1,\"label\":\"x\"}\n{\"text\":\"\\u0000\",\"label\":\"x\"}\n{\"te";
    let read = all(&layout, &output, bad);
    let expected = [
        "some.file:1: column `label`: missing; the row has `text`",
        "some.file:2: column `text`: missing; the row is no object",
        "some.file:3: column `text`: a number instead of text",
        "some.file:4: column `text`: NUL character",
        "some.file:5: invalid JSON: EOF",
    ];
    assert_eq!(read.len(), expected.len());
    for (found, expected) in texts(&read).into_iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn scores_are_finite_and_in_range() {
    let output = TaskOutput::Score { range: 0.0..=5.0 };
    let layout = FileLayout::Table(table(TableFormat::Tsv));
    let read = all(&layout, &output, "text\tlabel\na\t2.5\nb\tnan\nc\tinf\nd\t5.01\ne\tx\nf\t\n");
    assert_eq!(read[0].as_ref().expect("valid").gold, Gold::Score(2.5));
    let reasons: Vec<_> = texts(&read)[1..].iter().map(|text| text.split(": ").nth(2).unwrap_or_default()).collect();
    assert_eq!(
        reasons,
        [
            "`nan` is out of range; scores are from 0 to 5",
            "`inf` is out of range; scores are from 0 to 5",
            "`5.01` is out of range; scores are from 0 to 5",
            "`x` is no number; write a decimal number",
            "`` is no number; write a decimal number",
        ]
    );
}

/// Layout of answers with the keys of the data sets library.
fn answers() -> FileLayout {
    let gold = GoldColumns::Answers { texts: "answers.text".into(), starts: "answers.answer_start".into() };
    let columns =
        ExampleColumns { id: Some("id".into()), first: "question".into(), second: Some("context".into()), gold };
    FileLayout::Table(TableLayout { columns, ..table(TableFormat::Jsonl) })
}

#[test]
fn answer_offsets_count_characters_and_must_match() {
    let line =
        |answers: &str| format!("{{\"id\":7,\"question\":\"q\",\"context\":\"é the sea\",\"answers\":{answers}}}\n");
    let spans = |allows_none| TaskOutput::Spans { allows_none };
    let right = line(r#"{"text":["the sea","sea"],"answer_start":[2,6]}"#);
    let none = line(r#"{"text":[],"answer_start":[]}"#);
    let read = all(&answers(), &spans(true), &(right + &none));
    let example = read[0].as_ref().expect("valid");
    let answer = |text: &str, start| Answer { text: text.to_owned(), start };
    assert_eq!(example.gold, Gold::Answers(vec![answer("the sea", 3), answer("sea", 7)]));
    assert_eq!(example.id, "7");
    assert_eq!(read[1].as_ref().expect("valid").gold, Gold::Answers(vec![]));
    for (wrong, message) in [
        (r#"{"text":["sea"],"answer_start":[7]}"#, "the answer `sea` is not at offset 7"),
        (r#"{"text":["sea"],"answer_start":[-1]}"#, "is not at offset -1"),
        (r#"{"text":["sea"],"answer_start":[99]}"#, "is not at offset 99"),
        (r#"{"text":["sea"],"answer_start":[]}"#, "0 offsets for 1 answers"),
        (r#"{"text":[""],"answer_start":[0]}"#, "an empty answer"),
        (r#"{"text":[],"answer_start":[]}"#, "no answer"),
    ] {
        let read = all(&answers(), &spans(false), &line(wrong));
        assert!(texts(&read)[0].contains(message), "{read:?}");
    }
}

const SQUAD: &str = r#"{"version": "x", "other": [{"data": 1}], "data": [
{"title": "a \"}] title", "paragraphs": [{"context": "One two.", "qas": [
 {"id": "1", "question": "How?", "answers": [{"text": "two", "answer_start": 4}]},
 {"id": "2", "question": "Why?", "answers": [], "is_impossible": true}]}]},
{"paragraphs": [{"context": "Three.", "qas": [{"id": "3", "question": "Who?", "answers": [{"text": "Three", "answer_start": 1}]}]}]},
{"paragraphs": [{"qas": []}]},
{"paragraphs": [{"context": "Four.", "qas": [{"id": "4", "question": "What?"}]}]}
]}"#;

#[test]
fn squad_articles_are_read_one_at_a_time() {
    let output = TaskOutput::Spans { allows_none: true };
    let read = all(&FileLayout::SquadJson, &output, SQUAD);
    let ids: Vec<_> = read.iter().flatten().map(|example| example.id.as_str()).collect();
    assert_eq!(ids, ["1", "2", "4"]);
    assert_eq!(read[0].as_ref().expect("valid").second.as_deref(), Some("One two."));
    assert_eq!(read[1].as_ref().expect("valid").gold, Gold::Answers(vec![]));
    assert_eq!(read[4].as_ref().expect("valid").gold, Gold::None);
    assert!(texts(&read)[2].starts_with("some.file:5: question `3`: the answer `Three` is not at offset 1"));
    assert!(texts(&read)[3].starts_with("some.file:6: byte 27 of an article: not an article of SQuAD"), "{read:?}");
    let v1 = all(&FileLayout::SquadJson, &TaskOutput::Spans { allows_none: false }, SQUAD);
    assert!(texts(&v1)[1].contains("question `2`: no answer"), "{v1:?}");
}

/// Files of annotation tools: numbers as ids, ids of answers, and unanswerable questions without `is_impossible`.
#[test]
fn ids_of_questions_may_be_numbers() {
    let file = r#"{"data": [{"paragraphs": [{"document_id": 7, "context": "One two.", "qas": [
        {"id": 56348, "question": "How?", "answers": [{"answer_id": 9, "text": "two", "answer_start": 4}]},
        {"id": 18446744073709551615, "question": "Why?", "answers": []},
        {"id": [1], "question": "Who?", "answers": []}]}]}]}"#;
    let output = TaskOutput::Spans { allows_none: true };
    let read = all(&FileLayout::SquadJson, &output, file);
    assert!(texts(&read)[0].contains("an id that is no text or number"), "{read:?}");
    let read = all(&FileLayout::SquadJson, &output, &file.replace("[1]", "-3"));
    let ids: Vec<_> = read.iter().flatten().map(|example| example.id.as_str()).collect();
    assert_eq!(ids, ["56348", "18446744073709551615", "-3"]);
}

#[test]
fn files_that_are_no_squad_are_refused() {
    let output = TaskOutput::Spans { allows_none: true };
    for (text, message) in [
        ("[]", "no JSON object"),
        ("", "the file ends within the JSON"),
        ("{\"version\": 1}", "no array `data`"),
        ("{\"data\": [1]}", "`data` holds a value that is no article"),
        ("{\"data\": [{\"paragraphs\": []}", "the file ends within the JSON"),
        ("{\"data\": []}}", "a bracket that was not opened"),
    ] {
        let read = all(&FileLayout::SquadJson, &output, text);
        assert!(texts(&read).last().is_some_and(|last| last.contains(message)), "{text}: {read:?}");
    }
}

fn words(text: &str) -> Vec<Result<Example, String>> {
    let layout = WordFileLayout { word_column: 0, label_column: None, has_labels: true };
    all(&FileLayout::WordFile(layout), &tags(), text)
}

#[test]
fn word_files_have_a_sentence_between_blank_lines() {
    let read = words("-DOCSTART- -X- O\n\nAnna NNP B-X\nwalks VB O\n\n\nto\tTO\tO\nthe\u{a0}sea\tNN\tI-X");
    let first = read[0].as_ref().expect("valid");
    assert_eq!((first.first.as_str(), first.line), ("Anna walks", 3));
    assert_eq!(first.words, [0..4, 5..10]);
    assert_eq!(first.gold, Gold::WordLabels(vec![1, 0]));
    let second = read[1].as_ref().expect("valid");
    assert_eq!(&second.first[second.words[1].clone()], "the\u{a0}sea");
    assert_eq!(read.len(), 2);
}

/// French and Swedish numbers have one.
#[test]
fn a_no_break_space_is_part_of_its_word() {
    let number = "10\u{202f}000\u{a0}km";
    let read = words(&format!("{number} O\nweit O\n"));
    let first = read[0].as_ref().expect("valid");
    assert_eq!(first.first, format!("{number} weit"));
    let columns = ExampleColumns {
        id: None,
        first: "words".into(),
        second: None,
        gold: GoldColumns::Label(ColumnRef::from("tags")),
    };
    let layout = FileLayout::Table(TableLayout { columns, ..table(TableFormat::Jsonl) });
    let read = all(&layout, &tags(), &format!("{{\"words\":\"{number} weit\",\"tags\":\"O O\"}}\n"));
    let words = &read[0].as_ref().expect("two words and two labels").words;
    assert_eq!(*words, [0..number.len(), number.len() + 1..number.len() + 5]);
}

#[test]
fn a_sentence_with_a_bad_line_is_one_error() {
    let read = words("a O\nb B-Y\nc\n\nd O\n\ne\n");
    assert_eq!(
        texts(&read),
        [
            "some.file:2: column 1: unknown label `B-Y`; the labels are `O`, `B-X`, `I-X`, in this order; the key `labels` of a custom task sets others",
            "d",
            "some.file:7: no label: the line has one field; add the label of the word",
        ]
    );
}

#[test]
fn words_of_tables_are_lists_or_stand_between_blanks() {
    let columns = ExampleColumns {
        id: None,
        first: "words".into(),
        second: None,
        gold: GoldColumns::Label(ColumnRef::from("tags")),
    };
    let layout = FileLayout::Table(TableLayout { columns, ..table(TableFormat::Jsonl) });
    let lines = "{\"words\":[\"a\",\"b c\"],\"tags\":[\"O\",\"B-X\"]}\n{\"words\":\" a  b\",\"tags\":\"O I-X\"}\n\
                 {\"words\":[\"a\"],\"tags\":[]}\n{\"words\":[\" \"],\"tags\":[\"O\"]}\n";
    let read = all(&layout, &tags(), lines);
    assert_eq!(read[0].as_ref().expect("valid").words, [0..1, 2..5]);
    assert_eq!(read[1].as_ref().expect("valid").words, [1..2, 4..5]);
    assert!(texts(&read)[2].contains("0 labels for 1 words"));
    assert!(texts(&read)[3].contains("a word without characters"));
}

#[test]
fn compressed_files_are_read_and_damaged_ones_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(SQUAD.as_bytes()).expect("in memory");
    let bytes = encoder.finish().expect("in memory");
    let whole = folder.path().join("a.json.gz");
    let damaged = folder.path().join("b.json.gz");
    write(&whole, &bytes);
    write(&damaged, &bytes[..bytes.len() - 30]);
    let output = TaskOutput::Spans { allows_none: true };
    let count = |path: &Path| {
        let reader = ExampleReader::open(path, &FileLayout::SquadJson, &output).expect("it exists");
        reader.map(|read| read.map_err(|error| error.message)).collect::<Vec<_>>()
    };
    assert_eq!(count(&whole).len(), 5);
    assert!(count(&damaged).last().is_some_and(|last| last.as_ref().is_err_and(|it| it.contains("cannot be read"))));
    let missing = ExampleReader::open(&folder.path().join("none.tsv"), &FileLayout::SquadJson, &output);
    assert!(missing.err().is_some_and(|error| error.to_string().contains("none.tsv: cannot be read")));
}

#[expect(clippy::disallowed_methods, reason = "a test file")]
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("room for it");
}

#[test]
fn parquet_rows_are_examples_and_damaged_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.parquet");
    let schema = "message a { required binary text (UTF8); optional int32 label; optional int32 unused; }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    let mut column = group.next_column().expect("no error").expect("text");
    let texts = ["one", "two \"quoted\"", "three"].map(ByteArray::from);
    column.typed::<ByteArrayType>().write_batch(&texts, None, None).expect("written");
    column.close().expect("closed");
    for _ in 0..2 {
        let mut column = group.next_column().expect("no error").expect("numbers");
        column.typed::<Int32Type>().write_batch(&[1, 0], Some(&[1, 1, 0]), None).expect("written");
        column.close().expect("closed");
    }
    group.close().expect("closed");
    let bytes = writer.into_inner().expect("a file");
    write(&path, &bytes);
    let output = TaskOutput::Class { labels: vec!["0".to_owned(), "1".to_owned()] };
    let layout = FileLayout::Table(table(TableFormat::Parquet));
    let read: Vec<_> = ExampleReader::open(&path, &layout, &output).expect("opened").collect();
    assert_eq!(read[1].as_ref().expect("valid").first, "two \"quoted\"");
    assert_eq!(read[0].as_ref().expect("valid").gold, Gold::Class(1));
    let error = read[2].as_ref().expect_err("no label").to_string();
    assert!(error.contains("a.parquet:3: column `label`: no value instead of a label"), "{error}");
    write(&path, &bytes[..bytes.len() - 3]);
    assert!(ExampleReader::open(&path, &layout, &output).err().is_some_and(|error| error.message.contains("Parquet")));
    let missing = FileLayout::Table(TableLayout {
        columns: ExampleColumns { first: "body".into(), ..table(TableFormat::Parquet).columns },
        ..table(TableFormat::Parquet)
    });
    write(&path, &bytes);
    let error = ExampleReader::open(&path, &missing, &output).err().expect("no such column").to_string();
    assert!(error.contains("column `body`: missing; the file has `text`, `label`, `unused`"), "{error}");
}
