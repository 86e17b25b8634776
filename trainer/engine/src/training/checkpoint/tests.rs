use std::collections::BTreeMap;
use std::io::ErrorKind;

use schemas::ordinal::Step;
use store::{FaultConfig, MemoryBackend, Store, faults};
use tch::Tensor;
use trainer_plan::Error;
use trainer_plan::checkpoint::SidecarState;
use trainer_plan::checkpoint::*;
use trainer_plan::config::CheckpointConfig;
use trainer_plan::identity::Identity;

use super::*;
use crate::device::tensors::{HostTensor, HostTensors};

pub(in crate::training) fn snapshot(step: u64) -> Snapshot {
    let tensors = |value: f32| -> HostTensors {
        [("w".to_owned(), HostTensor::copy_of(&Tensor::from_slice(&[value; 5])).expect("float32"))].into()
    };
    let state = State {
        step: Step(step),
        rows_consumed: 8 * step,
        tokens_consumed: 90 * step,
        validation_pending: false,
        batch_hash: "ab".to_owned(),
        data_content: "cd".to_owned(),
        program: "cloze 1".to_owned(),
        libtorch: "2".to_owned(),
        threads: 2,
        device: "cpu".to_owned(),
        report: vec![SavedMean::Norm { count: 3.0 }],
        skips: vec![Step(3)],
        guard: SavedGuard::default(),
        detectors: BTreeMap::new(),
        early_stop: None,
        identity: Identity::new([("seed".to_owned(), "1".to_owned())].into()),
        files: BTreeMap::new(),
        changes: Vec::new(),
        trained_s: None,
        sidecars: SidecarState::default(),
    };
    Snapshot { state, main: tensors(1.0), optimizer: tensors(2.0), validated: None }
}

/// One checkpoint is kept (`keep = 1`), plus one before the unchecked steps.
#[test]
fn a_checkpoint_before_the_unchecked_steps_is_retained() {
    let run = Store::in_memory(FaultConfig::none());
    let keeping = CheckpointPolicy { goes_back: true, ..keep(1) };
    let steps_after = |step, unread| {
        let mut snapshot = snapshot(step);
        snapshot.state.guard.unread = unread;
        snapshot.write(&run, &keeping).expect("written");
        steps(&run).expect("listed").into_iter().map(|step| step.0).collect::<Vec<_>>()
    };
    assert_eq!(steps_after(2, 0), [2]);
    assert_eq!(steps_after(3, 1), [3, 2]);
    assert_eq!(steps_after(4, 2), [4, 2]);
    assert_eq!(steps_after(6, 1), [6, 4], "step 4 is before the unchecked step");
    assert_eq!(steps_after(7, 0), [7]);
}

fn keep(keep: usize) -> CheckpointPolicy {
    CheckpointPolicy::new(CheckpointConfig { keep, ..CheckpointConfig::default() })
}

/// Creates a run in memory with checkpoints after these steps.
fn run_with(steps: &[u64]) -> Store {
    let run = Store::in_memory(FaultConfig::none());
    for &step in steps {
        snapshot(step).write(&run, &keep(9)).expect("written");
    }
    run
}

fn names(run: &Store) -> Vec<String> {
    run.list("checkpoints").expect("listed").into_iter().map(|entry| entry.name).collect()
}

fn newest_step(run: &Store) -> Option<Step> {
    newest(run).expect("readable").map(|(_, found)| found.state.step)
}

#[test]
fn the_newest_checkpoints_are_retained() {
    let run = Store::in_memory(FaultConfig::none());
    for step in 1..=4 {
        snapshot(step).write(&run, &keep(2)).expect("written");
    }
    let of = |step: &str| {
        [MAIN_FILE, OPTIMIZER_FILE, STATE_FILE].map(|file| format!("checkpoints/step-0000000{step}/{file}"))
    };
    assert_eq!(names(&run), [&["checkpoints/latest".to_owned()], &of("3")[..], &of("4")].concat());
    assert_eq!(run.get("checkpoints/latest").expect("written"), b"step-00000004\n");
    let (place, newest) = newest(&run).expect("readable").expect("there are two");
    assert!(place.ends_with("step-00000004"), "{place}");
    assert_eq!((newest.state.step, &newest.main), (Step(4), &snapshot(4).main));
    let picked = pick(&run, Some(Step(3))).expect("there").1;
    assert_eq!(picked.state.step, Step(3));
    let error = pick(&run, Some(Step(2))).expect_err("gone");
    assert!(
        error.is_usage() && error.to_string().ends_with("no checkpoint after step 2; the run has those after 3, 4"),
        "{error}"
    );
}

