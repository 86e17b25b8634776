//! Faults of the shared phases of a preparation: kills, read-only folders, full disks.
//!
//! After each fault, the same commands continue. The folder then equals that of an undisturbed `cloze prepare`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use testkit::{Home, Outcome, files, folder_hash, is_temporary, print_uncaptured, root, skip};

use crate::faults::run_on_a_small_disk;

/// Folder of the undisturbed preparation, and that of the phases.
const WHOLE: &str = "prepare.folder=whole";
const SHARED: &str = "prepare.folder=shared";

/// Timeout of a wait for a change of a folder.
const WAIT_MAX: Duration = Duration::from_secs(120);

pub(crate) const PLAN: &[&str] = &["prepare", "plan"];
const SIGN_LEASE: &[&str] = &["prepare", "signatures", "--lease"];
pub(crate) const RUN_INDEX: &[&str] = &["prepare", "run", "--index", "0", "--count", "1"];
pub(crate) const RUN_LEASE: &[&str] = &["prepare", "run", "--lease"];
pub(crate) const FINALIZE: &[&str] = &["prepare", "finalize"];

/// Arguments of a command of `cloze prepare`, with small parts in the folder of `set`.
pub(crate) fn args<'a>(command: &[&'a str], set: &'a str) -> Vec<&'a str> {
    let small = ["--set", "prepare.part_bytes=1500", "--set", "prepare.workers=2", "--set", set];
    [command, &small].concat()
}

/// Home with a corpus of about a third of a part per document, prepared without faults in the folder `whole`.
pub(crate) fn prepared(documents: usize) -> Home {
    prepared_with(documents, &[])
}

fn prepared_with(documents: usize, settings: &[&str]) -> Home {
    let home = Home::with_corpus(documents);
    home.run_ok(&["tokenizer", "train"]);
    home.run_ok(&args(&[&["prepare"], settings].concat(), WHOLE));
    home
}

/// Returns the records of complete parts and signatures of a folder, also while a program changes it.
pub(crate) fn records(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let of = |kind: &str| std::fs::read_dir(folder.join(kind)).into_iter().flatten().flatten();
    let is_record = |path: &Path| path.extension().is_some_and(|extension| extension == "json");
    let paths = of("parts").chain(of("signatures")).map(|entry| entry.path()).filter(|path| is_record(path));
    let whole = paths.map(|path| (path.strip_prefix(folder).expect("below it").to_string_lossy().into_owned(), path));
    whole.filter_map(|(name, path)| Some((name, std::fs::read(path).ok()?))).collect()
}

/// Checks that every record of `before` is unchanged.
#[track_caller]
pub(crate) fn assert_kept(folder: &Path, before: &BTreeMap<String, Vec<u8>>) {
    let now = records(folder);
    for (name, bytes) in before {
        assert!(now.get(name) == Some(bytes), "{name} was complete, and has changed");
    }
}

/// Checks that no object of a folder differs from that of the undisturbed preparation, and that no temporary file is
/// left. Objects of the phases only are ignored.
#[track_caller]
pub(crate) fn assert_nothing_half_written(home: &Home, folder: &str) {
    let whole = files(&home.join("whole"));
    for (name, bytes) in files(&home.join(folder)) {
        let is_of_phases = name == "inputs.json" || name.starts_with("leases/");
        assert!(!is_temporary(&name), "{name} is left");
        assert!(is_of_phases || whole.get(&name) == Some(&bytes), "{name} is half-written");
    }
}

/// Checks that a folder equals the undisturbed one.
#[track_caller]
pub(crate) fn assert_equals_whole(home: &Home, folder: &str) {
    let expected = files(&home.join("whole"));
    let found = files(&home.join(folder));
    let names: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let differ: Vec<_> = names.into_iter().filter(|name| found.get(*name) != expected.get(*name)).collect();
    assert!(differ.is_empty(), "{folder} differs in {differ:?}");
}

/// Finishes a preparation that was disturbed, and compares it with the undisturbed one.
#[track_caller]
pub(crate) fn finish(home: &Home, set: &str) {
    home.run_ok(&args(RUN_INDEX, set));
    home.run_ok(&args(FINALIZE, set));
    let (_, folder) = set.split_once('=').expect("a setting");
    assert_equals_whole(home, folder);
    home.run_ok(&["verify", folder]);
}

