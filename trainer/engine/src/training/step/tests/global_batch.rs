//! Vectors of the global batch.

use trainer_plan::device::DeviceChoice;
use trainer_plan::encoder::RelativeForm;
use trainer_plan::objectives::{AnyObjective, RowSet};

use super::*;
use crate::device::tensors::{HostTensor, as_i64};
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

/// Asserts that the pass without gradient has the dropout, and the generator the samples, of the pass with gradient.
fn assert_same_draws(device: DeviceChoice, precision: Precision, relative: RelativeForm) {
    for (checkpointing, objectives) in
        [(false, vec!["sequence_contrastive", "corrective_lm", "masked_lm"]), (true, vec!["sequence_contrastive"])]
    {
        let mut request = request(RowSet::GlobalBatch);
        request.loss.retain(|name, _| objectives.contains(&name.as_str()));
        request.encoder.dropout = 0.1;
        request.encoder.relative_positions.kind = relative;
        request.train.activation_checkpointing = checkpointing;
        (request.train.device, request.train.precision) = (device, precision);
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
            let own = HostTensor::copy_of(&all_vnd.narrow(1, rows.start, as_i64(testing::ROWS))).expect("float32");
            let again = HostTensor::copy_of(&contrast.vectors(&forward).to_kind(MASTER)).expect("float32");
            assert!(own == again, "{device:?}, {precision:?}, {relative:?}, checkpointing {checkpointing}");
            seen = rows.end;
        }
        let [first, second] = [0, 1].map(|nth| global[nth]["sequence_contrastive"].log_sums_vn.copy());
        assert_eq!(first.size(), [2, seen]);
        assert!(HostTensor::copy_of(&first).expect("float32") == HostTensor::copy_of(&second).expect("float32"));
    }
}

#[test]
fn both_passes_have_the_same_draws() {
    let _alone = testing::generator();
    for relative in [RelativeForm::None, RelativeForm::CocoLm] {
        assert_same_draws(DeviceChoice::Cpu, Precision::F32, relative);
    }
}

/// The kernel of attention, and so its draws, depend on the type, on padding and on relative positions.
#[test]
fn both_passes_have_the_same_draws_on_cuda() {
    if !pretend_cuda::is_here(module_path!(), "both_passes_have_the_same_draws_on_cuda") {
        return;
    }
    for precision in [Precision::F32, Precision::Bf16, Precision::Bf16Hidden] {
        for relative in [RelativeForm::None, RelativeForm::CocoLm] {
            assert_same_draws(DeviceChoice::Cuda(0), precision, relative);
        }
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
