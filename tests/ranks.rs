//! Several ranks train the run that a single process trains.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::{Home, Outcome, values};

/// Two micro-batches per step, dropout 0.1, validations at 20, 40 and 60, checkpoints every 10 steps.
const RUN: [&str; 9] = [
    "train",
    "--set",
    "train.threads=1",
    "--set",
    "data.workers=1",
    "--set",
    "report.every_steps=1",
    "--set",
    "train.micro_batch_size=4",
];

/// Runs the command as every rank, and returns the outcomes in the order of the ranks.
fn run_ranks(home: &Home, ranks: u32, args: &[&str]) -> Vec<Outcome> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
    let start = |rank: u32| {
        let mut command: Command = home.command(args);
        let numbers = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", ranks), ("MASTER_PORT", u32::from(port))];
        command.envs(numbers.map(|(name, number)| (name, number.to_string()))).env("MASTER_ADDR", "127.0.0.1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let children: Vec<_> = (0..ranks).map(start).collect();
    children.into_iter().map(|child| Outcome::new(child.wait_with_output().expect("it ends"))).collect()
}

fn train_ranks(home: &Home, ranks: u32, args: &[&str]) {
    for (rank, outcome) in run_ranks(home, ranks, args).iter().enumerate() {
        assert_eq!(outcome.code, Some(0), "rank {rank}: {outcome}");
    }
}

fn args<'a>(folder: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [RUN.as_slice(), &["--set", folder], more].concat()
}

/// Numbers of the reports and validations that all ranks compute together.
fn numbers(value: &Value, path: &str, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Number(number) => found.push((path.to_owned(), number.as_f64().expect("finite"))),
        Value::Array(items) => items.iter().for_each(|item| numbers(item, path, found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, item)| numbers(item, &format!("{path}.{name}"), found));
        }
        _ => {}
    }
}

/// Compares the logs of two runs: equal texts such as the batch hash, and numbers up to rounding.
fn assert_near(home: &Home, expected: &str, run: &str) {
    let [expected, found] = [expected, run].map(|run| values(home, run));
    assert_eq!(expected.len(), found.len(), "{run}: number of events");
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected["batch_hash"], found["batch_hash"], "{run}: {found}");
        let [mut theirs, mut ours] = [Vec::new(), Vec::new()];
        numbers(expected, "", &mut theirs);
        numbers(found, "", &mut ours);
        assert_eq!(theirs.len(), ours.len(), "{run}: {expected}\n{found}");
        for ((path, expected), (_, found)) in theirs.iter().zip(&ours) {
            assert!(
                (expected - found).abs() <= 2e-3 * expected.abs().max(1.0),
                "{run}{path}: {found} is not {expected}"
            );
        }
    }
}

#[test]
fn ranks_train_the_run_of_a_single_process() {
    let home = Home::prepared(120);
    home.run_ok(&args("run.folder=one", &[]));
    train_ranks(&home, 2, &args("run.folder=two", &[]));
    assert_near(&home, "one", "two");
}

/// The checkpoint of step 50 is between two reports, so it has the sums of all ranks.
#[test]
fn a_run_continues_with_another_number_of_ranks() {
    let home = Home::prepared(120);
    let more = ["--set", "report.every_steps=4"];
    home.run_ok(&args("run.folder=one", &more));
    for (run, before, after) in [("more", 1, 4), ("fewer", 4, 2), ("single", 2, 1)] {
        let folder = format!("run.folder={run}");
        train_ranks(&home, before, &args(&folder, &more));
        std::fs::remove_dir_all(home.join(run).join("checkpoints/step-00000060")).expect("it was saved");
        train_ranks(&home, after, &args(&folder, &more));
        assert_near(&home, "one", run);
    }
}

#[test]
fn ranks_that_cannot_share_a_step_are_refused() {
    let home = Home::prepared(60);
    for (rank, outcome) in run_ranks(&home, 3, &args("run.folder=run", &[])).iter().enumerate() {
        assert_eq!(outcome.code, Some(2), "rank {rank}: {outcome}");
        assert!(outcome.stderr.contains("which 3 ranks cannot share"), "{outcome}");
    }
}
