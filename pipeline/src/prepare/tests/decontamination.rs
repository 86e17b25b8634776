//! Removal of documents that share runs of words with test sets.

use super::*;

/// Twenty words that no other text has.
fn words(first: usize) -> Vec<String> {
    (first..first + 20).map(|word| format!("{}", 5000 + word)).collect()
}

/// A corpus whose first file has runs of two test sets.
fn home(test_sets: &str) -> Home {
    let mut home = Home::new();
    write_all(
        home.folder.path(),
        &[
            ("tests/own.jsonl", format!("{{\"question\": \"{}\", \"n\": 1}}\n", words(0).join(", ")).as_str()),
            ("tests/own2.jsonl", &format!("{{\"question\": \"{}\", \"n\": 1}}\n", words(40).join(" "))),
            ("tests/SST-2/dev.tsv", &format!("sentence\tlabel\n{}\t1\nthe cat sat\t0\n", words(20).join(" "))),
            (
                "in/0.txt",
                &[
                    format!("the cat {} sat", words(0)[3..18].join(" - ")),
                    format!("the mat {} sat", words(0)[..12].join(" ")),
                    format!("{} {}", words(20)[..13].join(" "), words(0)[..13].join(" ")),
                    "the cat sat on the mat".to_owned(),
                ]
                .join("\n"),
            ),
        ],
    );
    let text = test_sets.replace("TESTS", &home.folder.path().join("tests").display().to_string());
    home.config.decontamination = Some(toml::from_str(&text).expect("TOML"));
    home
}

const BOTH: &str = "test_sets = [{ name = 'own', files = ['TESTS/own.jsonl'], format = 'jsonl', text_fields = ['question'] }, \
                    { task = 'sst2', data = 'TESTS/SST-2' }]";

#[test]
fn documents_with_a_run_of_a_test_set_are_removed_and_counted() {
    let home = home(BOTH);
    let corpus = home.run().expect("prepared").corpus;
    assert_eq!(corpus.documents, 4 + 80 + 80 - 2);
    let found = &corpus.contaminated;
    assert_eq!(found.documents, 2);
    let counts: BTreeMap<&str, (u64, u64)> =
        found.test_sets.iter().map(|(name, counts)| (name.as_str(), (counts.documents, counts.runs))).collect();
    // 15 of the words have 3 runs of 13, and the first 13 have one.
    assert_eq!(counts, BTreeMap::from([("own", (2, 4)), ("sst2", (1, 1))]));
    let text = fs::read_to_string(home.folder.path().join("in/0.txt")).expect("there");
    let bytes = |line: usize| text.lines().nth(line).expect("a line").len() as u64;
    assert_eq!(found.text_bytes, bytes(0) + bytes(2));
    assert_eq!(found.test_sets["sst2"].text_bytes, bytes(2));
    let record = home.data().into_iter().find(|(name, bytes)| {
        name.starts_with("parts/") && String::from_utf8_lossy(bytes).contains("\"contaminated\":[{")
    });
    let record = String::from_utf8(record.expect("an example is recorded").1).expect("JSON");
    let run = words(0)[3..16].join(" ");
    assert!(record.contains(&format!("{{\"test_set\":\"own\",\"run\":\"{run}\",\"piece\":")), "{record}");
    assert!(home.run().expect("nothing").nothing_to_do);
}

#[test]
fn test_sets_without_a_shared_run_are_counted_and_short_texts_are_named() {
    let home = home(BOTH);
    write_all(home.folder.path(), &[("in/0.txt", "the cat sat on the mat")]);
    let mut log = super::events::Log::default();
    let corpus = run(&home.config, PrepareOptions::default(), &Clock::still(), &mut log).expect("prepared").corpus;
    assert_eq!(corpus.contaminated.documents, 0);
    assert_eq!(corpus.contaminated.test_sets.keys().collect::<Vec<_>>(), ["own", "sst2"]);
    let manifest = String::from_utf8(home.data()["manifest.json"].clone()).expect("JSON");
    assert!(manifest.contains("\"sst2\""), "{manifest}");
    let said = log.said();
    let end = said.iter().find(|what| matches!(what, EventKind::PrepareEnd(_))).expect("it ended");
    let end = Clock::still().event(telemetry::Position::default(), end.clone());
    let end = telemetry::event_text::summary(&end).expect("a summary");
    assert!(end.contains("share text with test sets: 0") && end.contains("own 0, sst2 0"), "{end}");
    let warning = said.into_iter().find_map(|what| match what {
        EventKind::Warning(warning) if warning.topic == "short_test_texts" => Some(warning.message),
        _ => None,
    });
    let warning = warning.expect("a text of three words");
    assert!(warning.contains("fewer than 13 words") && warning.contains("1 of 2 of `sst2`"), "{warning}");
}

