//! Runs that people have decided something about: other budgets, branches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use telemetry::clock::Now;
use trainer_plan::run::branch;

use super::*;

/// A clock on which each look takes so many milliseconds.
fn ticking(ms: u64) -> Clock {
    let looks = AtomicU64::new(0);
    let looks = Arc::new(looks);
    Clock::of(move || {
        let steady = Duration::from_millis(ms * looks.fetch_add(1, Ordering::Relaxed));
        Now { time: 0, steady }
    })
}

fn by(store: &Store, change: impl Fn(&mut trainer_plan::TrainRequest), trouble: ApiError, clock: &Clock) -> Ran {
    let mut request = testing::request();
    change(&mut request);
    train_by(store, &testing::checked(request), trouble, Box::new(SingleProcess), clock)
}

/// The reports with the rate that the last of their steps went by.
fn rates(events: &[Event]) -> Vec<(u64, u64, Option<f64>)> {
    let rate = |event: &Event| match &event.what {
        EventKind::Report(report) => Some((event.at.step?.0, report.figures.lr.to_bits(), report.progress)),
        _ => None,
    };
    events.iter().filter_map(rate).collect()
}

/// A clock never shows the same twice: what was read before a kill is passed after it.
#[test]
fn a_run_by_hours_that_is_killed_goes_by_what_was_read_before() {
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
    // It reports at 3, 6 and 9 and is saved after 4; the kill comes at 8.
    let store = calm();
    let killed = by(&store, hours, ApiError { dies_after: Some(1), ..ApiError::default() }, &ticking(2000));
    assert_eq!(killed.outcome.expect_err("killed").to_string(), "killed");
    let resumed = by(&store, hours, ApiError::default(), &ticking(1500));
    assert!(matches!(resumed.outcome, Ok(RunOutcome::Finished(_))), "{:?}", resumed.outcome);
    let again = rates(&resumed.events);
    assert_eq!(again[0], expected[1], "step 6 went by the reading of step 3, and the reading of step 6 is there");
    assert_eq!((again[1].0, again[1].1), (9, expected[2].1), "step 9 goes by the reading of step 6");
    assert!(again[1].2 < expected[2].2, "what comes then is read on another clock");
    let end = resumed.events.last().and_then(|event| event.at.step);
    let at_end = resumed.events.iter().filter(|event| event.at.step == end).map(|event| event.what.kind());
    assert_eq!(
        at_end.collect::<Vec<_>>(),
        ["report", "validation", "checkpoint", "stop"],
        "all that comes at a run's end"
    );
}

#[test]
fn a_run_by_tokens_ends_with_the_step_that_spends_them() {
    let _alone = testing::generator();
    let tokens = |request: &mut trainer_plan::TrainRequest| request.train.max_tokens = Some(500);
    let ran = by(&calm(), tokens, ApiError::default(), &Clock::still());
    let Ok(RunOutcome::Finished(end)) = ran.outcome else { panic!("{:?}", ran.outcome) };
    let seen = |step: Step| ran.events.iter().find(|it| it.at.step == Some(step)).and_then(|it| it.at.tokens_seen);
    assert!(seen(end) >= Some(500) && end < Step(12), "{end}");
    let per_step = seen(end).expect("it ended") / end.0;
    assert!(seen(end) < Some(500 + 2 * per_step), "not a step more");
    let killed = {
        let store = calm();
        assert!(
            by(&store, tokens, ApiError { dies_after: Some(1), ..ApiError::default() }, &Clock::still())
                .outcome
                .is_err()
        );
        by(&store, tokens, ApiError::default(), &Clock::still())
    };
    let (last, expected) = (killed.last.expect("saved"), ran.last.expect("saved"));
    assert!(last.main == expected.main && last.state == expected.state, "to the bit");
}

#[test]
fn a_milestone_is_made_and_a_best_one_has_its_figures() {
    let _alone = testing::generator();
    let milestones = |request: &mut trainer_plan::TrainRequest| request.checkpoints.keep_every_steps = 5;
    let store = calm();
    let ran = by(&store, milestones, ApiError::default(), &Clock::still());
    let saved = |ran: &Ran| -> Vec<u64> {
        let kept = ran.events.iter().filter(|event| matches!(event.what, EventKind::Checkpoint(_)));
        kept.filter_map(|event| Some(event.at.step?.0)).collect()
    };
    assert_eq!(saved(&ran), [4, 5, 8, 10, 12], "whatever `every_steps` is");
    assert!(ran.last.expect("saved").validated.is_some_and(|found| found.figures.contains_key("valid/mlm")));
    // A stop in the middle of a validation: its checkpoint gets its figures when the run continues.
    let store = calm();
    by(&store, |_| (), ApiError { validating: true, ..ApiError::default() }, &Clock::still());
    let figures = "checkpoints/step-00000005/validation_scores.json";
    assert!(store.stat(figures).expect("asked").is_none());
    let rest = by(&store, |_| (), ApiError { dies_after: Some(0), ..ApiError::default() }, &Clock::still());
    assert!(rest.outcome.is_err() && store.stat(figures).expect("asked").is_some());
}

#[test]
fn a_branch_that_is_killed_anywhere_is_no_run_or_a_whole_one() {
    let _alone = testing::generator();
    let run = calm();
    train(&run, ApiError::default());
    let (plan, papers) = (testing::plan(), [("config.toml".to_owned(), b"seed = 7".to_vec())]);
    let make = |to: &Store| branch::make(&run, Step(8), to, &plan, &papers, &Clock::still());
    let whole = calm();
    make(&whole).expect("there is one");
    let mut kills = 0;
    for changes in 0.. {
        let memory = MemoryBackend::new(FaultConfig::calm());
        let outcome = make(&testkit::crash_after(&memory, changes));
        let there = Store::of_memory(&memory);
        if outcome.is_ok() {
            break;
        }
        kills += 1;
        if trainer_plan::checkpoint::steps(&there).expect("listed").is_empty() {
            let is_empty = there.list("").expect("listed").is_empty();
            assert!(is_empty || branch::is_cut_short(&there).expect("asked"), "{changes}: no run begins here");
            make(&there).expect("once more");
            assert!(objects(&there) == objects(&whole), "{changes}");
        }
        let (_, newest) = checkpoint::newest(&there).expect("readable").expect("the branch");
        assert_eq!(newest.state.step, Step(8));
        let error = make(&there).expect_err("a run is here").to_string();
        assert!(error.contains("name a folder that is free"), "{error}");
    }
    assert!(kills > 6, "{kills}");
    // And it ends as the run did.
    let ended = train(&whole, ApiError::default());
    assert!(ended.last.expect("saved").main == train(&calm(), ApiError::default()).last.expect("saved").main);
}
