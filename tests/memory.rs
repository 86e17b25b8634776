//! What is said of memory is kept: the most that the program ever had, as the system counts it, beyond what it has with a
//! small corpus. Files are written piece by piece: a child begins with the peak of its parent.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use store::{ObjectWriter, Store};
use testkit::{Home, say};

const MIB: u64 = 1 << 20;

/// A child's exit code, what it said, and its peak in bytes.
struct Ended {
    code: i32,
    said: String,
    peak: u64,
}

fn prepare(home: &Home, input: &str, format: &str, max_memory_bytes: u64, folder: &str) -> Ended {
    prepare_by(home, "fast", input, format, max_memory_bytes, folder)
}

/// The same by one way from text to ids.
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
    home.write("said", "");
    let said = File::options().write(true).open(home.join("said")).expect("a file");
    #[expect(clippy::zombie_processes, reason = "it is waited for below, by what says what it took")]
    let child = home.command(&args).stdout(Stdio::null()).stderr(said).spawn().expect("the program starts");
    let (pid, mut status) = (libc::pid_t::try_from(child.id()).expect("a process id"), 0);
    // SAFETY: a plain system call on the child that was just started and that nobody else waits for; a `rusage` of zeros
    // is one.
    #[expect(unsafe_code, reason = "std does not say what a child took")]
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(pid, &raw mut status, 0, &raw mut usage), pid);
        usage
    };
    let peak = u64::try_from(usage.ru_maxrss).expect("a size") * 1024;
    let said = std::fs::read_to_string(home.join("said")).expect("UTF-8");
    Ended { code: libc::WEXITSTATUS(status), said, peak }
}

/// A home with a tokenizer, and the peak with a small corpus.
fn home() -> (Home, u64) {
    let home = Home::with_corpus(80);
    home.run_ok(&["tokenizer", "train"]);
    let small = prepare(&home, "corpus", "text_lines", 64 * MIB, "small");
    assert_eq!(small.code, 0, "{}", small.said);
    (home, small.peak)
}

fn begin(home: &Home, name: &str) -> ObjectWriter {
    Store::folder(home.path()).and_then(|store| store.begin(name)).expect("a test can write")
}

/// Writes `count` copies of some bytes.
fn write(home: &Home, name: &str, bytes: &[u8], count: u64) {
    let mut file = begin(home, name);
    (0..count).for_each(|_| file.write_all(bytes).expect("written"));
    file.commit().expect("written");
}

#[track_caller]
fn check(what: &str, ended: &Ended, base: u64, bound: u64, words: &[&str]) {
    let more = ended.peak.saturating_sub(base);
    say(&format!("{what}: {} MiB beyond {} MiB, of {} MiB allowed", more / MIB, base / MIB, bound / MIB));
    assert_eq!(ended.code, if words.is_empty() { 0 } else { 42 }, "{}", ended.said);
    for word in words {
        assert!(ended.said.contains(word), "`{word}` is missing in {}", ended.said);
    }
    assert!(more <= bound, "{what}: {more} bytes more than with a small corpus, {bound} are allowed");
}

#[test]
fn a_line_of_64_mib_of_chinese_is_refused_within_the_bound_at_each_step() {
    let (home, base) = home();
    write(&home, "long.txt", "中文没有空格也没有标点".as_bytes(), 64 * MIB / 33);
    let short = prepare(&home, "long.txt", "text_lines", 64 * MIB, "short");
    check("too long to be read", &short, base, 64 * MIB, &["long.txt:1", "raise `prepare.max_memory_bytes`"]);
    // Read as the error says; the fast path takes it character by character.
    let pieces = prepare(&home, "long.txt", "text_lines", 4 << 30, "pieces");
    check("in pieces", &pieces, base, (4 << 30) / 8, &[]);
    // The crate cannot take it in pieces.
    let whole = prepare_by(&home, "reference", "long.txt", "text_lines", 4 << 30, "whole");
    check(
        "too long to be split",
        &whole,
        base,
        (4 << 30) / 8,
        &["long.txt:1", "the tokenizer takes", "set `prepare.max_document_bytes`"],
    );
    // As that error says. Two workers do it in turn, and an allocator keeps for each what it had.
    write(&home, "split.txt", ("中文没有空格也没有标点".repeat(7500) + "\n").as_bytes(), 8);
    let split = prepare_by(&home, "reference", "split.txt", "text_lines", 512 * MIB, "split");
    check("split", &split, base, 2 * 512 * MIB / 8, &[]);
}

#[test]
fn a_line_of_words_takes_no_more_than_its_copies() {
    let (home, base) = home();
    write(&home, "words.txt", b"Anna read the newspaper in the library. ", 16 * MIB / 40);
    check("words", &prepare(&home, "words.txt", "text_lines", 1 << 30, "words"), base, (1 << 30) / 8, &[]);
    let (head, end) = (b"{\"key\": 1, \"text\": \"".as_slice(), b"\"}\n".as_slice());
    let mut file = begin(&home, "a.jsonl");
    file.write_all(head).expect("written");
    // Escapes, other line ends and bytes that are not UTF-8: every copy that there can be.
    (0..8 * MIB / 40)
        .for_each(|_| file.write_all(b"Anna read the\\r\\n newspaper \xff\xff\xff\xff aloud.").expect("written"));
    file.write_all(end).expect("written");
    file.commit().expect("written");
    check("escapes", &prepare(&home, "a.jsonl", "jsonl", 512 * MIB, "escapes"), base, 512 * MIB / 8, &[]);
}

/// Workers take what the plan says that they take next to text, however many documents there are.
#[test]
fn many_short_documents_take_what_the_plan_says() {
    let (home, base) = home();
    let line = "Anna read the newspaper in the library. ".repeat(25) + "\n";
    write(&home, "many.txt", line.as_bytes(), 64 << 10);
    let set = ["plan", "--set", "prepare.inputs=[\"many.txt\"]", "--set", "prepare.workers=2", "--set"];
    let plan = home.run_ok(&[set.as_slice(), &["prepare.max_memory_bytes=67108864"]].concat());
    let said = plan.stdout.split("next to it ").nth(1).and_then(|rest| rest.split(" MiB a worker").next());
    let whole = said.and_then(|said| said.split('.').next()).expect("what a worker takes");
    let worker: u64 = whole.parse().expect("a number");
    assert!((10..100).contains(&worker), "{worker}");
    let bound = 64 * MIB / 4 + 2 * worker * MIB;
    check("many", &prepare(&home, "many.txt", "text_lines", 64 * MIB, "many"), base, bound, &[]);
}

#[test]
fn a_gigabyte_of_nothing_in_a_small_file_is_refused_within_the_bound() {
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
        // Each is a row group of four rows in a page or in a few, then all of them are in one.
        writer.write(&batch).expect("written");
        writer.flush().expect("written");
    }
    (0..8).for_each(|_| writer.write(&batch).expect("written"));
    writer.into_inner().expect("written").commit().expect("written");
    drop((batch, text));
    check("rows", &prepare(&home, "rows.parquet", "parquet", 256 * MIB, "rows"), base, 256 * MIB, &[]);
}
