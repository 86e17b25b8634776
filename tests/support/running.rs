//! A program under way: what it has said so far, and signals to it.

use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::process::{Child, ChildStdout};

use super::Outcome;

/// A training that somebody watches.
pub(crate) struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    said: String,
}

impl Running {
    /// Watches a child whose outputs are piped.
    pub(crate) fn of(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, lines, said: String::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns once it has reported that step, or fails if it ends before.
    pub(crate) fn reach(&mut self, step: u64) {
        while self.newest_step() < step {
            let line = self.lines.next().unwrap_or_else(|| panic!("it ended before step {step}\n{}", self.said));
            self.said += &(line.expect("UTF-8") + "\n");
        }
    }

    /// The newest step that it has reported, as far as anybody has read.
    fn newest_step(&self) -> u64 {
        let mut steps = self.said.lines().filter(|line| line.contains("  loss "));
        let step = steps.next_back().and_then(|line| line.strip_prefix("step ")?.split_once(' ')?.0.parse().ok());
        step.unwrap_or(0)
    }

    pub(crate) fn signal(&self, signal: libc::c_int) {
        super::send(&self.child, signal);
    }

    /// Stops it, whatever it does, and returns once it stands still.
    pub(crate) fn freeze(&self) {
        self.signal(libc::SIGSTOP);
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it is there");
            stat.rsplit_once(") ").expect("a name in parentheses").1.chars().next()
        };
        while state() != Some('T') {
            std::thread::yield_now();
        }
    }

    pub(crate) fn wake(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Kills it at once. Returns the newest step that it has reported.
    pub(crate) fn kill(mut self) -> u64 {
        self.child.kill().expect("SIGKILL");
        self.finish();
        self.newest_step()
    }

    /// Its end, and all that it said.
    pub(crate) fn end(mut self) -> Outcome {
        self.finish()
    }

    fn finish(&mut self) -> Outcome {
        for line in self.lines.by_ref() {
            self.said += &(line.expect("UTF-8") + "\n");
        }
        let mut stderr = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut stderr).expect("UTF-8");
        let status = self.child.wait().expect("it ended");
        Outcome { code: status.code(), stdout: self.said.clone(), stderr }
    }
}
