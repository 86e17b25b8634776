//! Contract of every storage backend.
//!
//! # What
//! [`check_contract`] runs each law on a separate store, which must be empty.
//!
//! # Definition
//! Two answers are of the same write if length and version are equal. The time of the write is for display; some
//! servers round it. A version may come back with the same content, never with another: some servers derive it from the
//! content.

use std::io::{ErrorKind, Write};
use std::thread;

use store::{Created, Replaced, Stat, Store, Version};

/// Laws; each test receives an empty store.
const LAWS: &[fn(&Store)] = &[
    puts_are_whole_or_not,
    streams_of_any_size_arrive,
    ranges_are_exact,
    pieces_make_the_object,
    lists_are_sorted_and_complete,
    versions_change_with_every_writing,
    create_excludes,
    replace_needs_the_version,
    replace_excludes_among_threads,
    removing_is_final_and_harmless,
    names_that_lead_elsewhere_are_refused,
    parts_are_stores,
];

/// Checks the whole contract. `empty` creates an empty store each time.
pub fn check_contract(empty: impl Fn() -> Store) {
    for keeps_its_law in LAWS {
        let store = empty();
        keeps_its_law(&store);
        assert_eq!(store.sweep().expect("readable"), Vec::<String>::new(), "something unfinished is left");
    }
}

/// Returns what identifies a write.
fn write_of(stat: &Stat) -> (u64, &Version) {
    (stat.bytes, &stat.version)
}

/// Checks that the object is that of the write.
fn assert_is(store: &Store, name: &str, stat: &Stat) {
    let found = store.head(name).expect("answered").expect("there");
    assert_eq!(write_of(&found), write_of(stat), "{name}");
}

fn puts_are_whole_or_not(store: &Store) {
    let mut put = store.writer("train/x").expect("begun");
    put.write_all(b"half").expect("written");
    put.flush().expect("flushed");
    assert_eq!(store.head("train/x").expect("answered"), None);
    drop(put);
    assert_eq!(store.list("").expect("listed"), []);
    assert_eq!(store.get("train/x").expect_err("it is not there").kind(), ErrorKind::NotFound);

    let stat = store.put("train/x", b"whole").expect("put");
    assert_eq!(stat.bytes, 5);
    assert_eq!(store.get("train/x").expect("there"), b"whole");
    let mut over = store.writer("train/x").expect("begun");
    over.write_all(b"other").expect("written");
    assert_eq!(store.get("train/x").expect("still the old one"), b"whole");
    assert_is(store, "train/x", &over.commit().expect("committed"));
    assert_eq!(store.get("train/x").expect("the new one"), b"other");
}

fn streams_of_any_size_arrive(store: &Store) {
    for bytes in [0, 1, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 3 << 18, 1_000_003] {
        let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let mut put = store.writer("stream").expect("begun");
        for piece in content.chunks(100_003) {
            put.write_all(piece).expect("written");
        }
        assert_eq!(put.commit().expect("committed").bytes, bytes);
        assert!(store.get("stream").expect("there") == content, "{bytes} bytes");
    }
}

fn ranges_are_exact(store: &Store) {
    store.put("x", b"0123456789").expect("put");
    for (range, expected) in [(0..10, "0123456789"), (3..5, "34"), (0..0, ""), (10..10, ""), (9..10, "9")] {
        assert_eq!(store.get_range("x", range).expect("there"), expected.as_bytes());
    }
    for (range, kind) in [
        (0..11, ErrorKind::UnexpectedEof),
        (10..12, ErrorKind::UnexpectedEof),
        (50..u64::MAX, ErrorKind::UnexpectedEof),
        (std::ops::Range { start: 5, end: 3 }, ErrorKind::InvalidInput),
    ] {
        let error = store.get_range("x", range.clone()).expect_err("it ends before");
        assert_eq!(error.kind(), kind, "{range:?}: {error}");
        assert!(error.to_string().starts_with(&store.place("x")), "{error}");
    }
    assert_eq!(store.get_range("y", 0..1).expect_err("it is not there").kind(), ErrorKind::NotFound);
}

fn pieces_make_the_object(store: &Store) {
    for bytes in [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2_000_003] {
        let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        store.put("x", &content).expect("put");
        let pieces: Vec<Vec<u8>> = store.pieces("x", bytes).collect::<Result<_, _>>().expect("there");
        assert!(pieces.concat() == content, "{bytes} bytes");
        assert_eq!(store.hash("x", bytes).expect("there"), blake3::hash(&content), "{bytes} bytes");
        let error = store.hash("x", bytes + 1).expect_err("it ends before");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{bytes} bytes");
    }
}

