//! Preparing ends with the same bytes, for any number of actors and whatever stops it on the way.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Home, files, folder_hash, is_temporary, say};

/// Small parts, so that there are many commits to be killed between.
const SMALL_PARTS: [&str; 2] = ["--set", "prepare.part_bytes=6000"];

fn prepare<'a>(folder: &'a str, lanes: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["prepare", "--set", folder, "--set", lanes];
    args.extend(SMALL_PARTS);
    args.extend_from_slice(more);
    args
}

fn corpus() -> Home {
    let home = Home::with_corpus(1500);
    home.run_ok(&["tokenizer", "train"]);
    home
}

fn committed(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder.join("parts")).into_iter().flatten().flatten();
    entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
}

/// Names only: the program is at work, and a file may go while it is looked at.
fn temporary_files(folder: &Path) -> Vec<String> {
    let below = ["", "parts", "train", "valid"].map(|name| folder.join(name));
    let entries = below.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| is_temporary(name)).collect()
}

#[test]
fn one_and_four_actors_write_the_same_bytes() {
    let home = corpus();
    home.run_ok(&prepare("prepare.folder=one", "prepare.lanes=1", &[]));
    home.run_ok(&prepare("prepare.folder=four", "prepare.lanes=4", &[]));
    assert!(committed(&home.join("one")) > 10, "too few parts to prove anything");
    assert_eq!(folder_hash(&home.join("one")), folder_hash(&home.join("four")));
}

/// Kills at chosen numbers of commits and once while a shard's temporary file is there; each time the commits that
/// were reported stay as they are.
#[test]
fn kills_change_nothing_and_no_finished_part_is_made_twice() {
    let home = corpus();
    home.run_ok(&prepare("prepare.folder=whole", "prepare.lanes=1", &[]));
    let parts = committed(&home.join("whole"));
    let folder = home.join("killed");
    let args = prepare("prepare.folder=killed", "prepare.lanes=2", &[]);
    let mut between = 0;
    let mut torn = 0;
    for kill in 0..40 {
        let before = files_of_commits(&folder);
        let mut child = home.spawn(&args);
        // The first kills wait for more commits, the later ones for a shard that is being written.
        let seen = committed(&folder);
        let target = seen + parts / 8;
        let began = Instant::now();
        let ended = loop {
            if child.try_wait().expect("a child").is_some() {
                break true;
            }
            let now = committed(&folder);
            let enough = if kill < 3 { now >= target } else { now > seen && !temporary_files(&folder).is_empty() };
            if enough {
                break false;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "nothing happens");
        };
        child.kill().expect("SIGKILL, or gone already");
        child.wait().expect("it ended");
        let (now, temporary) = (committed(&folder), temporary_files(&folder));
        say(&format!("kill {kill}: {now} of {parts} parts committed, temporary files {temporary:?}"));
        for (name, bytes) in before {
            assert!(std::fs::read(folder.join(&name)).expect("still there") == bytes, "{name} was made twice");
        }
        between += usize::from(0 < now && now < parts);
        torn += usize::from(temporary.iter().any(|name| name.contains(".parquet")));
        if ended || now >= parts || (between >= 3 && torn >= 1) {
            break;
        }
    }
    assert!(between >= 3, "{between} kills between the first and the last commit");
    assert!(torn >= 1, "no kill left a half-written shard");
    home.run_ok(&args);
    assert_eq!(folder_hash(&folder), folder_hash(&home.join("whole")));
}

/// The commit records and the shards that they vouch for.
fn files_of_commits(folder: &Path) -> Vec<(String, Vec<u8>)> {
    if !folder.exists() {
        return Vec::new();
    }
    let all = files(folder);
    let record = |name: &str| name.split('-').nth(1).map(|number| format!("parts/part-{}.json", &number[..5]));
    let vouched = |name: &String| record(name).is_some_and(|record| all.contains_key(&record));
    all.iter().filter(|(name, _)| vouched(name)).map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

#[test]
fn a_second_run_has_nothing_to_do_and_says_so() {
    let home = corpus();
    let args = prepare("prepare.folder=data", "prepare.lanes=2", &[]);
    let first = home.run_ok(&args);
    assert!(first.stdout.contains("documents") && first.stdout.contains("tokens"), "{first}");
    let before = folder_hash(&home.join("data"));
    let second = home.run_ok(&args);
    assert!(second.stdout.contains("nothing to do"), "{second}");
    assert_eq!(folder_hash(&home.join("data")), before);
}

#[test]
fn tokenizer_training_gives_the_same_bytes_in_every_process() {
    for kind in ["wordpiece", "byte_bpe"] {
        let home = Home::with_corpus(300);
        let kind = format!("tokenizer.kind={kind}");
        let train = |file: &str| {
            let file = format!("prepare.tokenizer={file}");
            home.run_ok(&["tokenizer", "train", "--set", &kind, "--set", &file]);
        };
        train("a.json");
        train("b.json");
        let read = |name: &str| std::fs::read(home.join(name)).expect("it was written");
        assert!(read("a.json") == read("b.json"), "{kind}: two processes, two tokenizers");
    }
}
