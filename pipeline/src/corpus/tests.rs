//! Tests of single formats in addition to the contract: cuts lose nothing, and valid input gives no complaints.

mod long_documents;
mod objects;
mod other_programs;

use std::collections::BTreeMap;
use std::path::Path;

use schemas::PartId;
use store::Store;

use super::*;
use crate::testing::write_all;

/// Corpus and the size of its pieces.
pub(crate) struct Cut {
    pub(crate) config: CorpusConfig,
    pub(crate) part_bytes: u64,
}

pub(crate) fn config(home: &Path, format: AnyFormat, part_bytes: Option<u64>) -> Cut {
    let reading = ReadOptions {
        text_field: "text".into(),
        id_field: None,
        encoding: None,
        max_document_bytes: 4 << 20,
        skip_above_bytes: None,
        memory_budget: MemoryBudget::new(256 << 20, 1),
        bytes_read: BytesRead::default(),
    };
    let inputs = vec![home.display().to_string()];
    let config = CorpusConfig { inputs, format, reading, on_invalid_file: InvalidFilePolicy::Error };
    Cut { config, part_bytes: part_bytes.unwrap_or(1 << 20) }
}

fn format(name: &str) -> AnyFormat {
    AnyFormat::of_kind(name).expect("a known format")
}

/// Returns each piece as a part, in the order of the files.
pub(crate) fn parts(corpus: &Corpus, part_bytes: u64) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for file in corpus.sort_out(corpus.files().iter())?.fit {
        for (piece, bytes) in corpus.pieces(file, part_bytes)? {
            parts.push(Part { id: PartId(u32::try_from(parts.len()).expect("a few")), bytes, pieces: vec![piece] });
        }
    }
    Ok(parts)
}

pub(super) fn documents<'a>(corpus: &'a Corpus, part: &'a Part) -> Result<Documents<'a>> {
    corpus.read(part)
}

/// Returns texts in order, and complaints as `reason@line`.
pub(crate) fn read(cut: &Cut) -> Result<(Vec<String>, Vec<String>)> {
    let corpus = Corpus::open(&cut.config)?;
    let mut texts = Vec::new();
    let mut complaints = Vec::new();
    let mut lines = BTreeMap::<String, u64>::new();
    for part in parts(&corpus, cut.part_bytes)? {
        let name = &part.pieces[0].name;
        let mut documents = documents(&corpus, &part)?;
        for found in documents.by_ref() {
            let found = found?;
            for complaint in &found.complaints {
                let before = lines.get(name).copied().unwrap_or(0);
                complaints.push(format!("{}@{name}:{}", complaint.reason, before + complaint.line + 1));
            }
            texts.extend(found.document.map(|document| document.text));
        }
        *lines.entry(name.clone()).or_default() += documents.read()[0].1.lines;
    }
    Ok((texts, complaints))
}

fn check(name: &str, file: (&str, &[u8]), texts: &[&str], complaints: &[&str]) {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[file, ("empty.txt", b""), ("empty.jsonl", b""), ("empty.txt.zst", b"")]);
    let found = read(&config(home.path(), format(name), None)).expect("readable");
    assert_eq!(
        (found.0, found.1),
        (
            texts.iter().map(ToString::to_string).collect(),
            complaints.iter().map(ToString::to_string).collect::<Vec<_>>()
        ),
        "{file:?}"
    );
}

/// Returns 9 KiB of spaces and `tail`: the tail is outside the window in which a NUL means a binary file.
fn far(tail: &[u8]) -> Vec<u8> {
    [vec![b' '; 9 << 10], tail.to_vec()].concat()
}

