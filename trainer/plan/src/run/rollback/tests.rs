use std::collections::BTreeMap;

use store::{FaultConfig, MemoryBackend};
use telemetry::training::ResumeReport;
use telemetry::{Clock, EventKind, Position};
use testkit::crash_after;

use super::*;
use crate::checkpoint::Validated;
use crate::testing::put_checkpoint;

/// Creates a run with checkpoints after these steps and one log line per step.
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
    entries.map(|entry| (entry.name.clone(), run.get(&entry.name).expect("there"))).collect()
}

fn memory_store() -> Store {
    Store::in_memory(FaultConfig::none())
}

#[test]
fn a_rollback_restores_the_older_state_and_archives_the_rest() {
    let run = memory_store();
    run_with(&run, &[2, 4, 6]);
    let before = objects(&run);
    let archive = back(&run, Step(2), (Some("it diverged".to_owned()), 7), |_| Ok(())).expect("there is one");
    assert_eq!((archive.from, archive.to, archive.rows_from, archive.rows_to), (Step(6), Step(2), 48, 16));
    assert_eq!(RollbackArchive::all(&run).expect("as written"), [archive]);
    // Apart from the archive, the run equals a run that never got further.
    let shorter = memory_store();
    run_with(&shorter, &[2]);
    let mut left = objects(&run);
    left.retain(|name, _| !name.starts_with("rolled_back/"));
    assert_eq!(left, objects(&shorter));
    // The archive has the removed objects, byte for byte.
    let archived = objects(&run.prefixed("rolled_back/000"));
    for (name, bytes) in
        before.iter().filter(|(name, _)| name.contains("step-00000004") || name.contains("step-00000006"))
    {
        assert!(archived[name] == *bytes, "{name}");
    }
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    assert_eq!(lines(&archived["log/00000000.jsonl"]), 4);
    let error = back(&run, Step(2), (None, 8), |_| Ok(())).expect_err("it is the newest");
    assert!(error.is_usage() && error.to_string().contains("nothing to roll back"), "{error}");
    let error = back(&run, Step(4), (None, 8), |_| Ok(())).expect_err("gone").to_string();
    assert!(error.contains("no checkpoint after step 4; the run has those after 2"), "{error}");
}

/// Files of the user next to those of the run are neither archived away nor removed with the remains of a kill.
#[test]
fn a_rollback_keeps_the_files_of_the_user() {
    let run = memory_store();
    run_with(&run, &[2, 4]);
    let foreign =
        ["checkpoints/step-00000004/notes.md", "rolled_back/000/notes.md", "rolled_back/000/checkpoints/mine.bin"];
    for name in &foreign {
        run.put(name, b"mine").expect("put");
    }
    run.put("rolled_back/000/checkpoints/step-00000003/main.safetensors", b"of a kill").expect("put");
    back(&run, Step(2), (None, 7), |_| Ok(())).expect("there is one");
    let left = objects(&run);
    assert!(foreign.iter().all(|name| left.get(*name).is_some_and(|bytes| bytes == b"mine")), "{:?}", left.keys());
    assert!(!left.keys().any(|name| name.contains("step-00000003")), "{:?}", left.keys());
    assert_eq!(checkpoint::steps(&run).expect("listed"), [Step(2)]);
}

#[test]
fn a_killed_rollback_has_not_started_or_is_completed() {
    let expected = memory_store();
    run_with(&expected, &[2, 4, 6]);
    back(&expected, Step(2), (None, 7), |_| Ok(())).expect("there is one");
    let mut decided = 0;
    let mut kills = 0;
    for changes in 0.. {
        let memory = MemoryBackend::new(FaultConfig::none());
        let run = Store::from_memory(&memory);
        run_with(&run, &[2, 4, 6]);
        let before = objects(&run);
        let outcome = back(&crash_after(&memory, changes), Step(2), (None, 7), |_| Ok(()));
        let completed = finish(&run, |_| Ok(())).expect("not interrupted");
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
            back(&run, Step(2), (None, 7), |_| Ok(())).expect("repeated");
        }
        assert!(objects(&run) == objects(&expected), "after {changes} changes: {:?}", objects(&run).keys());
    }
    // Ten objects are copied before; after, as many are removed, and the log, `latest` and the record are put.
    assert!(decided >= 10 && kills >= decided + 9, "{decided} of {kills}");
}

#[test]
fn a_rollback_to_a_damaged_checkpoint_is_refused() {
    let run = memory_store();
    run_with(&run, &[2, 4]);
    run.put("checkpoints/step-00000002/main.safetensors", b"garbage").expect("put");
    let before = objects(&run);
    let error = back(&run, Step(2), (None, 7), |_| Ok(())).expect_err("damaged").to_string();
    assert!(error.contains("step-00000002/main.safetensors") && error.contains("BLAKE3"), "{error}");
    assert_eq!(objects(&run), before);
}
