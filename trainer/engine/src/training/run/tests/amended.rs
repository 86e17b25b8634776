//! Runs with changed settings: token and hour budgets, milestones, branches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use telemetry::clock::ClockTime;
use trainer_plan::run::branch;

use super::*;

/// Clock that advances by `ms` milliseconds per reading.
fn ticking(ms: u64) -> Clock {
    let readings = AtomicU64::new(0);
    let readings = Arc::new(readings);
    Clock::new(move || {
        let steady = Duration::from_millis(ms * readings.fetch_add(1, Ordering::Relaxed));
        ClockTime { time: 0, steady }
    })
}

fn by(store: &Store, change: impl Fn(&mut trainer_plan::TrainRequest), trouble: ApiError, clock: &Clock) -> RunResult {
    let mut request = testing::request();
    change(&mut request);
    train_by(store, &testing::checked(request), trouble, Arc::new(SingleProcess), clock)
}

/// Step, learning rate of the last step, and progress of each report.
fn rates(events: &[Event]) -> Vec<(u64, u64, Option<f64>)> {
    let rate = |event: &Event| match &event.what {
        EventKind::Report(report) => Some((event.at.step?.0, report.figures.lr.to_bits(), report.progress)),
        _ => None,
    };
    events.iter().filter_map(rate).collect()
}

/// A clock never repeats its readings, so the resumed run must use the recorded readings.
#[test]
fn a_killed_run_with_an_hour_budget_uses_the_recorded_readings() {
    let _alone = testing::generator();
    let hours = |request: &mut trainer_plan::TrainRequest| {
        request.train.max_hours = Some(60.0 / 3600.0);
        request.train.steps = trainer_plan::config::TrainConfig::STEPS_ENDLESS;
    };
    let calm_run = by(&calm(), hours, ApiError::default(), &ticking(2000));
    let Ok(RunOutcome::Finished(end)) = calm_run.outcome else { panic!("{:?}", calm_run.outcome) };
    let expected = rates(&calm_run.events);
    assert!(
        expected.len() > 3 && expected.last().is_some_and(|last| last.0 == end.0 && last.2 >= Some(1.0)),
        "{expected:?}"
    );
    // Reports at steps 3, 6 and 9; a checkpoint after step 4; the kill at step 8.
    let store = calm();
    let killed = by(&store, hours, ApiError { dies_after: Some(1), ..ApiError::default() }, &ticking(2000));
    assert_eq!(killed.outcome.expect_err("killed").to_string(), "killed");
    let resumed = by(&store, hours, ApiError::default(), &ticking(1500));
    assert!(matches!(resumed.outcome, Ok(RunOutcome::Finished(_))), "{:?}", resumed.outcome);
    let again = rates(&resumed.events);
    assert_eq!(again[0], expected[1], "step 6 uses the reading of step 3, and the reading of step 6 is recorded");
    assert_eq!((again[1].0, again[1].1), (9, expected[2].1), "step 9 uses the reading of step 6");
    assert!(again[1].2 < expected[2].2, "later readings come from another clock");
    let end = resumed.events.last().and_then(|event| event.at.step);
    let at_end = resumed.events.iter().filter(|event| event.at.step == end).map(|event| event.what.kind());
    assert_eq!(
        at_end.collect::<Vec<_>>(),
        ["report", "validation", "checkpoint", "stop"],
        "all events of the end of a run"
    );
}

#[test]
fn a_token_budget_ends_the_run_at_the_step_that_exhausts_it() {
    let _alone = testing::generator();
    let tokens = |request: &mut trainer_plan::TrainRequest| request.train.max_tokens = Some(500);
    let ran = by(&calm(), tokens, ApiError::default(), &Clock::still());
    let Ok(RunOutcome::Finished(end)) = ran.outcome else { panic!("{:?}", ran.outcome) };
    let seen = |step: Step| ran.events.iter().find(|it| it.at.step == Some(step)).and_then(|it| it.at.tokens_seen);
    assert!(seen(end) >= Some(500) && end < Step(12), "{end}");
    let per_step = seen(end).expect("the run ended") / end.0;
    assert!(seen(end) < Some(500 + 2 * per_step), "not one step more");
    let killed = {
        let store = calm();
        assert!(
            by(&store, tokens, ApiError { dies_after: Some(1), ..ApiError::default() }, &Clock::still())
                .outcome
                .is_err()
        );
        by(&store, tokens, ApiError::default(), &Clock::still())
    };
    let last = killed.last.expect("saved");
    let expected = ran.last.expect("saved");
    assert!(last.main == expected.main && last.state == expected.state, "to the bit");
}

#[test]
fn milestones_are_saved_and_checkpoints_have_validation_scores() {
    let _alone = testing::generator();
    let milestones = |request: &mut trainer_plan::TrainRequest| request.checkpoints.keep_every_steps = 5;
    let store = calm();
    let ran = by(&store, milestones, ApiError::default(), &Clock::still());
    let saved = |ran: &RunResult| -> Vec<u64> {
        let kept = ran.events.iter().filter(|event| matches!(event.what, EventKind::Checkpoint(_)));
        kept.filter_map(|event| Some(event.at.step?.0)).collect()
    };
    assert_eq!(saved(&ran), [4, 5, 8, 10, 12], "whatever `every_steps` is");
    assert!(ran.last.expect("saved").validated.is_some_and(|found| found.figures.contains_key("valid/mlm")));
    // A stop in the middle of a validation: the checkpoint gets its scores when the run resumes.
    let store = calm();
    by(&store, |_| (), ApiError { validating: true, ..ApiError::default() }, &Clock::still());
    let scores = "checkpoints/step-00000005/validation_scores.json";
    assert!(store.head(scores).expect("readable").is_none());
    let rest = by(&store, |_| (), ApiError { dies_after: Some(0), ..ApiError::default() }, &Clock::still());
    assert!(rest.outcome.is_err() && store.head(scores).expect("readable").is_some());
}

#[test]
fn a_branch_killed_at_any_change_is_absent_or_complete() {
    let _alone = testing::generator();
    let run = calm();
    train(&run, ApiError::default());
    let plan = testing::plan();
    let files = [("config.toml".to_owned(), b"seed = 7".to_vec())];
    let make = |to: &Store| branch::make(&run, Step(8), to, &plan, &files, &Clock::still());
    let whole = calm();
    make(&whole).expect("the checkpoint exists");
    let mut kills = 0;
    for changes in 0.. {
        let memory = MemoryBackend::new(FaultConfig::none());
        let outcome = make(&testkit::crash_after(&memory, changes));
        let there = Store::from_memory(&memory);
        if outcome.is_ok() {
            break;
        }
        kills += 1;
        if trainer_plan::checkpoint::steps(&there).expect("listed").is_empty() {
            let is_empty = there.list("").expect("listed").is_empty();
            assert!(is_empty || branch::is_cut_short(&there).expect("readable"), "{changes}: no run starts here");
            make(&there).expect("the second attempt succeeds");
            assert!(objects(&there) == objects(&whole), "{changes}");
        }
        let (_, newest) = checkpoint::newest(&there).expect("readable").expect("the branch");
        assert_eq!(newest.state.step, Step(8));
        let error = make(&there).expect_err("a run is here").to_string();
        assert!(error.contains("name an empty folder"), "{error}");
    }
    assert!(kills > 6, "{kills}");
    // The branch ends with the weights of the run.
    let ended = train(&whole, ApiError::default());
    assert!(ended.last.expect("saved").main == train(&calm(), ApiError::default()).last.expect("saved").main);
}
