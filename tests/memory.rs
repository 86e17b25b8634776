//! Peak memory stays within the documented bounds: the peak that the system reports, minus the peak with a small
//! corpus. Files are written in pieces, since a child inherits the peak of its parent.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use store::{ObjectWriter, Store};
use testkit::{Home, print_uncaptured};

const MIB: u64 = 1 << 20;

/// Exit code of a child, its stderr, and its peak memory in bytes.
struct Ended {
    code: i32,
    stderr: String,
    peak: u64,
}

fn prepare(home: &Home, input: &str, format: &str, max_memory_bytes: u64, folder: &str) -> Ended {
    prepare_by(home, "fast", input, format, max_memory_bytes, folder)
}

/// Like `prepare`, with a given tokenizer backend.
fn prepare_by(home: &Home, by: &str, input: &str, format: &str, max_memory_bytes: u64, folder: &str) -> Ended {
    let sets = [
        format!("prepare.inputs=[\"{input}\"]"),
        format!("prepare.format={format}"),
        format!("prepare.max_memory_bytes={max_memory_bytes}"),
        format!("prepare.folder={folder}"),
        format!("prepare.tokenizer_backend={by}"),
    ];
    let mut args = vec!["prepare", "--set", "prepare.workers=2", "--set", "prepare.valid_fraction=0.0"];
    for set in &sets {
        args.extend(["--set", set]);
    }
    home.write("stderr", "");
    let stderr = File::options().write(true).open(home.join("stderr")).expect("a file");
    #[expect(clippy::zombie_processes, reason = "it is waited for below, by what says what it took")]
    let child = home.command(&args).stdout(Stdio::null()).stderr(stderr).spawn().expect("the program starts");
    let pid = libc::pid_t::try_from(child.id()).expect("a process id");
    let mut status = 0;
    // SAFETY: a plain system call on a child that was just started and that no other code waits for. A zeroed
    // `rusage` is valid.
    #[expect(unsafe_code, reason = "std does not say what a child took")]
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(pid, &raw mut status, 0, &raw mut usage), pid);
        usage
    };
    let peak = u64::try_from(usage.ru_maxrss).expect("a size") * 1024;
    let stderr = std::fs::read_to_string(home.join("stderr")).expect("UTF-8");
    Ended { code: libc::WEXITSTATUS(status), stderr, peak }
}

/// Returns a home with a tokenizer, and the peak memory with a small corpus.
fn home() -> (Home, u64) {
    let home = Home::with_corpus(80);
    home.run_ok(&["tokenizer", "train"]);
    let small = prepare(&home, "corpus", "text_lines", 64 * MIB, "small");
    assert_eq!(small.code, 0, "{}", small.stderr);
    (home, small.peak)
}

fn begin(home: &Home, name: &str) -> ObjectWriter {
    Store::folder(home.path()).and_then(|store| store.writer(name)).expect("a test can write")
}

/// Writes `count` copies of `bytes`.
fn write(home: &Home, name: &str, bytes: &[u8], count: u64) {
    let mut file = begin(home, name);
    (0..count).for_each(|_| file.write_all(bytes).expect("written"));
    file.commit().expect("written");
}

#[track_caller]
fn check(what: &str, ended: &Ended, base: u64, bound: u64, words: &[&str]) {
    let more = ended.peak.saturating_sub(base);
    print_uncaptured(&format!("{what}: {} MiB beyond {} MiB, of {} MiB allowed", more / MIB, base / MIB, bound / MIB));
    assert_eq!(ended.code, if words.is_empty() { 0 } else { 42 }, "{}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "`{word}` is missing in {}", ended.stderr);
    }
    assert!(more <= bound, "{what}: {more} bytes more than with a small corpus, {bound} are allowed");
}

#[test]
fn a_line_of_64_mib_of_chinese_is_refused_within_the_bound_at_each_step() {
    let (home, base) = home();
    write(&home, "long.txt", "中文没有空格也没有标点".as_bytes(), 64 * MIB / 33);
    let short = prepare(&home, "long.txt", "text_lines", 64 * MIB, "short");
    check("too long to be read", &short, base, 64 * MIB, &["long.txt:1", "raise `prepare.max_memory_bytes`"]);
    // Limits as the error recommends. The fast backend reads the text character by character.
    let pieces = prepare(&home, "long.txt", "text_lines", 4 << 30, "pieces");
    check("in pieces", &pieces, base, (4 << 30) / 8, &[]);
    // The reference backend needs the whole text.
    let whole = prepare_by(&home, "reference", "long.txt", "text_lines", 4 << 30, "whole");
    check(
        "too long to be split",
        &whole,
        base,
        (4 << 30) / 8,
        &["long.txt:1", "the tokenizer takes", "set `prepare.max_document_bytes`"],
    );
    // Limits as that error recommends. Two workers take turns, and the allocator keeps the memory of each.
    write(&home, "split.txt", ("中文没有空格也没有标点".repeat(7500) + "\n").as_bytes(), 8);
    let split = prepare_by(&home, "reference", "split.txt", "text_lines", 512 * MIB, "split");
    check("split", &split, base, 2 * 512 * MIB / 8, &[]);
}

