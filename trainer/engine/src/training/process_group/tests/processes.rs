//! Ranks as processes that are killed or stopped. The test starts itself again as each rank.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// Set in a rank: its time limit in seconds.
const LIMIT: &str = "CLOZE_TEST_LIMIT";
/// Begins a line of a rank.
const MARK: &str = "rank says: ";

const WORLD_SIZE: u32 = 3;

/// Rank as a process.
struct Rank {
    process: Child,
    stdout: BufReader<ChildStdout>,
}

impl Rank {
    fn start(test: &str, rank: u32, port: u16, limit: u64) -> Self {
        let path = format!("training::process_group::tests::processes::{test}");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", &path, "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let numbers = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", WORLD_SIZE), ("MASTER_PORT", port.into())];
        command.envs(numbers.map(|(name, number)| (name, number.to_string())));
        command.env("MASTER_ADDR", LOOPBACK).env(LIMIT, limit.to_string());
        let mut process = command.spawn().expect("a process");
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, stdout }
    }

    /// Waits for the next line of the rank.
    fn line(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.stdout.read_line(&mut line).expect("text") > 0, "the rank ended without a line");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim_end().to_owned();
            }
        }
    }

    fn send(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        assert!(status.expect("`kill` runs").success());
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // A stopped process ends by SIGKILL, too. One that has ended is only reaped.
        self.process.kill().and_then(|()| self.process.wait()).expect("a child");
    }
}

fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{MARK}{line}").and_then(|()| stdout.flush()).expect("the parent reads");
}

/// Does the work of a rank, if this process is one: starts an all-reduce that the victim does not wait for.
fn be_rank(victim: u32) -> bool {
    let Ok(limit) = std::env::var(LIMIT) else { return false };
    let limit = Duration::from_secs(limit.parse().expect("a number"));
    let launch = Launch::from_env().expect("valid").expect("the parent sets the variables");
    let group = connect(&launch, Some(limit)).expect("all ranks join");
    group.barrier("the start").expect("all ranks come");
    let tensor = Tensor::ones([1 << 20], (Kind::Float, Device::Cpu));
    if launch.rank == victim {
        say("ready");
        // Until the parent ends.
        std::io::stdin().read_to_end(&mut Vec::new()).expect("a pipe");
        runtime::exit_now(0);
    }
    let pending = group.all_reduce("gradients", &tensor).expect("started");
    say(&pending.wait().expect_err("the victim does not come").to_string());
    runtime::exit_now(0)
}

/// Sends a signal to one rank while the others wait for it, and returns the errors of the others.
fn errors_after(test: &str, victim: u32, signal: &str, limit: u64) -> Vec<String> {
    let port = TcpListener::bind((LOOPBACK, 0)).and_then(|it| it.local_addr()).expect("a free port").port();
    let mut ranks: Vec<Rank> = (0..WORLD_SIZE).map(|rank| Rank::start(test, rank, port, limit)).collect();
    let victim = usize::try_from(victim).expect("small");
    assert_eq!(ranks[victim].line(), "ready");
    ranks[victim].send(signal);
    let others = ranks.iter_mut().enumerate().filter(|(rank, _)| *rank != victim);
    others.map(|(_, rank)| rank.line()).collect()
}

#[test]
fn a_rank_that_is_killed_is_named() {
    if be_rank(1) {
        return;
    }
    for error in errors_after("a_rank_that_is_killed_is_named", 1, "-KILL", 600) {
        let expected = "rank 1 does not respond (killed, stopped, or without a connection): rank ";
        assert!(
            error.starts_with(expected) && error.contains("in operation 2, the all-reduce of gradients: "),
            "{error}"
        );
    }
}

#[test]
fn a_rank_that_is_stopped_is_named() {
    if be_rank(2) {
        return;
    }
    for error in errors_after("a_rank_that_is_stopped_is_named", 2, "-STOP", 8) {
        let expected = "rank 2 does not respond (killed, stopped, or without a connection): rank ";
        assert!(error.starts_with(expected) && error.contains("no answer for 4 s"), "{error}");
    }
}

#[test]
fn a_killed_rank_that_serves_the_store_is_named() {
    if be_rank(0) {
        return;
    }
    for error in errors_after("a_killed_rank_that_serves_the_store_is_named", 0, "-KILL", 600) {
        let expected = "(served by rank 0) does not answer either: its process has ended or is stopped";
        assert!(error.contains("waited in operation 2, the all-reduce") && error.contains(expected), "{error}");
    }
}

#[test]
fn a_stopped_rank_that_serves_the_store_is_named() {
    if be_rank(0) {
        return;
    }
    for error in errors_after("a_stopped_rank_that_serves_the_store_is_named", 0, "-STOP", 8) {
        let expected = "(served by rank 0) does not answer either: its process has ended or is stopped";
        assert!(error.contains("no answer for 4 s") && error.contains(expected), "{error}");
    }
}
