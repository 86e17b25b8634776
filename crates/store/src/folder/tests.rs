//! Replacements in every order: each process is stopped before each of its steps, and a seed says who continues.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use proptest::prelude::*;

use super::*;

/// A process of the play: stopped before each of its steps until it is let go on.
struct Actor<R> {
    step: Receiver<&'static str>,
    go: SyncSender<()>,
    thread: thread::JoinHandle<R>,
}

impl<R: Send + 'static> Actor<R> {
    /// An actor of the folder at `root`, stopped before its first step.
    fn start(root: &Path, act: impl FnOnce(&Folder) -> R + Send + 'static) -> Self {
        let (announce, step) = sync_channel(0);
        let (go, wait) = sync_channel(0);
        let mut folder = Folder::at(root.to_owned());
        let wait = Mutex::new(wait);
        folder.steps = Steps::with(move |name| {
            // Nobody listens any more where the test has failed: end without a word.
            if announce.send(name).is_ok() {
                let _ = wait.lock().expect("no holder of this lock panics").recv();
            }
        });
        let thread = thread::Builder::new().name("actor".to_owned()).spawn(move || act(&folder)).expect("spawned");
        Self { step, go, thread }
    }

    /// Lets it do its next step. False: it has ended.
    fn go_on(&mut self) -> bool {
        self.step.recv().is_ok_and(|_| self.go.send(()).is_ok())
    }

    /// Lets it go on to just before the `count`-th of its steps. Its name, or `None` if it ended before.
    fn go_on_to(&mut self, count: usize) -> Option<&'static str> {
        for _ in 1..count {
            if !self.go_on() {
                return None;
            }
        }
        self.step.recv().ok()
    }

    /// Wakes it from the step that it was stopped before, and stops it before the next.
    fn make_a_step(&mut self) {
        if self.go.send(()).is_ok() {
            // It may end instead.
            let _ = self.step.recv();
        }
    }

    /// Wakes it from the step that it was stopped before, and lets it run to its end.
    fn wake(mut self) -> R {
        // It may have ended.
        let _ = self.go.send(());
        while self.go_on() {}
        self.thread.join().expect("no actor panics")
    }

    fn end(mut self) -> R {
        while self.go_on() {}
        self.thread.join().expect("no actor panics")
    }
}

/// A success: what was replaced, and by what.
type Success = (Version, Version);

fn version(folder: &Folder) -> Version {
    folder.stat("x").expect("readable").expect("it is always there").version
}

