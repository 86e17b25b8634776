//! `cloze tune`: a change with a gain is measured and written to the file. The rest of the file stays unchanged.

use testkit::tuning::{RUN, SLOW, home, text, tune, write};

#[test]
fn the_fewest_workers_that_feed_a_trainer_are_written_and_nothing_else_changes() {
    let home = home(RUN);
    let before = text(&home);
    let dry = tune(&home, &[&SLOW[..], &["--dry-run"]].concat());
    assert!(dry.code == Some(0) && dry.stdout.contains("would be written"), "{dry}");
    assert_eq!(text(&home), before, "{dry}");
    // A little more than 20 ms per batch needs one more worker.
    let is_right = |now: &str| {
        [4, 5].into_iter().any(|workers| now == before.replace("workers = 1 ", &format!("workers = {workers} ")))
    };
    let outcome = tune(&home, &SLOW);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("`data.workers` 1 → "), "{outcome}");
    assert!(is_right(&text(&home)), "{outcome}\n{}", text(&home));
}

#[test]
fn a_key_that_is_absent_is_put_into_its_section() {
    let home = home(&RUN.replace("workers = 1   # a comment to keep\n", ""));
    let sets = ["--set", "data.prefetch_batches=2"];
    // One worker is enough, and the default is one per processor.
    if std::thread::available_parallelism().map_or(1, usize::from) == 1 {
        return testkit::skip("fewer workers than processors: this machine has one processor");
    }
    let outcome = tune(&home, &[&["--step-ms", "50"], &sets[..]].concat());
    let now = text(&home);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(now.contains("[data]\nprefetch_batches = 2\nworkers = 1\n\n# folder of the run"), "{outcome}\n{now}");
}

#[test]
fn useless_or_too_large_settings_are_not_written() {
    let home = home(RUN);
    let before = text(&home);
    let slow_trainer = tune(&home, &["--step-ms", "100"]);
    assert!(slow_trainer.code == Some(0) && slow_trainer.stdout.contains("nothing gains"), "{slow_trainer}");
    let no_room = tune(&home, &[&SLOW[..], &["--memory", "1KiB"]].concat());
    assert!(no_room.code == Some(0) && no_room.stderr.contains("exceed the memory limit"), "{no_room}");
    assert_eq!(text(&home), before);
}

/// On this machine's trainer, many small micro-batches are slower than a few larger ones.
#[test]
fn a_micro_batch_that_gains_is_written_unless_a_run_has_begun_with_another() {
    let home =
        home(&format!("{RUN}\n[train]\nsteps = 10\nrows_per_micro_batch = 2 # small\n[loss]\nmlm = 1.0\ntc = 0.0\n"));
    let sets = ["--set", "data.workers=1", "--set", "data.prefetch_batches=2"];
    let before = text(&home);
    let found = tune(&home, &[&sets[..], &["--memory", "1KiB"]].concat());
    assert!(found.stdout.contains("nothing gains") && found.stderr.contains("exceeds 1.0 KiB"), "{found}");
    let found = tune(&home, &sets);
    assert!(found.stdout.contains("`train.micro_batch_size` 2 → "), "{found}");
    let now = text(&home);
    let is_larger = ["4", "8", "16"].iter().any(|rows| {
        now == before.replace("micro_batch_size = 2 # small", &format!("micro_batch_size = {rows} # small"))
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
    // In-batch contrast: the number of rows affects the result.
    let left = tune(&home, &[&sets[..], &["--set", "loss.tc=1.0", "--set", "run.folder=other"]].concat());
    assert!(left.code == Some(0) && left.stderr.contains("the training result depends on it"), "{left}");
    assert_eq!(text(&home), before);
}
