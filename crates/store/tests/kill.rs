//! State of a store after a kill, short writes or a failing disk.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use store::{Created, Store, faults};

use crate::child;

/// Writes until the process is killed.
fn write_for_ever(store: &Store) {
    for time in 0_u64.. {
        store.put("put", &content(time)).expect("put");
        store.put_if_absent(&format!("created/{time}"), &content(time)).expect("created");
        let (_, stat) = store.get_with_stat("replaced").expect("readable").expect("there");
        store.put_if_version("replaced", &content(time), &stat.version).expect("replaced");
        writeln!(std::io::stdout(), "wrote {time}").expect("the parent reads");
    }
}

/// Returns 300 kB of one byte, and its count: torn content differs.
fn content(time: u64) -> Vec<u8> {
    vec![(time % 251) as u8; 300_000 + (time % 7) as usize]
}

fn is_whole(content: &[u8]) -> bool {
    (300_000..300_007).contains(&content.len()) && content.iter().all(|byte| *byte == content[0])
}

#[test]
fn a_kill_leaves_whole_objects_and_nothing_that_a_sweep_does_not_find() {
    if let Some(store) = child::store() {
        return write_for_ever(&store);
    }
    let test = "kill::a_kill_leaves_whole_objects_and_nothing_that_a_sweep_does_not_find";
    for lines in [1, 2, 4, 7] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("made");
        store.put_if_absent("replaced", &content(0)).expect("created");
        let mut child = child::command(test, home.path()).stdout(Stdio::piped()).spawn().expect("started");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let wrote = output.lines().map(|line| line.expect("readable")).filter(|line| line.contains("wrote"));
        assert_eq!(wrote.take(lines).count(), lines, "the child ended by itself");
        child.kill().expect("killed");
        child.wait().expect("ended");

        let entries = store.list("").expect("listed");
        assert!(entries.len() > lines, "{entries:?}");
        for entry in &entries {
            assert!(is_whole(&store.get(&entry.name).expect("there")), "{} is torn", entry.name);
        }
        store.sweep().expect("swept");
        let files = || -> Vec<String> {
            let entries = std::fs::read_dir(home.path()).expect("readable");
            entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
        };
        let (left, names): (Vec<_>, Vec<_>) = files().into_iter().partition(|name| name.starts_with('.'));
        // The possible successor of a current version stays until that version ends.
        assert!(names.len() == 3 && left.iter().all(|name| name.contains(".replaced.")), "{left:?}");
        let (_, stat) = store.get_with_stat("replaced").expect("readable").expect("there");
        store.put_if_version("replaced", &content(1), &stat.version).expect("nothing stands in the way");
        store.sweep().expect("swept");
        assert_eq!(files().len(), 3, "created, put, replaced: {:?}", files());
    }
}

#[test]
fn a_sweep_removes_what_a_kill_left() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    for name in ["train/deep/x", "y"] {
        let mut put = store.writer(name).expect("begun");
        put.write_all(b"half").expect("written");
        std::mem::forget(put);
    }
    store.put("keep", b"1").expect("put");
    let swept = store.sweep().expect("readable");
    let [first, second] = &swept[..] else { panic!("{swept:?}") };
    assert!(first.starts_with(".y.") && second.starts_with("train/deep/.x."), "{swept:?}");
    let here = format!("-{}-", std::process::id());
    assert!(
        swept.iter().all(|name| name.contains(&here) && Path::new(name).extension().is_some_and(|end| end == "tmp"))
    );
    assert!(!home.path().join("train").exists(), "an empty folder is left");
    assert_eq!(store.get("keep").expect("there"), b"1");
}

#[test]
fn a_put_that_was_swept_away_is_an_error() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    let mut put = store.writer("a/x").expect("begun");
    put.write_all(b"late").expect("written");
    assert_eq!(store.prefixed("a").sweep().expect("swept").len(), 1);
    let error = put.commit().expect_err("another process owns the folder");
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("removed by another process"), "{error}");
    assert_eq!(store.list("").expect("listed"), []);
}

#[test]
fn short_writes_are_completed_and_a_failing_disk_leaves_nothing() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    store.put_if_absent("replaced", b"old").expect("created");
    for writes in 0..8 {
        let (_, stat) = store.get_with_stat("replaced").expect("readable").expect("there");
        let name = format!("created {writes}");
        faults::fail_after(home.path(), Some(writes));
        let put = store.put("put", b"0123456789").map(drop);
        faults::fail_after(home.path(), Some(writes));
        let created = store.put_if_absent(&name, b"0123456789").map(drop);
        faults::fail_after(home.path(), Some(writes));
        let replaced = store.put_if_version("replaced", b"0123456789", &stat.version).map(drop);
        faults::fail_after(home.path(), None);
        for (name, outcome) in [("put", put), (&name, created), ("replaced", replaced)] {
            match outcome {
                Ok(()) => assert_eq!(store.get(name).expect("there"), b"0123456789", "{name}"),
                Err(error) => assert!(error.to_string().starts_with(&store.place(name)), "{error}"),
            }
        }
        assert_eq!(store.sweep().expect("readable"), Vec::<String>::new());
    }
    let names: Vec<_> = store.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["created 4", "created 5", "created 6", "created 7", "put", "replaced"], "10 = 5 + 3 + 1 + 1");
}

#[test]
fn failed_write_is_not_committed() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    let mut put = store.writer("x").expect("begun");
    faults::fail_after(home.path(), Some(0));
    put.write_all(&vec![1; 1 << 19]).expect_err("the disk fails");
    faults::fail_after(home.path(), None);
    put.write_all(b"and continues").expect("into the buffer");
    put.commit().expect_err("a piece is missing");
    assert_eq!(store.list("").expect("listed"), []);
}

#[test]
fn foreign_links_are_replaced_and_not_followed() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    let victim = Store::folder(elsewhere.path()).expect("made");
    victim.put("victim", b"precious").expect("put");
    for name in ["put", "created"] {
        symlink(elsewhere.path().join("victim"), home.path().join(name)).expect("planted");
    }
    symlink(elsewhere.path(), home.path().join("folder")).expect("planted");
    store.put("put", b"mine").expect("put");
    assert_eq!(store.put_if_absent("created", b"mine").expect("answered"), Created::Exists);
    let names: Vec<_> = store.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["created", "put"], "a link to a folder could lead in a circle");
    assert_eq!(victim.get("victim").expect("there"), b"precious");
}

#[test]
fn a_folder_that_is_not_there_is_an_error_with_its_path() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let gone = home.path().join("gone");
    let error = Store::existing(&gone).expect_err("it is not there");
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("gone"), "{error}");
    let store = Store::folder(&gone).expect("made");
    assert_eq!(store.local(), Some(&*gone));
    store.put("x", b"1").expect("put");
    assert_eq!(Store::existing(gone.join("x")).expect_err("a file").kind(), ErrorKind::NotADirectory);
    std::fs::remove_dir_all(&gone).expect("removed");
    assert_eq!(store.list("").expect_err("nothing says that it is empty").kind(), ErrorKind::NotFound);
}
