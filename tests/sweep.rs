//! `cloze sweep`: a grid of fine-tunings as one job that resumes.

use std::collections::BTreeMap;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Home, Outcome};

/// Prepares a tiny model `run`, and a task in `reviews`: a review is good if it names bread.
fn home() -> Home {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=4"]);
    let line = |number: usize| {
        let (what, label) = if number.is_multiple_of(2) { ("bread", "good") } else { ("soup", "bad") };
        format!(
            "{{\"text\": \"Anna ate {what} and drank {}\", \"label\": \"{label}\"}}\n",
            ["milk", "water"][number / 2 % 2]
        )
    };
    home.write("reviews/train.jsonl", &(0..64).map(line).collect::<String>());
    home.write("reviews/dev.jsonl", &(0..16).map(line).collect::<String>());
    let task = "kind = \"custom_classification\"\nlabels = [\"good\", \"bad\"]\n";
    home.write("task.toml", &format!("{task}[files]\ntrain = \"train.jsonl\"\ndev = \"dev.jsonl\"\n"));
    home
}

const TASK: [&str; 6] = ["sweep", "reviews", "--task", "task.toml", "--from", "run"];
/// Four runs: two learning rates with two seeds.
const GRID: [&str; 6] = ["--seeds", "2", "--lr", "1e-3,2e-3", "--max-seq-len", "32"];

fn args<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&TASK[..], &GRID, &["--out", out, "--set", "train.threads=1"], more].concat()
}

fn sweep(home: &Home, out: &str, more: &[&str]) -> Outcome {
    home.run(&args(out, more))
}

/// Returns the values of `results.jsonl` by run, set and metric.
fn values(home: &Home, out: &str) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(home.join(out).join("results.jsonl")).expect("results");
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    rows.map(|row| (format!("{} {} {}", row["run"], row["set"], row["metric"]), row["value"].clone())).collect()
}

