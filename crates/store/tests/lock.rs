//! Two processes that compete for one folder.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use store::{Holder, LeaseConfig, Lock, LockError, Store};

use crate::child;

/// Short, to keep the test fast; long enough for a heartbeat on a busy machine.
const TERMS: LeaseConfig =
    LeaseConfig { heartbeat_interval: Duration::from_millis(50), takeover_delay: Duration::from_secs(2) };

/// Other process: takes the lock. For each line that it reads, it checks the lock and writes as a run would.
fn hold(store: &Store) {
    let lock = Lock::acquire(store, "lock", Holder::this_process(), TERMS).expect("free");
    let mut output = std::io::stdout();
    writeln!(output, "\nchild: took").expect("the parent reads");
    for line in std::io::stdin().lines() {
        let outcome = lock.check().and_then(|()| store.put("written", line?.as_bytes()));
        match outcome {
            Ok(_) => writeln!(output, "child: wrote"),
            Err(error) => writeln!(output, "child: {error}"),
        }
        .expect("the parent reads");
    }
}

struct Other {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts a child of that test, which holds the lock.
    fn start(test: &str, folder: &Path) -> Self {
        let mut child = child::command(&format!("lock::{test}"), folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut other = Self { input: child.stdin.take(), child, output };
        assert_eq!(other.says(), "took");
        other
    }

    /// Returns the child's next line. Lines of the test harness around it are skipped.
    fn says(&mut self) -> String {
        let mut lines = self.output.by_ref().map(|line| line.expect("readable"));
        lines.find_map(|line| line.strip_prefix("child: ").map(str::to_owned)).expect("it continues")
    }

    /// Lets the child write, and returns the result.
    fn writes(&mut self, text: &str) -> String {
        writeln!(self.input.as_mut().expect("open"), "{text}").expect("it reads");
        self.says()
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.expect("started").success());
    }

    /// Returns the letter of the child's state, from the kernel.
    fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it is there");
        stat.rsplit_once(") ").expect("a name in parentheses").1.chars().next().expect("a state")
    }

    fn end(mut self) {
        drop(self.input.take());
        let rest: Vec<_> = self.output.by_ref().map(|line| line.expect("readable")).collect();
        assert!(self.child.wait().expect("ended").success(), "{rest:?}");
    }
}

#[test]
fn a_process_that_is_stopped_loses_its_lock_and_notices_when_it_is_woken() {
    if let Some(store) = child::store() {
        return hold(&store);
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    let mut other = Other::start("a_process_that_is_stopped_loses_its_lock_and_notices_when_it_is_woken", home.path());
    assert_eq!(other.writes("first"), "wrote");
    let Err(LockError::Held { holder, .. }) = Lock::acquire(&store, "lock", Holder::this_process(), TERMS) else {
        panic!("the other holds it")
    };
    assert!(holder.to_string().contains(&format!("pid {} ", other.child.id())), "{holder}");

    other.signal("-STOP");
    while other.state() != 'T' {
        std::thread::yield_now();
    }
    let lock = Lock::acquire(&store, "lock", Holder::this_process(), TERMS).expect("it stands still");
    lock.check().expect("ours");
    store.put("written", b"second").expect("put");

    other.signal("-CONT");
    let refused = other.writes("late");
    assert!(
        refused.contains("lost the lock") && refused.contains(&format!("pid {} ", std::process::id())),
        "{refused}"
    );
    assert_eq!(store.get("written").expect("there"), b"second", "the process that lost the lock wrote");
    other.end();
    lock.check().expect("the end of the process that lost the lock changed nothing");
}

#[test]
fn killed_process_does_not_block_others() {
    if let Some(store) = child::store() {
        return hold(&store);
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    let mut other = Other::start("killed_process_does_not_block_others", home.path());
    other.child.kill().expect("killed");
    other.child.wait().expect("ended");
    // A test that waited for this takeover delay would not end in time.
    let terms = LeaseConfig { takeover_delay: Duration::from_secs(3600), ..TERMS };
    let lock = Lock::acquire(&store, "lock", Holder::this_process(), terms).expect("its holder is gone");
    lock.check().expect("ours");
}

#[test]
fn a_process_that_ends_leaves_the_lock_to_the_next() {
    if let Some(store) = child::store() {
        return hold(&store);
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    for text in ["first", "second"] {
        let mut other = Other::start("a_process_that_ends_leaves_the_lock_to_the_next", home.path());
        assert_eq!(other.writes(text), "wrote");
        other.end();
    }
}
