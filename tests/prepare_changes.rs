//! Inputs that vanish or change between the phases of a preparation, or while it runs.

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use testkit::{Home, files, folder_hash, print_uncaptured};

use crate::prepare_faults::{
    FINALIZE, PLAN, RUN_INDEX, RUN_LEASE, args, assert_equals_whole, assert_kept, assert_nothing_half_written, finish,
    prepared, records,
};

const SHARED: &str = "prepare.folder=shared";

/// Timeout of a wait for a commit.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Fault of an input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Vanished,
    Truncated,
    /// Another text of the same length, written now.
    OtherText,
    /// Another text of the same length and with the same time of the last write.
    OtherTextSameTime,
}

impl Change {
    /// Writes the changed file of `original` to `target`.
    fn write(self, original: &Path, target: &Path) {
        let text = fs::read(original).expect("readable");
        let time = fs::metadata(original).and_then(|metadata| metadata.modified()).expect("a time");
        let (text, time) = match self {
            Self::Vanished => return,
            Self::Truncated => (text[..text.len() / 2].to_vec(), time),
            // Later than the original by any clock of a file system.
            Self::OtherText => (text.to_ascii_uppercase(), time + Duration::from_secs(2)),
            Self::OtherTextSameTime => (text.to_ascii_uppercase(), time),
        };
        put(target, &text, time);
    }
}

fn put(target: &Path, text: &[u8], time: SystemTime) {
    let folder = target.parent().expect("in a folder");
    let name = target.file_name().and_then(|name| name.to_str()).expect("a name");
    store::Store::folder(folder).and_then(|folder| folder.put(name, text)).expect("a test can write");
    File::options().append(true).open(target).and_then(|file| file.set_modified(time)).expect("set");
}

/// Changes one file, keeping the original; `restore` moves it back, with its time.
fn change(home: &Home, change: Change) {
    let path = home.join("corpus/2.txt");
    fs::rename(&path, home.join("kept.txt")).expect("moved");
    change.write(&home.join("kept.txt"), &path);
}

fn restore(home: &Home) {
    fs::rename(home.join("kept.txt"), home.join("corpus/2.txt")).expect("moved");
}

/// Checks that each share is refused after a change of an input, and that it continues when the input is restored.
fn check_refused_until_restored(home: &Home, kind: Change, inputs: &[&str]) {
    let with_inputs = |command: &[&str]| -> Vec<String> {
        args(command, SHARED).into_iter().chain(inputs.iter().copied()).map(str::to_owned).collect()
    };
    let run = |command: &[&str]| home.run(&with_inputs(command).iter().map(String::as_str).collect::<Vec<_>>());
    let ok = |command: &[&str]| {
        let outcome = run(command);
        assert_eq!(outcome.code, Some(0), "{kind:?}: {outcome}");
    };
    ok(PLAN);
    change(home, kind);
    for share in [RUN_INDEX, RUN_LEASE] {
        run(share).assert_fails(1, &["2.txt", "since the plan", "run `cloze prepare plan` again"]);
        assert_nothing_half_written(home, "shared");
    }
    restore(home);
    ok(RUN_LEASE);
    ok(FINALIZE);
    assert_equals_whole(home, "shared");
    fs::remove_dir_all(home.join("shared")).expect("made");
    // The fix that the error names: another plan.
    ok(PLAN);
    change(home, kind);
    run(RUN_INDEX).assert_fails(1, &["2.txt"]);
    for command in [PLAN, RUN_INDEX, FINALIZE] {
        ok(command);
    }
    home.run_ok(&["verify", "shared"]);
    restore(home);
    fs::remove_dir_all(home.join("shared")).expect("made");
}

#[test]
fn a_file_that_changes_or_vanishes_after_the_plan_is_refused_until_it_is_restored() {
    let home = prepared(60);
    for kind in [Change::Vanished, Change::Truncated, Change::OtherText] {
        check_refused_until_restored(&home, kind, &[]);
    }
}

/// An object has a version (`ETag`), so a change with the same length and time is noticed too.
#[test]
fn an_object_that_changes_or_vanishes_after_the_plan_is_refused_until_it_is_restored() {
    let home = prepared(60);
    let url = format!("prepare.inputs=[\"file://{}/\"]", home.join("corpus").display());
    for kind in [Change::Vanished, Change::Truncated, Change::OtherText, Change::OtherTextSameTime] {
        check_refused_until_restored(&home, kind, &["--set", &url]);
    }
}

