//! RoBERTa, ELECTRA, and BERT's heads for sentences.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schemas::Batch;
use schemas::columns::IGNORE;
use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::TrainRequest;
use trainer_plan::config::TrainConfig;
use trainer_plan::encoder::{EncoderConfig, Gelu};
use trainer_plan::networks::AnyNetwork;
use trainer_plan::networks::generator::{Generator, SharedTable};
use trainer_plan::objectives::AnyObjective;
use trainer_plan::objectives::replaced_token::LabelOne;

use super::{
    ModelFamily, Target, VIEW, batch, begun, check_all, check_export, collect, copied, expected, export, forward,
    golden, gradient_tolerance, host, import, largest, logits, loss, objective, plan, weights,
};
use crate::device::precision::Precision;
use crate::model::forward::Forward;
use crate::model::heads::Dense;
use crate::objectives::replaced_token::DetectionHead;
use crate::testing;
use crate::training::step::Trainer;

const DETECTED: &str = "corrupted";

fn roberta() -> TrainRequest {
    let encoder = EncoderConfig {
        layers: 2,
        hidden: 24,
        heads: 2,
        feed_forward: 40,
        max_positions: 16,
        layer_norm_eps: 1e-5,
        ..EncoderConfig::default()
    };
    let mut plan = plan(encoder, 90);
    (plan.vocab.special.pad, plan.vocab.special.cls, plan.vocab.special.sep) = (1, 0, 2);
    plan.vocab.special.unk = Some(3);
    plan
}

/// Shape of the small model: hidden size 24 for the discriminator, 12 for the generator.
fn electra(hidden: u32, feed_forward: u32) -> TrainRequest {
    let shape =
        EncoderConfig { layers: 2, heads: 2, max_positions: 16, embedding: Some(16), ..EncoderConfig::default() };
    plan(EncoderConfig { hidden, feed_forward, ..shape }, 90)
}

fn discriminator() -> TrainRequest {
    TrainRequest {
        objectives: [("rtd".to_owned(), objective("replaced_token"))].into(),
        loss: [("rtd".to_owned(), 1.0)].into(),
        networks: BTreeMap::new(),
        ..electra(24, 40)
    }
}

/// Returns the largest difference at tokens of values `[3, 14, ..]`. Values at padding may differ between libraries.
#[expect(clippy::disallowed_methods, reason = "CPU tensors need no wait")]
fn gap(found: &Tensor, expected: &BTreeMap<String, Tensor>, name: &str) -> f64 {
    let is_token = expected["attention_mask"].to_kind(Kind::Bool).view([-1]);
    let tokens = |values: &Tensor| values.flatten(0, 1).index(&[Some(&is_token)]);
    largest(&(tokens(found) - tokens(&expected[name])))
}

