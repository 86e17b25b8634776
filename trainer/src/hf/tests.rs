//! Against `transformers`, by the numbers that `tests/reference/hf_parity.py` stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemas::atomic::Folder;
use schemas::columns::{ATTENTION_MASK, INPUT_IDS, LABELS};
use schemas::ordinal::{BatchIndex, Step};
use schemas::{Batch, BatchBuilder};
use tch::{Kind, Tensor};

use super::{export, import, is_model, theirs};
use crate::encoder::Mode;
use crate::error::Error;
use crate::forward::{Forward, Moment};
use crate::objectives::AnyObjective;
use crate::optimizer::OptimizerConfig;
use crate::plan::{EncoderConfig, Gelu, TrainConfig, TrainPlan, VocabFacts};
use crate::schedule::{ScheduleConfig, ScheduleKind};
use crate::step::Trainer;
use crate::tensors::{self, HostTensor, HostTensors};
use crate::testing;

const VIEW: &str = "masked";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/hf_bert")
}

fn expected() -> BTreeMap<String, Tensor> {
    let read = tensors::read(&golden().join("expected.safetensors")).expect("stored");
    read.into_iter().map(|(name, tensor)| (name, tensor.to_tensor().expect("known types"))).collect()
}

/// The stored model's shape, plain masked language modelling, and the script's optimizer.
fn plan() -> TrainPlan {
    let plan = testing::plan(Path::new("unused"));
    let mlm = AnyObjective::examples().into_iter().find(|objective| objective.kind() == "masked_lm");
    TrainPlan {
        width: 14,
        encoder: EncoderConfig {
            layers: 2,
            hidden: 64,
            heads: 4,
            feed_forward: 96,
            positions: 20,
            dropout: 0.0,
            ..EncoderConfig::default()
        },
        vocab: VocabFacts { size: 300, unigram_log_probabilities: vec![-300_f64.ln(); 300], ..plan.vocab },
        objectives: [("mlm".to_owned(), mlm.expect("registered"))].into(),
        loss: [("mlm".to_owned(), 1.0)].into(),
        train: TrainConfig { rows_per_step: 3, rows_per_micro_batch: 3, ..plan.train },
        optimizer: OptimizerConfig { lr: 1e-3, eps: 1e-6, ..OptimizerConfig::default() },
        schedule: ScheduleConfig { kind: ScheduleKind::Constant, warmup_steps: 0 },
        ..plan
    }
}

fn trainer() -> Trainer {
    let mut plan = plan();
    plan.train.init = Some(golden());
    let mut trainer = Trainer::new(&plan).expect("a good plan");
    trainer.begin().expect("the stored model");
    trainer
}

fn batch(inputs: &BTreeMap<String, Tensor>) -> Batch {
    let mut builder = BatchBuilder::new(BatchIndex(0), 3);
    let ids = |name: &str| Vec::<i32>::try_from(inputs[name].to_kind(Kind::Int).view([-1])).expect("whole numbers");
    let mask = inputs["attention_mask"].to_kind(Kind::Uint8).view([-1]);
    builder.push(VIEW, INPUT_IDS, 14, ids("input_ids"));
    builder.push(VIEW, LABELS, 14, ids("labels"));
    builder.push(VIEW, ATTENTION_MASK, 14, Vec::try_from(mask).expect("flags"));
    builder.finish()
}

fn forward<'a>(trainer: &'a Trainer, batch: &'a Batch) -> Forward<'a> {
    let passes = trainer.members()[0].passes.iter().cloned().collect();
    let moment = Moment { seed: 1, step: Step(0), mode: Mode::Train };
    Forward::run(batch, trainer.networks(), &passes, &passes, &BTreeSet::new(), moment).expect("all columns are there")
}

/// `[3, 14, 300]`, without the padding of the vocabulary.
fn logits(trainer: &Trainer, forward: &Forward<'_>) -> Tensor {
    let hidden_btd = &forward.encoded("main", VIEW).hidden_btd;
    let scores = trainer.members()[0].loss.logits(&hidden_btd.view([-1, 64]), trainer.networks());
    scores.expect("masked language modelling has a head").narrow(1, 0, 300).view([3, 14, 300])
}

fn largest(tensor: &Tensor) -> f64 {
    f64::try_from(tensor.detach().abs().max().to_kind(Kind::Double)).expect("one number")
}

fn collect(trainer: &Trainer, of: impl Fn(&Tensor) -> Tensor) -> BTreeMap<String, Tensor> {
    let copy = |tensor: &Tensor| HostTensor::copy_of(&of(tensor)).expect("float32");
    let ours: HostTensors =
        trainer.parameters().iter().map(|(name, weight)| (name.to_owned(), copy(&weight.tensor))).collect();
    let renamed = theirs(&ours, "mlm", &trainer.plan().encoder, &trainer.plan().vocab).expect("all there");
    renamed.into_iter().map(|(name, tensor)| (name, tensor.to_tensor().expect("float32"))).collect()
}

