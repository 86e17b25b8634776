use std::os::unix::fs::PermissionsExt as _;

use store::Store;

use super::*;

/// Returns the error of a survey of files with these contents.
fn refused(files: &[(&str, &str)]) -> anyhow::Error {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("there");
    for (name, text) in files {
        store.put(name, text.as_bytes()).expect("written");
    }
    Survey::scan(&[home.path().display().to_string()], None).expect_err("the corpus is unusable")
}

#[test]
fn unusable_files_are_refused_by_name_with_the_code_of_the_corpus() {
    let record = "{\"text\": \"some words of a document\"}\n";
    let text = "a line\nanother line\n";
    for (files, words) in [
        (&[("a.parquet", "<html>no such page</html>\n")][..], ["a.parquet", "not a readable Parquet file"]),
        (&[("a.parquet", record)], ["a.parquet", "not a readable Parquet file"]),
        (&[("a.parquet", "")], ["a.parquet", "0 bytes"]),
        (&[("a.jsonl", ""), ("b.jsonl", "")], ["a.jsonl and 1 more files", "0 bytes"]),
        (&[("a.txt", "\n\n \n")], ["a.txt", "no text in its first records"]),
        (
            &[("a.txt", text), ("b.txt", "a\0b"), ("c.txt", text), ("d.txt", text), ("e.txt", text), ("f.txt", text)],
            ["b.txt", "a binary file"],
        ),
    ] {
        let error = refused(files);
        let message = format!("{error:#}");
        assert!(words.iter().all(|word| message.contains(word)), "{words:?}: {message}");
        assert!(!message.contains("--text-field"), "{message}");
        let code = format!("{:?}", crate::exit::code(&error));
        assert_eq!(code, format!("{:?}", std::process::ExitCode::from(42)), "{message}");
    }
    let message = refused(&[("a.jsonl", "{\"label\": 1}\n")]).to_string();
    assert!(message.contains("--text-field"), "{message}");
}

#[test]
fn a_named_text_field_leads_out_of_a_table_without_a_usual_one() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let inputs = [home.path().display().to_string()];
    let rows = "id;kommentar\n1;ein Satz\n2;noch einer\n";
    Store::folder(home.path()).expect("there").put("a.csv", rows.as_bytes()).expect("written");
    let message = Survey::scan(&inputs, None).expect_err("no usual name").to_string();
    assert!(message.contains("`kommentar`") && message.contains("`--text-field FIELD`"), "{message}");
    let survey = Survey::scan(&inputs, Some("kommentar")).expect("the way out");
    assert_eq!((survey.text_field.as_deref(), survey.document_bytes.len()), (Some("kommentar"), 2));
    let wrong = Survey::scan(&inputs, Some("body")).expect_err("no such column").to_string();
    assert!(wrong.contains("`body`"), "{wrong}");
    Store::folder(home.path().join("plain")).expect("there").put("a.txt", b"a line\n").expect("written");
    let plain = Survey::scan(&[home.path().join("plain").display().to_string()], Some("text")).expect_err("no fields");
    assert!(plain.to_string().contains("have no fields; leave it out"), "{plain}");
}

#[test]
fn files_of_another_format_are_refused_before_a_file_is_written() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("there");
    store.put("a.jsonl", "{\"text\": \"some words\"}\n".repeat(20).as_bytes()).expect("written");
    store.put("b.raw", "A line of a text.\n".repeat(200).as_bytes()).expect("written");
    let error = Survey::scan(&[home.path().join("*").display().to_string()], None).expect_err("two formats");
    assert!(error.to_string().contains("b.raw: none of its first 200 records is a JSON object"), "{error}");
}

#[test]
fn folders_that_cannot_be_listed_are_named() {
    let home = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir_all(home.path().join("a/b")).expect("created");
    assert_eq!(unreadable_folder(home.path()), None);
    // The superuser reads every folder, so the cause is tested where the kernel refuses it.
    let closed = home.path().join("a/b");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).expect("changed");
    if std::fs::read_dir(&closed).is_err() {
        let cause = unreadable_folder(home.path()).expect("a closed folder");
        assert!(cause.contains("a/b: Permission denied"), "{cause}");
    }
}

