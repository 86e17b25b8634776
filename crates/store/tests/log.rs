//! A log keeps every line that was put, whole, through kills, rewinds and injected faults.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::process::Stdio;
use std::time::Duration;

use proptest::prelude::*;
use store::{FaultConfig, Lines, Log, LogConfig, MemoryBackend, Store, faults};

use crate::child;

/// Puts only on a flush or a full segment, not by time.
const LAZY: LogConfig =
    LogConfig { put_every: Duration::MAX, segment_bytes: 64, full_disk_timeout: Duration::from_secs(60) };

fn lines(store: &Store) -> Vec<String> {
    let lines = Lines::new(store, "log").expect("listed");
    lines.map(|line| String::from_utf8_lossy(&line.expect("readable")).into_owned()).collect()
}

fn names(store: &Store) -> Vec<String> {
    store.list("").expect("listed").into_iter().map(|entry| entry.name).collect()
}

#[derive(Clone, Debug)]
enum Deed {
    Push(String),
    Flush,
    /// The process is killed, and another continues.
    Kill,
    /// Removes the lines longer than this.
    Rewind(usize),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        6 => "[a-z]{0,40}".prop_map(Deed::Push),
        1 => Just(Deed::Flush),
        1 => Just(Deed::Kill),
        1 => (0_usize..40).prop_map(Deed::Rewind),
    ];
    prop::collection::vec(deed, 0..60)
}

/// Runs the deeds against a plain list of lines. After a kill the lines of the store are those of the list, except for
/// some at its end that were not flushed.
fn check(store: &Store, deeds: &[Deed]) {
    let open = || Log::open_with(store, "log", LAZY).expect("opened");
    let mut log = open();
    let mut expected = Vec::new();
    let mut flushed = 0;
    for deed in deeds {
        match deed {
            Deed::Push(line) => {
                log.push(line).expect("pushed");
                expected.push(line.clone());
            }
            Deed::Flush => {
                log.flush().expect("flushed");
                flushed = expected.len();
            }
            Deed::Kill => {
                let found = lines(store);
                assert!(found.len() >= flushed && expected.starts_with(&found), "{found:?} of {expected:?}");
                expected = found;
                flushed = expected.len();
                log = open();
            }
            Deed::Rewind(length) => {
                log.rewind(|line| line.len() <= *length).expect("rewound");
                expected.retain(|line| line.len() <= *length);
                flushed = expected.len();
                assert_eq!(lines(store), expected);
            }
        }
    }
    let found: Vec<_> = log.lines().expect("listed").map(|line| line.expect("readable")).collect();
    assert_eq!(found, expected.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
    assert_eq!(lines(store), expected, "readers see the same lines as the writer");
    for entry in store.list("log").expect("listed") {
        assert!(entry.stat.bytes <= 64 + 40, "{entry:?} should have been closed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_is_a_list_of_lines(deeds in deeds()) {
        check(&Store::in_memory(FaultConfig::none()), &deeds);
        check(&Store::in_memory(FaultConfig { seed: 5, failures: 0.2, lost: 0.2, ..FaultConfig::none() }), &deeds);
    }
}

#[test]
fn a_log_in_a_folder_is_a_list_of_lines() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let push = |at: usize| Deed::Push("x".repeat(at * 7 % 41));
    let mut deeds: Vec<_> = (0..20).map(push).collect();
    deeds.extend([Deed::Flush, push(1), Deed::Kill, push(2), Deed::Rewind(20), push(3), Deed::Kill, push(5)]);
    check(&Store::folder(home.path()).expect("made"), &deeds);
}

#[test]
fn segments_close_at_their_size_and_are_named_in_order() {
    let store = Store::in_memory(FaultConfig::none());
    let mut log = Log::open_with(&store, "log", LAZY).expect("opened");
    for _ in 0..5 {
        log.push(&"x".repeat(40)).expect("pushed");
    }
    log.flush().expect("flushed");
    assert_eq!(names(&store), ["log/00000000.jsonl", "log/00000001.jsonl", "log/00000002.jsonl"]);
    let last = store.get("log/00000002.jsonl").expect("there");
    assert_eq!(last, ["x".repeat(40), "\n".to_owned()].concat().as_bytes());
    let calls = |memory: &MemoryBackend| memory.tally().calls;
    let memory = MemoryBackend::new(FaultConfig::none());
    let mut log = Log::open(&Store::from_memory(&memory), "log").expect("opened");
    log.push("the first is seen at once").expect("pushed");
    log.flush().expect("flushed");
    let before = calls(&memory);
    log.flush().expect("flushed");
    assert_eq!(calls(&memory), before, "there was nothing to put");
}

#[test]
fn rewind_keeps_bytes_and_drops_unreadable_lines() {
    let store = Store::in_memory(FaultConfig::none());
    store.put("log/00000000.jsonl", b"{\"step\":1}\n\xff\xfe\n\n{\"step\":2}\n{\"st").expect("put");
    store.put("log/notes.txt", b"of another program").expect("put");
    store.put("log/1.jsonl", b"of another program").expect("put");
    let mut log = Log::open(&store, "log").expect("bytes are enough");
    log.push("{\"step\":3}").expect("pushed");
    log.rewind(|line| std::str::from_utf8(line).is_ok_and(|line| line.ends_with('}'))).expect("rewound");
    assert_eq!(lines(&store), ["{\"step\":1}", "{\"step\":2}", "{\"step\":3}"]);
    assert_eq!(names(&store), ["log/00000000.jsonl", "log/1.jsonl", "log/notes.txt"]);
    log.rewind(|_| false).expect("rewound");
    assert_eq!(lines(&store), Vec::<String>::new());
    log.push("new").and_then(|()| log.flush()).expect("pushed");
    assert_eq!(lines(&store), ["new"]);
}

#[test]
#[should_panic(expected = "a line ends where it ends")]
fn a_line_has_no_line_feed() {
    let mut log = Log::open(&Store::in_memory(FaultConfig::none()), "log").expect("opened");
    let _ = log.push("a\nb");
}

#[test]
fn a_log_that_was_dropped_writes_no_more() {
    let store = Store::in_memory(FaultConfig::none());
    let mut log = Log::open_with(&store, "log", LAZY).expect("opened");
    for line in ["a", "b"] {
        log.push(line).expect("pushed");
    }
    drop(log);
    assert_eq!(lines(&store), ["a"], "only the first was due");
}

/// Logs until the process is killed.
fn log_for_ever(store: &Store) {
    let terms = LogConfig { put_every: Duration::ZERO, segment_bytes: 2000, ..LAZY };
    let mut log = Log::open_with(store, "log", terms).expect("opened");
    for time in 0_u64.. {
        log.push(&line(time)).expect("pushed");
        writeln!(std::io::stdout(), "pushed {time}").expect("the parent reads");
    }
}

fn line(time: u64) -> String {
    format!("{time} {}", "x".repeat(300))
}

#[test]
fn a_kill_tears_no_line_and_loses_none_that_was_put() {
    if let Some(store) = child::store() {
        return log_for_ever(&store);
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    let test = "log::a_kill_tears_no_line_and_loses_none_that_was_put";
    let mut child = child::command(test, home.path()).stdout(Stdio::piped()).spawn().expect("started");
    let output = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.expect("readable"));
    assert_eq!(output.filter(|line| line.contains("pushed")).take(20).count(), 20, "the child ended by itself");
    child.kill().expect("killed");
    child.wait().expect("ended");
    let found = lines(&store);
    assert!(found.len() >= 20, "{} lines of 20", found.len());
    assert_eq!(found, (0..found.len() as u64).map(line).collect::<Vec<_>>());
}

#[test]
fn the_end_of_a_log_is_read_without_its_beginning() {
    let store = Store::in_memory(FaultConfig::none());
    let mut log = Log::open_with(&store, "log", LogConfig { segment_bytes: 8, ..LAZY }).expect("new");
    for line in ["first", "second", "third", "fourth"] {
        log.push(line).expect("kept");
        log.flush().expect("kept");
    }
    let newest = |segments| -> Vec<String> {
        let lines = Lines::newest(&store, "log", segments).expect("listed");
        lines.map(|line| String::from_utf8_lossy(&line.expect("readable")).into_owned()).collect()
    };
    assert_eq!(newest(9), ["first", "second", "third", "fourth"]);
    assert_eq!(newest(1), ["third", "fourth"]);
    assert!(newest(0).is_empty());
}

/// Log on a disk that is full from the second line on.
fn full_disk(home: &std::path::Path, full_disk_timeout: Duration) -> Log {
    let store = Store::folder(home).expect("made");
    let config = LogConfig { put_every: Duration::ZERO, segment_bytes: 64, full_disk_timeout };
    let mut log = Log::open_with(&store, "log", config).expect("new");
    log.push("first").expect("there is space");
    faults::fill_disk(home, true);
    log
}

#[test]
fn a_disk_that_is_full_for_a_moment_costs_no_line() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut log = full_disk(home.path(), Duration::from_secs(600));
    let long = "x".repeat(100);
    for line in ["second", &long, "fourth"] {
        log.push(line).expect("it waits for space");
    }
    assert_eq!(log.flush().expect_err("still full").kind(), ErrorKind::StorageFull);
    faults::fill_disk(home.path(), false);
    log.push("fifth").expect("there is space");
    log.push("sixth").expect("there is space");
    log.flush().expect("there is space");
    let store = Store::folder(home.path()).expect("there");
    assert_eq!(lines(&store), ["first", "second", &long, "fourth", "fifth", "sixth"]);
}