#[test]
fn invalid_text_is_repaired_and_counted() {
    let [text, lines_of, paragraphs, jsonl] = ["text", "text_lines", "text_paragraphs", "jsonl"];
    let spaces = " ".repeat(9 << 10);
    check(text, ("a.txt", b"one\ntwo\xff\n"), &["one\ntwo\u{fffd}\n"], &["invalid_utf8@a.txt:2"]);
    check(text, ("a.txt", &far(b"x\ny\0z")), &[&format!("{spaces}x\nyz")], &["nul@a.txt:2"]);
    check(text, ("a.txt", b" \n\t\n"), &[], &["empty_document@a.txt:1"]);
    check(text, ("a.txt", b"\xef\xbb\xbfone\r\ntwo"), &["one\ntwo"], &[]);
    check(lines_of, ("a.txt", b"\xef\xbb\xbfone\r\n\r\n \ntwo"), &["one", "two"], &[]);
    check(lines_of, ("a.txt", b"one\n\xc3\x28\nthree\n"), &["one", "\u{fffd}(", "three"], &["invalid_utf8@a.txt:2"]);
    check(paragraphs, ("a.txt", b"\n\na\nb\n \nc\xff\n\n\n"), &["a\nb", "c\u{fffd}"], &["invalid_utf8@a.txt:6"]);
    check(jsonl, ("a.jsonl", b"{\"text\": \"a\", \"x\": [1, {}]}\n\n{\"text\": \"b\"}"), &["a", "b"], &[]);
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
    check(jsonl, ("a.jsonl", lines), &["ab", "\u{fffd}"], &complaints);
}

#[test]
fn cuts_lose_nothing_and_lines_keep_their_numbers() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let lines: Vec<String> = (0..200).map(|i| "x".repeat(i * 7 % 23 + 1)).collect();
    let mut text = lines.join("\n").into_bytes();
    text.extend_from_slice(b"\n\xff\n");
    write_all(home.path(), &[("a.txt", &text[..]), ("b.txt", b"tail")]);
    let whole = read(&config(home.path(), format("text_lines"), None)).expect("readable");
    for part_bytes in [1, 2, 3, 7, 64, 500, 5000] {
        let cut = config(home.path(), format("text_lines"), Some(part_bytes));
        assert_eq!(read(&cut).expect("readable"), whole, "parts of {part_bytes} bytes");
    }
    assert_eq!(whole.1, ["invalid_utf8@a.txt:201"]);
}

#[test]
fn paragraphs_are_cut_only_at_blank_lines() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let text: String = (0..80).map(|i| "ab c\n".repeat(i % 5 + 1) + ["\n", " \r\n\n"][i % 2]).collect();
    write_all(home.path(), &[("a.txt", text)]);
    let whole = read(&config(home.path(), format("text_paragraphs"), None)).expect("readable");
    assert_eq!(whole.0.len(), 80);
    for part_bytes in [1, 3, 11, 100] {
        let cut = config(home.path(), format("text_paragraphs"), Some(part_bytes));
        assert_eq!(read(&cut).expect("readable"), whole, "parts of {part_bytes} bytes");
    }
}

#[test]
fn compression_changes_nothing_but_the_name() {
    let text = "one\n\ntwo\nthree\n";
    for name in ["a.txt", "a.txt.gz", "a.txt.zst"] {
        check("text_lines", (name, text.as_bytes()), &["one", "two", "three"], &[]);
    }
}

#[test]
fn large_files_are_cut_where_lines_end() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let large = "line\n".repeat(100);
    write_all(home.path(), &[("a.txt", "1\n"), ("b.txt", &large)]);
    let cut = config(home.path(), format("text_lines"), Some(200));
    let corpus = Corpus::open(&cut.config).expect("readable");
    let shape = |part: &Part| format!("{}{:?}", part.pieces[0].name, part.pieces[0].range);
    let shapes: Vec<String> = parts(&corpus, 200).expect("cut").iter().map(shape).collect();
    assert_eq!(shapes, ["a.txt0..2", "b.txt0..200", "b.txt200..400", "b.txt400..500"]);
}

