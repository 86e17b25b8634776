//! RoBERTa, ELECTRA, and BERT's heads for sentences.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schemas::Batch;
use schemas::columns::IGNORE;
use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::TrainRequest;
use trainer_plan::config::TrainConfig;
use trainer_plan::encoder::{EncoderConfig, Gelu, RelativePositions};
use trainer_plan::hf::{HeadPlace, HeadRole};
use trainer_plan::networks::AnyNetwork;
use trainer_plan::networks::MAIN;
use trainer_plan::networks::generator::{Generator, SharedTable};
use trainer_plan::objectives::AnyObjective;
use trainer_plan::objectives::replaced_token::LabelOne;

use super::exports::{Case, check, detection_head, pair_head};
use super::{
    ModelFamily, VIEW, batch, begun, check_all, chosen, collect, copied, expected, export, forward, golden,
    gradient_tolerance, host, largest, logits, loss, objective, plan, weights,
};
use crate::model::forward::Forward;
use crate::model::layers::Mode;
use crate::testing;
use crate::training::step::Trainer;

const DETECTED: &str = "corrupted";

pub(super) fn roberta() -> TrainRequest {
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

/// Shape of the stored MPNet: that of the RoBERTa, with relative positions.
pub(super) fn mpnet() -> TrainRequest {
    let mut plan = roberta();
    plan.encoder.relative_positions = RelativePositions::MPNET;
    plan
}

/// Shape of the small model: hidden size 24 for the discriminator, 12 for the generator.
pub(super) fn electra(hidden: u32, feed_forward: u32) -> TrainRequest {
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

/// Discriminator whose positive scores mean "original".
fn mirrored() -> TrainRequest {
    let mut request = discriminator();
    let Some(AnyObjective::ReplacedToken(objective)) = request.objectives.get_mut("rtd") else {
        panic!("just put there")
    };
    objective.label_one = LabelOne::IsOriginal;
    request
}

/// Returns the largest difference at tokens of values `[3, 14, ..]`. Values at padding may differ between libraries.
#[expect(clippy::disallowed_methods, reason = "CPU tensors need no wait")]
fn gap(found: &Tensor, expected: &BTreeMap<String, Tensor>, name: &str) -> f64 {
    let is_token = expected["attention_mask"].to_kind(Kind::Bool).view([-1]);
    let tokens = |values: &Tensor| values.flatten(0, 1).index(&[Some(&is_token)]);
    largest(&(tokens(found) - tokens(&expected[name])))
}

/// Checks that hidden states, logits, loss and all gradients equal those of `transformers`.
pub(super) fn assert_equal_models(
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
    let head = HeadPlace::unlabelled(HeadRole::Detect, "heads.rtd".to_owned());
    detection_head(trainer, &head).logits(&forward.encoded("main", DETECTED).hidden_btd)
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

/// Shape of the stored model with a head for sentences.
fn next_sentence() -> TrainRequest {
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
    plan
}

#[test]
fn a_next_sentence_head_gets_pooler_and_classifier() {
    let _generator = testing::generator();
    let trainer = begun(&next_sentence(), "hf_bert_pretraining");
    let expected = expected("hf_bert_pretraining");
    let batch = batch(&expected, VIEW);
    let host = host(&trainer, &batch);
    let forward = forward(&trainer, &host);
    assert!(gap(&logits(&trainer, &forward), &expected, "logits") <= 1e-5);
    let head = pair_head(&trainer, "heads.nsp");
    let scores = head.logits(&forward.encoded("main", VIEW).hidden_btd, Mode::Eval);
    let scored = crate::objectives::classification::loss(&scores, &Tensor::from_slice(&[0_i64, 1, 1]), None);
    assert!(largest(&(scored.sum / 3.0 - &expected["next_sentence"])) <= 1e-6);
}

#[test]
fn round_trips_change_no_bit() {
    let _generator = testing::generator();
    for (model, architecture, plan) in [
        ("hf_bert_pretraining", ModelFamily::Bert, next_sentence()),
        ("hf_mpnet", ModelFamily::Mpnet, mpnet()),
        ("hf_roberta", ModelFamily::Roberta, roberta()),
        ("hf_electra", ModelFamily::Electra, discriminator()),
        ("hf_electra_generator", ModelFamily::Electra, electra(12, 20)),
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = Store::folder(home.path()).expect("there");
        let ours = begun(&plan, model).weights().expect("on the host");
        let checked = testing::checked(plan.clone());
        export(&ours, &checked, &chosen(&checked, architecture), &folder).expect("written");
        assert_eq!(weights(home.path()), weights(&golden(model)), "{model}: names, shapes and values");
        assert_eq!(begun_at(&plan, home.path()).weights().expect("on the host"), ours, "{model}");
    }
}

pub(super) fn begun_at(plan: &TrainRequest, folder: &Path) -> Trainer {
    let mut plan = plan.clone();
    plan.train.init_from = Some(folder.to_owned());
    let mut trainer = testing::trainer(&plan);
    trainer.begin().expect("just written");
    trainer
}

#[test]
fn exports_of_every_family_are_those_that_transformers_read() {
    let untied = untied(next_sentence());
    let mut pair = with_generator();
    pair.objectives.insert("generator".to_owned(), generator_objective());
    pair.loss.insert("generator".to_owned(), 1.0);
    let generator =
        Case { name: "hf_electra_pair_generator".to_owned(), run: pair, network: "generator", family: None };
    let choices = check(&[
        Case::new("hf_bert_pretraining", next_sentence(), ModelFamily::Bert),
        Case::new("hf_bert_untied", untied, ModelFamily::Bert),
        Case::new("hf_roberta", roberta(), ModelFamily::Roberta),
        Case::new("hf_electra", discriminator(), ModelFamily::Electra),
        Case::new("hf_electra_mirrored", mirrored(), ModelFamily::Electra),
        Case::new("hf_electra_generator", electra(12, 20), ModelFamily::Electra),
        generator,
    ]);
    let classes: Vec<&str> = choices.iter().map(|choice| choice.class).collect();
    let [detector, generator] = ["ElectraForPreTraining", "ElectraForMaskedLM"];
    let [pair, masked_lm] = ["BertForPreTraining", "BertForMaskedLM"];
    assert_eq!(classes, [pair, masked_lm, "RobertaForMaskedLM", detector, detector, generator, generator]);
}

/// Separate decoder instead of the word table.
fn untied(mut plan: TrainRequest) -> TrainRequest {
    let Some(AnyObjective::MaskedLm(objective)) = plan.objectives.get_mut("mlm") else { panic!("just put there") };
    objective.tied = false;
    plan
}

#[test]
fn a_separate_decoder_is_read_again_and_needs_one_in_the_run() {
    let _generator = testing::generator();
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = Store::folder(home.path()).expect("there");
    let plan = untied(next_sentence());
    let checked = testing::checked(plan.clone());
    let ours = testing::trainer(&plan).weights().expect("on the host");
    let mut choice = chosen(&checked, ModelFamily::Bert);
    choice.heads.retain(|head| head.form == HeadRole::PredictUntied);
    export(&ours, &checked, &choice, &folder).expect("written");
    let found = begun_at(&plan, home.path()).weights().expect("on the host");
    assert_eq!(found["heads.mlm.decoder.weight"], ours["heads.mlm.decoder.weight"]);
    let mut tied = next_sentence();
    tied.train.init_from = Some(home.path().to_owned());
    let error = testing::trainer(&tied).begin().expect_err("refused").to_string();
    assert!(error.contains("its decoder is not tied to its word table; set `tied = false`"), "{error}");
}

/// Masked language modelling of the generator.
fn generator_objective() -> AnyObjective {
    let Ok(objective) = toml::from_str("kind = 'masked_lm'\nnetwork = 'generator'") else { panic!("an objective") };
    objective
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
    let refused = |plan: &TrainRequest, family| {
        let plan = testing::checked(plan.clone());
        trainer_plan::hf::choose(&plan, MAIN, Some(family), None).expect_err("refused").to_string()
    };
    let narrow = refused(&electra(24, 40), ModelFamily::Bert);
    assert!(narrow.contains("not as wide as its hidden states; export it as `electra`"), "{narrow}");

    let mut tanh = roberta();
    tanh.encoder.gelu = Gelu::Tanh;
    let tanh = refused(&tanh, ModelFamily::Roberta);
    assert!(tanh.contains("that of the architecture is always `erf`"), "{tanh}");

    let headless = refused(&discriminator(), ModelFamily::Bert);
    assert!(headless.contains("and no `masked_lm` of its main network: export it with `--as electra`"), "{headless}");

    let untied = refused(&untied(roberta()), ModelFamily::Roberta);
    assert!(untied.contains("with `tied = true` on the main network"), "{untied}");

    let plan = testing::checked(with_generator());
    let absent = trainer_plan::hf::choose(&plan, "absent", None, None).expect_err("refused").to_string();
    assert!(absent.contains("no network `absent`; its networks are `main`, `generator`"), "{absent}");
}

/// Positive scores mean "original" in such a run and "replaced" in ELECTRA.
#[test]
fn a_detection_head_with_the_other_label_is_read_with_the_opposite_sign() {
    let _generator = testing::generator();
    let [same, other] = [discriminator(), mirrored()].map(|plan| begun(&plan, "hf_electra"));
    let weight = |trainer: &Trainer, name: &str| trainer.parameters().get(name).expect("a head").shallow_clone();
    for name in ["heads.rtd.weight", "heads.rtd.bias"] {
        assert!(largest(&(weight(&same, name) + weight(&other, name))) < f64::MIN_POSITIVE, "{name}");
    }
    assert_eq!(weight(&same, "heads.rtd.dense.bias"), weight(&other, "heads.rtd.dense.bias"));
}