/// Kills a process after each of more than a hundred parts, in shares by index and by lease in turn.
#[test]
fn hundred_kills_of_one_run_change_nothing() {
    let home = prepared(360);
    let folder = home.join("shared");
    let parts = records(&home.join("whole")).len();
    assert!(parts >= 100, "{parts} parts are too few for a hundred kills");
    home.run_ok(&args(PLAN, SHARED));
    let faults: Vec<String> = (0..parts).map(|part| format!("kill=part:{part}")).collect();
    let faults = faults.join(",");
    let mut kills = 0;
    loop {
        let before = records(&folder);
        let share = if kills % 2 == 0 { RUN_LEASE } else { RUN_INDEX };
        let outcome = home.run(&args(&[share, &["--inject-faults", &faults]].concat(), SHARED));
        assert_kept(&folder, &before);
        match outcome.code {
            Some(0) => break,
            None => kills += 1,
            Some(_) => panic!("{outcome}"),
        }
    }
    assert_eq!(kills, parts, "one kill for each part");
    std::fs::remove_file(folder.join("fault_injection.json")).expect("the kills are recorded");
    finish(&home, SHARED);
}

/// Names of all files of a folder, including temporary ones. A file may disappear meanwhile.
fn names(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            } else {
                found.insert(entry.path().to_string_lossy().into_owned());
            }
        }
    }
    found
}

/// Storm of kills over processes that run the same command at once.
struct Storm<'a> {
    home: &'a Home,
    args: Vec<&'a str>,
    /// Address of the random draws.
    seed: &'static str,
    kills_max: u32,
}

impl Storm<'_> {
    /// Draws a number below `count` for the kill of that number.
    fn draw(&self, kill: u32, what: &str, count: usize) -> usize {
        let [draw, _] = store::draws(&format!("{} {what} {kill}", self.seed));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number below `count`")]
        let drawn = (draw * count as f64) as usize;
        drawn
    }

    /// Runs `count` processes until all of them exit with 0. Kills and restarts one after a drawn number of changes of
    /// the folder. Returns the number of kills.
    fn run(&self, folder: &Path, count: usize) -> u32 {
        let mut children: Vec<Option<Child>> = (0..count).map(|_| Some(self.home.spawn(&self.args))).collect();
        let mut kills = 0;
        let mut changes_left = self.draw(kills, "changes", 8);
        let mut seen = names(folder);
        let mut last_change = Instant::now();
        while children.iter().any(Option::is_some) {
            children.iter_mut().for_each(forget_ended);
            let now = names(folder);
            if now == seen {
                assert!(last_change.elapsed() < WAIT_MAX, "no progress");
                continue;
            }
            seen = now;
            last_change = Instant::now();
            if changes_left > 0 || kills == self.kills_max {
                changes_left = changes_left.saturating_sub(1);
                continue;
            }
            let victim = self.draw(kills, "victim", count);
            let Some(mut child) = children[victim].take() else { continue };
            let before = records(folder);
            child.kill().expect("SIGKILL, or gone already");
            kills += u32::from(child.wait().expect("it ended").code().is_none());
            assert_kept(folder, &before);
            children[victim] = Some(self.home.spawn(&self.args));
            changes_left = self.draw(kills, "changes", 8);
        }
        kills
    }
}

/// Forgets a child that has exited with 0. Panics if it has failed.
fn forget_ended(slot: &mut Option<Child>) {
    let has_ended = slot.as_mut().is_some_and(|child| child.try_wait().expect("a child").is_some());
    if let Some(child) = slot.take_if(|_| has_ended) {
        let outcome = Outcome::new(child.wait_with_output().expect("it ended"));
        assert_eq!(outcome.code, Some(0), "{outcome}");
    }
}

#[test]
fn kills_at_random_instants_of_every_phase_change_nothing() {
    const DUPLICATES: [&str; 2] = ["--set", "prepare.duplicates.exact=true"];
    let home = prepared_with(120, &DUPLICATES);
    let folder = home.join("shared");
    let storm = |command: &[&'static str], seed, processes, kills_max| {
        let args = args(&[command, &DUPLICATES].concat(), SHARED);
        let kills = Storm { home: &home, args, seed, kills_max }.run(&folder, processes);
        print_uncaptured(&format!("{seed}: {kills} kills"));
        kills
    };
    storm(PLAN, "plan", 1, 6);
    let signed = storm(SIGN_LEASE, "signatures", 2, 20);
    let made = storm(RUN_LEASE, "run", 2, 30);
    storm(FINALIZE, "finalize", 1, 6);
    assert!(signed >= 5 && made >= 10, "{signed} and {made} kills");
    assert_equals_whole(&home, "shared");
    home.run_ok(&["verify", "shared"]);
}