/// A truncated file is an error, not a shorter text.
#[test]
fn a_file_that_is_cut_short_while_it_is_read_fails_its_part() {
    for name in ["a.txt", "a.txt.zst"] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let lines: Vec<String> = (0..200_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_string()).collect();
        let text = lines.join("\n");
        write_all(home.path(), &[(name, &text)]);
        let cut = config(home.path(), format("text_lines"), Some(1 << 30));
        let corpus = Corpus::open(&cut.config).expect("readable");
        let parts = parts(&corpus, cut.part_bytes).expect("cut");
        let mut documents = documents(&corpus, &parts[0]).expect("opened");
        documents.next().expect("a document").expect("readable");
        let path = home.path().join(name);
        let file = std::fs::File::options().write(true).open(&path).expect("there");
        file.set_len(std::fs::metadata(&path).expect("there").len() / 2).expect("cut");
        let error = documents.find_map(Result::err).expect("half of it is gone").to_string();
        assert!(error.contains(name) && error.contains("shorter while it was read"), "{error}");
    }
}

/// A file that changes between the reads of its pieces counts as another file.
#[test]
fn a_file_that_is_replaced_or_grows_fails_its_part() {
    for change in ["x\ny\n", "x\ny\nz\n"] {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("a.txt", "a\nb\n")]);
        let cut = config(home.path(), format("text_lines"), None);
        let corpus = Corpus::open(&cut.config).expect("readable");
        let parts = parts(&corpus, cut.part_bytes).expect("cut");
        let mut documents = documents(&corpus, &parts[0]).expect("opened");
        documents.next().expect("a document").expect("readable");
        write_all(home.path(), &[("a.txt", change)]);
        let error = documents.find_map(Result::err).expect("another file").to_string();
        assert!(error.contains("a.txt") && error.contains("changed after the preparation began"), "{error}");
    }
}

#[test]
fn unusable_files_are_refused_before_the_first_part() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let refuse = |name: &str, bytes: &[u8], of: &str, expected: &str| {
        let folder = home.path().join(name);
        write_all(&folder, &[(name, bytes)]);
        let error = read(&config(&folder, format(of), None)).expect_err("refused");
        assert!(error.to_string().contains(expected) && error.to_string().contains(name), "{error}");
    };
    refuse("a.txt", b"ELF\0\x01", "text", "a binary file");
    refuse("b.txt.gz", b"ELF\0\x01", "text_lines", "a binary file");
    refuse("c.txt", b"\xff\xfea\0b\0", "text_lines", "UTF-16");
    refuse("d.jsonl", b"{\0", "jsonl", "a binary file");
    refuse("e.parquet", b"PAR1 not really", "parquet", "not a readable Parquet file");
}

