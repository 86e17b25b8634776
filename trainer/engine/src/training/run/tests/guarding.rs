//! What a run does about a step that leaps.

use telemetry::training::SpikeMetric;
use trainer_plan::TrainRequest;
use trainer_plan::config::SpikeAction;
use trainer_plan::run::rollback;
use trainer_plan::run::skipped_steps::{self, SkipList};

use super::*;

/// The step whose second micro-batch is poisoned, counted from 1, and that batch.
const LEAPS: u64 = 41;
const POISONED: u64 = 2 * (LEAPS - 1) + 1;

/// Masked words alone, for long enough that it is known what is usual.
fn plan(rule: SpikeAction) -> TrainPlan {
    plan_with(rule, 10)
}

fn plan_with(rule: SpikeAction, max_skips: usize) -> TrainPlan {
    plan_by(rule, |request| request.guard.max_skips = max_skips)
}

fn plan_by(rule: SpikeAction, change: impl FnOnce(&mut TrainRequest)) -> TrainPlan {
    let mut request = testing::request();
    request.loss = [("masked_lm".to_owned(), 1.0)].into();
    request.train.steps = 48;
    request.validation.every_steps = 0;
    request.guard.action = rule;
    request.guard.loss_sigmas = 8.0;
    change(&mut request);
    testing::checked(request)
}

fn poisoned() -> ApiError {
    ApiError { poisoned: Some(POISONED), ..ApiError::default() }
}

fn leaps(events: &[Event]) -> Vec<(u64, SpikeMetric)> {
    let leap = |event: &Event| match &event.what {
        EventKind::LossSpike(leap) => Some((leap.spike_step.0, leap.figure)),
        _ => None,
    };
    events.iter().filter_map(leap).collect()
}

#[test]
fn a_step_that_leaps_is_named_and_no_other() {
    let _alone = testing::generator();
    let ran = train_with(&calm(), &plan(SpikeAction::Warn), poisoned());
    assert!(matches!(ran.outcome, Ok(RunOutcome::Finished(Step(48)))), "{:?}", ran.outcome);
    assert_eq!(leaps(&ran.events), [(LEAPS, SpikeMetric::Loss)]);
    let calm = train_with(&calm(), &plan(SpikeAction::Warn), ApiError::default());
    assert_eq!(leaps(&calm.events), []);
}

#[test]
fn a_run_that_pauses_is_saved_and_goes_on() {
    let _alone = testing::generator();
    let (store, plan) = (calm(), plan(SpikeAction::Pause));
    let ran = train_with(&store, &plan, poisoned());
    // It is seen when the report after step 42 is read.
    assert!(matches!(ran.outcome, Ok(RunOutcome::Stopped(Step(42), StopRequest::Guard))), "{:?}", ran.outcome);
    assert_eq!(leaps(&ran.events), [(LEAPS, SpikeMetric::Loss)]);
    let again = train_with(&store, &plan, poisoned());
    assert!(matches!(again.outcome, Ok(RunOutcome::Finished(Step(48)))), "{:?}", again.outcome);
}

/// What a run that was not disturbed ends with.
fn skipped() -> Ran {
    let store = calm();
    let ran = train_with(&store, &plan(SpikeAction::Skip), poisoned());
    assert!(matches!(ran.outcome, Ok(RunOutcome::Finished(Step(48)))), "{:?}", ran.outcome);
    ran
}

