//! Runs that fail or end early, and the steps that they save.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trainer_plan::config::EarlyStopConfig;

use super::*;
use crate::training::process_group::test_ranks::AlteredGroup;

/// Asserts that a run that fails by `trouble` saves all completed steps, and that the resumed run ends as a run without
/// faults.
fn assert_loses_nothing(trouble: ApiError, done: u64) {
    let (reports, last) = whole();
    let store = calm();
    let first = train(&store, trouble);
    assert_eq!(first.outcome.expect_err("the run cannot continue").to_string(), "shard: it is gone");
    let EventKind::Stop(stop) = &first.events.last().expect("some").what else { panic!("a stop event comes last") };
    assert_eq!((stop.why, stop.saved, stop.kept), (StopReason::Failed, true, Some(Step(done))));
    let kept = checkpoint::newest(&store).expect("readable").expect("it saved").1.state;
    assert_eq!(kept.step, Step(done));
    let second = train(&store, ApiError::default());
    assert!(matches!(second.outcome, Ok(RunOutcome::Finished(Step(12)))), "{:?}", second.outcome);
    let snapshot = second.last.expect("the end makes a checkpoint");
    assert!(snapshot.main == last.main && snapshot.optimizer == last.optimizer, "weights and optimizer state");
    assert_eq!(snapshot.state, last.state);
    assert_eq!(figures(&first.events.into_iter().chain(second.events).collect::<Vec<_>>()), reports);
}

#[test]
fn a_failed_batch_loses_no_completed_step() {
    let _alone = testing::generator();
    // In the middle of step 8, three steps after a checkpoint.
    assert_loses_nothing(ApiError { unreadable: Some(15), ..ApiError::default() }, 7);
}

#[test]
fn a_failed_validation_loses_no_completed_step() {
    let _alone = testing::generator();
    assert_loses_nothing(ApiError { invalid: true, ..ApiError::default() }, 5);
}

#[test]
fn a_run_that_fails_before_its_first_step_saves_nothing() {
    let _alone = testing::generator();
    let store = calm();
    let ran = train(&store, ApiError { unreadable: Some(0), ..ApiError::default() });
    assert!(ran.outcome.is_err() && ran.last.is_none());
    assert!(checkpoint::newest(&store).expect("readable").is_none());
}

/// A resumed run would reach the same numbers, so only the state before the divergence is saved.
#[test]
fn a_diverging_run_names_the_step_and_does_not_save_it() {
    let _alone = testing::generator();
    let mut request = testing::request();
    // The first update makes the weights so large that float32 products overflow in the second step.
    (request.optimizer.lr, request.optimizer.max_grad_norm, request.schedule.warmup_steps) = (1e30, 0.0, 0);
    request.checkpoints.every_steps = 1;
    request.report.every_steps = 1;
    let store = calm();
    let ran = train_with(&store, &testing::checked(request), ApiError::default());
    let Err(Error::NonFinite { step, batch, .. }) = ran.outcome else { panic!("{:?}", ran.outcome) };
    let mut reports = ran.events.iter().filter(|event| matches!(event.what, EventKind::Report(_)));
    let last = reports.next_back().and_then(|event| event.at.step).expect("the first step succeeded");
    assert_eq!((step, batch.0), (last.next(), last.0 * 2), "the first batch of the next step");
    let EventKind::Stop(stop) = &ran.events.last().expect("some").what else { panic!("a stop event comes last") };
    assert_eq!((stop.why, stop.saved, stop.kept), (StopReason::Failed, false, Some(last)));
    assert_eq!(checkpoint::newest(&store).expect("readable").expect("it saved").1.state.step, last);
}

/// Ranks with different numbers of calls would wait for each other forever.
#[test]
fn ranks_agree_on_a_stop_once_per_step_and_validation() {
    let _alone = testing::generator();
    let calls = |global_batch_size: u64, trouble: ApiError| {
        let mut request = testing::request();
        request.train.global_batch_size = global_batch_size;
        let group = Arc::new(SingleProcess);
        let ranks = Arc::new(AlteredGroup::new(group));
        let outcome = train_among(&calm(), &testing::checked(request), trouble, Arc::clone(&ranks) as _)
            .outcome
            .expect("the run ends without an error");
        (ranks.stops.load(Ordering::SeqCst), outcome)
    };
    // Twelve steps and three validations.
    assert_eq!(calls(4, ApiError::default()).0, 15);
    assert_eq!(calls(16, ApiError::default()).0, 15);
    let trouble = ApiError { waiting_for: Some(15), ..ApiError::default() };
    assert_eq!(calls(8, trouble), (9, RunOutcome::Stopped(Step(7), StopRequest::Terminate)));
}