#[test]
fn any_flipped_byte_is_detected_and_the_older_checkpoint_used() {
    let whole = run_with(&[1, 2]);
    for name in [MAIN_FILE, OPTIMIZER_FILE, STATE_FILE] {
        let name = format!("checkpoints/step-00000002/{name}");
        let bytes = whole.get(&name).expect("there");
        for at in 0..=bytes.len() {
            let mut bad = bytes.clone();
            match bad.get_mut(at) {
                Some(byte) => *byte ^= 4,
                None => bad.truncate(at - 1),
            }
            assert_skipped(&name, &bad);
        }
    }
}

/// With `bad` as an object of the newest checkpoint, the older one is used and the damaged one stays set aside.
#[track_caller]
fn assert_skipped(name: &str, bad: &[u8]) {
    let run = run_with(&[1, 2]);
    run.put(name, bad).expect("put");
    let state = run.get("checkpoints/step-00000002/state.json").expect("there");
    match newest(&run) {
        Ok(found) => assert_eq!(found.expect("the older one is complete").1.state.step, Step(1), "{name} was changed"),
        // The final newline carries no data.
        Err(error) if error.to_string().contains("reformatted") => {
            assert!(name.ends_with(STATE_FILE) && bad.last() == Some(&b'}'), "{error}");
            return;
        }
        // The byte of the version.
        Err(error) => {
            assert!(matches!(error, Error::CheckpointVersion { version: 0, .. }), "{name}: {error}");
            return;
        }
    }
    let kept = run.get("checkpoints/step-00000002/damaged.json").expect("it is set aside");
    assert_eq!(kept, state);
    assert!(!names(&run).contains(&"checkpoints/step-00000002/state.json".to_owned()));
    assert_eq!(newest_step(&run), Some(Step(1)));
    // The run reaches the step again.
    snapshot(2).write(&run, &keep(2)).expect("written");
    assert_eq!(newest_step(&run), Some(Step(2)));
    assert!(!names(&run).iter().any(|name| name.ends_with("damaged.json")));
}

#[test]
fn a_run_that_saved_never_starts_over_silently() {
    let run = run_with(&[1, 2]);
    for step in [1, 2] {
        run.put(&format!("checkpoints/step-0000000{step}/{MAIN_FILE}"), b"garbage").expect("put");
    }
    let before = names(&run);
    let error = newest(&run).expect_err("no checkpoint is complete").to_string();
    assert!(error.contains("no checkpoint of it is whole") && error.contains("step-00000001/main"), "{error}");
    assert!(error.contains("`run.folder`"), "{error}");
    assert_eq!(names(&run), before, "nothing is set aside if no checkpoint is complete");
    let error = pick(&run, None).expect_err("no checkpoint is complete").to_string();
    assert!(
        error.contains("all checkpoints of the run are damaged; restore one") && error.contains("step-00000001/main"),
        "{error}"
    );
    assert!(
        matches!(pick(&Store::in_memory(store::FaultConfig::none()), None), Err(Error::Config(_))),
        "there is none yet"
    );
    // The only checkpoint left was set aside before.
    let run = run_with(&[1, 2]);
    run.put(&format!("checkpoints/step-00000002/{MAIN_FILE}"), b"garbage").expect("put");
    assert_eq!(newest_step(&run), Some(Step(1)));
    run.delete_all("checkpoints/step-00000001").expect("removed");
    let error = newest(&run).expect_err("no checkpoint is complete").to_string();
    assert!(error.contains("no checkpoint of it is whole"), "{error}");
}

#[test]
fn an_unreadable_checkpoint_is_not_treated_as_damaged() {
    let memory = MemoryBackend::new(FaultConfig::none());
    for step in [1, 2] {
        snapshot(step).write(&Store::from_memory(&memory), &keep(9)).expect("written");
    }
    let before = names(&Store::from_memory(&memory));
    let silent = Store::from_memory(&memory.with_faults(FaultConfig { failures: 1.0, ..FaultConfig::none() }));
    let Err(Error::Io(error)) = newest(&silent) else { panic!("an error") };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(names(&Store::from_memory(&memory)), before);
    assert_eq!(newest_step(&Store::from_memory(&memory)), Some(Step(2)));
}