#[test]
fn a_step_that_is_skipped_teaches_nothing_and_names_its_rows() {
    let _alone = testing::generator();
    let ran = skipped();
    let last = ran.last.expect("the end makes a checkpoint");
    assert_eq!(last.state.skips, [Step(LEAPS)]);
    assert_eq!((last.state.step, last.state.rows_consumed), (Step(48), 48 * 8), "its rows are consumed");
    let skips: Vec<_> = ran.events.iter().filter(|event| matches!(event.what, EventKind::Skip(_))).collect();
    let [skip] = skips.as_slice() else { panic!("{skips:?}") };
    let EventKind::Skip(report) = &skip.what else { panic!("{skip:?}") };
    assert_eq!(skip.at.step, Some(Step(LEAPS - 1)), "it is said before it is skipped");
    let poisoned = POISONED * testing::ROWS as u64..(POISONED + 1) * testing::ROWS as u64;
    assert!(report.suspects.iter().all(|suspect| poisoned.contains(&suspect.row.0)), "{report:?}");
    assert_eq!(report.suspects[0].documents, [format!("document of {}", report.suspects[0].row)]);
    // Whatever the rows say: nothing of them is learned.
    let harmless = ApiError { poisoned: Some(u64::MAX), ..ApiError::default() };
    let store = calm();
    let mut list = SkipList::default();
    list.add(&store, report.leap).expect("written");
    let other = train_with(&store, &plan(SpikeAction::Skip), harmless).last.expect("the end makes a checkpoint");
    assert!(other.main == last.main && other.optimizer == last.optimizer, "weights and optimizer state");
    assert_ne!(other.state.batch_hash, last.state.batch_hash, "other rows were consumed");
}

#[test]
fn what_is_skipped_is_skipped_again_after_a_kill() {
    let _alone = testing::generator();
    let calm = skipped().last.expect("the end makes a checkpoint");
    let plan = plan(SpikeAction::Skip);
    // The 10th checkpoint is that of step 40, before the leap; the 11th would be that of step 44, behind it.
    for dies_after in [9, 10, 11] {
        let store = self::calm();
        let trouble = ApiError { dies_after: Some(dies_after), ..poisoned() };
        let killed = train_with(&store, &plan, trouble);
        assert_eq!(killed.outcome.expect_err("killed").to_string(), "killed");
        let last = train_with(&store, &plan, poisoned()).last.expect("the end makes a checkpoint");
        assert!(
            last.main == calm.main && last.optimizer == calm.optimizer,
            "{dies_after}: weights and optimizer state"
        );
        assert_eq!(last.state, calm.state, "{dies_after}");
    }
}

/// As after a kill between the decision and what it undoes.
#[test]
fn a_checkpoint_that_learnt_what_is_to_be_skipped_is_not_gone_on_from() {
    let _alone = testing::generator();
    let calm = skipped().last.expect("the end makes a checkpoint");
    let store = self::calm();
    train_with(&store, &plan(SpikeAction::Warn), poisoned());
    assert_eq!(checkpoint::newest(&store).expect("readable").expect("it saved").1.state.step, Step(48));
    let mut list = SkipList::default();
    let skip = skipped().events.into_iter().find_map(|event| match event.what {
        EventKind::Skip(skip) => Some(skip.leap),
        _ => None,
    });
    list.add(&store, skip.expect("it was said")).expect("written");
    let last = train_with(&store, &plan(SpikeAction::Skip), poisoned()).last.expect("the end makes a checkpoint");
    assert!(last.main == calm.main && last.optimizer == calm.optimizer, "weights and optimizer state");
    assert_eq!(last.state, calm.state);
}

/// Without the list, nobody knows any more why the checkpoints are what they are; and they are all that there is.
#[test]
fn a_run_whose_list_is_lost_is_refused_and_keeps_its_checkpoints() {
    let _alone = testing::generator();
    let (store, plan) = (calm(), plan(SpikeAction::Skip));
    train_with(&store, &plan, poisoned()).outcome.expect("it finishes");
    let before = store.list("checkpoints").expect("listed");
    let list = store.read(skipped_steps::NAME).expect("it skipped");
    store.remove(skipped_steps::NAME).expect("removed");
    let error = train_with(&store, &plan, poisoned()).outcome.expect_err("the list is lost").to_string();
    assert!(error.contains(&format!("step {LEAPS}")) && error.contains("`skipped_steps.json`"), "{error}");
    // Nor is it gone back in, to where nobody could go on.
    let older = trainer_plan::checkpoint::steps(&store).expect("listed")[1];
    let error = rollback::back(&store, older, (None, 0), |_| Ok(())).expect_err("the list is lost").to_string();
    assert!(older.0 >= LEAPS && error.contains("`skipped_steps.json`"), "{older}: {error}");
    assert_eq!(store.list("checkpoints").expect("listed"), before);
    store.put(skipped_steps::NAME, &list).expect("restored");
    train_with(&store, &plan, poisoned()).outcome.expect("it continues");
}

