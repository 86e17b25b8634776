//! Running program: its output, its phase, and signals to it.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr, ChildStdout};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::outcome::Outcome;

/// Timeout of all waits.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Interval between two polls of a state.
const POLL: Duration = Duration::from_millis(5);

/// Training whose output is read while it runs.
pub struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
    reported: String,
    logged: String,
}

impl Running {
    /// Wraps a child with piped stdout and stderr.
    pub fn new(mut child: Child) -> Self {
        let stdout = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let stderr = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        Self { child, stdout, stderr, reported: String::new(), logged: String::new() }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the training reports `step`. Panics if it ends before.
    pub fn wait_for_step(&mut self, step: u64) {
        while self.newest_step() < step {
            let line = self
                .stdout
                .next()
                .unwrap_or_else(|| panic!("the training ended before step {step}\n{}", self.reported));
            self.reported += &(line.expect("UTF-8") + "\n");
        }
    }

    /// Newest step in the lines read so far.
    fn newest_step(&self) -> u64 {
        let mut steps = self.reported.lines().filter(|line| line.contains("  loss "));
        let step = steps.next_back().and_then(|line| line.strip_prefix("step ")?.split_once(' ')?.0.parse().ok());
        step.unwrap_or(0)
    }

    /// Waits for a line on stderr that contains `words`, and returns it. Panics if the program ends before.
    pub fn wait_for_line(&mut self, words: &str) -> String {
        loop {
            let line =
                self.stderr.next().unwrap_or_else(|| panic!("the program ended before `{words}`\n{}", self.logged));
            let line = line.expect("UTF-8");
            self.logged.push_str(&line);
            self.logged.push('\n');
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Requests the state of the training by SIGUSR2 until it is in `phase`.
    pub fn wait_for_phase(&mut self, phase: &str) {
        let begun = Instant::now();
        loop {
            self.signal(libc::SIGUSR2);
            // `trainer: step for 0.4 s, 3 batches taken`
            let line = self.wait_for_line(" batches taken");
            if line.contains(&format!("trainer: {phase} for ")) {
                return;
            }
            assert!(begun.elapsed() < WAIT_MAX, "the training is never in phase `{phase}`\n{}", self.logged);
            thread::sleep(POLL);
        }
    }

    /// Waits until the program has a handler for a signal.
    pub fn wait_for_handler(&self, signal: libc::c_int) {
        wait_for_handler(&self.child, signal);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: libc::c_int) {
        send(&self.child, signal);
    }

    /// Stops the process and waits until it is stopped.
    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("the process exists");
            stat.rsplit_once(") ").expect("a name in parentheses").1.chars().next()
        };
        poll("the process is never stopped", || state() == Some('T'));
    }

    /// Continues a stopped process.
    pub fn wake(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Kills the process. Returns its newest reported step.
    pub fn kill(mut self) -> u64 {
        self.child.kill().expect("SIGKILL");
        self.finish();
        self.newest_step()
    }

    /// Waits for the end of the program.
    pub fn end(mut self) -> Outcome {
        self.finish()
    }

    fn finish(&mut self) -> Outcome {
        for line in self.stdout.by_ref() {
            self.reported += &(line.expect("UTF-8") + "\n");
        }
        for line in self.stderr.by_ref() {
            self.logged += &(line.expect("UTF-8") + "\n");
        }
        let status = self.child.wait().expect("it ended");
        Outcome { code: status.code(), stdout: self.reported.clone(), stderr: self.logged.clone() }
    }
}

/// Sends a signal to a child that has not been waited for.
pub fn send(child: &Child, signal: libc::c_int) {
    let signal = Signal::from_named_raw(signal).expect("a signal with a name");
    kill_process(Pid::from_child(child), signal).expect("sent");
}

/// Waits until a child has a handler for a signal. Before that, the signal would end it.
pub fn wait_for_handler(child: &Child, signal: libc::c_int) {
    poll(&format!("the program never handles signal {signal}"), || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim).unwrap_or_default();
        u64::from_str_radix(caught, 16).is_ok_and(|caught| caught >> (signal - 1) & 1 == 1)
    });
}

/// Waits until a child has a thread called `name`.
pub fn wait_for_thread(child: &Child, name: &str) {
    poll(&format!("the program never has a thread `{name}`"), || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten();
        let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.into_iter().any(|found| found.trim_end() == name)
    });
}

/// Polls until `is_reached`, for states without an event. Panics with `failure` after a timeout.
fn poll(failure: &str, is_reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_reached() {
        assert!(begun.elapsed() < WAIT_MAX, "{failure}");
        thread::sleep(POLL);
    }
}
