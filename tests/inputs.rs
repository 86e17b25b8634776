//! Invalid inputs: each is named, and the fix in the error works.

use std::io::Write as _;
use std::process::Command;

use testkit::Home;

use crate::faults::{home, prepare, put};

/// Opening a pipe would block, and a device never ends.
#[test]
fn special_files_are_refused_as_inputs_and_skipped_in_folders() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = home();
    put(&home, "in/a.txt", "Anna read the newspaper.\n".repeat(30).as_bytes());
    assert!(Command::new("mkfifo").arg(home.join("in/pipe.txt")).status().expect("it runs").success());
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, home.join(at)).expect("linked");
    link("/dev/zero", "in/zero.txt");
    link("nowhere", "in/gone.txt");
    link("a.txt", "in/again.txt");
    std::fs::create_dir(home.join("in/folder.txt")).expect("made");
    for (name, word) in
        [("pipe", "a pipe"), ("zero", "a device"), ("gone", "a broken symbolic link"), ("folder", "no input here")]
    {
        prepare(&home, &format!("in/{name}.txt"), "text_lines", &[]).assert_fails(2, &[name, word]);
    }
    let outcome = prepare(&home, "in", "text_lines", &[]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stdout.contains(" 30 documents"), "{outcome}");
    for word in ["warning: 4 skipped", "1 a pipe", "1 a device", "1 broken symbolic links", "1 symbolic links to files"]
    {
        assert!(outcome.stderr.contains(word), "`{word}` is missing in {outcome}");
    }
    let odd = home.join("in").join(std::ffi::OsStr::from_bytes(b"caf\xe9.txt"));
    let file = std::fs::File::options().write(true).create_new(true).open(&odd);
    file.and_then(|mut file| file.write_all(b"Anna ate bread.\n")).expect("a test can write");
    prepare(&home, "in", "text_lines", &[]).assert_fails(2, &["not UTF-8; rename it"]);
    std::fs::rename(&odd, home.join("in/cafe.txt")).expect("the way out");
    assert_eq!(prepare(&home, "in", "text_lines", &[]).code, Some(0));
}

#[test]
fn a_damaged_parquet_file_is_replaced_as_the_error_says() {
    let home = Home::prepared(40);
    let whole = std::fs::read(home.join("data/vocab/00000.parquet")).expect("there");
    let sets = ["prepare.folder=other", "prepare.text_field=token"];
    let mut torn = whole.clone();
    torn[10..40].fill(0xff);
    for (bytes, word) in [(&whole[..whole.len() / 2], "not a readable Parquet file"), (&torn[..], "replace it")] {
        put(&home, "in/a.parquet", bytes);
        prepare(&home, "in", "parquet", &sets).assert_fails(42, &["a.parquet", word, "replace it"]);
        put(&home, "in/a.parquet", &whole);
        let outcome = prepare(&home, "in", "parquet", &sets);
        assert_eq!(outcome.code, Some(0), "{outcome}");
        std::fs::remove_dir_all(home.join("other")).expect("there");
    }
}

#[test]
fn unfit_files_are_named_at_once_or_skipped_as_the_error_says() {
    let home = home();
    put(&home, "in/a.txt", "Anna read the newspaper.\n".repeat(30).as_bytes());
    put(&home, "in/b.txt", b"\xff\xfeA\0n\0n\0a\0\n\0");
    put(&home, "in/c.txt", b"ELF\0\x01\x02");
    let words = ["in/b.txt: UTF-16LE", "in/c.txt: a binary file", "2 of 3 files", "prepare.on_invalid_file = \"skip\""];
    prepare(&home, "in", "text_lines", &[]).assert_fails(42, &words);
    assert!(!home.join("data").exists(), "nothing was written");
    let outcome = prepare(&home, "in", "text_lines", &["prepare.on_invalid_file=skip"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stderr.contains("warning: 2 files cannot be used and are skipped: "), "{outcome}");
    // The other fix: files with a UTF-16 mark are decoded as such, regardless of other files.
    std::fs::remove_file(home.join("in/c.txt")).expect("there");
    let sets = ["prepare.encoding=latin1", "prepare.folder=decoded"];
    let outcome = prepare(&home, "in", "text_lines", &sets);
    assert!(outcome.code == Some(0) && outcome.stdout.contains(" 31 documents"), "{outcome}");
    prepare(&home, "in", "text_lines", &["prepare.encoding=klingon"])
        .assert_fails(2, &["prepare.encoding", "utf-16le"]);
}

/// Files as downloads, archives and crashes leave them. Each error has the cause and the fix, and nothing is written.
#[test]
fn files_of_other_formats_are_refused_by_cause() {
    let lines = "{\"text\": \"Anna read the newspaper.\"}\n".repeat(30);
    let compressed = gzip(lines.as_bytes());
    let cases: [(&str, &[u8], i32, &[&str]); 12] = [
        ("a.jsonl.br", b"BZh9", 2, &["1 `*.br`", "decompress them, or compress them as `.gz` or `.zst`"]),
        ("a.zip", b"PK\x03\x04", 2, &["1 `*.zip`", "unpack the archives and name the folder"]),
        ("a.tar.gz", &compressed, 2, &["1 `*.tar`", "unpack the archives"]),
        ("a.csv", b"text\nAnna\n", 2, &["1 `*.csv`", "set `prepare.format` to the format of these files"]),
        ("a.orc", b"ORC", 2, &["1 `*.orc`", "convert the tables to Parquet or JSONL"]),
        ("a.jsonl", &compressed, 42, &["a.jsonl: compressed with gzip", "add `.gz`"]),
        ("a.jsonl", b"\x28\xb5\x2f\xfd\x04\0\0\0\0", 42, &["a.jsonl: compressed with zstd", "add `.zst`"]),
        ("a.jsonl", b"PAR1\x15\0\x15\0PAR1", 42, &["a.jsonl: a Parquet file", "`.parquet`"]),
        ("a.jsonl.zst", lines.as_bytes(), 42, &["a.jsonl.zst: not a zstd file although its name says so"]),
        ("a.jsonl.gz", &compressed[..compressed.len() / 2], 42, &["a.jsonl.gz: truncated or damaged"]),
        ("a.parquet", lines.as_bytes(), 42, &["a.parquet: not a readable Parquet file"]),
        ("a\nb.jsonl", b"{\n", 42, &["a\\nb.jsonl: JSON over several lines"]),
    ];
    for (name, bytes, code, words) in cases {
        let home = home();
        std::fs::create_dir_all(home.join("in")).expect("made");
        // A store refuses names with control characters.
        let file = std::fs::File::create_new(home.join("in").join(name));
        file.and_then(|mut file| file.write_all(bytes)).expect("a test can write");
        let format = if name.ends_with(".parquet") { "parquet" } else { "jsonl" };
        prepare(&home, "in", format, &[]).assert_fails(code, words);
        assert!(!home.join("data/manifest.json").exists(), "{name}: no prepared folder");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
