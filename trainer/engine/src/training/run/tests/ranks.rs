//! Runs of several ranks on threads.

use std::sync::atomic::{AtomicBool, Ordering};

use tch::Tensor;
use trainer_plan::config::TrainConfig;

use super::*;
use crate::training::process_group::test_ranks::{AlteredGroup, NO_LIMIT, on_shared_ranks};

/// Whether rank 0 has drawn its weights. One test runs at a time.
static HAS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Lets rank 1 draw its weights after rank 0, because threads share the generator.
fn in_turn(group: AlteredGroup) -> AlteredGroup {
    let before: fn(u64, &str) = |rank, what| {
        if rank == 0 {
            HAS_DRAWN.store(what != "the skipped steps", Ordering::SeqCst);
        }
    };
    let after: fn(u64, &str) = |rank, what| {
        while rank == 1 && what == "the skipped steps" && !HAS_DRAWN.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    AlteredGroup { around_broadcasts: [before, after], ..group }
}

/// Trains two ranks, each with the group and the configuration that `alter` returns. Only rank 0 has the store.
fn train_two(
    store: &Store,
    alter: fn(u64, Arc<dyn ProcessGroup>, &mut TrainConfig) -> AlteredGroup,
) -> Vec<(Result<RunOutcome, String>, Arc<AlteredGroup>)> {
    let store = store.clone();
    on_shared_ranks(2, NO_LIMIT, move |rank, group| {
        let mut request = testing::request();
        let group = Arc::new(in_turn(alter(rank, group, &mut request.train)));
        let own = if rank == 0 { store.clone() } else { calm() };
        // Nothing else draws.
        request.encoder.dropout = 0.0;
        request.loss.retain(|name, _| name == "masked_lm");
        request.validation.every_steps = 0;
        let plan = testing::checked(request);
        let outcome = train_among(&own, &plan, ApiError::default(), Arc::clone(&group) as _).outcome;
        (outcome.map_err(|error| error.to_string()), group)
    })
}

#[test]
fn devices_connect_before_the_first_step() {
    let _alone = testing::generator();
    for (outcome, group) in train_two(&calm(), |_, group, _| AlteredGroup::new(group)) {
        assert_eq!(outcome, Ok(RunOutcome::Finished(Step(12))));
        let calls = group.calls.lock().expect("no panic");
        let first = calls.iter().position(|call| *call == "gradients").expect("they are summed");
        assert_eq!(calls[..first].iter().filter(|call| **call == "devices").count(), 1, "{calls:?}");
    }
}

/// One unit in the last place of the norm.
fn disturb(what: &str, tensor: &Tensor) {
    if what == "the gradient norm" {
        let _ = tensor.shallow_clone().g_mul_scalar_(1.0 + 2_f64.powi(-22));
    }
}

#[test]
fn a_rank_whose_weights_differ_is_named_and_not_saved() {
    let _alone = testing::generator();
    let store = calm();
    let ran = train_two(&store, |rank, group, train| {
        train.micro_batch_size = 4;
        let alter_tensors: fn(&str, &Tensor) = if rank == 1 { disturb } else { |_, _| () };
        AlteredGroup { alter_tensors, ..AlteredGroup::new(group) }
    });
    for (outcome, _) in ran {
        let error = outcome.expect_err("the weights differ");
        let expected = "rank 1 has other weights than 1 of 2 ranks after step 4, first in `encoder.";
        assert!(error.contains(expected), "{error}");
    }
    assert!(checkpoint::newest(&store).expect("readable").is_none());
}

#[test]
fn an_error_at_the_start_of_a_rank_reaches_the_others() {
    let _alone = testing::generator();
    let ran = train_two(&calm(), |rank, group, train| {
        train.init_from = (rank == 1).then(|| "/nowhere/at/all".into());
        AlteredGroup::new(group)
    });
    let errors: Vec<String> = ran.into_iter().map(|(outcome, _)| outcome.expect_err("no folder")).collect();
    assert!(errors[1].starts_with("/nowhere/at/all: folder not found"), "{errors:?}");
    assert_eq!(errors[0], format!("rank 1 failed: {}", errors[1]));
}

/// Host whose checkpoint is being written until rank 1 has heard of it three times.
struct SlowWriter(Arc<AlteredGroup>);

impl Observer for SlowWriter {
    fn observe(&mut self, _: &Event) {}
}

impl Host for SlowWriter {
    fn stop(&self) -> Option<StopRequest> {
        None
    }

    fn begin(&mut self, _: Option<&State>) -> Result<(), ForeignError> {
        Ok(())
    }

    fn save(&mut self, _: Snapshot) -> Result<(), ForeignError> {
        Ok(())
    }

    fn is_writing(&self) -> bool {
        self.0.count("the write of the checkpoint") < 3
    }

    fn saved(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        assert!(!self.is_writing(), "the wait is over");
        Ok(None)
    }

    fn check(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        Ok(None)
    }
}

/// A wait of rank 0 alone would be that of an operation of the others, which has a limit.
#[test]
fn ranks_hear_that_a_checkpoint_is_still_being_written() {
    let _alone = testing::generator();
    let heard = on_shared_ranks(2, NO_LIMIT, |_, group| {
        let group = Arc::new(in_turn(AlteredGroup::new(group)));
        let store = calm();
        let clock = Clock::still();
        let plan = testing::plan();
        let mut run = Run::start(&plan, Arc::clone(&group) as _, &store, &clock).expect("both start");
        // Both count the same broadcasts.
        run.wait_until_saved(&mut SlowWriter(Arc::clone(&group))).expect("written");
        run.trainer.ranks().finish().expect("both come");
        group.count("the write of the checkpoint")
    });
    assert!(heard.iter().all(|count| *count >= 3), "{heard:?}");
}