/// A document above the memory limit, in files of lines, of objects and of paragraphs.
#[test]
fn documents_that_do_not_fit_into_memory_are_named_and_skipped() {
    let limit = usize::try_from(PrepareConfig::default().document_room()).expect("a size");
    let long = "word ".repeat(limit / 5 + 1);
    let short = "some words of a document that is long enough to be a separate text";
    for (name, text, line) in [
        ("a.txt", format!("{short}\n{long}\n{short}\n"), 2),
        ("a.md", format!("{short}\n\n{long}\n\n{short}\n"), 3),
        ("a.jsonl", format!("{{\"text\": \"{long}\"}}\n{{\"text\": \"{short}\"}}\n"), 1),
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        Store::folder(home.path()).expect("there").put(name, text.as_bytes()).expect("written");
        let inputs = [home.path().display().to_string()];
        let survey = Survey::scan(&inputs, None).expect("the other documents are usable");
        let place = survey.long_document.expect("a long document");
        assert!(place.ends_with(&format!("{name}:{line}")), "{place}");
        assert_eq!(survey.max_document_bytes, limit as u64);
    }
    let message = refused(&[("a.jsonl", &format!("{{\"text\": \"{long}\"}}\n"))]).to_string();
    assert!(message.contains("a.jsonl:1") && message.contains(&limit.to_string()), "{message}");
    let other_field = format!("{{\"text\": \"{short}\", \"other\": \"{long}\"}}\n");
    let message = refused(&[("a.jsonl", &other_field)]).to_string();
    assert!(message.contains("a.jsonl:1") && message.contains("max_memory_bytes"), "{message}");
}

/// Arrays on one line, of objects with a usual field or of texts.
#[test]
fn json_arrays_on_one_line_are_surveyed() {
    let text = "some words of a document that is long enough to be a separate text";
    for (file, found) in [
        (format!("[{{\"content\": \"{text}\", \"n\": 1}}, {{\"content\": \"{text}\"}}]"), "content"),
        (format!("[\"{text}\", \"{text}\"]"), "text"),
        (format!("[\n{{\"body\": \"{text}\"}},\n{{\"body\": \"{text}\"}}\n]\n"), "body"),
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        Store::folder(home.path()).expect("there").put("a.json", file.as_bytes()).expect("written");
        let survey = Survey::scan(&[home.path().display().to_string()], None).expect("documents");
        assert_eq!((survey.format.as_str(), survey.text_field.as_deref()), ("jsonl", Some(found)), "{file}");
        assert_eq!(survey.document_bytes, [text.len() as u64; 2]);
    }
    let message = refused(&[("a.json", "[{\"label\": \"x\"}, {\"label\": \"y\"}]")]).to_string();
    assert!(message.contains("they have `label`") && message.contains("--text-field"), "{message}");
}

/// A table of a tebibyte, of which only the beginning is on disk: reading it to its end would take hours.
#[test]
fn only_the_beginning_of_a_table_is_read() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let rows = (0..1000).map(|row| format!("{row},\"some words\nof row {row}\"\n")).collect::<Vec<_>>().concat();
    let file = ["key,text\n", &rows].concat();
    Store::folder(home.path()).expect("there").put("a.csv", file.as_bytes()).expect("written");
    let long = std::fs::File::options().write(true).open(home.path().join("a.csv")).expect("there");
    long.set_len(1 << 40).expect("a file system with sparse files");
    let survey = Survey::scan(&[home.path().display().to_string()], None).expect("documents");
    assert_eq!((survey.text_field.as_deref(), survey.document_bytes.len()), (Some("text"), DOCUMENTS));
    assert_eq!(survey.bytes, 1 << 40);
}

#[test]
fn a_wikipedia_dump_is_no_plain_text() {
    let page = |id: u64| {
        let text = "An article is here.\n\nIt has two paragraphs.";
        format!("<page><title>A {id}</title><ns>0</ns><id>{id}</id><revision><text>{text}</text></revision></page>\n\n")
    };
    let dump = format!("<mediawiki>\n{}</mediawiki>\n", (1..9).map(page).collect::<Vec<_>>().concat());
    for input in ["", "wiki.xml"] {
        let home = tempfile::tempdir().expect("a temporary folder");
        Store::folder(home.path()).expect("there").put("wiki.xml", dump.as_bytes()).expect("written");
        let survey = Survey::scan(&[home.path().join(input).display().to_string()], None).expect("documents");
        assert_eq!((survey.format.as_str(), survey.document_bytes.len()), ("wikipedia_xml", 8), "{input}");
    }
}
