//! Preparation gives the same bytes for any number of workers, and after any interruption.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use testkit::{Home, files, folder_hash, is_temporary, print_uncaptured, send};

/// Small parts give many commits, and therefore many points for a kill.
const SMALL_PARTS: [&str; 2] = ["--set", "prepare.part_bytes=6000"];

fn prepare<'a>(folder: &'a str, workers: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["prepare", "--set", folder, "--set", workers];
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

/// Names only: the program is running, and a file may disappear while it is read.
fn temporary_files(folder: &Path) -> Vec<String> {
    let below = ["", "parts", "train", "valid"].map(|name| folder.join(name));
    let entries = below.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| is_temporary(name)).collect()
}

#[test]
fn one_and_four_actors_write_the_same_bytes() {
    let home = corpus();
    home.run_ok(&prepare("prepare.folder=one", "prepare.workers=1", &[]));
    home.run_ok(&prepare("prepare.folder=four", "prepare.workers=4", &[]));
    assert!(committed(&home.join("one")) > 10, "too few parts to prove anything");
    assert_eq!(folder_hash(&home.join("one")), folder_hash(&home.join("four")));
}

/// Kills at chosen numbers of commits, and once while a shard's temporary file exists. The commits that were reported
/// stay unchanged.
#[test]
fn kills_change_nothing_and_no_finished_part_is_made_twice() {
    let home = corpus();
    home.run_ok(&prepare("prepare.folder=whole", "prepare.workers=1", &[]));
    let parts = committed(&home.join("whole"));
    let folder = home.join("killed");
    let args = prepare("prepare.folder=killed", "prepare.workers=2", &[]);
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
            assert!(began.elapsed() < Duration::from_secs(120), "no progress");
        };
        child.kill().expect("SIGKILL, or gone already");
        child.wait().expect("it ended");
        let now = committed(&folder);
        let temporary = temporary_files(&folder);
        print_uncaptured(&format!("kill {kill}: {now} of {parts} parts committed, temporary files {temporary:?}"));
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

#[test]
fn stop_message_names_the_finished_parts() {
    let home = corpus();
    let folder = home.join("stopped");
    let args = prepare("prepare.folder=stopped", "prepare.workers=1", &[]);
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let kept = committed(&folder);
        let child = home.spawn(&args);
        let began = Instant::now();
        while committed(&folder) <= kept {
            assert!(began.elapsed() < Duration::from_secs(120), "no progress");
        }
        send(&child, signal);
        let outcome = child.wait_with_output().expect("it ended");
        let stderr = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert_eq!(outcome.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains("parts, which are kept; the same command continues"), "{stderr}");
    }
    home.run_ok(&args);
    home.run_ok(&prepare("prepare.folder=whole", "prepare.workers=1", &[]));
    assert_eq!(folder_hash(&folder), folder_hash(&home.join("whole")));
}