/// Waits until a file exists.
fn wait_for_file(home: &Home, name: &str) {
    let begun = Instant::now();
    while !home.join(name).exists() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{name} is never written");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the child process of a sweep.
fn child_of(sweep: &Child) -> u32 {
    let begun = Instant::now();
    loop {
        let children = format!("/proc/{0}/task/{0}/children", sweep.id());
        let found = std::fs::read_to_string(children).unwrap_or_default();
        if let Some(pid) = found.split_whitespace().next() {
            return pid.parse().expect("a process id");
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the sweep starts no run");
        thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
}

#[test]
fn a_grid_is_run_reported_and_continued() {
    let home = home();
    let outcome = sweep(&home, "all", &["--jobs", "2"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    for words in ["4 runs of `custom_classification`: 0 finished", "[4/4] lr", "dev accuracy", "  lr 2e-3  "] {
        assert!(outcome.stdout.contains(words), "{words}: {outcome}");
    }
    let report = std::fs::read_to_string(home.join("all/report.md")).expect("a report");
    assert!(
        report.contains("4 finished. Seeds of each combination: 2. All runs: max_seq_len 32, train.threads 1.")
            && report.contains("| mean ± sd |"),
        "{report}"
    );
    assert!(home.join("all/results.parquet").is_file());
    assert!(home.join("all/predictions/run/dev.tsv").is_file());
    let all = values(&home, "all");
    assert!(all.keys().filter(|key| key.contains("\"accuracy\"")).count() == 4, "{all:?}");

    // Nothing is left to do, and the report stays.
    let again = sweep(&home, "all", &[]);
    assert!(again.code == Some(0) && again.stdout.contains("4 finished") && !again.stdout.contains("[4/4]"), "{again}");
    assert_eq!(std::fs::read_to_string(home.join("all/report.md")).expect("a report"), report);
    let reported = home.run_ok(&["sweep", "report", "all", "--statistic", "best"]);
    assert!(reported.stdout.contains("The best run"), "{reported}");
    home.run_ok(&["report", "all", "--out", "report.html"]);
    let page = std::fs::read_to_string(home.join("report.html")).expect("a page");
    assert!(page.contains("Sweep on custom_classification") && page.contains("<svg"), "{page}");

    // Other arguments are another sweep.
    home.run(&[&TASK[..], &["--out", "all", "--seeds", "3", "--lr", "1e-3"]].concat()).assert_fails(
        2,
        &["sweep.json", "seeds: 2 there, 3 here", "lr: [\"1e-3\",\"2e-3\"] there, [\"1e-3\"] here", "max_seq_len"],
    );
    home.run(&["sweep", "report", "run"]).assert_fails(2, &["no sweep is here", "sweep.json"]);
    home.run(&["report", "all", "run"]).assert_fails(2, &["runs and sweeps"]);
    home.run(&["sweep", "report", "all", "--average", "coco-lm"]).assert_fails(2, &["no sweep on MNLI"]);

    // A file has the same keys.
    home.write(
        "sweep.toml",
        "data = \"reviews\"\ntask = \"task.toml\"\nfrom = \"run\"\nseeds = 2\nlr = [0.001, 2e-3]\nmax_seq_len = 32\n\
         set = { \"train.threads\" = 1 }\n",
    );
    let file = home.run(&["sweep", "sweep.toml", "--out", "all"]);
    assert!(file.code == Some(0) && file.stdout.contains("4 finished"), "{file}");
    home.run(&["sweep", "sweep.toml", "--seeds", "3", "--out", "all"]).assert_fails(2, &["sweep.toml", "only --out"]);
}

#[test]
fn a_killed_sweep_continues_and_keeps_what_was_finished() {
    let home = home();
    // The first run that is finished is kept as it is; a run that is killed continues from its checkpoint.
    let mut begun = home.spawn(&args("out", &["--epochs", "4"]));
    wait_for_file(&home, "out/runs/lr1e-3-seed1/run/results.json");
    wait_for_file(&home, "out/runs/lr1e-3-seed2/run/checkpoints/latest");
    let child = child_of(&begun);
    begun.kill().expect("it runs");
    begun.wait().expect("it ended");
    kill(child);
    let results = home.join("out/runs/lr1e-3-seed1/run/results.json");
    let time = || results.metadata().expect("there").modified().expect("a time");
    let before = time();
    let outcome = sweep(&home, "out", &["--epochs", "4"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(time(), before, "a finished run is not repeated");
    let log = std::fs::read_to_string(home.join("out/runs/lr1e-3-seed2/output.log")).expect("a log");
    assert!(log.contains("continuing after step"), "{log}");
    let undisturbed = sweep(&home, "other", &["--epochs", "4"]);
    assert_eq!(undisturbed.code, Some(0), "{undisturbed}");
    assert_eq!(values(&home, "out"), values(&home, "other"));
}

#[test]
fn a_killed_run_is_a_failure_and_the_others_continue() {
    let home = home();
    let begun = home.spawn(&args("out", &["--epochs", "4"]));
    wait_for_file(&home, "out/runs/lr1e-3-seed1/run/lock");
    kill(child_of(&begun));
    let ended = Outcome::new(begun.wait_with_output().expect("it ends"));
    ended.assert_fails(1, &["lr1e-3-seed1: failed with signal 9", "output.log", "1 run failed"]);
    let report = std::fs::read_to_string(home.join("out/report.md")).expect("a report");
    assert!(report.contains("3 finished, 1 failed") && report.contains("signal 9"), "{report}");
    let outcome = sweep(&home, "out", &["--epochs", "4"]);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("] lr1e-3-seed1: dev"), "{outcome}");
}

#[test]
fn two_processes_share_the_runs() {
    let home = home();
    let processes = [(); 2].map(|()| home.watch(&args("out", &[])));
    let outcomes = processes.map(testkit::Running::end);
    let mut started = 0;
    for outcome in &outcomes {
        assert_eq!(outcome.code, Some(0), "{outcome}");
        started += outcome.stdout.lines().filter(|line| line.starts_with('[')).count();
    }
    assert_eq!(started, 4, "each run once: {}{}", outcomes[0], outcomes[1]);
    let report = std::fs::read_to_string(home.join("out/report.md")).expect("a report");
    assert!(report.contains("4 finished."), "{report}");
    // Processes that split the runs by number take none of each other's.
    let half = sweep(&home, "split", &["--index", "1", "--count", "2"]);
    assert!(half.code == Some(0) && half.stdout.contains("[2/2]"), "{half}");
    let names: Vec<_> =
        std::fs::read_dir(home.join("split/runs")).expect("runs").flatten().map(|it| it.file_name()).collect();
    assert!(names.iter().all(|name| name.to_string_lossy().ends_with("seed2")) && names.len() == 2, "{names:?}");
}

#[test]
fn a_stop_saves_the_runs_and_a_failing_run_is_reported() {
    let home = home();
    let begun = home.spawn(&args("out", &["--epochs", "40"]));
    wait_for_file(&home, "out/runs/lr1e-3-seed1/run/checkpoints/latest");
    testkit::send(&begun, libc::SIGTERM);
    let stopped = Outcome::new(begun.wait_with_output().expect("it ends"));
    assert_eq!(stopped.code, Some(143), "{stopped}");
    let log = std::fs::read_to_string(home.join("out/runs/lr1e-3-seed1/output.log")).expect("a log");
    assert!(log.contains("saved"), "{log}");

    let failing = [&TASK[..], &["--out", "bad", "--set", "train.precision=f32,f9", "--max-seq-len", "32"]].concat();
    let outcome = home.run(&failing);
    outcome.assert_fails(1, &["precisionf9-seed1: failed with exit code 2", "1 run failed"]);
    assert!(outcome.stdout.contains("precisionf32-seed1: dev: accuracy"), "{outcome}");

    let refused = |more: &[&str], words: &[&str]| {
        home.run(&[&TASK[..], &["--out", "none"], more].concat()).assert_fails(2, words);
        assert!(!home.join("none").exists(), "nothing is written");
    };
    refused(&["--lr", "0"], &["--lr `0`"]);
    refused(&["--index", "2", "--count", "2"], &["--index 2", "below --count"]);
    refused(&["--from", "absent"], &["--from", "absent", "neither a run"]);
    refused(&["--preset", "none"], &["--preset", "coco-lm-base"]);
    home.run(&["sweep", "reviews", "--from", "run", "--out", "none"]).assert_fails(2, &["--task"]);
}