#[test]
fn parquet_rows_are_documents_for_any_layout() {
    let home = tempfile::tempdir().expect("a temporary folder");
    for (index, name) in ["a.parquet", "a.parquet.zst", "a.parquet.gz"].into_iter().enumerate() {
        let folder = home.path().join(index.to_string());
        let rows: Vec<[Option<String>; 3]> =
            (0..3).map(|i| [Some(format!("text {i}")), None, Some(String::new())]).collect();
        let rows: Vec<Option<&str>> = rows.iter().flatten().map(Option::as_deref).collect();
        write_all(&folder, &[(name, contract::parquet_file(&rows, 3))]);
        for part_bytes in [1, 1 << 20] {
            for id_field in [None, Some("key".to_owned())] {
                let mut config = config(&folder, format("parquet"), Some(part_bytes));
                config.config.reading.id_field = id_field;
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
    let mut absent = config(&home.path().join("0"), format("parquet"), None);
    absent.config.reading.text_field = "body".into();
    let error = read(&absent).expect_err("no such column").to_string();
    assert!(error.contains("a field `body`") && error.contains("`key`, `text`"), "{error}");
}

/// Output of `zstd --long=31`: its window is 2 GiB, of which a small file uses little.
#[test]
fn long_window_is_read_within_the_memory_budget() {
    use std::io::Write as _;
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("in memory");
    encoder.window_log(31).expect("a legal window");
    encoder.write_all(b"one\ntwo\n").expect("in memory");
    let long = encoder.finish().expect("in memory");
    Store::folder(home.path()).and_then(|store| store.put("a.txt.zst", &long)).expect("written");
    let mut cut = config(home.path(), format("text_lines"), None);
    let error = read(&cut).expect_err("256 MiB in all").to_string();
    for word in ["a.txt.zst", "a zstd window of 2147483648 bytes", "raise it, or compress the file again"] {
        assert!(error.contains(word), "`{word}` is missing in {error}");
    }
    cut.config.reading.memory_budget = MemoryBudget::new(4 << 30, 1);
    assert_eq!(read(&cut).expect("the way out").0, ["one", "two"]);
    // A short frame first: no memory was reserved for the window of the second.
    let two = [zstd::encode_all(&b"zero\n"[..], 1).expect("in memory"), long].concat();
    Store::folder(home.path()).and_then(|store| store.put("a.txt.zst", &two)).expect("written");
    let error = read(&cut).expect_err("a longer window than its first one").to_string();
    assert!(error.contains("longer window than its first one; compress it again"), "{error}");
}

#[test]
fn invalid_characters_of_a_parquet_column_are_repaired_and_counted() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = contract::parquet_file(&[Some("one"), Some("a caf\u{e9} here"), Some("two"), Some("caf\u{e9} end")], 2);
    // `é` of Latin-1 in a column of strings, as Spark and others write it.
    let mut broken = file.clone();
    for at in memchr::memmem::find_iter(&file, "\u{e9}") {
        broken[at..at + 2].copy_from_slice(b"\xe9 ");
    }
    assert_ne!(broken, file);
    write_all(home.path(), &[("a.parquet", broken)]);
    let (texts, complaints) = read(&config(home.path(), format("parquet"), None)).expect("readable");
    assert_eq!(texts, ["one", "a caf\u{fffd}  here", "two", "caf\u{fffd}  end"]);
    assert_eq!(complaints, ["invalid_utf8@a.parquet:2", "invalid_utf8@a.parquet:4"]);
}

#[test]
fn files_that_are_not_compressed_as_named_are_refused_or_skipped() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("a.txt.gz", "one\n"), ("b.txt.zst", "two\n"), ("e.txt.zst", "")]);
    let page = b"<!DOCTYPE html>\n<html>404</html>\n";
    let folder = Store::folder(home.path()).expect("a folder");
    for name in ["c.txt.gz", "d.txt.zst"] {
        folder.put(name, page).expect("written");
    }
    let mut config = config(home.path(), format("text_lines"), None);
    let error = read(&config).expect_err("refused").to_string();
    for text in ["c.txt.gz: not a gzip file", "d.txt.zst: not a zstd file", "`<!DOCTYPE html>`", "2 of 5 files"] {
        assert!(error.contains(text), "{text}: {error}");
    }
    config.config.on_invalid_file = InvalidFilePolicy::Skip;
    assert_eq!(read(&config).expect("the others").0, ["one", "two"]);
}

#[test]
fn byte_order_marks_of_joined_files_and_of_texts_are_removed() {
    let mark = "\u{feff}";
    for name in ["a.jsonl", "a.jsonl.gz"] {
        let lines = format!(
            "{mark}{{\"text\": \"one\"}}\n{mark}{{\"text\": \"{mark}two\"}}\n{{\"text\": \"\\ufeffa{mark}b\"}}\n"
        );
        check("jsonl", (name, lines.as_bytes()), &["one", "two", "a\u{feff}b"], &[]);
    }
    check("text_lines", ("a.txt", format!("{mark}one\n{mark}two\n").as_bytes()), &["one", "two"], &[]);
    check("text_paragraphs", ("a.txt", format!("{mark}one\n\n{mark}two\n").as_bytes()), &["one", "two"], &[]);
    check("text", ("a.txt", format!("{mark}one\n").as_bytes()), &["one\n"], &[]);
    let rows = contract::parquet_file(&[Some("\u{feff}one"), Some("two")], 2);
    check("parquet", ("a.parquet", &rows), &["one", "two"], &[]);
}

/// Returns the error of a corpus of one file.
fn refusal(name: &str, bytes: &[u8], of: &str, change: impl FnOnce(&mut ReadOptions)) -> crate::Error {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = Store::folder(home.path()).expect("a folder");
    folder.put(name, bytes).expect("written");
    let mut config = config(home.path(), format(of), None);
    change(&mut config.config.reading);
    read(&config).expect_err("refused")
}