/// Plan with a validation every second step. The metric never changes, so the validation after step 2 is the best.
fn plan_that_ends_early(metric: &str) -> TrainPlan {
    let mut request = testing::request();
    request.validation.every_steps = 2;
    request.validation.stop = Some(EarlyStopConfig { metric: metric.to_owned(), patience: 3 });
    testing::checked(request)
}

#[test]
fn a_run_without_better_validations_ends_early_and_resumes_to_the_bit() {
    let _alone = testing::generator();
    let plan = plan_that_ends_early("classification.rows");
    let scored = ApiError { scores: true, ..ApiError::default() };
    let whole_store = calm();
    let whole = train_with(&whole_store, &plan, scored);
    assert!(matches!(whole.outcome, Ok(RunOutcome::Finished(Step(8)))), "{:?}", whole.outcome);
    let ends: Vec<_> = whole.events.iter().filter(|event| matches!(event.what, EventKind::EarlyStop(_))).collect();
    let [Event { at, what: EventKind::EarlyStop(end), .. }] = ends[..] else { panic!("one event: {ends:?}") };
    assert_eq!((at.step, end.best_step, end.validations, end.best), (Some(Step(8)), Step(2), 3, Some(8.0)));
    // Checkpoints are due every four steps; the one after step 2 is the best.
    let is_saved = |event: &&Event| matches!(event.what, EventKind::Checkpoint(_));
    let saved: Vec<_> = whole.events.iter().filter(is_saved).map(|event| event.at.step.expect("a step").0).collect();
    assert_eq!(saved, [2, 4, 8]);
    let scores = whole.events.iter().find_map(|event| match &event.what {
        EventKind::Validation(report) => Some(&report.metrics),
        _ => None,
    });
    let scores = scores.expect("a validation");
    assert!((scores["classification.rows"] - 8.0).abs() < 1e-12 && scores["classification.accuracy"] >= 0.0);

    // Stopped after step 7, with two of three validations that are no better.
    let store = calm();
    let first = train_with(&store, &plan, ApiError { waiting_for: Some(15), ..scored });
    assert!(matches!(first.outcome, Ok(RunOutcome::Stopped(Step(7), _))), "{:?}", first.outcome);
    let second = train_with(&store, &plan, scored);
    assert!(matches!(second.outcome, Ok(RunOutcome::Finished(Step(8)))), "{:?}", second.outcome);
    let [whole_last, last] = [whole.last, second.last].map(|last| last.expect("the end makes a checkpoint"));
    assert!(last.main == whole_last.main && last.optimizer == whole_last.optimizer, "weights and optimizer state");
    assert_eq!(last.state, whole_last.state);
    let events = first.events.into_iter().chain(second.events).collect::<Vec<_>>();
    assert_eq!(figures(&events), figures(&whole.events));

    let again = train_with(&store, &plan, scored);
    assert!(
        matches!(again.outcome, Ok(RunOutcome::Finished(Step(8)))) && again.from.is_empty(),
        "nothing is left to do"
    );
    // More patience continues it.
    let mut request = testing::request();
    request.validation = plan.validation.clone();
    request.validation.stop.as_mut().expect("it is set").patience = 4;
    let longer = train_with(&store, &testing::checked(request), scored);
    assert!(matches!(longer.outcome, Ok(RunOutcome::Finished(Step(10)))), "{:?}", longer.outcome);
}

#[test]
fn an_unknown_metric_ends_the_run_with_the_names_of_all() {
    let _alone = testing::generator();
    let ran = train_with(&calm(), &plan_that_ends_early("classification.f1"), ApiError::default());
    let error = ran.outcome.expect_err("no validation has it");
    assert!(error.is_usage() && error.to_string().contains("`classification.accuracy`"), "{error}");
}
