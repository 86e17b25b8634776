//! Bad lines: counted with their place, read once, and reported as early as possible.

use super::events::Log;
use super::*;

/// Corpus of one JSONL file: a number per line, and some invalid lines.
fn lines(name: &str, lines: impl Iterator<Item = (u64, Option<&'static str>)>) -> Home {
    let mut home = Home::new();
    fs::remove_dir_all(home.folder.path().join("in")).expect("there");
    let line = |(number, wrong): (u64, Option<&str>)| match wrong {
        None => format!("{{\"text\": \"the cat sat on {number} mats, and so on\"}}\n"),
        Some(wrong) => format!("{wrong}\n"),
    };
    write_all(home.folder.path(), &[(format!("in/{name}").as_str(), lines.map(line).collect::<String>())]);
    home.config.format = format("jsonl");
    home.config.workers = Some(1);
    home
}

#[test]
fn bad_records_have_locations_in_any_compression_and_are_read_once() {
    for name in ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"] {
        let dirt = |number| (number % 500 == 77).then_some("{\"text\": \"\"}");
        let mut home = lines(name, (0..3000).map(|number| (number, dirt(number))));
        (home.config.part_bytes, home.config.segment_bytes) = (Some(8000), 10_000);
        let bytes = fs::metadata(home.folder.path().join("in").join(name)).expect("there").len();
        let summary = home.run().expect("6 of 3000 lines are few");
        assert_eq!(summary.bytes_read, bytes, "{name}");
        assert_eq!(summary.corpus.rejected, BTreeMap::from([("empty_document".to_owned(), 6)]));
        // The error comes from the records; no file is opened.
        let strict = PrepareConfig { max_bad_lines: Some(0), ..home.config.clone() };
        let mut log = Log::default();
        let told = run(&strict, PrepareOptions::default(), &Clock::still(), &mut log).expect_err("one is too many");
        let told = told.to_string();
        assert!(told.contains("empty_document") && told.contains(name) && told.contains("78"), "{told}");
        // The fix that the error names.
        assert!(prepare(&PrepareConfig { max_bad_lines: Some(6), ..strict }).expect("allowed").nothing_to_do);
    }
}

/// One part whose segments are slow to write: bytes count as progress before the part is done.
#[test]
fn progress_moves_by_bytes_within_a_part() {
    let mut home = lines("a.jsonl", (0..20_000).map(|number| (number, None)));
    (home.config.part_bytes, home.config.segment_bytes) = (Some(1 << 30), 10_000);
    let options = PrepareOptions { null_writer: true, write_delay: PULSE / 25, ..PrepareOptions::default() };
    let mut log = Log::default();
    run(&home.config, options, &Clock::still(), &mut log).expect("prepared");
    let within = |what: &EventKind| match what {
        EventKind::PrepareProgress(now) => now.parts == 0 && now.bytes > 0 && now.bytes < now.bytes_total,
        _ => false,
    };
    assert!(log.said().iter().any(within), "{:?}", log.said());
}

/// The first lines are valid, so the first check cannot reject the corpus.
#[test]
fn corpus_above_the_reject_limit_is_not_read_to_its_end() {
    let dirt = |number| (number >= 200).then_some("{\"body\": \"the cat sat on mats, and so on, and so on\"}");
    let mut home = lines("a.jsonl", (0..200_000).map(|number| (number, dirt(number))));
    home.config.part_bytes = Some(20_000);
    let mut log = Log::default();
    let error = run(&home.config, PrepareOptions::default(), &Clock::still(), &mut log).expect_err("dirt");
    assert!(matches!(&error, Error::UnusableCorpus(message) if message.contains("missing_field")), "{error}");
    let read = log.said().iter().rev().find_map(|what| match what {
        EventKind::PrepareProgress(now) => Some((now.bytes, now.bytes_total)),
        _ => None,
    });
    let (read, total) = read.expect("it said how far it was");
    assert!(read * 4 < total, "{read} of {total} bytes");
}

#[test]
fn a_document_without_tokens_has_a_place() {
    let home = Home::new();
    // The document contains only characters that the tokenizer removes.
    write_all(home.folder.path(), &[("in/x.txt", "the cat\n\u{200d}\n")]);
    let error = prepare(&PrepareConfig { max_bad_lines: Some(0), ..home.config.clone() }).expect_err("one").to_string();
    assert!(error.contains("in/x.txt:2 (empty_document)"), "{error}");
    assert_eq!(home.run().expect("one of 242 is few").corpus.rejected["empty_document"], 1);
}

#[test]
fn too_many_long_documents_are_refused_with_their_limit() {
    let home = Home::new();
    for (limit, max_bad_lines, words) in
        [(1, Some(1000), "check `prepare.max_document_bytes`"), (30, Some(0), "raise `prepare.max_document_bytes`")]
    {
        let config = PrepareConfig { max_document_bytes: Some(limit), max_bad_lines, ..home.config.clone() };
        let error = prepare(&config).expect_err("some are longer").to_string();
        assert!(error.contains("too_long") && error.contains(words), "{error}");
    }
}

#[test]
fn wrong_field_is_refused_early_with_the_existing_fields() {
    let body = "{\"body\": \"the cat sat on the mat\", \"key\": 7}";
    for (name, count) in [("a.jsonl", 12), ("b.jsonl.zst", 3)] {
        let home = lines(name, (0..count).map(|number| (number, Some(body))));
        let error = home.run().expect_err("no such field");
        let Error::Config(message) = &error else { panic!("{error}") };
        for word in [name, "a field `text`", "`body`, `key`", "set `prepare.text_field`"] {
            assert!(message.contains(word), "`{word}` is missing in {message}");
        }
        assert!(!home.config.folder.exists(), "nothing was written");
        let both = PrepareConfig { text_field: "body".into(), id_field: Some("name".into()), ..home.config.clone() };
        assert!(prepare(&both).expect_err("no such name").to_string().contains("`body` and `name`"));
        // The fix that the error names.
        let found = prepare(&PrepareConfig { text_field: "body".into(), ..home.config.clone() });
        assert_eq!(found.expect("prepared").corpus.documents, count);
    }
}