/// Checks that hidden states, logits, loss and all gradients equal those of `transformers`.
fn assert_equal_models(
    trainer: &Trainer,
    expected: &BTreeMap<String, Tensor>,
    (batch, view): (&Batch, &str),
    logits: impl Fn(&Trainer, &Forward<'_>) -> Tensor,
    architecture: ModelFamily,
) {
    let host = host(trainer, batch);
    let forward = forward(trainer, &host);
    assert!(gap(&forward.encoded("main", view).hidden_btd, expected, "hidden") <= 1e-5);
    assert!(gap(&logits(trainer, &forward), expected, "logits") <= 1e-5);
    let loss = loss(trainer, &forward);
    assert!(largest(&(&loss - &expected["loss"])) <= 1e-5);
    loss.backward();
    trainer.parameters.accumulate_grads().expect("gradients of one shape");
    let gradients = collect(trainer, architecture, Tensor::grad);
    check_all(&gradients, expected, "gradient.", gradient_tolerance);
}

#[test]
fn positions_of_a_roberta_begin_two_rows_later() {
    let _generator = testing::generator();
    let trainer = begun(&roberta(), "hf_roberta");
    let expected = expected("hf_roberta");
    let batch = batch(&expected, VIEW);
    assert_equal_models(&trainer, &expected, (&batch, VIEW), logits, ModelFamily::Roberta);

    let token_types = trainer.parameters().get("encoder.embeddings.token_type.weight").expect("there");
    assert!(largest(&token_types.get(0)) > 0.0 && largest(&token_types.get(1)) < f64::MIN_POSITIVE);
}

/// Inputs of the detection test. The script's label 1 (replaced) becomes a label with a different id.
fn detection_inputs() -> BTreeMap<String, Tensor> {
    let mut inputs = expected("hf_electra");
    let ids = &inputs["input_ids"];
    let labels = (ids - 1).where_scalarother(&inputs["labels"].eq(1), i64::from(IGNORE));
    inputs.insert("labels".to_owned(), labels);
    inputs
}

fn detection_logits(trainer: &Trainer, forward: &Forward<'_>) -> Tensor {
    let weight = |name: &str| trainer.parameters().get(&format!("heads.rtd.{name}")).expect("a head").shallow_clone();
    let dense = Dense { weight_oi: weight("dense.weight"), bias_o: weight("dense.bias") };
    let weight_d = weight("weight").squeeze_dim(0);
    let head =
        DetectionHead { dense: Some((dense, Gelu::Erf)), weight_d, bias_1: weight("bias"), precision: Precision::F32 };
    head.logits(&forward.encoded("main", DETECTED).hidden_btd)
}

#[test]
fn electra_detection_equals_transformers() {
    let _generator = testing::generator();
    let trainer = begun(&discriminator(), "hf_electra");
    let expected = expected("hf_electra");
    let batch = batch(&detection_inputs(), DETECTED);
    assert_equal_models(&trainer, &expected, (&batch, DETECTED), detection_logits, ModelFamily::Electra);
}

#[test]
fn electra_generator_predictions_equal_transformers() {
    let _generator = testing::generator();
    let trainer = begun(&electra(12, 20), "hf_electra_generator");
    let expected = expected("hf_electra_generator");
    let batch = batch(&expected, VIEW);
    assert_equal_models(&trainer, &expected, (&batch, VIEW), logits, ModelFamily::Electra);
}

#[test]
fn a_next_sentence_head_gets_pooler_and_classifier() {
    let _generator = testing::generator();
    let shape = EncoderConfig {
        layers: 1,
        hidden: 16,
        heads: 2,
        feed_forward: 24,
        max_positions: 14,
        ..EncoderConfig::default()
    };
    let mut plan = plan(shape, 90);
    plan.objectives.insert("nsp".to_owned(), objective("next_sentence"));
    plan.loss.insert("nsp".to_owned(), 1.0);
    let trainer = begun(&plan, "hf_bert_pretraining");
    let expected = expected("hf_bert_pretraining");
    let batch = batch(&expected, VIEW);
    let host = host(&trainer, &batch);
    let forward = forward(&trainer, &host);
    assert!(gap(&logits(&trainer, &forward), &expected, "logits") <= 1e-5);
    let weight = |name: &str| trainer.parameters().get(&format!("heads.nsp.{name}")).expect("a head").shallow_clone();
    let dense =
        |name: &str| Dense { weight_oi: weight(&format!("{name}.weight")), bias_o: weight(&format!("{name}.bias")) };
    let head = crate::objectives::next_sentence::PairHead {
        pooler: dense("pooler"),
        classifier: dense("classifier"),
        precision: Precision::F32,
    };
    let scores = head.logits(&forward.encoded("main", VIEW).hidden_btd);
    let scored = crate::objectives::next_sentence::loss(&scores, &Tensor::from_slice(&[0_i64, 1, 1]));
    assert!(largest(&(scored.sum / 3.0 - &expected["next_sentence"])) <= 1e-6);
}

#[test]
fn round_trips_change_no_bit() {
    let _generator = testing::generator();
    for (model, architecture, plan) in [
        ("hf_roberta", ModelFamily::Roberta, roberta()),
        ("hf_electra", ModelFamily::Electra, discriminator()),
        ("hf_electra_generator", ModelFamily::Electra, electra(12, 20)),
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = Store::folder(home.path()).expect("there");
        let ours = begun(&plan, model).weights().expect("on the host");
        export(&ours, &testing::checked(plan.clone()), architecture, &folder).expect("written");
        assert_eq!(weights(home.path()), weights(&golden(model)), "{model}: names, shapes and values");
        assert_eq!(begun_at(&plan, home.path()).weights().expect("on the host"), ours, "{model}");
    }
}

fn begun_at(plan: &TrainRequest, folder: &Path) -> Trainer {
    let mut plan = plan.clone();
    plan.train.init_from = Some(folder.to_owned());
    let mut trainer = testing::trainer(&plan);
    trainer.begin().expect("just written");
    trainer
}

#[test]
fn roberta_exports_are_those_that_transformers_read() {
    let _generator = testing::generator();
    check_export("hf_roberta", &roberta(), ModelFamily::Roberta, VIEW, logits);
}

#[test]
fn electra_exports_are_those_that_transformers_read() {
    let _generator = testing::generator();
    check_export("hf_electra", &discriminator(), ModelFamily::Electra, DETECTED, detection_logits);
}

#[test]
fn electra_generators_are_those_that_transformers_read() {
    let _generator = testing::generator();
    check_export("hf_electra_generator", &electra(12, 20), ModelFamily::Electra, VIEW, logits);
}

/// Discriminator with a generator that starts from the stored one.
fn with_generator() -> TrainRequest {
    let mut plan = discriminator();
    let generator = Generator {
        layers: 2,
        hidden: Some(12),
        heads: Some(2),
        feed_forward: Some(20),
        share: vec![SharedTable::Word],
        init_from: Some(golden("hf_electra_generator")),
        ..Generator::default()
    };
    plan.networks = [("generator".to_owned(), AnyNetwork::Generator(generator))].into();
    plan
}

#[test]
fn a_generator_starts_from_its_own_folder() {
    let _generator = testing::generator();
    let plan = with_generator();
    let mut trainer = testing::trainer(&plan);
    let drawn = trainer.weights().expect("on the host");
    trainer.begin().expect("the stored model");
    let begun = trainer.weights().expect("on the host");
    let stored = weights(&golden("hf_electra_generator"));
    for (ours, theirs) in [
        ("embeddings.position.weight", "electra.embeddings.position_embeddings.weight"),
        ("embeddings.project.weight", "electra.embeddings_project.weight"),
        ("layers.1.feed_forward.output.bias", "electra.encoder.layer.1.output.dense.bias"),
    ] {
        assert_eq!(begun[&format!("generator.encoder.{ours}")], stored[theirs], "{ours}");
    }
    assert_eq!(begun["generator.head.dense.weight"], stored["generator_predictions.dense.weight"]);
    assert_eq!(begun["generator.head.bias"], stored["generator_lm_head.bias"]);
    let changed: BTreeSet<&str> =
        begun.keys().filter(|name| begun[*name] != drawn[*name]).map(String::as_str).collect();
    assert!(changed.iter().all(|name| name.starts_with("generator.")), "the main network is as drawn: {changed:?}");

    let mut wide = plan;
    let Some(AnyNetwork::Generator(generator)) = wide.networks.get_mut("generator") else { panic!("just put there") };
    generator.hidden = Some(8);
    let mut trainer = testing::trainer(&wide);
    let error = trainer.begin().expect_err("another shape").to_string();
    assert!(error.contains("`networks.generator.hidden` is 8, the model has 12"), "{error}");
}

#[test]
fn xlm_roberta_is_read_and_missing_positions_are_refused() {
    let _generator = testing::generator();
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = copied("hf_roberta", home.path());
    let text = std::fs::read_to_string(golden("hf_roberta").join("config.json")).expect("stored");
    let renamed = text.replace("\"model_type\": \"roberta\"", "\"model_type\": \"xlm-roberta\"");
    assert_ne!(renamed, text);
    folder.put("config.json", renamed.as_bytes()).expect("written");
    let expected = begun(&roberta(), "hf_roberta").weights().expect("on the host");
    assert_eq!(begun_at(&roberta(), home.path()).weights().expect("on the host"), expected);

    let refused = |plan: TrainRequest, init: &Path| {
        let train = TrainConfig { init_from: Some(init.to_owned()), ..plan.train.clone() };
        let mut trainer = testing::trainer(&TrainRequest { train, ..plan });
        trainer.begin().expect_err("refused").to_string()
    };
    let mut plan = roberta();
    plan.encoder.max_positions = 18;
    let error = refused(plan, &golden("hf_roberta"));
    assert!(error.contains("`encoder.max_positions` is 18, the model has 16"), "{error}");

    folder.put("config.json", text.replace("\"gelu\"", "\"gelu_new\"").as_bytes()).expect("written");
    let mut plan = roberta();
    plan.encoder.gelu = Gelu::Tanh;
    let error = refused(plan, home.path());
    assert!(error.contains("the gelu of its head is `erf`"), "{error}");
}

#[test]
fn unsupported_architectures_are_refused() {
    let _generator = testing::generator();
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = Store::folder(home.path()).expect("there");
    let refused = |plan: &TrainRequest, architecture| {
        let weights = testing::trainer(plan).weights().expect("on the host");
        export(&weights, &testing::checked(plan.clone()), architecture, &folder).expect_err("refused").to_string()
    };
    let narrow = refused(&electra(24, 40), ModelFamily::Bert);
    assert!(narrow.contains("not as wide as its hidden states; export it as `electra`"), "{narrow}");

    let mut tanh = roberta();
    tanh.encoder.gelu = Gelu::Tanh;
    let tanh = refused(&tanh, ModelFamily::Roberta);
    assert!(tanh.contains("that of the architecture is always `erf`"), "{tanh}");

    let headless = refused(&discriminator(), ModelFamily::Bert);
    assert!(headless.contains("and no `masked_lm` of its main network: export it with `--as electra`"), "{headless}");

    let mut untied = roberta();
    let Some(AnyObjective::MaskedLm(objective)) = untied.objectives.get_mut("mlm") else { panic!("just put there") };
    objective.tied = false;
    let untied = refused(&untied, ModelFamily::Roberta);
    assert!(untied.contains("with `tied = true` on the main network"), "{untied}");

    // Positive logits mean "original" here and "replaced" in ELECTRA.
    let mut mirrored = discriminator();
    let Some(AnyObjective::ReplacedToken(objective)) = mirrored.objectives.get_mut("rtd") else {
        panic!("just put there")
    };
    objective.label_one = LabelOne::IsOriginal;
    let error = refused(&mirrored, ModelFamily::Electra);
    assert!(error.contains("`label_one = \"replaced\"`"), "{error}");
    let names = ["dense.weight", "dense.bias", "weight", "bias"].map(|name| format!("heads.rtd.{name}"));
    let read =
        import(&golden("hf_electra"), &Target::main(&testing::checked(mirrored), names.iter().map(String::as_str)));
    assert!(read.expect("the stored model").keys().all(|name| name.starts_with("encoder.")), "nor is its head read");
}