/// Runs the program while `folder` is read-only; also for root. Returns nothing if no mount is allowed.
fn run_read_only(home: &Home, folder: &str, args: &[&str]) -> Option<Outcome> {
    let inner = home.command(args);
    let quote = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
    let words: Vec<String> = std::iter::once(inner.get_program()).chain(inner.get_args()).map(quote).collect();
    let script = format!(
        "mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} || exit 99\nexec {}",
        words.join(" ")
    );
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", &script]).current_dir(home.path());
    let outcome = Outcome::new(command.output().ok()?);
    let is_allowed = outcome.code != Some(99) && !outcome.stderr.contains("unshare: ");
    is_allowed.then_some(outcome)
}

/// Arguments that repair the folder `shared`.
fn repair(config: &str) -> Vec<&str> {
    let paths = [
        "--set",
        "tokenizer.vocab_size=400",
        "--set",
        "prepare.inputs=[\"corpus\"]",
        "--set",
        "prepare.format=text_lines",
        "--set",
        "prepare.tokenizer=tokenizer.json",
    ];
    args(&[&["verify", "shared", "--repair", "-c", config][..], &paths].concat(), SHARED)
}

#[test]
fn a_read_only_folder_is_named_and_unchanged_and_can_be_verified() {
    let home = prepared(30);
    let config = root().join("configs/tiny.toml").display().to_string();
    std::fs::create_dir(home.join("empty")).expect("made");
    let hint = "choose another folder";
    let new = args(&["prepare"], "prepare.folder=empty/data");
    let Some(outcome) = run_read_only(&home, "empty", &new) else {
        return skip("a read-only folder: `unshare -Urm` or a bind mount is not allowed here");
    };
    outcome.assert_fails(1, &["empty/data", "Read-only", hint]);
    let check = |command: &[&str]| {
        let before = folder_hash(&home.join("shared"));
        let outcome = run_read_only(&home, "shared", command).expect("allowed before");
        outcome.assert_fails(1, &["shared/", "Read-only", hint]);
        assert_eq!(folder_hash(&home.join("shared")), before, "{command:?}");
    };
    home.run_ok(&args(PLAN, SHARED));
    for command in [&["prepare"][..], PLAN, RUN_INDEX, RUN_LEASE, FINALIZE] {
        check(&args(command, SHARED));
    }
    home.run_ok(&args(RUN_LEASE, SHARED));
    check(&args(FINALIZE, SHARED));
    finish(&home, SHARED);
    let verified = || run_read_only(&home, "shared", &["verify", "shared"]).expect("allowed before");
    let sound = verified();
    assert_eq!(sound.code, Some(0), "{sound}");
    std::fs::remove_file(home.join("shared/parts/part-00001-00.json")).expect("there");
    verified().assert_fails(1, &["1 problem", "--repair"]);
    check(&repair(&config));
    home.run_ok(&repair(&config));
    finish(&home, SHARED);
}

#[test]
fn a_full_disk_in_any_phase_leaves_nothing_half_written() {
    let home = prepared(30);
    let check = |command: &[&str], bytes: u64| {
        let before = files(&home.join("shared"));
        let small = run_on_a_small_disk(&home, &args(command, SHARED), bytes);
        small.assert_fails(1, &["shared/", "free some space"]);
        assert_nothing_half_written(&home, "shared");
        let after = files(&home.join("shared"));
        assert!(before.keys().all(|name| after.contains_key(name)), "what was complete stays");
    };
    // Not even a lock fits, or the lock and no list.
    std::fs::create_dir(home.join("shared")).expect("made");
    check(PLAN, 100);
    check(PLAN, 700);
    home.run_ok(&args(PLAN, SHARED));
    // The leases fit, and no shard.
    for share in [RUN_INDEX, RUN_LEASE] {
        check(share, 100);
        check(share, 1500);
    }
    home.run_ok(&args(RUN_LEASE, SHARED));
    check(FINALIZE, 100);
    check(FINALIZE, 1500);
    assert!(!home.join("shared/manifest.json").exists());
    finish(&home, SHARED);
}