/// Returns the commit records and their shards.
fn files_of_commits(folder: &Path) -> Vec<(String, Vec<u8>)> {
    if !folder.exists() {
        return Vec::new();
    }
    let all = files(folder);
    let record = |name: &str| {
        let stem = name.split_once("/part-")?.1.get(.."00000-00".len())?;
        Some(format!("parts/part-{stem}.json"))
    };
    let vouched = |name: &String| record(name).is_some_and(|record| all.contains_key(&record));
    all.iter().filter(|(name, _)| vouched(name)).map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

/// Kills `args` at increasing numbers of commits until it ends on its own. Returns the number of kills.
fn kill_at_every_commit(home: &Home, folder: &str, args: &[&str]) -> usize {
    let folder = home.join(folder);
    let mut kills = 0;
    for _ in 0..60 {
        let before = committed(&folder);
        let mut child = home.spawn(args);
        let began = Instant::now();
        let ended = loop {
            if child.try_wait().expect("a child").is_some() {
                break true;
            }
            if committed(&folder) != before {
                break false;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "no progress");
        };
        child.kill().expect("SIGKILL, or gone already");
        child.wait().expect("it ended");
        if ended {
            break;
        }
        kills += 1;
    }
    kills
}

/// Two hundred files, and a compressed one whose text is committed every few kilobytes.
fn many() -> Home {
    let home = Home::with_corpus(10);
    for (file, text) in testkit::corpus::documents(800).chunks(4).enumerate() {
        home.write(&format!("many/{file:03}.txt"), &(text.join("\n") + "\n"));
    }
    let text = testkit::corpus::documents(1000)[800..].join("\n");
    let zstd = zstd::encode_all(text.as_bytes(), 1).expect("memory");
    store::Store::folder(home.path()).and_then(|store| store.put("many/z.txt.zst", &zstd)).expect("written");
    home.run_ok(&["tokenizer", "train", "--set", "prepare.inputs=[\"many\"]"]);
    home
}

const MANY: [&str; 6] =
    ["--set", "prepare.inputs=[\"many\"]", "--set", "prepare.part_bytes=10000", "--set", "prepare.segment_bytes=20000"];

/// A change of one file among two hundred remakes its part only. The program's own counts are checked.
#[test]
fn change_of_one_file_remakes_its_part_only() {
    let home = many();
    let prepare = || home.run_ok(&[&["prepare"][..], &MANY].concat());
    prepare();
    let objects = || -> BTreeMap<String, Vec<u8>> {
        let is_part =
            |name: &String| ["train/", "valid/", "documents/", "parts/"].iter().any(|at| name.starts_with(at));
        files(&home.join("data")).into_iter().filter(|(name, _)| is_part(name)).collect()
    };
    let reported = |outcome: &testkit::Outcome| -> (u64, String) {
        let line = outcome.stdout.lines().find(|line| line.contains("parts made")).expect("a report").to_owned();
        let made = line.split_once(": ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        let read = line.split(", ").find(|part| part.contains("of input read")).expect("bytes").to_owned();
        (made.expect("a number"), read)
    };
    let mut before = objects();
    let mut change = |name: &str, dataset_version: usize, words: &[&str], outcome: &testkit::Outcome| {
        for word in words {
            assert!(outcome.stderr.contains(word), "`{word}` is missing in\n{outcome}");
        }
        let (made, read) = reported(outcome);
        let after = objects();
        let kept = before.iter().filter(|(name, bytes)| after.get(*name) == Some(bytes)).count();
        let gone = before.len() - kept;
        print_uncaptured(&format!("{name}: {made} parts made, {read}, {kept} objects of parts kept, {gone} gone"));
        assert!((1..=2).contains(&made) && gone <= 4, "{name}: {gone} objects changed");
        assert!(home.join(&format!("data/versions/{dataset_version:05}.json")).exists());
        before = after;
    };
    let documents = testkit::corpus::documents(1100);
    home.write("many/new.txt", &documents[1000..1004].join("\n"));
    change("add", 1, &["1 file added: dataset version 1 drops 0 parts and makes 1 part"], &prepare());
    home.write("many/050.txt", &documents[1010..1015].join("\n"));
    change("replace", 2, &["1 file replaced: dataset version 2 drops 1 part"], &prepare());
    std::fs::remove_file(home.join("many/051.txt")).expect("there");
    change("remove", 3, &["1 file removed: dataset version 3 drops 1 part"], &prepare());
    let id = blake3::hash(documents[4 * 120].as_bytes()).to_hex().to_string();
    let forget = [&["prepare", "forget", "--document", &id][..], &MANY].concat();
    let outcome = home.run_ok(&forget);
    assert!(outcome.stdout.contains("forgotten; runs that read"), "{outcome}");
    change("forget", 4, &["1 document to forget: dataset version 4 drops 1 part"], &outcome);
    let again = home.run_ok(&forget);
    assert!(
        again.stdout.contains("forgotten already, in dataset version 4") && again.stdout.contains("nothing to do"),
        "{again}"
    );
    let unknown = [&["prepare", "forget", "--document", "unknown"][..], &MANY].concat();
    home.run(&unknown).assert_fails(2, &["no document `unknown`"]);
    home.run(&["prepare", "forget", "--document", "x", "--set", "prepare.folder=elsewhere"])
        .assert_fails(2, &["no prepared corpus"]);
}

/// Kills at every commit of the first preparation and of each kind of change. The result is byte-identical.
#[test]
fn killed_change_equals_an_uninterrupted_change() {
    let home = many();
    let documents = testkit::corpus::documents(1100);
    let id = blake3::hash(documents[4 * 120].as_bytes()).to_hex().to_string();
    let changes: [(&str, &dyn Fn()); 5] = [
        ("begin", &|| {}),
        ("add", &|| home.write("many/new.txt", &documents[1000..1080].join("\n"))),
        ("replace", &|| home.write("many/050.txt", &documents[1010..1090].join("\n"))),
        ("remove", &|| std::fs::remove_file(home.join("many/051.txt")).expect("there")),
        ("forget", &|| {}),
    ];
    let mut later_kills = 0;
    for (name, change) in changes {
        change();
        let verb: &[&str] = if name == "forget" { &["prepare", "forget", "--document", &id] } else { &["prepare"] };
        let args = |folder: &'static str| [verb, &MANY, &["--set", folder]].concat();
        home.run_ok(&args("prepare.folder=calm"));
        let kills = kill_at_every_commit(&home, "killed", &args("prepare.folder=killed"));
        print_uncaptured(&format!("{name}: killed {kills} times"));
        home.run_ok(&args("prepare.folder=killed"));
        assert!(kills >= 8 || name != "begin", "{name}: {kills} kills");
        later_kills += if name == "begin" { 0 } else { kills };
        assert_eq!(folder_hash(&home.join("killed")), folder_hash(&home.join("calm")), "{name}");
    }
    // On a busy machine, one change may end before its kill.
    assert!(later_kills >= 2, "{later_kills} kills");
}

/// All other parts finish while one large compressed file is still in progress.
#[test]
fn one_large_compressed_file_holds_up_no_other_part() {
    let home = many();
    let text = testkit::corpus::documents(6000).join("\n").repeat(8);
    let zstd = zstd::encode_all(text.as_bytes(), 1).expect("memory");
    store::Store::folder(home.path()).and_then(|store| store.put("many/z.txt.zst", &zstd)).expect("written");
    let args =
        [&["prepare"][..], &MANY, &["--set", "prepare.workers=2", "--set", "prepare.segment_bytes=400000"]].concat();
    let mut child = home.spawn(&args);
    let records = || -> Vec<serde_json::Value> {
        let parts = std::fs::read_dir(home.join("data/parts")).into_iter().flatten().flatten();
        let bytes = parts.filter_map(|entry| std::fs::read(entry.path()).ok());
        bytes.filter_map(|bytes| serde_json::from_slice(&bytes).ok()).collect()
    };
    let began = Instant::now();
    loop {
        let list = std::fs::read(home.join("data/versions/00000.json")).ok();
        let list: Option<serde_json::Value> = list.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let parts = list.and_then(|list| list["content"]["parts"].as_array().map(Vec::len));
        let done = records().iter().filter(|record| record["content"]["next"].is_null()).count();
        if parts.is_some_and(|parts| done == parts - 1) {
            break;
        }
        assert!(child.try_wait().expect("a child").is_none(), "{done} of {parts:?} parts, and it has ended");
        assert!(began.elapsed() < Duration::from_secs(240), "no progress");
    }
    let large = records().iter().filter(|record| record["content"]["part"]["pieces"][0]["name"] == "z.txt.zst").count();
    print_uncaptured(&format!("every other part is done while the compressed file has {large} segments"));
    child.kill().expect("SIGKILL");
    child.wait().expect("it ended");
}

#[test]
fn second_preparation_reports_that_nothing_is_to_do() {
    let home = corpus();
    let args = prepare("prepare.folder=data", "prepare.workers=2", &[]);
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

/// The printed document id is sufficient to remove the document.
#[test]
fn printed_document_can_be_removed() {
    let home = Home::prepared(60);
    let inspect = ["inspect", "batch", "0", "--rows", "1", "--set", "run.folder=run"];
    let shown = home.run_ok(&inspect);
    let line = shown.stdout.lines().find_map(|line| line.strip_prefix("document ")).expect("a document");
    let (id, place) = line.split_once(' ').expect("an id and a place");
    assert!(id.len() == 64 && place.contains(".txt, bytes "), "{line}");
    let forgotten = home.run_ok(&["prepare", "forget", "--document", id]);
    assert!(forgotten.stdout.contains("forgotten; runs that read"), "{forgotten}");
    let again = home.run_ok(&["inspect", "batch", "0", "--rows", "999", "--set", "run.folder=run"]);
    assert!(!again.stdout.contains(id), "{again}");
}

#[test]
fn invalid_or_undecided_batches_are_refused() {
    let home = Home::prepared(60);
    let run = |index: &str, rule: &str| {
        home.run(&["inspect", "batch", index, "--rows", "1", "--set", "run.folder=run", "--set", rule])
    };
    for index in ["9223372036854775807", "18446744073709551615"] {
        run(index, "data.version=pinned").assert_fails(2, &["there is no batch", "give a smaller one"]);
    }
    assert_eq!(run("1000000000000", "data.version=pinned").code, Some(0), "any number that there is, at once");
    run("1000000000000", "data.version=latest").assert_fails(2, &["is not decided yet", "give a batch below"]);
    assert_eq!(run("0", "data.version=latest").code, Some(0));
}

#[test]
fn file_names_are_escaped_for_terminals() {
    let home = Home::prepared(4);
    let key = home.run(&["plan", "--set", "views.\"a\u{1b}]0;b\u{7}\".kind=musk"]);
    key.assert_fails(2, &[]);
    let file = home.run(&["inspect", "shard", "x/y/\u{1b}[2J.parquet"]);
    assert_ne!(file.code, Some(0));
    for outcome in [key, file] {
        assert!(!outcome.stderr.contains(['\u{1b}', '\u{7}']), "{outcome}");
    }
}

/// Filters of the configuration, in a dry run and in a real one.
#[test]
fn a_dry_run_shows_what_the_filters_remove_and_writes_nothing() {
    let home = corpus();
    let sets =
        ["--set", "prepare.filters=[{kind=\"regex\", pattern=\"on Monday\"}, {kind=\"text_length\", min_words=1}]"];
    let args = |more: &[&'static str]| [&["prepare"], &sets[..], more].concat();
    let dry = home.run_ok(&args(&["--dry-run", "--sample", "0.5"]));
    assert!(dry.stdout.contains("filter regex: ") && dry.stdout.contains("× match"), "{dry}");
    assert!(dry.stdout.contains("estimate for the whole corpus: about "), "{dry}");
    assert!(!home.join("data").exists(), "a dry run writes nothing");
    let wrong = home.run(&args(&["--sample", "0.5"]));
    assert_eq!(wrong.code, Some(2), "{wrong}");
    let wrong = home.run(&args(&["--dry-run", "--sample", "0"]));
    assert!(wrong.code == Some(2) && wrong.stderr.contains("expected a share above 0"), "{wrong}");
}
