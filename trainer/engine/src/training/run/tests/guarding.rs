//! Reaction of a run to a loss spike and to a collapsed detector.

use telemetry::training::SpikeMetric;
use trainer_plan::TrainRequest;
use trainer_plan::checkpoint::SavedDetector;
use trainer_plan::config::SpikeAction;
use trainer_plan::run::rollback;
use trainer_plan::run::skipped_steps::{self, SkipList};

use super::*;

/// Step whose second micro-batch is poisoned, counted from 1.
const SPIKE: u64 = 41;
/// Index of the poisoned batch.
const POISONED: u64 = 2 * (SPIKE - 1) + 1;

/// Plan of `masked_lm` alone, with enough steps for the spike detector.
fn plan(action: SpikeAction) -> TrainPlan {
    plan_with(action, 10)
}

fn plan_with(action: SpikeAction, max_skips: usize) -> TrainPlan {
    plan_by(action, |request| request.guard.max_skips = max_skips)
}

fn plan_by(action: SpikeAction, change: impl FnOnce(&mut TrainRequest)) -> TrainPlan {
    let mut request = testing::request();
    request.loss = [("masked_lm".to_owned(), 1.0)].into();
    request.train.steps = 48;
    request.validation.every_steps = 0;
    request.guard.action = action;
    request.guard.loss_sigmas = 8.0;
    change(&mut request);
    testing::checked(request)
}

fn poisoned() -> ApiError {
    ApiError { poisoned: Some(POISONED), ..ApiError::default() }
}

fn spikes(events: &[Event]) -> Vec<(u64, SpikeMetric)> {
    let spike = |event: &Event| match &event.what {
        EventKind::LossSpike(spike) => Some((spike.spike_step.0, spike.figure)),
        _ => None,
    };
    events.iter().filter_map(spike).collect()
}

#[test]
fn only_the_step_that_spikes_is_reported() {
    let _alone = testing::generator();
    let ran = train_with(&calm(), &plan(SpikeAction::Warn), poisoned());
    assert!(matches!(ran.outcome, Ok(RunOutcome::Finished(Step(48)))), "{:?}", ran.outcome);
    assert_eq!(spikes(&ran.events), [(SPIKE, SpikeMetric::Loss)]);
    let calm = train_with(&calm(), &plan(SpikeAction::Warn), ApiError::default());
    assert_eq!(spikes(&calm.events), []);
}

#[test]
fn a_paused_run_is_saved_and_can_resume() {
    let _alone = testing::generator();
    let store = calm();
    let plan = plan(SpikeAction::Pause);
    let ran = train_with(&store, &plan, poisoned());
    // The spike is detected when the report after step 42 is read.
    assert!(matches!(ran.outcome, Ok(RunOutcome::Stopped(Step(42), StopRequest::Guard))), "{:?}", ran.outcome);
    assert_eq!(spikes(&ran.events), [(SPIKE, SpikeMetric::Loss)]);
    let again = train_with(&store, &plan, poisoned());
    assert!(matches!(again.outcome, Ok(RunOutcome::Finished(Step(48)))), "{:?}", again.outcome);
}

/// Runs without a kill, with the poisoned step skipped.
fn skipped() -> RunResult {
    let store = calm();
    let ran = train_with(&store, &plan(SpikeAction::Skip), poisoned());
    assert!(matches!(ran.outcome, Ok(RunOutcome::Finished(Step(48)))), "{:?}", ran.outcome);
    ran
}