#[test]
fn another_version_is_refused_and_not_moved() {
    let run = run_with(&[1, 2]);
    let name = "checkpoints/step-00000002/state.json";
    let state = String::from_utf8(run.get(name).expect("there")).expect("JSON");
    // A state of version 1, and of a later version.
    let old = r#"{"state": {"version": 1, "step": 2}, "checksum": "00"}"#.to_owned();
    for (text, version) in [(old, 1), (state.replace("\"version\": 4", "\"version\": 5"), 5)] {
        run.put(name, text.as_bytes()).expect("put");
        for error in [newest(&run).expect_err("refused"), pick(&run, None).expect_err("refused")] {
            let message = error.to_string();
            assert!(error.is_usage() && message.contains(&format!("version {version} of the format")), "{message}");
            assert!(message.contains("step-00000002\"` (the file `main.safetensors`)"), "{message}");
        }
        assert_eq!(run.get(name).expect("it is not set aside as damaged"), text.as_bytes());
    }
}

#[test]
fn a_reformatted_state_is_refused_and_not_moved() {
    let run = run_with(&[1, 2]);
    let name = "checkpoints/step-00000002/state.json";
    let text = String::from_utf8(run.get(name).expect("there")).expect("JSON").replace('\n', "\r\n");
    run.put(name, text.as_bytes()).expect("put");
    for error in [newest(&run).expect_err("refused"), pick(&run, None).expect_err("refused")] {
        let error = error.to_string();
        assert!(error.contains("step-00000002/state.json: reformatted") && error.contains("the original"), "{error}");
    }
    assert_eq!(run.get(name).expect("it is not set aside"), text.as_bytes());
}

#[test]
fn a_checkpoint_under_another_name_is_damaged() {
    let run = run_with(&[1, 2]);
    for name in [MAIN_FILE, OPTIMIZER_FILE, STATE_FILE] {
        let bytes = run.get(&format!("checkpoints/step-00000002/{name}")).expect("there");
        run.put(&format!("checkpoints/step-00000099/{name}"), &bytes).expect("put");
    }
    assert_eq!(newest_step(&run), Some(Step(2)));
    snapshot(3).write(&run, &keep(1)).expect("written");
    assert_eq!(newest_step(&run), Some(Step(3)), "the foreign folder does not count as the newest");
}

#[test]
fn failing_disk_leaves_the_older_checkpoint_and_no_temporary_files() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let run = Store::folder(home.path()).expect("made");
    snapshot(1).write(&run, &keep(1)).expect("written");
    let before = names(&run);
    for writes in 0..3 {
        faults::fail_after(home.path(), Some(writes));
        let outcome = snapshot(2).write(&run, &keep(1));
        faults::fail_after(home.path(), None);
        assert!(matches!(outcome, Err(Error::Io(_))), "{writes} writes are not enough");
        assert_eq!(names(&run), before);
        let left = std::fs::read_dir(home.path().join("checkpoints/step-00000002"));
        assert_eq!(left.map_or(0, Iterator::count), 0, "no file, and no unfinished one");
    }
    // `latest` is written last: if only that fails, the checkpoint is complete and the older one stays.
    let fails_at_latest = |writes: u64| {
        faults::fail_after(home.path(), Some(writes));
        let outcome = snapshot(2).write(&run, &keep(1));
        faults::fail_after(home.path(), None);
        let error = outcome.expect_err("`latest` fails before all is written");
        assert!(matches!(error, Error::Io(_)), "{error}");
        newest_step(&run) == Some(Step(2))
    };
    assert!((3..200).any(fails_at_latest), "the checkpoint exists if only `latest` is missing");
    assert_eq!(names(&run).len(), 7, "the older one exists too");
    snapshot(2).write(&run, &keep(1)).expect("the disk works again");
    assert_eq!(newest_step(&run), Some(Step(2)));
}

#[test]
fn an_unfinished_checkpoint_is_removed() {
    let run = Store::in_memory(FaultConfig::none());
    run.put("checkpoints/step-00000003/main.safetensors", b"half").expect("put");
    run.put("checkpoints/notes.txt", b"of mine").expect("put");
    assert!(newest(&run).expect("readable").is_none(), "nothing was saved yet");
    assert_eq!(names(&run), ["checkpoints/notes.txt"]);
}

#[test]
fn a_state_that_is_no_file_is_refused_and_nothing_is_removed() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let run = Store::folder(home.path()).expect("made");
    for step in [1, 2] {
        snapshot(step).write(&run, &keep(9)).expect("written");
    }
    let state = home.path().join("checkpoints/step-00000002/state.json");
    let aside = home.path().join("aside.json");
    std::fs::rename(&state, &aside).expect("moved");
    let left = names(&run);
    // A link with a missing target, then a socket: the checkpoint may be complete in both cases.
    std::os::unix::fs::symlink(home.path().join("gone.json"), &state).expect("linked");
    for words in ["broken symbolic link", "not a file"] {
        for error in [newest(&run).expect_err("refused"), pick(&run, None).expect_err("refused")] {
            let error = error.to_string();
            assert!(error.contains("step-00000002/state.json") && error.contains(words), "{error}");
        }
        assert_eq!(names(&run), left);
        std::fs::remove_file(&state).expect("removed");
        drop(std::os::unix::net::UnixListener::bind(&state).expect("bound"));
    }
    std::fs::remove_file(&state).expect("removed");
    std::os::unix::fs::symlink(&aside, &state).expect("linked");
    assert_eq!(newest_step(&run), Some(Step(2)), "a link to a file is that file");
}

