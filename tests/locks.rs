//! Two processes that compete for one run.

use testkit::{Home, files};

fn train<'a>(run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--set", run, "--set", "report.every_steps=1", "--set", "train.threads=1"];
    args.extend_from_slice(more);
    args
}

#[test]
fn a_held_run_names_its_holder_and_is_left_alone() {
    let home = Home::prepared(60);
    let mut first = home.watch(&train("run.folder=run", &["--slow", "data=100"]));
    first.wait_for_step(1);
    let pid = format!("pid {} on", first.pid());
    home.run(&train("run.folder=run", &[])).assert_fails(1, &["run/lock", &pid, "run.folder"]);
    first.wait_for_step(3);
    first.kill();
}

/// The first process is suspended at work, like on a sleeping machine, for longer than the lock timeout.
#[test]
fn process_that_lost_its_lock_writes_nothing_and_names_the_holder() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=whole", &[]));
    let mut first = home.watch(&train("run.folder=run", &["--slow", "data=20"]));
    first.wait_for_step(13);
    first.freeze();

    let mut second = home.watch(&train("run.folder=run", &[]));
    second.wait_for_step(34);
    // Both are suspended, so that later changes come from the first process.
    second.freeze();
    let lock = || std::fs::read(home.join("run/lock")).expect("a lock");
    let before = (files(&home.join("run")), lock());
    first.wake();
    let late = first.end();
    let holder = format!("pid {} on", second.pid());
    late.assert_fails(1, &["lost the lock", &holder, "run/lock"]);
    assert!((files(&home.join("run")), lock()) == before, "the late one wrote\n{late}");

    second.wake();
    let outcome = second.end();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let weights = |run: &str| std::fs::read(home.join(run).join("checkpoints/step-00000060/main.safetensors"));
    assert!(weights("run").expect("saved") == weights("whole").expect("saved"), "it ends as if it had been alone");
}