#[test]
fn a_skipped_step_changes_no_weight_and_names_its_rows() {
    let _alone = testing::generator();
    let ran = skipped();
    let last = ran.last.expect("the end makes a checkpoint");
    assert_eq!(last.state.skips, [Step(SPIKE)]);
    assert_eq!((last.state.step, last.state.rows_consumed), (Step(48), 48 * 8), "its rows are consumed");
    let skips: Vec<_> = ran.events.iter().filter(|event| matches!(event.what, EventKind::Skip(_))).collect();
    let [skip] = skips.as_slice() else { panic!("{skips:?}") };
    let EventKind::Skip(report) = &skip.what else { panic!("{skip:?}") };
    assert_eq!(skip.at.step, Some(Step(SPIKE - 1)), "the event precedes the skip");
    let poisoned = POISONED * testing::ROWS as u64..(POISONED + 1) * testing::ROWS as u64;
    assert!(report.suspects.iter().all(|suspect| poisoned.contains(&suspect.row.0)), "{report:?}");
    assert_eq!(report.suspects[0].documents, [format!("document of {}", report.suspects[0].row)]);
    // The content of the skipped rows does not influence the weights.
    let harmless = ApiError { poisoned: Some(u64::MAX), ..ApiError::default() };
    let store = calm();
    let mut list = SkipList::default();
    list.add(&store, report.spike).expect("written");
    let other = train_with(&store, &plan(SpikeAction::Skip), harmless).last.expect("the end makes a checkpoint");
    assert!(other.main == last.main && other.optimizer == last.optimizer, "weights and optimizer state");
    assert_ne!(other.state.batch_hash, last.state.batch_hash, "other rows were consumed");
}