#[test]
fn the_runs_are_a_setting_of_the_folder() {
    let mut home = home(BOTH);
    home.run().expect("prepared");
    // The same texts in another file and another order of fields are the same runs.
    fs::rename(home.folder.path().join("tests/own.jsonl"), home.folder.path().join("tests/other.jsonl"))
        .expect("renamed");
    let test_sets = &mut home.config.decontamination.as_mut().expect("set").test_sets;
    test_sets[0].files = vec![home.folder.path().join("tests/other.jsonl").display().to_string()];
    assert!(home.run().expect("nothing").nothing_to_do);
    let other = home.folder.path().join("tests/own2.jsonl").display().to_string();
    home.config.decontamination.as_mut().expect("set").test_sets[0].files = vec![other];
    let error = home.run().expect_err("other runs").to_string();
    assert!(error.contains("`decontamination` = "), "{error}");
}

#[test]
fn test_sets_that_cannot_be_read_are_refused() {
    for (test_sets, expected) in [
        ("test_sets = [{ task = 'sst2', data = 'TESTS/none' }]", "has no file of the task `sst2`"),
        ("test_sets = [{ task = 'cola', data = 'TESTS/SST-2' }]", "dev.tsv"),
        ("test_sets = [{ files = ['TESTS/none.txt'] }]", "none.txt"),
        ("test_sets = [{ files = ['TESTS/own.jsonl'], format = 'jsonl', text_fields = ['answer'] }]", "answer"),
    ] {
        let home = home(test_sets);
        let error = home.run().expect_err("unreadable").to_string();
        assert!(error.contains(expected), "{error}");
        assert!(home.data().is_empty(), "nothing is written");
    }
}

#[test]
fn errors_about_a_test_set_name_its_keys() {
    let first = "test_sets = [{ name = 'first', files = ['TESTS/own.jsonl'], text_fields = ['question'] }, ";
    let key = "prepare.decontamination.test_sets[1]";
    for (second, expected) in [
        ("{ files = ['TESTS/own2.jsonl'], text_fields = ['answer'] }]", format!("set `{key}.text_fields`")),
        ("{ files = ['TESTS/own.csv'], text_fields = ['answer'] }]", format!("set `{key}.text_fields`")),
        ("{ files = ['TESTS'], format = 'parquet' }]", format!("set `{key}.format` to the format")),
        ("{ files = ['TESTS/own2.jsonl'], text_fields = ['n'] }]", format!("set `{key}.text_fields`")),
        ("{ task = 'sst2', data = 'TESTS/none' }]", format!("`{key}`: ")),
        ("{ task = 'cola', data = 'TESTS/SST-2' }]", format!("`{key}`: ")),
    ] {
        let home = home(&format!("{first}{second}"));
        write_all(home.folder.path(), &[("tests/own.csv", "question,n\na,1\n")]);
        let error = home.run().expect_err("unreadable").to_string();
        assert!(error.contains(&expected), "{second}: {error}");
        assert!(!error.contains("`prepare.text_field") && !error.contains("`prepare.format"), "{second}: {error}");
    }
}

#[test]
fn the_format_of_a_test_set_is_detected() {
    let detected = BOTH.replace(" format = 'jsonl',", "");
    assert_ne!(detected, BOTH);
    let counts = |test_sets: &str| home(test_sets).run().expect("prepared").corpus.contaminated;
    assert_eq!(counts(&detected), counts(BOTH));
}

#[test]
fn a_corpus_of_test_text_alone_names_the_decontamination() {
    let mut home = home(BOTH);
    let text = (0..3).map(|_| words(0).join(" ")).collect::<Vec<_>>().join("\n");
    write_all(home.folder.path(), &[("leaked/all.txt", text)]);
    home.config.inputs = vec![home.folder.path().join("leaked").display().to_string()];
    let error = home.run().expect_err("nothing is left").to_string();
    assert!(error.contains("decontamination removed 3") && error.contains("[prepare.decontamination]"), "{error}");
}
