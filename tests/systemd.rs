//! Messages of a run and of a preparation to systemd, in order, over a real socket.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use testkit::{Home, Outcome, send};

/// More messages than any of these tests receives.
const MESSAGES_MAX: usize = 10_000;

/// Receiver of the messages on its own thread, since a socket holds few messages.
struct Manager {
    path: PathBuf,
    received: Receiver<(Instant, String)>,
}

impl Manager {
    fn of(home: &Home, name: &str) -> Self {
        let path = home.join(name);
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let (sender, received) = sync_channel(MESSAGES_MAX);
        let listen = move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer) {
                let line = String::from_utf8(buffer[..length].to_vec()).expect("UTF-8");
                if line.is_empty() || sender.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        };
        runtime::spawn("manager", listen).expect("a thread");
        Self { path, received }
    }

    /// Starts a command as a service: without a terminal, with a keep-alive at least every second.
    fn start(&self, home: &Home, args: &[&str]) -> Child {
        let plain = home.command(args);
        let mut command = Command::new("setsid");
        command.arg("-w").arg(plain.get_program()).args(plain.get_args()).current_dir(home.path()).env("NO_COLOR", "1");
        command.env("NOTIFY_SOCKET", &self.path).env("WATCHDOG_USEC", "1000000").env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("setsid")
    }

    /// Waits for a message with this prefix.
    fn wait(&self, begin: &str, all: &mut Vec<(Instant, String)>) {
        loop {
            let received = self.received.recv_timeout(Duration::from_secs(120));
            all.push(received.unwrap_or_else(|_| panic!("never received `{begin}`: {all:?}")));
            if all.last().is_some_and(|(_, line)| line.starts_with(begin)) {
                return;
            }
        }
    }

    /// Receives the remaining messages.
    fn rest(self, all: &mut Vec<(Instant, String)>) {
        UnixDatagram::unbound().and_then(|socket| socket.send_to(b"", &self.path)).expect("it listens");
        all.extend(self.received);
    }
}

fn ended(child: Child) -> Outcome {
    Outcome::new(child.wait_with_output().expect("it ends"))
}

/// Returns the index of the first message with this prefix.
fn first(all: &[(Instant, String)], begin: &str) -> usize {
    let found = all.iter().position(|(_, line)| line.starts_with(begin));
    found.unwrap_or_else(|| panic!("`{begin}` was not received: {all:?}"))
}

#[test]
fn run_notifies_systemd_of_its_states_in_order() {
    let home = Home::prepared(60);
    let train = ["train", "--set", "run.folder=run", "--set", "train.steps=12", "--set", "report.every_steps=1"];
    let manager = Manager::of(&home, "first");
    let mut all = Vec::new();
    let child = manager.start(&home, &[&train[..], &["--slow", "step=600"]].concat());
    manager.wait("STATUS=step: step 3 of 12", &mut all);
    send(&child, libc::SIGHUP);
    manager.wait("RELOADING=1", &mut all);
    manager.wait("READY=1", &mut all);
    send(&child, libc::SIGTERM);
    let outcome = ended(child);
    assert_eq!(outcome.code, Some(143), "{outcome}");
    manager.rest(&mut all);
    let ready = first(&all, "READY=1");
    assert!(first(&all, "WATCHDOG=1") < first(&all, "STOPPING=1"), "{all:?}");
    assert!(ready < first(&all, "STATUS=step: ") && ready < first(&all, "RELOADING=1"), "{all:?}");
    assert!(all.iter().any(|(_, line)| line.contains(" of 12, ETA ")), "{all:?}");
    assert_eq!(all.iter().filter(|(_, line)| line == "STOPPING=1").count(), 1, "{all:?}");
    // The run continues to its end. A second start has nothing to do and is ready for it.
    for (name, last) in [("second", true), ("third", false)] {
        let manager = Manager::of(&home, name);
        let mut all = Vec::new();
        let outcome = ended(manager.start(&home, &train));
        assert_eq!(outcome.code, Some(0), "{outcome}");
        manager.rest(&mut all);
        assert!(first(&all, "READY=1") < first(&all, "STOPPING=1"), "{all:?}");
        assert_eq!(outcome.stdout.contains("step 12 "), last, "{outcome}");
    }
}

#[test]
fn stalled_run_sends_no_keep_alive_and_a_closed_socket_is_reported_once() {
    let home = Home::prepared(60);
    let sets = [
        "run.folder=run",
        "train.steps=3",
        "validation.every_steps=3",
        "validation.rows=8",
        "run.stall_timeout_seconds=1",
    ];
    let mut train = vec!["train", "--slow", "validation=5000"];
    train.extend(sets.iter().flat_map(|set| ["--set", *set]));
    let manager = Manager::of(&home, "socket");
    let mut all = Vec::new();
    let outcome = ended(manager.start(&home, &train));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    manager.rest(&mut all);
    let signs: Vec<Instant> = all.iter().filter(|(_, line)| line == "WATCHDOG=1").map(|(at, _)| *at).collect();
    let gaps = signs.windows(2).map(|pair| pair[1] - pair[0]).chain(signs.last().map(Instant::elapsed));
    let longest = gaps.max().expect("it lived");
    assert!(longest > Duration::from_secs(3), "silent for {longest:?} of five seconds: {all:?}");
    // The socket is closed.
    let mut command =
        home.command(&["train", "--set", "run.folder=gone", "--set", "train.steps=8", "--slow", "step=200"]);
    let outcome = Outcome::new(command.env("NOTIFY_SOCKET", home.join("socket")).output().expect("it starts"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(outcome.stderr.matches("NOTIFY_SOCKET=").count(), 1, "{outcome}");
}

#[test]
fn preparation_notifies_systemd() {
    let home = Home::with_corpus(40);
    home.run_ok(&["tokenizer", "train"]);
    let manager = Manager::of(&home, "first");
    let mut all = Vec::new();
    let child = manager.start(&home, &["prepare", "--slow", "writer=600", "--set", "prepare.part_bytes=4096"]);
    manager.wait("STATUS=prepare: ", &mut all);
    manager.wait("WATCHDOG=1", &mut all);
    send(&child, libc::SIGTERM);
    assert_eq!(ended(child).code, Some(143));
    manager.rest(&mut all);
    assert!(first(&all, "READY=1") < first(&all, "STATUS=prepare: "), "{all:?}");
    assert_eq!(all.last().map(|(_, line)| line.as_str()), Some("STOPPING=1"), "{all:?}");
    home.run_ok(&["prepare"]);
    let manager = Manager::of(&home, "second");
    let mut all = Vec::new();
    assert_eq!(ended(manager.start(&home, &["prepare"])).code, Some(0));
    manager.rest(&mut all);
    let states: Vec<&str> = all.iter().map(|(_, line)| line.as_str()).filter(|line| line.contains("=1")).collect();
    assert!(states.contains(&"READY=1") && states.contains(&"STOPPING=1"), "{all:?}");
}
