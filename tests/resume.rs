//! A run that was stopped, by whatever means, ends as if it had not been.

use testkit::{Home, assert_equal_runs, every_objective, files, values, with_every_objective};

/// Dropout 0.1, two terms, two micro-batches a step, a validation at 20, 40 and 60, checkpoints every 10 steps, and
/// few enough rows that several epochs go by (`tiny.toml` and these overrides).
fn train<'a>(run: &'a str, workers: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args =
        vec!["train", "--set", run, "--set", workers, "--set", "report.every_steps=1", "--set", "train.threads=1"];
    args.extend_from_slice(more);
    args
}

#[test]
fn resume_is_bit_exact_after_sigkill_for_any_number_of_workers() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=whole", "data.workers=1", &[]));
    for (run, workers) in [("one", "data.workers=1"), ("four", "data.workers=4")] {
        let folder = format!("run.folder={run}");
        let mut running = home.watch(&train(&folder, workers, &[]));
        running.reach(37);
        assert!(running.kill() < 60, "the kill came too late to prove anything");
        home.run_ok(&train(&folder, workers, &[]));
        assert_equal_runs(&home, "whole", run);
    }
}

/// The same, for the run of `fixtures/every-objective.toml`: dropout, a generator that samples, a teacher, pairs and crops.
#[test]
fn resume_is_bit_exact_for_every_objective() {
    let home = with_every_objective();
    home.run_ok(&every_objective(&["train"], &["--set", "run.folder=whole", "--set", "data.workers=1"]));
    let again = every_objective(&["train"], &["--set", "run.folder=killed", "--set", "data.workers=3"]);
    let mut running = home.watch(&again);
    running.reach(37);
    assert!(running.kill() < 60, "the kill came too late to prove anything");
    home.run_ok(&again);
    assert_equal_runs(&home, "whole", "killed");
    let terms = values(&home, "whole").last().expect("a log")["terms"].as_object().expect("terms").len();
    assert_eq!(terms, 11, "nine objectives, of which two have two terms");
}

#[test]
fn another_identity_is_refused_with_the_keys_that_differ() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=run", "data.workers=1", &["--set", "train.steps=10"]));
    let before = files(&home.join("run"));
    let changed = train("run.folder=run", "data.workers=1", &["--set", "optimizer.lr=2e-3", "--set", "train.steps=10"]);
    home.run(&changed).assert_fails(2, &["optimizer.lr", "0.001", "0.002", "run.folder", "train.init_from"]);
    assert_eq!(files(&home.join("run")), before, "a run that is refused changes nothing, its `config.toml` neither");
}

/// Who is short of memory, or has an older run, continues.
#[test]
fn what_changes_no_bit_may_change_between_two_parts_of_a_run() {
    let home = Home::prepared(60);
    let size = ["--set", "train.steps=12", "--set", "checkpoints.every_steps=6"];
    let run = |folder: &'static str, more: &[&'static str]| {
        train(folder, "data.workers=1", &[size.as_slice(), more].concat())
    };
    home.run_ok(&run("run.folder=whole", &[]));
    home.run_ok(&run("run.folder=parts", &[]));
    std::fs::remove_dir_all(home.join("parts/checkpoints/step-00000012")).expect("it was saved");
    home.run_ok(&run("run.folder=parts", &["--set", "train.activation_checkpointing=true"]));
    assert_equal_runs(&home, "whole", "parts");
}

#[test]
fn a_finished_run_says_so_and_ends_well() {
    let home = Home::prepared(60);
    let args = train("run.folder=run", "data.workers=1", &["--set", "train.steps=10"]);
    home.run_ok(&args);
    let before = files(&home.join("run"));
    let again = home.run_ok(&args);
    assert!(again.stderr.contains("done: 10 steps; checkpoints are in run"), "{again}");
    assert_eq!(files(&home.join("run")), before, "there is nothing to write");
}
