//! Vectors of the global batch.

use trainer_plan::objectives::{AnyObjective, RowSet};

use super::*;
use crate::device::tensors::as_i64;
use crate::model::forward::GlobalVectors;
use crate::model::layers::Mode;

/// Request whose contrast has these rows as negatives.
fn request(rows: RowSet) -> TrainRequest {
    let mut request = testing::request();
    let Some(AnyObjective::SequenceContrastive(objective)) = request.objectives.get_mut("sequence_contrastive") else {
        panic!("the request has the objective");
    };
    objective.negatives_from = rows;
    request
}

/// The first pass has the dropout, and the generator the samples, of the pass with gradient.
#[test]
fn both_passes_have_the_same_draws() {
    let _alone = testing::generator();
    for (checkpointing, objectives) in
        [(false, vec!["sequence_contrastive", "corrective_lm", "masked_lm"]), (true, vec!["sequence_contrastive"])]
    {
        let mut request = request(RowSet::GlobalBatch);
        request.loss.retain(|name, _| objectives.contains(&name.as_str()));
        request.encoder.dropout = 0.3;
        request.train.activation_checkpointing = checkpointing;
        let trainer = testing::trainer(&request);
        let batches = [0, 1].map(testing::batch);
        let hosts = [0, 1].map(|nth: usize| HostBatch::new(&batches[nth], &trainer.networks).expect("a good batch"));
        let (counts, _) = trainer.counts(&hosts).expect("counted");
        let context = StepContext { seed: 7, step: Step(3), mode: Mode::Train };
        let global = trainer.global_vectors(&hosts, &counts, None, context).expect("gathered");
        let member = trainer.members.iter().find(|member| member.name == "sequence_contrastive").expect("active");
        let contrast = member.loss.global_contrast().expect("of the global batch");
        let mut seen = 0;
        for (batch, global) in hosts.iter().zip(&global) {
            let forward = trainer.encode(batch, context, None).expect("encoded");
            let GlobalVectors { all_vnd, rows, .. } = &global["sequence_contrastive"];
            assert_eq!((rows.start, rows.end), (seen, seen + as_i64(testing::ROWS)));
            assert_eq!(all_vnd.narrow(1, rows.start, as_i64(testing::ROWS)), contrast.vectors(&forward));
            seen = rows.end;
        }
        let [first, second] = [0, 1].map(|nth| global[nth]["sequence_contrastive"].log_sums_vn.copy());
        assert!(first == second && first.size() == [2, seen]);
    }
}

#[test]
fn a_step_without_rows_has_no_gradient() {
    let _alone = testing::generator();
    let mut request = request(RowSet::GlobalBatch);
    request.loss.retain(|name, _| name == "sequence_contrastive");
    let no_rows = [0, 1].map(|nth| testing::batch_with_gap(nth).slice(testing::ROWS - 1, 1));
    for gradient in gradients(&request, &no_rows).iter().flatten() {
        assert!(f64::try_from(gradient.abs().max()).expect("one number") <= 0.0);
    }
}

#[test]
fn an_objective_without_weight_changes_no_gradient() {
    let _alone = testing::generator();
    let batches = [0, 1].map(testing::batch);
    let [global, micro] = [RowSet::GlobalBatch, RowSet::MicroBatch].map(|rows| {
        let mut request = request(rows);
        request.loss = [("masked_lm".to_owned(), 1.0), ("sequence_contrastive".to_owned(), 0.0)].into();
        gradients(&request, &batches)
    });
    assert!(largest_difference(&global, &micro) <= 0.0);
}