fn lists_are_sorted_and_complete(store: &Store) {
    assert_eq!(store.list("").expect("listed"), []);
    let names = ["a", "b-c", "b/a", "b/c/d", "b0", "step-10/x", "step-100/x", "ü"];
    for name in names.iter().rev() {
        store.put(name, name.as_bytes()).expect("put");
    }
    let begun = store.writer("b/unfinished").expect("begun");
    let below = |folder: &str| -> Vec<String> {
        let entries = store.list(folder).expect("listed");
        for entry in &entries {
            assert_is(store, &entry.name, &entry.stat);
        }
        entries.into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(below(""), names);
    assert_eq!(below("b"), ["b/a", "b/c/d"]);
    assert_eq!(below("step-10"), ["step-10/x"]);
    assert_eq!(below("nothing"), Vec::<String>::new());
    drop(begun);
}

fn versions_change_with_every_writing(store: &Store) {
    let mut seen: Vec<(Version, &str)> = Vec::new();
    for content in ["1", "2", "2", "1", "3"] {
        let stat = store.put("x", content.as_bytes()).expect("put");
        assert_is(store, "x", &stat);
        let (bytes, found) = store.get_with_stat("x").expect("answered").expect("there");
        assert_eq!((&*bytes, write_of(&found)), (content.as_bytes(), write_of(&stat)));
        let other = seen.iter().find(|(version, of)| *version == stat.version && *of != content);
        assert_eq!(other, None, "the version of another content came back");
        seen.push((stat.version, content));
    }
    let large = [1, 2].map(|byte| store.put("large", &vec![byte; 1 << 17]).expect("put").version);
    assert_ne!(large[0], large[1]);
    assert_eq!(store.head("y").expect("answered"), None);
    assert_eq!(store.get_with_stat("y").expect("answered"), None);
}

fn create_excludes(store: &Store) {
    for round in 0..8 {
        let name = format!("locks/{round}");
        let make = |who: usize| store.put_if_absent(&name, format!("who {who}").as_bytes()).expect("answered");
        let outcomes: Vec<Created> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|who| scope.spawn(move || make(who))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let made: Vec<usize> = (0..4).filter(|who| matches!(outcomes[*who], Created::Made(_))).collect();
        let [who] = made[..] else { panic!("{made:?} made it, where one should") };
        assert_eq!(store.get(&name).expect("there"), format!("who {who}").as_bytes());
        let Created::Made(stat) = &outcomes[who] else { unreachable!("it is one of those above") };
        assert_is(store, &name, stat);
    }
    store.put("put", b"1").expect("put");
    assert_eq!(store.put_if_absent("put", b"2").expect("answered"), Created::Exists);
}

fn replace_needs_the_version(store: &Store) {
    let first = store.put("x", b"first").expect("put").version;
    let Replaced::Made(stat) = store.put_if_version("x", b"second", &first).expect("answered") else {
        panic!("unchanged")
    };
    assert_is(store, "x", &stat);
    assert_eq!(store.put_if_version("x", b"late", &first).expect("answered"), Replaced::Changed);
    assert_eq!(store.get("x").expect("there"), b"second");
    store.delete("x").expect("removed");
    assert_eq!(store.put_if_version("x", b"late", &stat.version).expect("answered"), Replaced::Changed);
    assert_eq!(store.head("x").expect("answered"), None);
}

/// Threads increment counters in one object. Each writes its own count, and so detects a lost acknowledgement.
fn replace_excludes_among_threads(store: &Store) {
    const THREADS: usize = 4;
    const TIMES: u8 = 25;
    store.put_if_absent("sum", &[0; THREADS]).expect("created");
    thread::scope(|scope| {
        for who in 0..THREADS {
            scope.spawn(move || {
                for time in 1..=TIMES {
                    loop {
                        let (mut counts, stat) = store.get_with_stat("sum").expect("answered").expect("there");
                        if counts[who] == time {
                            break;
                        }
                        assert_eq!(counts[who], time - 1, "thread {who}: what it had counted is lost");
                        counts[who] = time;
                        if let Replaced::Made(_) =
                            store.put_if_version("sum", &counts, &stat.version).expect("answered")
                        {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(store.get("sum").expect("there"), [TIMES; THREADS]);
}

fn removing_is_final_and_harmless(store: &Store) {
    store.delete("x").expect("absent is fine");
    store.delete("x/y/z").expect("absent is fine");
    for name in ["a/b/c", "a/b/d", "a/e", "f"] {
        store.put(name, b"1").expect("put");
    }
    store.delete("a/b/c").expect("removed");
    assert_eq!(store.head("a/b/c").expect("answered"), None);
    store.delete_all("a").expect("removed");
    let left: Vec<_> = store.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
    assert_eq!(left, ["f"]);
    // No empty folder blocks the name.
    store.put("a", b"now an object").expect("put");
    store.delete_all("").expect("removed");
    assert_eq!(store.list("").expect("listed"), []);
    store.put("f", b"again").expect("what was removed can be put again");
}

fn names_that_lead_elsewhere_are_refused(store: &Store) {
    for name in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".x.1.tmp", "a\0b"] {
        let refused = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}: {error}");
        refused(store.get(name).expect_err(name));
        refused(store.head(name).expect_err(name));
        refused(store.put(name, b"1").expect_err(name));
        refused(store.put_if_absent(name, b"1").expect_err(name));
        refused(store.delete(name).expect_err(name));
        if !name.is_empty() {
            refused(store.list(name).expect_err(name));
        }
        refused(store.prefixed(name).put("x", b"1").expect_err(name));
        assert_eq!(store.prefixed(name).local(), None, "{name:?}");
    }
}

fn parts_are_stores(store: &Store) {
    let part = store.prefixed("a").prefixed("b");
    part.put("x/y", b"1").expect("put");
    assert_eq!(store.get("a/b/x/y").expect("the same object"), b"1");
    assert_eq!(part.list("").expect("listed")[0].name, "x/y");
    assert_eq!(part.list("x").expect("listed")[0].name, "x/y");
    assert_eq!(part.place("x/y"), store.place("a/b/x/y"));
    assert_eq!(part.local().map(|local| local.join("x/y").exists()), store.local().map(|_| true));
    store.put("ab", b"2").expect("put");
    store.prefixed("a").delete_all("").expect("removed");
    assert_eq!(store.list("").expect("listed")[0].name, "ab");
}