#[test]
fn errors_of_unusable_files_name_the_cause_and_the_way_out() {
    // Magic number, descriptor (one segment, an id of one byte), dictionary id, content size.
    let with_dictionary = [0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 11, 0, 0, 0];
    let trailing = {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(b"one\n").expect("in memory");
        [encoder.finish().expect("in memory"), b"<html>".to_vec()].concat()
    };
    let array = b"[\n  {\"text\": \"a\"},\n  {\"text\": \"b\"}\n]\n";
    let files: [(&str, &str, &[u8], [&str; 2]); 7] = [
        ("jsonl", "a.jsonl", array, ["a JSON array", "jq -c '.[]'"]),
        ("jsonl", "a.ndjson", b"[{\"text\": \"a\"}, {\"text\": \"b\"}]", ["a JSON array", "jq -c '.[]'"]),
        ("jsonl", "a.jsonl", "\u{feff}[{\"text\": \"a\"},\n{\"text\": \"b\"}]".as_bytes(), ["a JSON array", "jq -c"]),
        ("jsonl", "a.json", b"{\n  \"text\": \"a\"\n}\n", ["JSON over several lines", "jq -c ."]),
        ("text_lines", "a.txt.zst", &with_dictionary, ["a zstd dictionary", "zstd -d -D"]),
        ("text_lines", "a.txt.gz", &trailing, ["bytes that are not gzip follow", "gzip -dc"]),
        ("text_lines", "a[1].txt", b"ELF\0", ["a binary file", "on_invalid_file"]),
    ];
    for (of, name, bytes, words) in files {
        let error = refusal(name, bytes, of, |_| {}).to_string();
        assert!(words.iter().all(|word| error.contains(word)) && error.contains(name), "{error}");
    }
    // A line of another kind between objects is not an array over the whole file.
    check("jsonl", ("a.jsonl", b"[{\"text\": 1}]\n{\"text\": \"a\"}\n"), &["a"], &["broken_json@a.jsonl:1"]);
}

#[test]
fn fields_that_no_record_has_are_an_error_of_the_configuration_in_every_format() {
    let jsonl = b"{\"text\": \"a\", \"key\": 1.5}\n{\"text\": \"b\", \"key\": 2.5}\n";
    let parquet = contract::parquet_file(&[Some("a"), Some("b")], 2);
    let files: [(&str, &str, &[u8]); 2] = [("jsonl", "a.jsonl", jsonl), ("parquet", "a.parquet", &parquet)];
    for (of, name, bytes) in files {
        let missing = refusal(name, bytes, of, |reading| reading.text_field = "body".into());
        let wrong = refusal(name, bytes, of, |reading| reading.text_field = "key".into());
        let no_id = refusal(name, bytes, of, |reading| reading.id_field = Some("url".into()));
        for (error, word) in [(missing, "`body`"), (wrong, "`key` "), (no_id, "`url`")] {
            assert!(matches!(error, crate::Error::Config(_)), "{error:?}");
            let message = error.to_string();
            assert!(message.contains(word) && message.contains("they have `key`, `text`"), "{message}");
        }
    }
    let fraction = refusal("a.jsonl", jsonl, "jsonl", |reading| reading.id_field = Some("key".into())).to_string();
    assert!(
        fraction.contains("`key` is 1.5 in line 1, but an id is a string or a whole number below 2^64"),
        "{fraction}"
    );
}

#[test]
fn brackets_of_a_name_are_explained_where_a_glob_finds_nothing() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("part[1]/a.txt", "one")]);
    let mut config = config(home.path(), format("text"), None);
    let input = |name: &str| vec![home.path().join(name).display().to_string()];
    config.config.inputs = input("part[1]/*.txt");
    let error = read(&config).expect_err("the glob means part1").to_string();
    assert!(error.contains("write `[[]` for a bracket"), "{error}");
    for way_out in ["part[[]1]/*.txt", "part[1]", "part[1]/a.txt"] {
        config.config.inputs = input(way_out);
        assert_eq!(read(&config).expect(way_out).0, ["one"]);
    }
}
