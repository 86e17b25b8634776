//! Replacements in every order: each process stops before each of its steps, and a seed selects the next to continue.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use proptest::prelude::*;

use super::*;

/// Process of a test, stopped before each of its steps until the test continues it.
struct Actor<R> {
    step: Receiver<&'static str>,
    go: SyncSender<()>,
    thread: thread::JoinHandle<R>,
}

impl<R: Send + 'static> Actor<R> {
    /// Starts an actor of the folder at `root`, stopped before its first step.
    fn start(root: &Path, act: impl FnOnce(&Folder) -> R + Send + 'static) -> Self {
        let (announce, step) = sync_channel(0);
        let (go, wait) = sync_channel(0);
        let mut folder = Folder::new(root.to_owned());
        let wait = Mutex::new(wait);
        folder.steps = Steps::with(move |name| {
            // The receiver is gone if the test has failed: end silently.
            if announce.send(name).is_ok() {
                let _ = wait.lock().expect("no holder of this lock panics").recv();
            }
        });
        let thread = thread::Builder::new().name("actor".to_owned()).spawn(move || act(&folder)).expect("spawned");
        Self { step, go, thread }
    }

    /// Runs the next step. Returns false if the actor has ended.
    fn go_on(&mut self) -> bool {
        self.step.recv().is_ok_and(|_| self.go.send(()).is_ok())
    }

    /// Runs up to just before the `count`-th step. Returns the step's name, or `None` if the actor ended before.
    fn go_on_to(&mut self, count: usize) -> Option<&'static str> {
        for _ in 1..count {
            if !self.go_on() {
                return None;
            }
        }
        self.step.recv().ok()
    }

    /// Continues the stopped actor and stops it before its next step.
    fn make_a_step(&mut self) {
        if self.go.send(()).is_ok() {
            // The actor may end instead.
            let _ = self.step.recv();
        }
    }

    /// Continues the stopped actor and lets it run to its end.
    fn wake(mut self) -> R {
        // The actor may have ended.
        let _ = self.go.send(());
        while self.go_on() {}
        self.thread.join().expect("no actor panics")
    }

    fn end(mut self) -> R {
        while self.go_on() {}
        self.thread.join().expect("no actor panics")
    }
}

/// Successful replacement: the replaced version and the new one.
type Success = (Version, Version);

fn version(folder: &Folder) -> Version {
    folder.head("x").expect("readable").expect("it is always there").version
}

/// Replaces the current version `times` times, or until it has failed that often.
fn replacer(who: usize, times: usize) -> impl FnOnce(&Folder) -> Vec<Success> + Send {
    move |folder| {
        let mut successes = Vec::new();
        for time in 0..times {
            let expected = version(folder);
            match folder
                .put_if_version("x", format!("{who} {time}").as_bytes(), &expected)
                .expect("no replacement fails")
            {
                Replaced::Made(stat) => successes.push((expected, stat.version)),
                Replaced::Changed => assert_ne!(version(folder), expected, "refused, and yet unchanged"),
            }
        }
        successes
    }
}

fn temporaries(folder: &Folder) -> Vec<String> {
    let mut found = Vec::new();
    let mut visit = |name: String, part: &str| {
        found.extend(name::is_temporary(part).then_some(name));
        Ok(())
    };
    folder.walk("", &mut visit).expect("readable");
    found
}

/// Checks that successes are a chain: each replaced the result of exactly one other.
fn check_chain(first: Version, last: &Version, mut successes: Vec<Success>) {
    let mut at = first;
    while let Some(next) = successes.iter().position(|(expected, _)| *expected == at) {
        at = successes.swap_remove(next).1;
    }
    assert_eq!(successes, [], "replaced a version that another actor had replaced, or that never existed");
    assert_eq!(at, *last, "published without being told so");
}

fn home() -> (tempfile::TempDir, Folder) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(home.path().to_owned());
    folder.put_if_absent("x", b"first").expect("created");
    (home, folder)
}