#[test]
fn a_line_of_words_takes_no_more_than_its_copies() {
    let (home, base) = home();
    write(&home, "words.txt", b"Anna read the newspaper in the library. ", 16 * MIB / 40);
    check("words", &prepare(&home, "words.txt", "text_lines", 1 << 30, "words"), base, (1 << 30) / 8, &[]);
    let head = b"{\"key\": 1, \"text\": \"".as_slice();
    let end = b"\"}\n".as_slice();
    let mut file = begin(&home, "a.jsonl");
    file.write_all(head).expect("written");
    // Escapes, other line ends and invalid UTF-8 cause the largest number of copies.
    (0..8 * MIB / 40)
        .for_each(|_| file.write_all(b"Anna read the\\r\\n newspaper \xff\xff\xff\xff aloud.").expect("written"));
    file.write_all(end).expect("written");
    file.commit().expect("written");
    check("escapes", &prepare(&home, "a.jsonl", "jsonl", 512 * MIB, "escapes"), base, 512 * MIB / 8, &[]);
}

/// The memory of workers next to the text matches the plan, for any number of documents.
#[test]
fn many_short_documents_use_the_planned_memory() {
    let (home, base) = home();
    let line = "Anna read the newspaper in the library. ".repeat(25) + "\n";
    write(&home, "many.txt", line.as_bytes(), 64 << 10);
    let set = ["plan", "--set", "prepare.inputs=[\"many.txt\"]", "--set", "prepare.workers=2", "--set"];
    let plan = home.run_ok(&[set.as_slice(), &["prepare.max_memory_bytes=67108864"]].concat());
    let planned = plan.stdout.split("next to it ").nth(1).and_then(|rest| rest.split(" MiB a worker").next());
    let whole = planned.and_then(|text| text.split('.').next()).expect("what a worker takes");
    let worker: u64 = whole.parse().expect("a number");
    assert!((10..100).contains(&worker), "{worker}");
    let bound = 64 * MIB / 4 + 2 * worker * MIB;
    check("many", &prepare(&home, "many.txt", "text_lines", 64 * MIB, "many"), base, bound, &[]);
}

#[test]
fn decompression_bomb_is_refused_within_the_bound() {
    let (home, base) = home();
    let mut zstd = zstd::stream::write::Encoder::new(begin(&home, "bomb.txt.zst"), 1).expect("an encoder");
    let chunk = vec![b'a'; 1 << 20];
    (0..1024).for_each(|_| zstd.write_all(&chunk).expect("written"));
    zstd.finish().and_then(ObjectWriter::commit).expect("written");
    for format in ["text", "text_lines", "text_paragraphs", "jsonl"] {
        let ended = prepare(&home, "bomb.txt.zst", format, 64 * MIB, format);
        check(format, &ended, base, 64 * MIB, &["bomb.txt.zst:1", "prepare.max_memory_bytes"]);
    }
}

#[test]
fn rows_of_a_megabyte_are_decoded_a_few_at_a_time() {
    let (home, base) = home();
    let text = "Anna read the newspaper in the library. ".repeat(25_000);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![text.as_str(); 4]));
    let batch = RecordBatch::try_from_iter([("text", texts)]).expect("one column");
    let mut writer = ArrowWriter::try_new(begin(&home, "rows.parquet"), batch.schema(), None).expect("a writer");
    for _ in 0..8 {
        // First each row group has four rows in one or a few pages, then one row group has all rows.
        writer.write(&batch).expect("written");
        writer.flush().expect("written");
    }
    (0..8).for_each(|_| writer.write(&batch).expect("written"));
    writer.into_inner().expect("written").commit().expect("written");
    drop((batch, text));
    check("rows", &prepare(&home, "rows.parquet", "parquet", 256 * MIB, "rows"), base, 256 * MIB, &[]);
}