/// Every tensor of `found`, compared with the stored one of that name and `prefix`.
fn check_all(found: &BTreeMap<String, Tensor>, prefix: &str, tolerance: impl Fn(&Tensor) -> f64) {
    let expected = expected();
    assert_eq!(found.len(), expected.keys().filter(|name| name.starts_with(prefix)).count(), "all of them");
    for (name, found) in found {
        let expected = &expected[&format!("{prefix}{name}")];
        let gap = largest(&(found - expected));
        assert!(gap <= tolerance(expected), "{prefix}{name}: off by {gap:e}, largest {:e}", largest(expected));
    }
}

#[test]
fn logits_loss_and_gradients_are_those_of_transformers() {
    let _generator = testing::generator();
    let (trainer, expected) = (trainer(), expected());
    let batch = batch(&expected);
    let forward = forward(&trainer, &batch);
    assert!(largest(&(logits(&trainer, &forward) - &expected["logits"])) <= 1e-4);

    let member = &trainer.members()[0];
    let loss = &member.loss.compute(&forward).sums[0] / member.loss.terms(&batch)[0].count;
    assert!(largest(&(&loss - &expected["loss"])) <= 1e-5);

    loss.backward();
    // A softmax does not see the bias of the keys: what is left of its gradient is rounding, 1e-9 on either side.
    check_all(&collect(&trainer, Tensor::grad), "gradient.", |expected| (1e-3 * largest(expected)).max(1e-7));
}

#[test]
fn a_trained_step_is_that_of_torch() {
    let _generator = testing::generator();
    let mut trainer = trainer();
    let before = collect(&trainer, Tensor::detach);
    trainer.step(&[batch(&expected())]).expect("a step");
    let after = collect(&trainer, Tensor::detach);
    let moved = |name: &str| largest(&(&after[name] - &before[name])) > 1e-5;
    // The keys' biases have no gradient, and no decay.
    assert!(after.keys().all(|name| moved(name) || name.ends_with("self.key.bias")), "every other weight moved");
    // Adam's first step is about the learning rate, 1e-3, for every entry.
    check_all(&after, "stepped.", |_| 5e-6);
}

#[test]
fn a_round_trip_changes_no_bit() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (plan, folder) = (plan(), Folder::create(home.path()).expect("there"));
    let heads = ["mlm".to_owned()];
    let ours = import(&golden(), &plan.encoder, &plan.vocab, &heads).expect("the stored model");
    export(&ours, &plan.encoder, &plan.vocab, &folder).expect("written");
    assert!(is_model(home.path()));
    let read = |folder: &Path| tensors::read(&folder.join("model.safetensors")).expect("there");
    assert_eq!(read(home.path()), read(&golden()), "names, shapes and values");
    assert_eq!(import(home.path(), &plan.encoder, &plan.vocab, &heads).expect("just written"), ours);
}

/// Weights that are the same on every machine: small fractions, by name and place.
fn pattern(trainer: &Trainer) {
    let _guard = tch::no_grad_guard();
    for (at, (name, weight)) in (1_u32..).zip(trainer.parameters().iter()) {
        let count = weight.tensor.numel();
        let fraction =
            |entry: u32| f64::from(entry.wrapping_mul(7919).wrapping_add(at * 104_729) % 2003) / 2003.0 - 0.5;
        let values: Vec<f64> = (0..).take(count).map(|entry| 0.25 * fraction(entry)).collect();
        let shift = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
        let values = (Tensor::from_slice(&values) + shift).view(weight.tensor.size().as_slice());
        weight.tensor.shallow_clone().copy_(&values);
    }
}

#[test]
fn exports_are_those_that_transformers_read() {
    let _generator = testing::generator();
    let home = tempfile::tempdir().expect("a temporary folder");
    let target = std::env::var_os("HF_CHECK_FOLDER").map_or_else(|| home.path().to_owned(), PathBuf::from);
    let folder = Folder::create(&target).expect("made");
    let trainer = Trainer::new(&plan()).expect("a good plan");
    pattern(&trainer);
    let copy = |tensor: &Tensor| HostTensor::copy_of(tensor).expect("a known type");
    let ours = trainer.parameters().iter().map(|(name, weight)| (name.to_owned(), copy(&weight.tensor))).collect();
    export(&ours, &trainer.plan().encoder, &trainer.plan().vocab, &folder).expect("written");

    let hash = |name: &str| blake3::hash(&std::fs::read(target.join(name)).expect("written")).to_hex().to_string();
    let hashes: BTreeMap<&str, String> =
        ["config.json", "model.safetensors"].into_iter().map(|name| (name, hash(name))).collect();
    let inputs = expected();
    let batch = batch(&inputs);
    let check: HostTensors = [
        ("input_ids", inputs["input_ids"].shallow_clone()),
        ("attention_mask", inputs["attention_mask"].shallow_clone()),
        ("logits", logits(&trainer, &forward(&trainer, &batch)).detach()),
    ]
    .into_iter()
    .map(|(name, tensor)| (name.to_owned(), copy(&tensor)))
    .collect();
    let mut file = folder.begin("check.safetensors").expect("begun");
    tensors::write(&check, &mut file).and_then(|()| file.commit()).expect("written");
    folder.write("check.json", &serde_json::to_vec(&hashes).expect("strings")).expect("written");

    let stored: serde_json::Value = serde_json::from_slice(
        &std::fs::read(golden().join("exported.json")).expect("written by `hf_parity.py --check`"),
    )
    .expect("JSON");
    assert_eq!(serde_json::to_value(&hashes).expect("strings"), stored["blake3"]);
    assert!(stored["largest_difference_of_logits"].as_f64().is_some_and(|difference| difference <= 1e-4));
}

