//! A resumed run equals an uninterrupted run, after any kind of stop.

use testkit::{Home, assert_equal_runs, every_objective, files, values, with_every_objective};

/// Dropout 0.1, two terms, two micro-batches per step, validations at 20, 40 and 60, checkpoints every 10 steps. The
/// corpus is so small that the run has several epochs (`tiny.toml` and these overrides).
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
        running.wait_for_step(37);
        assert!(running.kill() < 60, "the kill came too late to prove anything");
        home.run_ok(&train(&folder, workers, &[]));
        assert_equal_runs(&home, "whole", run);
    }
}

/// The same for the run of `fixtures/every-objective.toml`: dropout, a sampling generator, a teacher, pairs and
/// crops.
#[test]
fn resume_is_bit_exact_for_every_objective() {
    let home = with_every_objective();
    home.run_ok(&every_objective(&["train"], &["--set", "run.folder=whole", "--set", "data.workers=1"]));
    let again = every_objective(&["train"], &["--set", "run.folder=killed", "--set", "data.workers=3"]);
    let mut running = home.watch(&again);
    running.wait_for_step(37);
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

/// Settings that do not affect the result may change when a run is resumed.
#[test]
fn neutral_settings_may_change_on_resume() {
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
fn finished_run_reports_it_and_exits_with_0() {
    let home = Home::prepared(60);
    let args = train("run.folder=run", "data.workers=1", &["--set", "train.steps=10"]);
    home.run_ok(&args);
    let before = files(&home.join("run"));
    let again = home.run_ok(&args);
    assert!(again.stderr.contains("done: 10 steps; checkpoints are in run"), "{again}");
    assert_eq!(files(&home.join("run")), before, "there is nothing to write");
}