#[test]
fn a_skipped_step_is_skipped_again_after_a_kill() {
    let _alone = testing::generator();
    let calm = skipped().last.expect("the end makes a checkpoint");
    let plan = plan(SpikeAction::Skip);
    // The 10th checkpoint is that of step 40, before the spike; the 11th would be that of step 44, after it.
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

/// State after a kill between the recorded decision and the rollback.
#[test]
fn a_run_does_not_resume_from_a_checkpoint_trained_on_a_skipped_step() {
    let _alone = testing::generator();
    let calm = skipped().last.expect("the end makes a checkpoint");
    let store = self::calm();
    train_with(&store, &plan(SpikeAction::Warn), poisoned());
    assert_eq!(checkpoint::newest(&store).expect("readable").expect("it saved").1.state.step, Step(48));
    let mut list = SkipList::default();
    let skip = skipped().events.into_iter().find_map(|event| match event.what {
        EventKind::Skip(skip) => Some(skip.spike),
        _ => None,
    });
    list.add(&store, skip.expect("the skip was reported")).expect("written");
    let last = train_with(&store, &plan(SpikeAction::Skip), poisoned()).last.expect("the end makes a checkpoint");
    assert!(last.main == calm.main && last.optimizer == calm.optimizer, "weights and optimizer state");
    assert_eq!(last.state, calm.state);
}

/// Without the list, the checkpoints cannot be explained; they must stay because nothing else is left of the run.
#[test]
fn run_without_its_checkpoint_list_is_refused_and_keeps_its_checkpoints() {
    let _alone = testing::generator();
    let store = calm();
    let plan = plan(SpikeAction::Skip);
    train_with(&store, &plan, poisoned()).outcome.expect("the run finishes");
    let before = store.list("checkpoints").expect("listed");
    let list = store.get(skipped_steps::NAME).expect("a step was skipped");
    store.delete(skipped_steps::NAME).expect("removed");
    let error = train_with(&store, &plan, poisoned()).outcome.expect_err("the list is lost").to_string();
    assert!(error.contains(&format!("step {SPIKE}")) && error.contains("`skipped_steps.json`"), "{error}");
    // A rollback is refused too, because the run could not resume after it.
    let older = trainer_plan::checkpoint::steps(&store).expect("listed")[1];
    let error = rollback::back(&store, older, (None, 0), |_| Ok(())).expect_err("the list is lost").to_string();
    assert!(older.0 >= SPIKE && error.contains("`skipped_steps.json`"), "{older}: {error}");
    assert_eq!(store.list("checkpoints").expect("listed"), before);
    store.put(skipped_steps::NAME, &list).expect("restored");
    train_with(&store, &plan, poisoned()).outcome.expect("the run resumes");
}

#[test]
fn a_run_with_too_many_spikes_fails_and_names_the_step() {
    let _alone = testing::generator();
    let ran = train_with(&calm(), &plan_with(SpikeAction::Skip, 0), poisoned());
    let error = ran.outcome.expect_err("no step may be skipped").to_string();
    assert!(error.contains(&format!("step {SPIKE}")) && error.contains("`spike_guard.max_skips`"), "{error}");
}

/// The state after the step is not saved, so that the step can still be skipped.
#[test]
fn a_failed_run_skips_the_step_if_more_skips_are_allowed() {
    let _alone = testing::generator();
    let calm = skipped().last.expect("the end makes a checkpoint");
    let store = self::calm();
    train_with(&store, &plan_with(SpikeAction::Skip, 0), poisoned()).outcome.expect_err("no step may be skipped");
    let last = train_with(&store, &plan(SpikeAction::Skip), poisoned()).last.expect("the end makes a checkpoint");
    assert!(last.main == calm.main && last.optimizer == calm.optimizer, "weights and optimizer state");
    assert_eq!(last.state, calm.state);
}

/// The run was stopped so often that all retained checkpoints are after the step.
#[test]
fn a_run_without_an_earlier_checkpoint_pauses_and_keeps_its_checkpoints() {
    let _alone = testing::generator();
    let store = calm();
    let plan = plan(SpikeAction::Skip);
    // In the middle of step 42, after which a report is due.
    let stopped = ApiError { waiting_for: Some(2 * SPIKE + 1), ..poisoned() };
    train_with(&store, &plan, stopped).outcome.expect("the run stops");
    for step in trainer_plan::checkpoint::steps(&store).expect("listed").into_iter().filter(|step| step.0 < SPIKE) {
        trainer_plan::checkpoint::discard(&store, step).expect("removed");
    }
    let paused = train_with(&store, &plan, poisoned());
    assert!(matches!(paused.outcome, Ok(RunOutcome::Stopped(Step(42), StopRequest::Guard))), "{:?}", paused.outcome);
    assert_eq!(spikes(&paused.events), [(SPIKE, SpikeMetric::Loss)]);
    assert!(trainer_plan::checkpoint::steps(&store).expect("listed").contains(&Step(SPIKE)));
    assert!(SkipList::read(&store).expect("readable").skips.is_empty());
    let again = train_with(&store, &plan, poisoned());
    assert!(matches!(again.outcome, Ok(RunOutcome::Finished(Step(48)))), "{:?}", again.outcome);
}

#[test]
fn a_spike_has_the_right_step_after_a_change_of_the_report_interval() {
    let _alone = testing::generator();
    let rare = plan_by(SpikeAction::Warn, |request| request.report.every_steps = 20);
    for every_steps in [1, 3, 4, 5] {
        let store = calm();
        // In the middle of step 45: four steps are unread.
        let stopped = ApiError { waiting_for: Some(89), ..poisoned() };
        train_with(&store, &rare, stopped).outcome.expect("the run stops");
        let frequent = plan_by(SpikeAction::Warn, |request| request.report.every_steps = every_steps);
        let ran = train_with(&store, &frequent, poisoned());
        assert_eq!(spikes(&ran.events), [(SPIKE, SpikeMetric::Loss)], "reports every {every_steps} steps");
    }
}

/// A detector that had learned, with nine reports within noise before the run was stopped.
#[test]
fn a_collapsed_detector_is_warned_of_after_a_resume_too() {
    let _alone = testing::generator();
    let mut request = testing::request();
    request.loss = [("replaced_token".to_owned(), 1.0)].into();
    let plan = testing::checked(request);
    let store = calm();
    train_with(&store, &plan, ApiError { waiting_for: Some(15), ..ApiError::default() });
    let (_, mut snapshot) = checkpoint::newest(&store).expect("readable").expect("it saved");
    let health = SavedDetector { streak: -9, has_learned: true, is_warned: false };
    snapshot.state.detectors = [("replaced_token.gain".to_owned(), health)].into();
    snapshot.write(&store, &keep(2)).expect("written");
    let ran = train_with(&store, &plan, ApiError::default());
    let is_warning = |event: &&Event| matches!(&event.what, EventKind::Warning(warning) if warning.topic == "detector");
    let steps: Vec<_> = ran.events.iter().filter(is_warning).map(|event| event.at.step).collect();
    assert_eq!(steps, [Some(Step(9))], "once, with the first report: {:?}", ran.outcome);
    assert!(ran.last.expect("it saved").state.detectors["replaced_token.gain"].is_warned);
}