#[test]
fn a_model_of_another_shape_is_explained_key_by_key() {
    let plan = plan();
    let encoder = EncoderConfig { layers: 3, heads: 8, gelu: Gelu::Tanh, layer_norm_eps: 1e-5, ..plan.encoder };
    let vocab = VocabFacts { size: 301, ..plan.vocab };
    let error = import(&golden(), &encoder, &vocab, &[]).expect_err("another shape").to_string();
    for part in [
        "hf_bert: ",
        "`encoder.layers` is 3, the model has 2",
        "`encoder.heads` is 8, the model has 4",
        "`encoder.gelu` is `tanh`, the model has `erf`",
        "`encoder.layer_norm_eps` is 1e-5, the model has 1e-12",
        "vocabulary of 301 ids, the model of 300: prepare the corpus with the tokenizer",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// A copy of the stored model that a test may spoil.
fn copied(home: &Path) -> Folder {
    let folder = Folder::create(home).expect("there");
    for name in ["config.json", "model.safetensors"] {
        folder.write(name, &std::fs::read(golden().join(name)).expect("stored")).expect("copied");
    }
    folder
}

fn refused(folder: &Path) -> String {
    let plan = plan();
    let error = import(folder, &plan.encoder, &plan.vocab, &["mlm".to_owned()]).expect_err("refused");
    assert!(matches!(error, Error::Checkpoint { .. }), "{error}");
    error.to_string()
}

#[test]
fn pickled_weights_get_the_command_that_converts_them() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = copied(home.path());
    std::fs::remove_file(home.path().join("model.safetensors")).expect("there");
    assert!(refused(home.path()).contains("there is no `model.safetensors`"));
    folder.write("pytorch_model.bin", b"pickle").expect("written");
    let error = refused(home.path());
    assert!(error.contains("`pytorch_model.bin`") && error.contains("save_pretrained("), "{error}");
}

#[test]
fn damaged_and_foreign_folders_are_refused() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = copied(home.path());
    let text = std::fs::read_to_string(golden().join("config.json")).expect("stored");
    for (from, to, told) in [
        ("\"model_type\": \"bert\"", "\"model_type\": \"roberta\"", "it is a `roberta` model"),
        ("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", "its decoder is not tied"),
        ("\"hidden_size\": 64,", "", "hidden_size"),
        ("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "activation is `relu`"),
    ] {
        assert!(text.contains(from), "{from}");
        folder.write("config.json", text.replace(from, to).as_bytes()).expect("written");
        let error = refused(home.path());
        assert!(error.contains(told), "{error}");
    }
    folder.write("config.json", text.as_bytes()).expect("written");
    let weights = tensors::read(&golden().join("model.safetensors")).expect("stored");
    let spoil = |change: &dyn Fn(&mut HostTensors)| {
        let mut weights = weights.clone();
        change(&mut weights);
        let mut file = folder.begin("model.safetensors").expect("begun");
        tensors::write(&weights, &mut file).and_then(|()| file.commit()).expect("written");
        refused(home.path())
    };
    let key = "bert.encoder.layer.1.attention.self.key.weight";
    let missing = spoil(&|weights| assert!(weights.remove(key).is_some()));
    assert!(missing.contains(&format!("`model.safetensors` has no `{key}`")), "{missing}");
    let other = weights["cls.predictions.bias"].clone();
    let misshapen = spoil(&|weights| assert!(weights.insert(key.to_owned(), other.clone()).is_some()));
    assert!(misshapen.contains(&format!("`{key}` is [300], its `config.json` says [64, 64]")), "{misshapen}");
}

#[test]
fn old_names_and_bare_encoders_are_read() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (plan, folder, heads) = (plan(), copied(home.path()), ["mlm".to_owned()]);
    let weights = tensors::read(&golden().join("model.safetensors")).expect("stored");
    let import = |weights: &HostTensors| {
        let mut file = folder.begin("model.safetensors").expect("begun");
        tensors::write(weights, &mut file).and_then(|()| file.commit()).expect("written");
        import(home.path(), &plan.encoder, &plan.vocab, &heads).expect("readable")
    };
    let today = import(&weights);
    let aged =
        |name: &String| name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
    assert_eq!(import(&weights.iter().map(|(name, tensor)| (aged(name), tensor.clone())).collect()), today);

    let bare = |(name, tensor): (&String, &HostTensor)| Some((name.strip_prefix("bert.")?.to_owned(), tensor.clone()));
    let encoder = import(&weights.iter().filter_map(bare).collect());
    assert!(!encoder.is_empty() && encoder.keys().all(|name| name.starts_with("encoder.")));
    assert!(encoder.iter().all(|(name, tensor)| today[name] == *tensor));
}