/// Two actors stop, each before any of its steps. A third continues, or none does; a sweep runs, or none does. Then the
/// two continue.
#[test]
fn replacements_stopped_at_any_step_and_woken_later_do_no_harm() {
    let mut stops = Vec::new();
    for (times, sweeps) in [(0, true), (3, false), (3, true)] {
        for stop in (1..7).flat_map(|first| (1..7).map(move |second| [first, second])) {
            let (home, folder) = home();
            let first = version(&folder);
            let late = [0, 1].map(|who| {
                let mut late = Actor::start(home.path(), replacer(who, 1));
                stops.extend(late.go_on_to(stop[who]));
                late
            });
            let mut successes = replacer(2, times)(&folder);
            assert!(successes.len() + 1 >= times, "{stop:?}: one decision at most was in the way");
            if sweeps {
                folder.sweep("").expect("swept");
            }
            // The first runs one step; the second finds its result and runs to its end; then the first does.
            let [mut one, two] = late;
            one.make_a_step();
            successes.extend(two.wake().into_iter().chain(one.wake()));
            check_chain(first, &version(&folder), successes);
            folder.sweep("").expect("swept");
            assert_eq!(temporaries(&folder), Vec::<String>::new(), "{stop:?}");
        }
    }
    for step in ["begin", "write", "decide", "look", "rename", "clean", "read", "look for another"] {
        assert!(stops.contains(&step), "no actor was stopped before `{step}`");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Three replacing actors and one sweeping actor, in a drawn order. The low bits of a number select the actor, the
    /// other bits its number of steps.
    #[test]
    fn replacements_exclude_one_another_in_every_order(turns in prop::collection::vec(0_u8..64, 0..60)) {
        let (home, folder) = home();
        let first = version(&folder);
        let mut actors: Vec<_> = (0..3).map(|who| Actor::start(home.path(), replacer(who, 3))).collect();
        let sweeper = |folder: &Folder| {
            (0..3).for_each(|_| drop(folder.sweep("").expect("swept")));
            Vec::new()
        };
        actors.push(Actor::start(home.path(), sweeper));
        for turn in turns {
            let actor = &mut actors[usize::from(turn % 4)];
            for _ in 0..=turn / 4 {
                if !actor.go_on() {
                    break;
                }
            }
        }
        let successes: Vec<_> = actors.into_iter().rev().flat_map(Actor::end).collect();
        prop_assert!(!successes.is_empty(), "of several, one succeeds");
        check_chain(first, &version(&folder), successes);
        folder.sweep("").expect("swept");
        prop_assert_eq!(temporaries(&folder), Vec::<String>::new());
    }
}

#[test]
fn interrupted_commit_is_finished_by_the_next_process() {
    let (home, folder) = home();
    let expected = version(&folder);
    let mut dying = Folder::new(home.path().to_owned());
    dying.steps = Steps::with(|step| assert_ne!(step, "look", "it has decided, and dies"));
    thread::Builder::new().spawn(move || replacer(0, 1)(&dying)).expect("spawned").join().expect_err("it dies");
    assert_eq!(folder.put_if_version("x", b"mine", &expected).expect("answered"), Replaced::Changed);
    assert_eq!(folder.get("x").expect("readable").expect("there").0, b"0 0");
    let Replaced::Made(_) = folder.put_if_version("x", b"mine", &version(&folder)).expect("answered") else {
        panic!("nothing stands in the way")
    };
    assert_eq!(folder.get("x").expect("readable").expect("there").0, b"mine");
}

#[test]
fn symbolic_links_are_not_followed() {
    let (home, folder) = home();
    let expected = version(&folder);
    let guard = temporary::guard_path(&home.path().join("x"), &expected);
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let victim = Folder::new(elsewhere.path().to_owned());
    victim.put_if_absent("victim", b"precious").expect("created");
    std::os::unix::fs::symlink(elsewhere.path().join("victim"), &guard).expect("planted");
    let error = folder.put_if_version("x", b"mine", &expected).expect_err("it leads nowhere");
    assert!(error.to_string().contains(".guard"), "{error}");
    assert_eq!(victim.get("victim").expect("readable").expect("there").0, b"precious");
}

#[test]
fn nothing_is_written_through_a_link() {
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let (home, folder) = home();
    let victim = Folder::new(elsewhere.path().to_owned());
    let plant = |name: &str, leads_to: &str| {
        std::os::unix::fs::symlink(elsewhere.path().join(leads_to), home.path().join(name)).expect("planted");
    };
    victim.put_if_absent("victim", b"precious").expect("created");
    plant("put", "victim");
    let mut upload = folder.begin_upload("put").expect("begun");
    upload.write_at(0, b"mine").expect("written");
    upload.commit().expect("committed");
    drop(upload);
    for (name, leads_to) in [("create", "victim"), ("nowhere", "gone")] {
        plant(name, leads_to);
        assert_eq!(folder.put_if_absent(name, b"mine").expect("answered"), Created::Exists, "{name}");
    }
    plant("replace", "victim");
    let expected = folder.head("replace").expect("readable").expect("it is there").version;
    folder.put_if_version("replace", b"mine", &expected).expect("answered");
    for name in ["put", "replace"] {
        let there = fs::symlink_metadata(home.path().join(name)).expect("there");
        assert!(there.is_file() && folder.get(name).expect("readable").expect("there").0 == b"mine", "{name}");
    }
    assert_eq!(victim.get("victim").expect("readable").expect("there").0, b"precious");
    assert!(!elsewhere.path().join("gone").exists());
}

#[test]
fn dangling_link_is_not_absent() {
    let (home, folder) = home();
    std::os::unix::fs::symlink(home.path().join("gone"), home.path().join("a")).expect("planted");
    for error in [folder.head("a").expect_err("a dangling link"), folder.get("a").expect_err("a dangling link")] {
        assert!(error.to_string().contains("broken symbolic link"), "{error}");
    }
    assert!(folder.head("b").expect("readable").is_none() && folder.head("x/b").expect("readable").is_none());
}

#[test]
fn a_sweep_does_not_enter_a_folder_with_another_holder() {
    let (_home, folder) = home();
    let unfinished = |name: &str| {
        let mut temporary = Temporary::create_for(&folder.path(name)).expect("made");
        temporary.kept = true;
        temporary.path.clone()
    };
    let ours = [unfinished("y"), unfinished("log/y")];
    folder.put_if_absent("below/run/lock", b"held").expect("created");
    let theirs = [unfinished("below/run/y"), unfinished("below/run/checkpoints/step/y")];
    assert_eq!(folder.sweep("").expect("swept").len(), 2);
    assert!(ours.iter().all(|path| !path.exists()) && theirs.iter().all(|path| path.exists()));
    assert_eq!(folder.sweep("below/run").expect("swept by its holder").len(), 2);
}

/// The first request of a rename had its effect, its answer was lost, and its repetition finds no file.
#[test]
fn a_rename_whose_answer_was_lost_is_a_commit() {
    let (home, folder) = home();
    let mut upload = folder.begin_upload("y").expect("begun");
    upload.write_at(0, b"mine").expect("written");
    let written = home.path().join(&temporaries(&folder)[0]);
    fs::rename(written, home.path().join("y")).expect("renamed");
    let stat = upload.commit().expect("it is there");
    assert_eq!(folder.get("y").expect("readable"), Some((b"mine".to_vec(), stat)));

    let mut swept = folder.begin_upload("y").expect("begun");
    swept.write_at(0, b"other").expect("written");
    fs::remove_file(home.path().join(&temporaries(&folder)[0])).expect("removed");
    let error = swept.commit().expect_err("another process removed it").to_string();
    assert!(error.contains("removed by another process"), "{error}");
    assert_eq!(folder.get("y").expect("readable").expect("there").0, b"mine");
}

/// exFAT, SMB, FUSE: the errors with which they refuse hard links.
#[test]
fn a_file_system_without_hard_links_excludes_by_renames() {
    for errno in [libc::EPERM, libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL] {
        let (home, folder) = home();
        faults::refuse(home.path(), "link", errno);
        let Created::Made(stat) = folder.put_if_absent("a/y", b"mine").expect("made") else { panic!("it is absent") };
        assert_eq!(folder.get("a/y").expect("readable"), Some((b"mine".to_vec(), stat)));
        assert_eq!(folder.put_if_absent("a/y", b"other").expect("answered"), Created::Exists);
        let expected = version(&folder);
        let Replaced::Made(_) = folder.put_if_version("x", b"mine", &expected).expect("answered") else {
            panic!("it has this version")
        };
        assert_eq!(folder.put_if_version("x", b"other", &expected).expect("answered"), Replaced::Changed);
        assert_eq!(temporaries(&folder), Vec::<String>::new());
    }
}

/// Without a call that excludes, two writers would not notice each other.
#[test]
fn a_file_system_without_a_necessary_call_is_one_clear_error() {
    type Write = fn(&Folder) -> io::Result<()>;
    let create: Write = |folder| folder.put_if_absent("y", b"mine").map(drop);
    let replace: Write = |folder| folder.put_if_version("x", b"mine", &version(folder)).map(drop);
    let put: Write = |folder| folder.begin_upload("x")?.commit().map(drop);
    for (calls, write, lacks) in [
        (&[("link", libc::EPERM), ("rename new", libc::EINVAL)][..], create, "neither hard links nor"),
        (&[("symlink", libc::EPERM)], replace, "no symbolic links"),
        (&[("rename", libc::EEXIST)], put, "no renames over an existing file"),
        (&[("rename", libc::ENOSYS)], put, "no renames"),
    ] {
        let (home, folder) = home();
        for (call, errno) in calls {
            faults::refuse(home.path(), call, *errno);
        }
        let error = write(&folder).expect_err(lacks);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let text = error.to_string();
        assert!(text.contains(lacks) && text.contains("choose a folder on a local disk"), "{text}");
        assert_eq!(folder.get("x").expect("readable").expect("there").0, b"first");
        assert_eq!(folder.get("y").expect("readable"), None);
    }
    let (home, folder) = home();
    faults::refuse(home.path(), "symlink", libc::EACCES);
    let error = replace(&folder).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

#[test]
fn a_folder_that_cannot_be_flushed_is_written() {
    for errno in [libc::EINVAL, libc::EOPNOTSUPP, libc::EACCES, libc::ENOSYS, libc::EBADF] {
        let (home, folder) = home();
        faults::refuse(home.path(), "sync folder", errno);
        folder.put_if_absent("a/y", b"mine").expect("made");
        let mut upload = folder.begin_upload("a/y").expect("begun");
        upload.write_at(0, b"more").expect("written");
        upload.commit().expect("committed");
        folder.delete("a/y").expect("removed");
        folder.put_if_version("x", b"mine", &version(&folder)).expect("answered");
    }
    let (home, folder) = home();
    faults::refuse(home.path(), "sync folder", libc::EIO);
    folder.put_if_absent("a/y", b"mine").expect_err("a disk that fails is not ignored");
}
