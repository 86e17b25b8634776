//! Tests of the heads for labelled examples.

use std::collections::BTreeMap;
use std::path::Path;

use schemas::columns::{ATTENTION_MASK, IGNORE, INPUT_IDS, TARGETS, TOKEN_TYPES};
use schemas::ordinal::BatchIndex;
use schemas::{Batch, BatchBuilder};
use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::TrainRequest;
use trainer_plan::encoder::{EncoderConfig, RelativeForm, RelativePositions};
use trainer_plan::objectives::AnyObjective;

use super::exports::{Case, check};
use super::families::begun_at;
use super::{
    ModelFamily, begun, check_all, chosen, collect, expected, export, forward, golden, gradient_tolerance, host,
    largest, loss, plan, weights,
};
use crate::testing;

const VIEW: &str = "example";
const WIDTH: usize = 14;

/// Objectives with a head for labelled examples, without dropout.
fn heads() -> [(&'static str, AnyObjective); 4] {
    let objective = |keys: &str| toml::from_str(keys).expect("an objective");
    [
        ("classification", objective("kind = \"classification\"\nclasses = 3\ndropout = 0.0")),
        ("regression", objective("kind = \"regression\"\ndropout = 0.0")),
        ("token_classification", objective("kind = \"token_classification\"\nclasses = 3\ndropout = 0.0")),
        ("span_extraction", objective("kind = \"span_extraction\"")),
    ]
}

fn shape() -> EncoderConfig {
    EncoderConfig { layers: 1, hidden: 16, heads: 2, feed_forward: 24, max_positions: 14, ..EncoderConfig::default() }
}

fn run(encoder: EncoderConfig, head: AnyObjective) -> TrainRequest {
    let mut run = plan(encoder, 90);
    run.objectives = [("task".to_owned(), head)].into();
    run.loss = [("task".to_owned(), 1.0)].into();
    run
}

/// Stored ids, masks and targets as the columns of a view.
fn labelled_batch(model: &str) -> Batch {
    let stored = expected(model);
    let mut builder = BatchBuilder::new(BatchIndex(0), 3);
    let numbers = |name: &str| Vec::<i32>::try_from(stored[name].to_kind(Kind::Int).view([-1])).expect("whole numbers");
    let flags = |name: &str| Vec::<u8>::try_from(stored[name].to_kind(Kind::Uint8).view([-1])).expect("flags");
    let given = &stored["targets"];
    let given: Vec<i32> = if given.kind() == Kind::Float {
        let scores = Vec::<f32>::try_from(given).expect("scores");
        scores.into_iter().map(|score| score.to_bits().cast_signed()).collect()
    } else {
        numbers("targets")
    };
    let each = given.len() / 3;
    let row = |cells: &[i32]| cells.iter().copied().chain(std::iter::repeat(IGNORE)).take(WIDTH).collect::<Vec<_>>();
    builder.push(VIEW, INPUT_IDS, WIDTH, numbers("input_ids"));
    builder.push(VIEW, TARGETS, WIDTH, given.chunks(each).flat_map(row).collect());
    builder.push(VIEW, ATTENTION_MASK, WIDTH, flags("attention_mask"));
    builder.push(VIEW, TOKEN_TYPES, WIDTH, flags("token_type_ids"));
    builder.finish()
}

#[test]
fn logits_losses_and_steps_are_those_of_transformers() {
    let _generator = testing::generator();
    for (name, head) in heads() {
        let model = format!("hf_bert_{name}");
        let expected = expected(&model);
        let mut trainer = begun(&run(shape(), head), &model);
        let batch = labelled_batch(&model);
        {
            let host = host(&trainer, &batch);
            let forward = forward(&trainer, &host);
            let logits = trainer.members()[0].loss.scores(&forward).expect("a head for labelled examples");
            assert!(largest(&(logits - &expected["logits"])) <= 1e-5, "{name}");
            let loss = loss(&trainer, &forward);
            assert!(largest(&(&loss - &expected["loss"])) <= 1e-5, "{name}");
            loss.backward();
        }
        trainer.parameters.accumulate_grads().expect("gradients of one shape");
        let gradients = collect(&trainer, ModelFamily::Bert, Tensor::grad);
        let stored = expected.keys().filter(|name| name.starts_with("gradient.")).count();
        assert_eq!(gradients.len(), stored, "{name}: every weight");
        check_all(&gradients, &expected, "gradient.", gradient_tolerance);
        trainer.step(&[batch]).expect("a step");
        check_step(&collect(&trainer, ModelFamily::Bert, Tensor::detach), &expected);
    }
}

/// Rows of other lengths share a batch with padding, which each head must ignore.
#[test]
fn the_loss_of_a_row_does_not_depend_on_the_others() {
    let _generator = testing::generator();
    for (name, head) in heads() {
        let model = format!("hf_bert_{name}");
        let trainer = begun(&run(shape(), head), &model);
        let batch = labelled_batch(&model);
        let sum = |batch: &Batch| {
            let host = host(&trainer, batch);
            let computed = trainer.members()[0].loss.compute(&forward(&trainer, &host));
            f64::try_from(computed.sums[0].to_kind(Kind::Double)).expect("a number")
        };
        let alone: f64 = (0..batch.rows()).map(|row| sum(&batch.slice(row, 1))).sum();
        assert!((sum(&batch) - alone).abs() < 1e-5, "{name}: {} and {alone}", sum(&batch));
    }
}

/// Compares the weights after a step. Adam divides by the size of the gradient, so weights whose gradient is rounding move
/// by up to the learning rate, 1e-3; all others must be closer.
fn check_step(found: &BTreeMap<String, Tensor>, expected: &BTreeMap<String, Tensor>) {
    check_all(found, expected, "stepped.", |_| 2e-3);
    for (name, found) in found {
        let gradient = expected[&format!("gradient.{name}")].abs();
        let is_clear = gradient.gt(1e-4 + 1e-3 * largest(&gradient));
        let gap = (found - &expected[&format!("stepped.{name}")]).masked_fill(&is_clear.logical_not(), 0.0);
        assert!(largest(&gap) <= 1e-5, "{name}: {:e}", largest(&gap));
    }
}

#[test]
fn round_trips_change_no_bit() {
    let _generator = testing::generator();
    for (name, head) in heads() {
        let model = format!("hf_bert_{name}");
        let run = run(shape(), head);
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = Store::folder(home.path()).expect("there");
        let ours = begun(&run, &model).weights().expect("on the host");
        let checked = testing::checked(run.clone());
        export(&ours, &checked, &chosen(&checked, ModelFamily::Bert), &folder).expect("written");
        assert_eq!(weights(home.path()), weights(&golden(&model)), "{name}: names, shapes and values");
        assert_eq!(begun_at(&run, home.path()).weights().expect("on the host"), ours, "{name}");
    }
}

/// Exports of the three forms of heads.
fn cases(family: ModelFamily, name: &str, encoder: &EncoderConfig, activation: &str) -> Vec<Case> {
    let [classification, _, tokens, spans] = heads();
    let AnyObjective::Classification(mut row) = classification.1 else { unreachable!("it is listed so") };
    row.activation = toml::Value::String(activation.to_owned()).try_into().expect("an activation");
    let forms = [("row", AnyObjective::Classification(row)), ("tokens", tokens.1), ("span", spans.1)];
    forms
        .map(|(form, head)| Case::new(&format!("hf_labelled_{name}_{form}"), run(encoder.clone(), head), family))
        .into()
}

#[test]
fn exports_of_every_family_are_those_that_transformers_read() {
    let relative = |kind| RelativePositions { kind, ..RelativePositions::default() };
    let t5 = EncoderConfig { relative_positions: relative(RelativeForm::T5), ..shape() };
    let cocolm = EncoderConfig { relative_positions: relative(RelativeForm::CocoLm), ..shape() };
    let narrow = EncoderConfig { embedding: Some(8), ..shape() };
    let all = [
        cases(ModelFamily::Bert, "bert", &shape(), "tanh"),
        cases(ModelFamily::Roberta, "roberta", &shape(), "tanh"),
        cases(ModelFamily::Electra, "electra", &narrow, "gelu"),
        cases(ModelFamily::Mpnet, "mpnet", &t5, "tanh"),
        cases(ModelFamily::Cloze, "cloze", &cocolm, "gelu"),
    ];
    let choices = check(&all.into_iter().flatten().collect::<Vec<_>>());
    let classes: Vec<&str> = choices.iter().map(|choice| choice.class).collect();
    for (classes, family) in classes.chunks(3).zip(["Bert", "Roberta", "Electra", "MPNet", "Cloze"]) {
        let tasks = ["SequenceClassification", "TokenClassification", "QuestionAnswering"];
        assert_eq!(classes, tasks.map(|task| format!("{family}For{task}")));
    }
}

#[test]
fn a_head_with_another_activation_is_exported_by_our_own_code() {
    let [case, ..] =
        <[Case; 3]>::try_from(cases(ModelFamily::Bert, "gelu", &shape(), "gelu")).unwrap_or_else(|_| unreachable!());
    let plan = testing::checked(case.run);
    let refusal =
        trainer_plan::hf::choose(&plan, "main", Some(ModelFamily::Bert), None).expect_err("no tanh").to_string();
    assert!(refusal.contains("activation") && refusal.contains("`cloze`"), "{refusal}");
    let choice = trainer_plan::hf::choose(&plan, "main", None, None).expect("a class");
    assert_eq!(choice.class, "ElectraForSequenceClassification");
}

#[test]
fn a_head_over_an_earlier_layer_is_not_exported() {
    let head = toml::from_str("kind = \"regression\"\nlayer = 1").expect("an objective");
    let plan = testing::checked(run(EncoderConfig { layers: 2, ..shape() }, head));
    let refusal = trainer_plan::hf::choose(&plan, "main", None, None).expect_err("a probe").to_string();
    assert!(refusal.contains("`objectives.task` reads layer 1"), "{refusal}");
}

#[test]
fn a_new_head_takes_the_pooler_that_is_there() {
    let _generator = testing::generator();
    let [(_, three_classes), (_, score), ..] = heads();
    // The pooler of next sentence prediction, from a model.
    let from_model = begun(&run(shape(), three_classes.clone()), "hf_bert_pretraining").weights().expect("on the host");
    let stored = weights(&golden("hf_bert_pretraining"));
    assert_eq!(from_model["heads.task.pooler.weight"], stored["bert.pooler.dense.weight"]);
    // And from a checkpoint, where only the pooler fits.
    let home = tempfile::tempdir().expect("a temporary folder");
    checkpoint_of(&from_model, home.path());
    let other = begun_at(&run(shape(), score), home.path()).weights().expect("on the host");
    assert_eq!(other["heads.task.pooler.bias"], from_model["heads.task.pooler.bias"]);
    assert_eq!(other["heads.task.classifier.weight"].shape(), [1, 16], "it stays as drawn");
}

fn checkpoint_of(weights: &crate::device::tensors::HostTensors, folder: &Path) {
    let store = Store::folder(folder).expect("there");
    let mut file = store.writer(trainer_plan::checkpoint::MAIN_FILE).expect("begun");
    crate::device::tensors::write(weights, &mut file).and_then(|()| file.commit()).expect("written");
}
