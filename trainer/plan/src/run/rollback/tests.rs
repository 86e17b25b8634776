use std::collections::BTreeMap;

use store::{FaultConfig, MemoryBackend};
use telemetry::training::ResumeReport;
use telemetry::{Clock, EventKind, Position};
use testkit::crash_after;

use super::*;
use crate::checkpoint::Validated;
use crate::testing::put_checkpoint;

/// A run with checkpoints after these steps, and a line of its log for each step.
fn run_with(run: &Store, steps: &[u64]) {
    let mut log = Log::open(run, LOG).expect("readable");
    for step in 1..=steps.iter().copied().max().unwrap_or(0) {
        let at = Position { step: Some(Step(step)), ..Position::default() };
        log.push(&telemetry::jsonl::line(
            &Clock::still().event(at, EventKind::Resume(ResumeReport { place: String::new() })),
        ))
        .expect("put");
        if steps.contains(&step) {
            let figures = [("loss".to_owned(), step as f64)].into();
            put_checkpoint(run, step);
            checkpoint::note(run, &Validated { step: Step(step), figures }).expect("written");
        }
    }
    log.flush().expect("put");
}

fn objects(run: &Store) -> BTreeMap<String, Vec<u8>> {
    let entries = run.list("").expect("listed").into_iter();
    entries.map(|entry| (entry.name.clone(), run.read(&entry.name).expect("there"))).collect()
}

fn calm() -> Store {
    Store::memory(FaultConfig::calm())
}

#[test]
fn what_comes_after_a_rollback_is_as_if_nothing_had_been_and_nothing_is_lost() {
    let run = calm();
    run_with(&run, &[2, 4, 6]);
    let before = objects(&run);
    let undone = back(&run, Step(2), (Some("it diverged".to_owned()), 7), |_| Ok(())).expect("there is one");
    assert_eq!((undone.from, undone.to, undone.rows_from, undone.rows_to), (Step(6), Step(2), 48, 16));
    assert_eq!(RollbackArchive::all(&run).expect("as written"), [undone]);
    // Next to what was taken back, a run that never got further.
    let shorter = calm();
    run_with(&shorter, &[2]);
    let mut left = objects(&run);
    left.retain(|name, _| !name.starts_with("rolled_back/"));
    assert_eq!(left, objects(&shorter));
    // What is gone from there is here, to the byte.
    let aside = objects(&run.within("rolled_back/000"));
    for (name, bytes) in
        before.iter().filter(|(name, _)| name.contains("step-00000004") || name.contains("step-00000006"))
    {
        assert!(aside[name] == *bytes, "{name}");
    }
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    assert_eq!(lines(&aside["log/00000000.jsonl"]), 4);
    let error = back(&run, Step(2), (None, 8), |_| Ok(())).expect_err("it is the newest");
    assert!(error.is_usage() && error.to_string().contains("nothing to undo"), "{error}");
    let error = back(&run, Step(4), (None, 8), |_| Ok(())).expect_err("gone").to_string();
    assert!(error.contains("no checkpoint after step 4; there are 2"), "{error}");
}

#[test]
fn a_rollback_that_is_killed_anywhere_has_not_begun_or_is_completed() {
    let calm = calm();
    run_with(&calm, &[2, 4, 6]);
    back(&calm, Step(2), (None, 7), |_| Ok(())).expect("there is one");
    let (mut decided, mut kills) = (0, 0);
    for changes in 0.. {
        let memory = MemoryBackend::new(FaultConfig::calm());
        let run = Store::of_memory(&memory);
        run_with(&run, &[2, 4, 6]);
        let before = objects(&run);
        let outcome = back(&crash_after(&memory, changes), Step(2), (None, 7), |_| Ok(()));
        let completed = finish(&run, |_| Ok(())).expect("it lives");
        if outcome.is_ok() {
            assert!(completed.is_none());
            break;
        }
        kills += 1;
        if completed.is_some() {
            decided += 1;
        } else {
            let mut found = objects(&run);
            found.retain(|name, _| !name.starts_with("rolled_back/"));
            assert!(found == before, "{changes} changes were not enough, and nothing was decided");
            back(&run, Step(2), (None, 7), |_| Ok(())).expect("once more");
        }
        assert!(objects(&run) == objects(&calm), "after {changes} changes: {:?}", objects(&run).keys());
    }
    // Ten objects are copied before; after, as many are removed, and the log, `latest` and the record are put.
    assert!(decided >= 10 && kills >= decided + 9, "{decided} of {kills}");
}

#[test]
fn a_damaged_checkpoint_is_not_gone_back_to() {
    let run = calm();
    run_with(&run, &[2, 4]);
    run.put("checkpoints/step-00000002/main.safetensors", b"garbage").expect("put");
    let before = objects(&run);
    let error = back(&run, Step(2), (None, 7), |_| Ok(())).expect_err("damaged").to_string();
    assert!(error.contains("step-00000002/main.safetensors") && error.contains("BLAKE3"), "{error}");
    assert_eq!(objects(&run), before);
}