#[test]
fn a_run_that_leaps_too_often_fails_and_says_where() {
    let _alone = testing::generator();
    let ran = train_with(&calm(), &plan_with(SpikeAction::Skip, 0), poisoned());
    let error = ran.outcome.expect_err("no step may be skipped").to_string();
    assert!(error.contains(&format!("step {LEAPS}")) && error.contains("`spike_guard.max_skips`"), "{error}");
}

/// What it has learned of the step is not kept, so that it can still be skipped.
#[test]
fn a_run_that_failed_over_a_leap_passes_over_it_where_more_may_be() {
    let _alone = testing::generator();
    let (calm, store) = (skipped().last.expect("the end makes a checkpoint"), self::calm());
    train_with(&store, &plan_with(SpikeAction::Skip, 0), poisoned()).outcome.expect_err("no step may be skipped");
    let last = train_with(&store, &plan(SpikeAction::Skip), poisoned()).last.expect("the end makes a checkpoint");
    assert!(last.main == calm.main && last.optimizer == calm.optimizer, "weights and optimizer state");
    assert_eq!(last.state, calm.state);
}

/// As where a run was stopped so often since that the newest checkpoints are all behind the step.
#[test]
fn a_run_without_a_way_back_pauses_and_keeps_what_it_has() {
    let _alone = testing::generator();
    let (store, plan) = (calm(), plan(SpikeAction::Skip));
    // In the middle of step 42, which is reported.
    let stopped = ApiError { waiting_for: Some(2 * LEAPS + 1), ..poisoned() };
    train_with(&store, &plan, stopped).outcome.expect("it stops");
    for step in trainer_plan::checkpoint::steps(&store).expect("listed").into_iter().filter(|step| step.0 < LEAPS) {
        trainer_plan::checkpoint::discard(&store, step).expect("removed");
    }
    let paused = train_with(&store, &plan, poisoned());
    assert!(matches!(paused.outcome, Ok(RunOutcome::Stopped(Step(42), StopRequest::Guard))), "{:?}", paused.outcome);
    assert_eq!(leaps(&paused.events), [(LEAPS, SpikeMetric::Loss)]);
    assert!(trainer_plan::checkpoint::steps(&store).expect("listed").contains(&Step(LEAPS)));
    assert!(SkipList::read(&store).expect("readable").skips.is_empty());
    let again = train_with(&store, &plan, poisoned());
    assert!(matches!(again.outcome, Ok(RunOutcome::Finished(Step(48)))), "{:?}", again.outcome);
}

#[test]
fn a_step_is_named_by_its_number_whatever_the_reports_were_when_it_was_done() {
    let _alone = testing::generator();
    let seldom = plan_by(SpikeAction::Warn, |request| request.report.every_steps = 20);
    for every_steps in [1, 3, 4, 5] {
        let store = calm();
        // In the middle of step 45: four steps are unread.
        let stopped = ApiError { waiting_for: Some(89), ..poisoned() };
        train_with(&store, &seldom, stopped).outcome.expect("it stops");
        let often = plan_by(SpikeAction::Warn, |request| request.report.every_steps = every_steps);
        let ran = train_with(&store, &often, poisoned());
        assert_eq!(leaps(&ran.events), [(LEAPS, SpikeMetric::Loss)], "reports every {every_steps} steps");
    }
}
