//! Invalid files, and their text once the encoding is known.

use super::dataset_versions::{many, text};
use super::events::Log;
use super::shared::{index, plan_in, share_in};
use super::*;

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn warnings(config: &PrepareConfig) -> (PrepareSummary, BTreeMap<String, String>) {
    let mut log = Log::default();
    let summary = run(config, PrepareOptions::default(), &Clock::still(), &mut log).expect("prepared");
    let warning = |what| match what {
        EventKind::Warning(warning) => Some((warning.topic, warning.message)),
        _ => None,
    };
    (summary, log.said().into_iter().filter_map(warning).collect())
}

#[test]
fn files_that_cannot_be_used_are_all_named_at_once_or_all_left_out() {
    let home = many();
    write_all(
        home.folder.path(),
        &[("in/a.txt", utf16("a text of another encoding")), ("in/b.txt", b"\0\x01".to_vec())],
    );
    let error = home.run().expect_err("two files are unfit").to_string();
    for word in
        ["in/a.txt: UTF-16LE", "in/b.txt: a binary file", "2 of 42 files", "`prepare.on_invalid_file = \"skip\"`"]
    {
        assert!(error.contains(word), "`{word}` is missing in {error}");
    }
    assert!(!home.config.folder.exists(), "nothing was written");
    let skip = PrepareConfig { on_invalid_file: crate::corpus::InvalidFilePolicy::Skip, ..home.config.clone() };
    let (summary, told) = warnings(&skip);
    assert_eq!(summary.corpus.documents, 240);
    let told = &told["on_invalid_file"];
    assert!(told.contains("2 files cannot be used") && told.contains("in/a.txt: UTF-16LE"), "{told}");
    let (again, told) = warnings(&skip);
    assert!(again.nothing_to_do && told.contains_key("on_invalid_file"), "{again:?}");
    // A file that becomes invalid is dropped as if removed; a file that becomes valid is added.
    write_all(home.folder.path(), &[("in/13.txt", "\0\x01"), ("in/b.txt", &text(90, 4))]);
    assert_eq!(warnings(&skip).0.corpus.documents, 240 - 6 + 4);
    assert!(warnings(&skip).0.nothing_to_do);
    for file in 0..40 {
        home.put(file, "\0");
    }
    write_all(home.folder.path(), &[("in/b.txt", "\0")]);
    prepare(&skip).expect_err("none is left");
}

#[test]
fn skipped_files_are_reported() {
    let home = many();
    write_all(home.folder.path(), &[("in/a.html", "x"), ("in/b.br", "x"), ("in/c.br", "x")]);
    let (_, told) = warnings(&home.config);
    assert!(told["skipped_files"].starts_with("3 skipped in `prepare.inputs`: 2 `*.br` ("), "{told:?}");
}

/// Encoder for a text.
type Encode = fn(&str) -> Vec<u8>;

/// The same text in any encoding gives the same documents.
#[test]
fn text_of_another_encoding_is_that_text() {
    let texts = ["the café sat\non the mat\n", "中文 and the cat\n\nit's a hat\n"];
    let encodings: [(&str, Encode); 3] = [
        ("utf-16le", utf16),
        ("gbk", |text| encoding_rs::GBK.encode(text).0.into_owned()),
        // A byte-order mark overrides the configured encoding.
        ("windows-1252", |text| [&b"\xef\xbb\xbf"[..], text.as_bytes()].concat()),
    ];
    for kind in ["text", "text_lines", "text_paragraphs", "jsonl"] {
        let home = Home::new();
        let content = |text: &str| match kind {
            "jsonl" => {
                text.lines().fold(String::new(), |all, line| format!("{all}{}\n", serde_json::json!({ "text": line })))
            }
            _ => text.to_owned(),
        };
        let prepared = |folder: &str, encoding: Option<&str>, encode: Encode| {
            let name = |number| format!("{folder}-in/{number}.{}", if kind == "jsonl" { "jsonl" } else { "txt" });
            for (number, text) in texts.iter().enumerate() {
                write_all(home.folder.path(), &[(name(number).as_str(), encode(&content(text)))]);
                let packed = format!("{}.gz", name(number + 2));
                write_all(home.folder.path(), &[(packed.as_str(), encode(&content(&text.replace("the", "a"))))]);
            }
            let config = PrepareConfig {
                inputs: vec![home.folder.path().join(format!("{folder}-in")).display().to_string()],
                encoding: encoding.map(str::to_owned),
                format: format(kind),
                part_bytes: Some(10),
                ..home.config(folder, 2)
            };
            prepare(&config).expect("prepared")
        };
        let expected = prepared("plain", None, |text| text.as_bytes().to_vec());
        assert!(
            expected.corpus.documents >= 4
                && expected.corpus.rejected.contains_key("empty_document") == (kind == "jsonl")
        );
        for (label, encode) in encodings {
            let found = prepared(label, Some(label), encode);
            assert_eq!((&found.corpus, found.rows), (&expected.corpus, expected.rows), "{kind} in {label}");
        }
    }
}

#[test]
fn text_of_another_encoding_is_counted_with_its_location() {
    let home = Home::new();
    let gbk = [&encoding_rs::GBK.encode("the cat\n中").0[..], b"\xff mat\n"].concat();
    write_all(home.folder.path(), &[("gbk/a.txt", gbk)]);
    let inputs = vec![home.folder.path().join("gbk").display().to_string()];
    let config = PrepareConfig { inputs, encoding: Some("gbk".into()), max_bad_lines: Some(0), ..home.config.clone() };
    let error = prepare(&config).expect_err("a byte that is no character").to_string();
    assert!(error.contains("gbk/a.txt:2 (invalid_utf8)"), "{error}");
}