#[test]
fn a_disk_that_stays_full_is_an_error_and_the_memory_is_bounded() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut log = full_disk(home.path(), Duration::ZERO);
    assert_eq!(log.push("second").expect_err("too long").kind(), ErrorKind::StorageFull);
    faults::fill_disk(home.path(), false);

    let home = tempfile::tempdir().expect("a temporary folder");
    let mut log = full_disk(home.path(), Duration::from_secs(600));
    let long = "x".repeat(63);
    let kept = (0..100).take_while(|_| log.push(&long).is_ok()).count();
    assert!((10..20).contains(&kept), "{kept} lines in 16 segments");
    faults::fill_disk(home.path(), false);

    // The bound does not wait for the next attempt.
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    let mut log = Log::open_with(&store, "log", LAZY).expect("new");
    log.push("first").expect("there is space");
    faults::fill_disk(home.path(), true);
    let kept = (0..100).take_while(|_| log.push(&long).is_ok()).count();
    assert!((10..20).contains(&kept), "{kept} lines in 16 segments");
    faults::fill_disk(home.path(), false);
}

/// Errors other than a full disk are returned for every line until one is put.
#[test]
fn a_failing_disk_is_an_error_of_every_line() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    let config = LogConfig { put_every: Duration::from_millis(200), ..LAZY };
    let mut log = Log::open_with(&store, "log", config).expect("new");
    log.push("first").expect("it is put");
    std::thread::sleep(config.put_every);
    faults::fail_after(home.path(), Some(0));
    for line in ["second", "third"] {
        log.push(line).expect_err("the disk fails");
    }
    faults::fail_after(home.path(), None);
    log.push("fourth").expect("it is put");
    assert_eq!(lines(&store), ["first", "second", "third", "fourth"]);
}
