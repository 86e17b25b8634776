//! Files of another format next to those of a corpus, and what other programs write next to and into tables.

use super::*;

const LINE: &str = "{\"text\": \"a\"}\n";

/// Returns the texts of a corpus with these files.
fn read_files(of: &str, files: &[(&str, &str)], change: impl FnOnce(&mut CorpusConfig)) -> Result<Vec<String>> {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), files);
    let mut cut = config(home.path(), format(of), None);
    cut.config.inputs = vec![format!("{}/*", home.path().display())];
    change(&mut cut.config);
    Ok(read(&cut)?.0)
}

/// `prepare.max_bad_lines` would accept such a file, and all of its text would be lost.
#[test]
fn a_file_whose_every_record_is_rejected_is_of_another_format() {
    let prose = "Some words of a text.\n".repeat(3);
    let long = "a word ".repeat(20_000) + "\n" + &prose;
    let commas = "text\nSome words, and more.\n".to_owned() + &"One, two, three\n".repeat(4);
    let fields = "{\"body\": \"a\"}\n".repeat(40);
    let numbers = "{\"text\": 1}\n".repeat(2);
    let lines = LINE.repeat(3);
    for (of, good, bad, words) in [
        ("jsonl", ("a.jsonl.zst", lines.as_str()), ("b.raw.zst", prose.as_str()), "3 records is a JSON object"),
        ("jsonl", ("a.jsonl", &lines), ("b.txt", &long), "4 records is a JSON object"),
        ("jsonl", ("a.jsonl", &lines), ("b.jsonl.gz", &fields), "40 records has a text in the field `text`"),
        ("jsonl", ("a.jsonl", &lines), ("b.json", "[{\"body\": \"a\"},\n{\"body\": \"b\"}]"), "2 records has a text"),
        ("jsonl", ("a.jsonl", &lines), ("b.jsonl", &numbers), "2 records has a text"),
        ("csv", ("a.csv", "text\na\n"), ("b.csv", &commas), "5 records has as many fields as the first row"),
        ("tsv", ("a.tsv", "text\na\n"), ("b.tsv", "text\na\tb\n"), "1 records has as many fields as the first row"),
    ] {
        let error = read_files(of, &[good, bad], |_| {}).expect_err("of another format").to_string();
        assert!(error.contains(words) && error.contains(bad.0) && error.contains("[sources]"), "{error}");
        let skip = |config: &mut CorpusConfig| config.on_invalid_file = InvalidFilePolicy::Skip;
        let kept = read_files(of, &[good], |_| {}).expect("a good file");
        assert_eq!(read_files(of, &[good, bad], skip).expect("the way out"), kept);
        // One record that is read makes it a file of the format.
        let mended = if of == "jsonl" && bad.0 != "b.json" { [bad.1, LINE].concat() } else { continue };
        assert_eq!(read_files(of, &[good, (bad.0, &mended)], |_| {}).expect("one is good").len(), kept.len() + 1);
    }
}

#[test]
fn files_that_other_programs_write_for_themselves_are_not_read() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let own = ["a.jsonl", "_lang=en/b.jsonl", "metadata/c.jsonl"];
    let others = [
        "_temporary/0/a.jsonl",
        "_delta_log/0.json",
        "_SUCCESS",
        "_committed_1.json",
        ".a.jsonl.crc",
        ".hive-staging_1/a.jsonl",
        "t/metadata/v1.metadata.json",
        "t/metadata/a.json",
    ];
    write_all(home.path(), &own.iter().chain(&others).map(|name| (*name, LINE)).collect::<Vec<_>>());
    let at = |input: &str| home.path().join(input).display().to_string();
    let names = |input: String| {
        let cut = config(home.path(), format("jsonl"), None);
        let corpus = Corpus::open(&CorpusConfig { inputs: vec![input], ..cut.config }).expect("found");
        (corpus.files().iter().map(|file| file.name.clone()).collect::<Vec<_>>(), corpus.skipped_files().description())
    };
    let expected = ["_lang=en/b.jsonl", "a.jsonl", "metadata/c.jsonl"];
    for folder in [at(""), format!("file://{}", at(""))] {
        let (found, skipped) = names(folder);
        assert_eq!(found, expected);
        let skipped = skipped.expect("they are counted");
        assert!(skipped.contains("names that begin with `_`") && skipped.contains("metadata of Iceberg"), "{skipped}");
    }
    for glob in [at("**/*.jsonl"), format!("file://{}", at("**/*.jsonl"))] {
        assert_eq!(names(glob).0, expected);
    }
    // A name that is given is read.
    for input in ["_temporary/0/a.jsonl", "_temporary/0", "_temporary", "_temporary/*/*.jsonl"] {
        assert_eq!(names(at(input)).0.len(), 1, "{input}");
        assert_eq!(names(format!("file://{}", at(input))).0.len(), 1, "{input}");
    }
}

#[test]
fn tables_are_read_with_the_delimiter_of_their_first_row() {
    for text in [
        "id,text\n1,\"a; b\"\n2,c\n",
        "id;text\r\n1;\"a; b\"\r\n2;c\r\n",
        "\u{feff}id;text\r\n1;a, b\r\n2;c\r\n",
        "\u{feff}sep=;\r\nid;text\r\n1;a, b\r\n2;c\r\n",
        "sep=,\nid,text\n1,a\n2,c\n",
        "id\ttext\n1\ta, b\n2\tc\n",
        "id|text\n1|\"a\nb\"\n2|c\n",
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("a.csv", text)]);
        let whole = read(&config(home.path(), format("csv"), None)).expect("readable");
        assert_eq!((whole.0.len(), whole.0[1].as_str(), whole.1.len()), (2, "c", 0), "{text}");
        for part_bytes in [1, 7, 16, 20] {
            assert_eq!(read(&config(home.path(), format("csv"), Some(part_bytes))).expect("readable"), whole, "{text}");
        }
    }
}

#[test]
fn tables_of_other_rules_are_refused_with_the_way_out() {
    let escaped = "id,text\n1,\"plain\"\n2,\"He said \\\"yes\\\", twice\"\n";
    let spark = refusal("a.csv", escaped.as_bytes(), "csv", |_| {}).to_string();
    assert!(spark.contains("as Spark does") && spark.contains(".option(\"escape\", \"\\\"\")"), "{spark}");
    let commas = refusal("a.tsv", b"id,text\n1,a\n", "tsv", |_| {}).to_string();
    assert!(commas.contains("between commas") && commas.contains("`prepare.format = \"csv\"`"), "{commas}");
    let body = refusal("a.csv", b"id;body\n1;a\n", "csv", |_| {}).to_string();
    assert!(body.contains("`body`, `id`") || body.contains("`id`, `body`"), "{body}");
    // A quote that is wrong far behind the beginning is counted: its text would be another.
    let far = "text\n".to_owned() + &"a\n".repeat(9000) + "\"b\" c\n";
    check("csv", ("a.csv", far.as_bytes()), &vec!["a"; 9000], &["broken_record@a.csv:9002"]);
}