#[test]
fn a_checkpoint_behind_a_link_is_refused_if_it_is_the_newest() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let run = Store::folder(home.path()).expect("made");
    for step in [1, 2] {
        snapshot(step).write(&run, &keep(9)).expect("written");
    }
    let link = |step: &str| {
        let folder = home.path().join("checkpoints").join(step);
        let moved = home.path().join(step);
        std::fs::rename(&folder, &moved).expect("moved");
        std::os::unix::fs::symlink(&moved, &folder).expect("linked");
    };
    link("step-00000001");
    assert_eq!(newest_step(&run), Some(Step(2)), "an older one is not needed");
    link("step-00000002");
    let error = newest(&run).expect_err("refused").to_string();
    assert!(error.contains("step-00000001") && error.contains("symbolic link"), "{error}");
}

#[test]
fn the_checkpoint_that_latest_names_is_not_removed_as_unfinished() {
    let run = run_with(&[1]);
    run.delete("checkpoints/step-00000001/state.json").expect("removed");
    let before = names(&run);
    let error = newest(&run).expect_err("it has saved").to_string();
    assert!(error.contains("step-00000001/state.json: it is missing") && error.contains("`run.folder`"), "{error}");
    assert_eq!(names(&run), before);
    run.delete_all("checkpoints/step-00000001").expect("removed");
    let error = newest(&run).expect_err("it has saved").to_string();
    assert!(error.contains("`latest` names step-00000001, which does not exist"), "{error}");
    // If another checkpoint is complete, the user may remove the newest one to go back.
    let run = run_with(&[1, 2]);
    run.delete("checkpoints/step-00000002/state.json").expect("removed");
    assert_eq!(newest_step(&run), Some(Step(1)));
    assert!(!names(&run).iter().any(|name| name.contains("step-00000002")));
}

#[test]
fn a_run_that_is_refused_keeps_the_weights_of_every_checkpoint() {
    let run = run_with(&[1, 2, 3]);
    for step in 1..=3 {
        run.delete(&format!("checkpoints/step-0000000{step}/state.json")).expect("removed");
    }
    let before = names(&run);
    let error = newest(&run).expect_err("it has saved").to_string();
    assert!(error.contains("step-00000003/state.json: it is missing"), "{error}");
    assert_eq!(names(&run), before, "nothing is removed as unfinished");
    // The one that `latest` names is gone, too.
    run.delete_all("checkpoints/step-00000003").expect("removed");
    let before = names(&run);
    newest(&run).expect_err("it has saved");
    assert_eq!(names(&run), before);
}

/// A process that is killed after it wrote a checkpoint has not applied the retention rules.
#[test]
fn a_resumed_run_applies_the_retention_rules() {
    let run = run_with(&[1, 2, 3]);
    let (_, found) = newest(&run).expect("readable").expect("saved");
    keep(2).apply(&run, &found.state).expect("removed");
    assert_eq!(steps_of(&run), [2, 3]);
    assert_eq!(run.get("checkpoints/latest").expect("there"), b"step-00000003\n");
}

/// Snapshot with a validation score; the lowest is the best.
fn validated(step: u64, mlm: f64) -> Snapshot {
    let figures = [("valid/mlm".to_owned(), mlm)].into();
    Snapshot { validated: Some(Validated { step: Step(step), figures }), ..snapshot(step) }
}

fn steps_of(run: &Store) -> Vec<u64> {
    let mut steps: Vec<u64> = steps(run).expect("listed").into_iter().map(|step| step.0).collect();
    steps.reverse();
    steps
}