/// Limit of the detection: without reading a file, its length and time are all that is known on another machine. The
/// commit records have hashes of what was read, so that the next `cloze prepare` finds the difference.
#[test]
fn a_change_that_keeps_length_and_time_is_found_by_the_next_preparation() {
    let home = prepared(60);
    home.run_ok(&args(PLAN, SHARED));
    change(&home, Change::OtherTextSameTime);
    home.run_ok(&args(RUN_INDEX, SHARED));
    home.run_ok(&args(FINALIZE, SHARED));
    home.run_ok(&["verify", "shared"]);
    home.run_ok(&args(&["prepare"], "prepare.folder=fresh"));
    let fresh = folder_hash(&home.join("fresh"));
    assert_eq!(folder_hash(&home.join("shared")), fresh, "all of it has the new text");
    let same = home.run_ok(&args(&["prepare"], SHARED));
    assert!(same.stdout.contains("nothing to do"), "{same}");
    // One share is made before the change, the other one after it.
    restore(&home);
    fs::remove_dir_all(home.join("shared")).expect("made");
    home.run_ok(&args(PLAN, SHARED));
    home.run_ok(&args(&["prepare", "run", "--index", "0", "--count", "2"], SHARED));
    change(&home, Change::OtherTextSameTime);
    home.run_ok(&args(&["prepare", "run", "--index", "1", "--count", "2"], SHARED));
    home.run_ok(&args(FINALIZE, SHARED));
    let mended = home.run_ok(&args(&["prepare"], SHARED));
    assert!(mended.stderr.contains("1 file replaced: dataset version 1"), "{mended}");
    home.run_ok(&["verify", "shared"]);
}

/// Changes all files of a running preparation, which is stopped meanwhile.
fn check_change_of_a_running_process(home: &Home, command: &[&str], kind: Change, words: &[&str]) {
    let folder = home.join("shared");
    let slow = ["--slow", "writer=300", "--set", "prepare.workers=1"];
    let known = records(&folder).len();
    let running = home.watch(&[&args(command, SHARED)[..], &slow].concat());
    let began = Instant::now();
    while records(&folder).len() == known {
        assert!(began.elapsed() < WAIT_MAX, "no progress");
        thread::yield_now();
    }
    running.freeze();
    let before = records(&folder);
    fs::rename(home.join("corpus"), home.join("kept")).expect("moved");
    fs::create_dir(home.join("corpus")).expect("made");
    for name in files(&home.join("kept")).keys() {
        kind.write(&home.join("kept").join(name), &home.join("corpus").join(name));
    }
    running.wake();
    let outcome = running.end();
    print_uncaptured(&format!("{kind:?}, {} of the parts: {}", before.len(), outcome.stderr.trim()));
    outcome.assert_fails(1, words);
    assert_kept(&folder, &before);
    assert_nothing_half_written(home, "shared");
    fs::remove_dir_all(home.join("corpus")).expect("made");
    fs::rename(home.join("kept"), home.join("corpus")).expect("moved");
}

#[test]
fn files_that_change_or_vanish_while_shares_are_made_fail_their_parts_only() {
    let home = prepared(60);
    home.run_ok(&args(PLAN, SHARED));
    let kinds = [Change::Truncated, Change::OtherText, Change::Vanished];
    for (share, kind) in [RUN_INDEX, RUN_LEASE, RUN_INDEX].into_iter().zip(kinds) {
        let word = if kind == Change::Vanished {
            "removed after the preparation began"
        } else {
            "changed after the preparation began"
        };
        check_change_of_a_running_process(&home, share, kind, &["corpus/", word]);
    }
    finish(&home, SHARED);
}

#[test]
fn files_that_change_or_vanish_during_a_plain_preparation_fail_their_parts_only() {
    let home = prepared(60);
    for kind in [Change::OtherText, Change::Vanished] {
        let word = if kind == Change::Vanished {
            "removed after the preparation began"
        } else {
            "changed after the preparation began"
        };
        check_change_of_a_running_process(&home, &["prepare"], kind, &["corpus/", word]);
    }
    home.run_ok(&args(&["prepare"], SHARED));
    assert_equals_whole(&home, "shared");
}