/// Replaces what it finds, `times` times or until it is refused that often.
fn replacer(who: usize, times: usize) -> impl FnOnce(&Folder) -> Vec<Success> + Send {
    move |folder| {
        let mut successes = Vec::new();
        for time in 0..times {
            let expected = version(folder);
            match folder.replace("x", format!("{who} {time}").as_bytes(), &expected).expect("no replacement fails") {
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

/// Successes are a chain: each replaced what one other left, and nobody else's.
fn check_chain(first: Version, last: &Version, mut successes: Vec<Success>) {
    let mut at = first;
    while let Some(next) = successes.iter().position(|(expected, _)| *expected == at) {
        at = successes.swap_remove(next).1;
    }
    assert_eq!(successes, [], "replaced what somebody else had replaced, or was never seen");
    assert_eq!(at, *last, "published without being told so");
}

fn home() -> (tempfile::TempDir, Folder) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::at(home.path().to_owned());
    folder.create("x", b"first").expect("created");
    (home, folder)
}

/// Two are stopped, each before any of its steps; a third continues, or nobody does; somebody sweeps, or nobody does; the
/// two are woken.
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
            // The first makes one step; the second finds it there and runs to its end; then the first does.
            let [mut one, two] = late;
            one.make_a_step();
            successes.extend(two.wake().into_iter().chain(one.wake()));
            check_chain(first, &version(&folder), successes);
            folder.sweep("").expect("swept");
            assert_eq!(temporaries(&folder), Vec::<String>::new(), "{stop:?}");
        }
    }
    for step in ["begin", "write", "decide", "look", "rename", "clean", "read", "look for another"] {
        assert!(stops.contains(&step), "nobody was stopped before `{step}`");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Three that replace and one that sweeps, in an order that the numbers draw: a number's low bits say who continues,
    /// the others for how many steps.
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
fn what_a_dead_process_decided_is_carried_out_by_the_next() {
    let (home, folder) = home();
    let expected = version(&folder);
    let mut dying = Folder::at(home.path().to_owned());
    dying.steps = Steps::with(|step| assert_ne!(step, "look", "it has decided, and dies"));
    thread::Builder::new().spawn(move || replacer(0, 1)(&dying)).expect("spawned").join().expect_err("it dies");
    assert_eq!(folder.replace("x", b"mine", &expected).expect("answered"), Replaced::Changed);
    assert_eq!(folder.read("x").expect("readable").expect("there").0, b"0 0");
    let Replaced::Made(_) = folder.replace("x", b"mine", &version(&folder)).expect("answered") else {
        panic!("nothing stands in the way")
    };
    assert_eq!(folder.read("x").expect("readable").expect("there").0, b"mine");
}

#[test]
fn a_link_that_somebody_planted_is_not_followed() {
    let (home, folder) = home();
    let expected = version(&folder);
    let guard = temporary::guard_path(&home.path().join("x"), &expected);
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let victim = Folder::at(elsewhere.path().to_owned());
    victim.create("victim", b"precious").expect("created");
    std::os::unix::fs::symlink(elsewhere.path().join("victim"), &guard).expect("planted");
    let error = folder.replace("x", b"mine", &expected).expect_err("it leads nowhere");
    assert!(error.to_string().contains(".guard"), "{error}");
    assert_eq!(victim.read("victim").expect("readable").expect("there").0, b"precious");
}

#[test]
fn nothing_is_written_through_a_link() {
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let (home, folder) = home();
    let victim = Folder::at(elsewhere.path().to_owned());
    let plant = |name: &str, leads_to: &str| {
        std::os::unix::fs::symlink(elsewhere.path().join(leads_to), home.path().join(name)).expect("planted");
    };
    victim.create("victim", b"precious").expect("created");
    plant("put", "victim");
    let mut upload = folder.begin("put").expect("begun");
    upload.write_at(0, b"mine").expect("written");
    upload.commit().expect("committed");
    drop(upload);
    for (name, leads_to) in [("create", "victim"), ("nowhere", "gone")] {
        plant(name, leads_to);
        assert_eq!(folder.create(name, b"mine").expect("answered"), Created::Exists, "{name}");
    }
    plant("replace", "victim");
    let expected = folder.stat("replace").expect("readable").expect("it is there").version;
    folder.replace("replace", b"mine", &expected).expect("answered");
    for name in ["put", "replace"] {
        let there = fs::symlink_metadata(home.path().join(name)).expect("there");
        assert!(there.is_file() && folder.read(name).expect("readable").expect("there").0 == b"mine", "{name}");
    }
    assert_eq!(victim.read("victim").expect("readable").expect("there").0, b"precious");
    assert!(!elsewhere.path().join("gone").exists());
}

#[test]
fn a_link_that_leads_nowhere_is_not_nothing() {
    let (home, folder) = home();
    std::os::unix::fs::symlink(home.path().join("gone"), home.path().join("a")).expect("planted");
    for error in [folder.stat("a").expect_err("nobody knows"), folder.read("a").expect_err("nobody knows")] {
        assert!(error.to_string().contains("leads nowhere"), "{error}");
    }
    assert!(folder.stat("b").expect("readable").is_none() && folder.stat("x/b").expect("readable").is_none());
}

#[test]
fn a_sweep_does_not_enter_what_somebody_else_holds() {
    let (_home, folder) = home();
    let unfinished = |name: &str| {
        let mut temporary = Temporary::beside(&folder.path(name)).expect("made");
        temporary.kept = true;
        temporary.path.clone()
    };
    let ours = [unfinished("y"), unfinished("log/y")];
    folder.create("below/run/lock", b"held").expect("created");
    let theirs = [unfinished("below/run/y"), unfinished("below/run/checkpoints/step/y")];
    assert_eq!(folder.sweep("").expect("swept").len(), 2);
    assert!(ours.iter().all(|path| !path.exists()) && theirs.iter().all(|path| path.exists()));
    assert_eq!(folder.sweep("below/run").expect("swept by its holder").len(), 2);
}
