//! `cloze tune`: what gains is measured and written into the file, and nothing else of it changes.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::{Home, Outcome, root};

/// A configuration in a home whose corpus is prepared.
const RUN: &str = "\
# a run to tune

[tokenizer]
vocab_size = 400

[prepare]
inputs    = ['corpus']
format    = 'text_lines'
tokenizer = 'tokenizer.json'
folder    = 'data'

[data]
lanes = 1   # one is enough, they said
depth = 2

# where it lives
[run]
folder = 'run'
";

fn home(text: &str) -> Home {
    let home = Home::prepared(200);
    write(&home, text);
    home
}

fn write(home: &Home, text: &str) {
    let tiny = root().join("configs/tiny.toml");
    home.write("run.toml", &format!("extends = '{}'\n{text}", tiny.display()));
}

fn text(home: &Home) -> String {
    std::fs::read_to_string(home.join("run.toml")).expect("a file")
}

fn tune(home: &Home, args: &[&str]) -> Outcome {
    home.run(&[&["tune", "-c", "run.toml", "--seconds", "3"], args].concat())
}

/// Lanes of 20 ms before a trainer that wants a batch each 6 ms. Without the trainer a step is one batch.
const SLOW: [&str; 4] = ["--step-ms", "12", "--slow", "lanes=20"];

#[test]
fn the_fewest_lanes_that_feed_a_trainer_are_written_and_nothing_else_changes() {
    let home = home(RUN);
    let before = text(&home);
    let dry = tune(&home, &[&SLOW[..], &["--dry-run"]].concat());
    assert!(dry.code == Some(0) && dry.stdout.contains("would be written"), "{dry}");
    assert_eq!(text(&home), before, "{dry}");
    // A machine that is busy has lanes of more than 20 ms, of which more are wanted.
    let is_right =
        |now: &str| [4, 5].into_iter().any(|lanes| now == before.replace("lanes = 1 ", &format!("lanes = {lanes} ")));
    let mut said = String::new();
    for _ in 0..5 {
        write(&home, RUN);
        let outcome = tune(&home, &SLOW);
        said = outcome.to_string();
        assert!(outcome.code == Some(0) && outcome.stdout.contains("`data.lanes` 1 → "), "{outcome}");
        if is_right(&text(&home)) {
            return;
        }
    }
    panic!("{said}\n{}", text(&home));
}

#[test]
fn what_is_given_on_the_command_line_is_measured_and_not_written() {
    let home = home(RUN);
    let before = text(&home);
    let given = tune(&home, &[&SLOW[..], &["--set", "data.lanes=8", "--set", "data.depth=3", "--json"]].concat());
    let found: Value = serde_json::from_str(&given.stdout).unwrap_or_else(|error| panic!("{error}: {given}"));
    assert_eq!((&found["written"], &found["changes"]), (&Value::Bool(false), &Value::Array(Vec::new())), "{given}");
    assert!(found["notes"].to_string().contains("`data.lanes` stays 8: `--set` says it"), "{given}");
    assert_eq!(text(&home), before);
}

#[test]
fn a_key_that_is_absent_is_put_into_its_section() {
    let home = home(&RUN.replace("lanes = 1   # one is enough, they said\n", ""));
    let sets = ["--set", "data.depth=2"];
    // One lane of 20 ms is enough here, and there are as many as the machine has processors.
    let outcome = tune(&home, &[&["--step-ms", "50"], &sets[..]].concat());
    let now = text(&home);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(cores == 1 || now.contains("[data]\ndepth = 2\nlanes = 1\n\n# where it lives"), "{outcome}\n{now}");
}

#[test]
fn what_gains_nothing_or_has_no_room_changes_nothing() {
    let home = home(RUN);
    let before = text(&home);
    let slow_trainer = tune(&home, &["--step-ms", "100"]);
    assert!(slow_trainer.code == Some(0) && slow_trainer.stdout.contains("nothing gains"), "{slow_trainer}");
    let no_room = tune(&home, &[&SLOW[..], &["--memory", "1KiB"]].concat());
    assert!(no_room.code == Some(0) && no_room.stderr.contains("more than the memory that was given"), "{no_room}");
    assert_eq!(text(&home), before);
}

#[test]
fn what_cannot_be_tuned_is_refused_before_it_is_measured() {
    let home = home(RUN);
    for (args, words) in [
        (["--memory", "8XB"].as_slice(), "8GiB"),
        (&["--seconds", "0"], "--seconds 0"),
        (&["--step-ms=-1"], "--step-ms"),
        (&["--slow", "nobody=5"], "`burst=MS`"),
        (&["--set", "data.lanse=5"], "data.lanse"),
    ] {
        let refused = home.run(&[&["tune", "-c", "run.toml"], args].concat());
        refused.assert_fails(2, &[words]);
    }
    home.run(&["tune", "-c", "nowhere.toml"]).assert_fails(2, &["nowhere.toml"]);
    let path = home.join("run.toml");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).expect("it is ours");
    tune(&home, &SLOW).assert_fails(2, &["run.toml", "it may only be read", "--dry-run"]);
    home.write("half.toml", "[train\n");
    home.run(&["tune", "-c", "half.toml"]).assert_fails(2, &["half.toml"]);
}

/// A trainer of this machine, where many small micro-batches cost more than a few larger ones.
#[test]
fn a_micro_batch_that_gains_is_written_unless_a_run_has_begun_with_another() {
    let home =
        home(&format!("{RUN}\n[train]\nsteps = 10\nrows_per_micro_batch = 2 # small\n[loss]\nmlm = 1.0\ntc = 0.0\n"));
    let sets = ["--set", "data.lanes=1", "--set", "data.depth=2"];
    let before = text(&home);
    let found = tune(&home, &[&sets[..], &["--memory", "1KiB"]].concat());
    assert!(
        found.stdout.contains("nothing gains") && found.stderr.contains("by plan, of 1.0 KiB: too much"),
        "{found}"
    );
    let found = tune(&home, &sets);
    assert!(found.stdout.contains("`train.rows_per_micro_batch` 2 → "), "{found}");
    let now = text(&home);
    let is_larger = ["4", "8", "16"].iter().any(|rows| {
        now == before.replace("rows_per_micro_batch = 2 # small", &format!("rows_per_micro_batch = {rows} # small"))
    });
    assert!(is_larger, "{found}\n{now}");
    write(
        &home,
        &format!("{RUN}\n[train]\nsteps = 10\nrows_per_micro_batch = 2 # small\n[loss]\nmlm = 1.0\ntc = 0.0\n"),
    );
    home.run_ok(&["train", "-c", "run.toml"]);
    let refused = tune(&home, &sets);
    assert!(refused.code == Some(0) && refused.stderr.contains("run has checkpoints"), "{refused}");
    assert_eq!(text(&home), before);
    // Rows that are contrasted with each other: how many there are is part of what is learnt.
    let left = tune(&home, &[&sets[..], &["--set", "loss.tc=1.0", "--set", "run.folder=other"]].concat());
    assert!(left.code == Some(0) && left.stderr.contains("what is learnt depends on it"), "{left}");
    assert_eq!(text(&home), before);
}
