//! Documents around and past the limit of their length.

use super::*;

#[test]
fn a_line_of_two_megabytes_is_a_document() {
    let long = "word ".repeat(400_000);
    check("text_lines", ("a.txt", long.as_bytes()), &[&long], &[]);
}

#[test]
fn a_document_past_the_memory_bound_is_named() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("a.txt", format!("ok\n{}", "x".repeat(100)))]);
    for name in ["text", "text_lines", "text_paragraphs"] {
        let mut config = config(home.path(), format(name), None);
        config.config.reading.max_document_bytes = 50;
        let error = read(&config).expect_err("too long");
        assert!(error.to_string().contains("a.txt:") && error.to_string().contains("max_memory_bytes"), "{error}");
    }
}

/// The reader holds no part of a skipped document: 200 bytes exceed the budget of the memory, too.
#[test]
fn a_document_past_the_memory_bound_is_skipped_if_the_configuration_says_so() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let long = "x".repeat(200);
    let longer = "y".repeat(1 << 20);
    let cases = [
        (
            "text_lines",
            format!("ok\n{long}\n{longer}\nlast"),
            vec!["ok", "last"],
            vec!["too_long@a.txt:2", "too_long@a.txt:3"],
        ),
        (
            "text_paragraphs",
            format!("ok\n\n{long}\nz\n\n{longer}"),
            vec!["ok"],
            vec!["too_long@a.txt:3", "too_long@a.txt:6"],
        ),
        ("text_paragraphs", format!("{}\nlast", "line\n".repeat(30) + "\n"), vec!["last"], vec!["too_long@a.txt:1"]),
        ("text", format!("ok\n{longer}"), vec![], vec!["too_long@a.txt:1"]),
    ];
    for (name, text, texts, complaints) in cases {
        write_all(home.path(), &[("a.txt", text)]);
        for most in [1, 50, 60] {
            let mut config = config(home.path(), format(name), None);
            config.config.reading.max_document_bytes = 50;
            config.config.reading.skip_above_bytes = Some(most);
            let found = read(&config).expect("skipped");
            assert_eq!(
                (found.0, found.1),
                (
                    texts.iter().map(ToString::to_string).collect(),
                    complaints.iter().map(ToString::to_string).collect::<Vec<_>>()
                ),
                "{name}"
            );
            config.config.reading.skip_above_bytes = Some(2 << 20);
            let error = read(&config).expect_err("neither skipped nor short enough").to_string();
            assert!(error.contains("a.txt:") && error.contains("`prepare.max_document_bytes` to 50"), "{error}");
        }
    }
}

/// Whether a document is skipped must not depend on the memory: without the other fields, the text may be short.
#[test]
fn other_fields_of_an_object_do_not_make_its_text_too_long() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let html = "<p>".repeat(100);
    for line in [format!("{{\"html\": \"{html}\", \"text\": \"short\"}}\n"), html.clone() + "\n"] {
        write_all(home.path(), &[("a.jsonl", line)]);
        let mut config = config(home.path(), format("jsonl"), None);
        config.config.reading.max_document_bytes = 50;
        config.config.reading.skip_above_bytes = Some(50);
        let error = read(&config).expect_err("it may fit with more memory").to_string();
        assert!(error.contains("a.jsonl:1: a document of more than 50 bytes"), "{error}");
    }
    let text = "y".repeat(1 << 20);
    write_all(home.path(), &[("a.jsonl", format!("{{\"text\": \"ok\"}}\n{{\"html\": 1, \"text\": \"{text}\"}}"))]);
    let mut config = config(home.path(), format("jsonl"), None);
    config.config.reading.max_document_bytes = 50;
    config.config.reading.skip_above_bytes = Some(50);
    let found = read(&config).expect("skipped");
    assert_eq!((found.0, found.1), (vec!["ok".to_owned()], vec!["too_long@a.jsonl:2".to_owned()]));
}

/// The limit is of the text, without the end of its line.
#[test]
fn a_document_of_exactly_the_limit_is_kept() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let text = "x".repeat(50);
    for (name, end) in
        [("text_lines", "\n"), ("text_lines", "\r\n"), ("text_lines", ""), ("text_paragraphs", "\n\n"), ("text", "")]
    {
        for (text, kept) in [(text.clone(), 1), (text.clone() + "y", 0)] {
            write_all(home.path(), &[("a.txt", text + end)]);
            let mut config = config(home.path(), format(name), None);
            config.config.reading.max_document_bytes = 50;
            config.config.reading.skip_above_bytes = Some(50);
            let found = read(&config).expect("kept or skipped");
            assert_eq!((found.0.len(), found.1.len()), (kept, 1 - kept), "{name} {end:?}");
        }
    }
}