#[test]
fn milestones_best_pinned_and_newest_checkpoints_are_retained() {
    let rules = CheckpointConfig { keep: 2, keep_every_steps: 4, keep_best: 2, ..CheckpointConfig::default() };
    let run = Store::in_memory(FaultConfig::none());
    let keeping = CheckpointPolicy::new(rules.clone());
    for (step, mlm) in [(1, 3.0), (2, 1.0), (3, 2.0), (4, 5.0), (5, 4.0), (6, 4.0), (7, 4.0)] {
        validated(step, mlm).write(&run, &keeping).expect("written");
        if step == 5 {
            pin(&run, Step(5)).expect("there");
        }
    }
    assert_eq!(steps_of(&run), [2, 3, 4, 5, 6, 7]);
    let why = |run: &Store| -> Vec<(u64, Vec<KeepReason>)> {
        list_with_reasons(run, &rules).expect("listed").into_iter().map(|it| (it.step.0, it.why)).collect()
    };
    let [newest, milestone, best, pinned] =
        [KeepReason::Newest, KeepReason::Milestone, KeepReason::Best, KeepReason::Pinned].map(|reason| vec![reason]);
    let expected = [(2, best.clone()), (3, best), (4, milestone), (5, pinned), (6, newest.clone()), (7, newest)];
    assert_eq!(why(&run), expected);
    // A better checkpoint displaces the second best, and the unpinned one is removed too.
    assert!(unpin(&run, Step(5)).expect("there") && !unpin(&run, Step(5)).expect("there"));
    snapshot(8).write(&run, &keeping).expect("written");
    assert_eq!(steps_of(&run), [2, 3, 4, 7, 8], "its step is still to be validated");
    note(&run, &Validated { step: Step(8), figures: [("valid/mlm".to_owned(), 0.5)].into() }).expect("noted");
    snapshot(9).write(&run, &keeping).expect("written");
    assert_eq!(steps_of(&run), [2, 4, 8, 9]);
    let error = remove(&run, Step(9)).expect_err("the run continues from it");
    assert!(error.is_usage() && error.to_string().contains("cloze rollback"), "{error}");
    remove(&run, Step(4)).expect("it may be removed");
    assert_eq!(steps_of(&run), [2, 8, 9]);
    let error = pin(&run, Step(4)).expect_err("gone").to_string();
    assert!(error.ends_with("no checkpoint after step 4; the run has those after 2, 8, 9"), "{error}");
}

/// After a kill at any change, the checkpoint is complete or absent. The rules hold again after the next checkpoint.
#[test]
fn a_kill_during_a_save_removes_no_retained_checkpoint() {
    let rules = CheckpointConfig { keep: 1, keep_best: 1, ..CheckpointConfig::default() };
    let keeping = CheckpointPolicy::new(rules);
    let mut kills = 0;
    for changes in 0.. {
        let memory = MemoryBackend::new(FaultConfig::none());
        let run = Store::from_memory(&memory);
        validated(1, 1.0).write(&run, &keeping).expect("written");
        validated(2, 2.0).write(&run, &keeping).expect("written");
        let outcome = validated(3, 3.0).write(&testkit::crash_after(&memory, changes), &keeping);
        let there = steps_of(&run);
        assert!([&[1, 2][..], &[1, 2, 3], &[1, 3]].contains(&&there[..]), "after {changes} changes: {there:?}");
        for &step in &there {
            verify(&run, Step(step)).expect("every listed checkpoint is complete");
        }
        assert_eq!(newest_step(&run).map(|step| step.0), there.last().copied());
        validated(4, 4.0).write(&run, &keeping).expect("written");
        assert_eq!(steps_of(&run), [1, 4]);
        if outcome.is_ok() {
            break;
        }
        kills += 1;
    }
    assert!(kills > 8, "{kills}");
}

#[test]
fn a_checkpoint_can_be_a_transformers_folder() {
    let export: Export = Box::new(|_, folder| {
        folder.put("model.safetensors", b"theirs")?;
        folder.put("config.json", b"{}")?;
        Ok(())
    });
    let keeping = CheckpointPolicy { export: Some(export), ..keep(1) };
    let run = Store::in_memory(FaultConfig::none());
    snapshot(1).write(&run, &keeping).expect("written");
    verify(&run, Step(1)).expect("as written");
    run.put("checkpoints/step-00000001/model.safetensors", b"others").expect("put");
    let error = verify(&run, Step(1)).expect_err("changed").to_string();
    assert!(error.contains("model.safetensors") && error.contains("BLAKE3"), "{error}");
    assert_eq!(newest_step(&run), Some(Step(1)), "the files that the run resumes from are intact");
    // A failed export leaves no checkpoint, and the older one stays.
    let export: Export = Box::new(|_, folder| {
        folder.put("model.safetensors", b"theirs")?;
        Err(Error::Config("no head".to_owned()))
    });
    snapshot(2).write(&run, &CheckpointPolicy { export: Some(export), ..keep(1) }).expect_err("no head");
    assert_eq!(steps_of(&run), [1]);
    assert!(!names(&run).iter().any(|name| name.contains("step-00000002")));
}