#[test]
fn a_compressed_file_without_the_extension_is_named_as_such() {
    let cases: [(&str, &[u8], &str); 3] = [
        ("in/a.jsonl", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "in/a.jsonl: compressed with gzip"),
        ("in/a.parquet", b"\x28\xb5\x2f\xfd\0\0", "in/a.parquet: compressed with zstd"),
        ("in/a.txt", b"\x1f\x8b\x08", "add `.gz` to its name"),
    ];
    for (name, bytes, words) in cases {
        let mut home = Home::new();
        fs::remove_dir_all(home.folder.path().join("in")).expect("there");
        write_all(home.folder.path(), &[(name, bytes)]);
        home.config.format = crate::corpus::AnyFormat::of_kind(match name {
            "in/a.jsonl" => "jsonl",
            "in/a.parquet" => "parquet",
            _ => "text",
        })
        .expect("a format");
        let error = home.run().expect_err("its name is wrong").to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Forty files, of which the first ones are valid gzip files and those of these numbers are truncated.
fn with_truncated(numbers: &[usize]) -> Home {
    let mut home = many();
    home.config.part_bytes = Some(400);
    for number in 0..40 {
        fs::remove_file(home.folder.path().join(format!("in/{number:02}.txt"))).expect("there");
        let name = format!("in/{number:02}.txt.gz");
        write_all(home.folder.path(), &[(name.as_str(), text(number, 6))]);
        if numbers.contains(&number) {
            truncate(&home, number);
        }
    }
    home
}

fn truncate(home: &Home, number: usize) {
    let folder = Store::existing(home.folder.path().join("in")).expect("there");
    let name = format!("{number:02}.txt.gz");
    let bytes = folder.get(&name).expect("there");
    folder.put(&name, &bytes[..bytes.len() - 9]).expect("written");
}

/// Asserts that the error names these files and no other.
fn check_named(error: &Error, numbers: &[usize]) {
    assert!(matches!(error, Error::UnusableFile { .. }), "code 42: {error}");
    let error = error.to_string();
    for number in 0..40 {
        assert_eq!(error.contains(&format!("/{number:02}.txt.gz: truncated")), numbers.contains(&number), "{error}");
    }
}

/// Three of the files are in one part, if the parts have four files each.
const TRUNCATED: [usize; 5] = [4, 5, 6, 21, 33];

#[test]
fn one_run_names_all_truncated_files_and_makes_all_other_parts() {
    for duplicates in [None, Some(DuplicatesConfig::default())] {
        let mut home = with_truncated(&TRUNCATED);
        home.config.duplicates = duplicates;
        check_named(&home.run().expect_err("five truncated files"), &TRUNCATED);
        let lists = VersionLists::read(&home.store()).expect("readable");
        let is_broken = |name: &str| TRUNCATED.iter().any(|number| name == format!("{number:02}.txt.gz"));
        let parts = lists.in_effect();
        let whole = parts.values().filter(|(_, part)| !part.pieces.iter().any(|piece| is_broken(&piece.name)));
        let whole = whole.count();
        assert!((1..parts.len()).contains(&whole), "{whole} of {} parts", parts.len());
        // The signatures of all documents are needed before the first part.
        let made = if home.config.duplicates.is_some() { "signatures" } else { "parts" };
        let records = home
            .data()
            .keys()
            .filter(|name| name.starts_with(made) && testkit::tree::has_extension(name, "json"))
            .count();
        assert_eq!(records, whole, "{made}");
        for number in TRUNCATED {
            let name = format!("in/{number:02}.txt.gz");
            write_all(home.folder.path(), &[(name.as_str(), text(number, 6))]);
        }
        let summary = home.run().expect("mended");
        let duplicates = summary.corpus.duplicates;
        assert_eq!(summary.corpus.documents + duplicates.exact_documents + duplicates.near_documents, 240);
        if home.config.duplicates.is_none() {
            assert_eq!(summary.parts_skipped, whole as u64, "finished parts are kept");
        }
    }
}

#[test]
fn every_share_makes_its_other_parts_and_names_its_truncated_files() {
    let home = with_truncated(&TRUNCATED);
    let run = |store: &Store, share| share_in(&home, store, share);
    let records = |store: &Store| store.list("parts").expect("listed").len();
    let leased = Store::in_memory(store::FaultConfig::none());
    plan_in(&home, &leased);
    let expiry = Duration::from_secs(60);
    let both = std::thread::scope(|scope| {
        let share = || run(&leased, Share::Leases { expiry });
        let processes = [(); 2].map(|()| scope.spawn(share));
        processes.map(|process| process.join().expect("no panic"))
    });
    for result in &both {
        check_named(result.as_ref().expect_err("truncated files"), &TRUNCATED);
    }
    let indexed = Store::in_memory(store::FaultConfig::none());
    plan_in(&home, &indexed);
    let errors = (0..3).filter_map(|share| run(&indexed, index(share, 3)).err());
    let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
    let named = |number: &usize| errors.iter().any(|error| error.contains(&format!("/{number:02}.txt.gz: truncated")));
    assert!(TRUNCATED.iter().all(named), "{errors:?}");
    assert_eq!(records(&indexed), records(&leased));
    assert!(records(&indexed) > 0);
}

/// A reader that follows the parts in order would wait for the part.
#[test]
fn a_streamed_preparation_ends_at_its_first_unusable_file() {
    let home = with_truncated(&TRUNCATED);
    let options = PrepareOptions { in_order: true, ..PrepareOptions::default() };
    let error = run(&home.config, options, &Clock::still(), &mut Fanout::default()).expect_err("truncated").to_string();
    assert_eq!(error.matches("truncated").count(), 1, "{error}");
}
