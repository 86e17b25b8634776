//! Tests of `BertForMaskedLM`, and of properties common to all architectures.

use std::path::Path;

use store::Store;
use tch::Tensor;
use trainer_plan::Error;
use trainer_plan::TrainRequest;
use trainer_plan::encoder::{EncoderConfig, Gelu, RelativeForm, VocabFacts};
use trainer_plan::init_weights::FolderFormat;

use super::exports::{Case, check};
use super::{
    ModelFamily, Target, VIEW, batch, begun, check_all, chosen, collect, copied, expected, export, forward, golden,
    gradient_tolerance, host, import, largest, logits, loss, plan, weights,
};
use crate::device::tensors;
use crate::device::tensors::{HostTensor, HostTensors};
use crate::testing;

const MODEL: &str = "hf_bert";
const HEAD: [&str; 5] = ["dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias"];

pub(super) fn run() -> TrainRequest {
    let encoder = EncoderConfig {
        layers: 2,
        hidden: 64,
        heads: 4,
        feed_forward: 96,
        max_positions: 20,
        ..EncoderConfig::default()
    };
    plan(encoder, 300)
}

/// Imports the model as a run does.
fn read(folder: &Path, plan: &TrainRequest) -> Result<HostTensors, Error> {
    let names = HEAD.map(|weight| format!("heads.mlm.{weight}"));
    import(folder, &Target::main(&testing::checked(plan.clone()), names.iter().map(String::as_str)))
}

#[test]
fn logits_loss_and_gradients_are_those_of_transformers() {
    let _generator = testing::generator();
    let trainer = begun(&run(), MODEL);
    let expected = expected(MODEL);
    let batch = batch(&expected, VIEW);
    let host = host(&trainer, &batch);
    let forward = forward(&trainer, &host);
    assert!(largest(&(logits(&trainer, &forward) - &expected["logits"])) <= 1e-4);
    let loss = loss(&trainer, &forward);
    assert!(largest(&(&loss - &expected["loss"])) <= 1e-5);
    loss.backward();
    trainer.parameters.accumulate_grads().expect("gradients of one shape");
    let gradients = collect(&trainer, ModelFamily::Bert, Tensor::grad);
    assert_eq!(gradients.len(), expected.keys().filter(|name| name.starts_with("gradient.")).count(), "all of them");
    check_all(&gradients, &expected, "gradient.", gradient_tolerance);
}

#[test]
fn a_trained_step_is_that_of_torch() {
    let _generator = testing::generator();
    let mut trainer = begun(&run(), MODEL);
    let expected = expected(MODEL);
    let before = collect(&trainer, ModelFamily::Bert, Tensor::detach);
    trainer.step(&[batch(&expected, VIEW)]).expect("a step");
    let after = collect(&trainer, ModelFamily::Bert, Tensor::detach);
    let moved = |name: &str| largest(&(&after[name] - &before[name])) > 1e-5;
    // The biases of the keys have no gradient and no weight decay.
    assert!(after.keys().all(|name| moved(name) || name.ends_with("self.key.bias")), "every other weight moved");
    assert_eq!(after.len(), expected.keys().filter(|name| name.starts_with("stepped.")).count(), "all of them");
    // Adam's first step is about the learning rate, 1e-3, for every entry.
    check_all(&after, &expected, "stepped.", |_| 5e-6);
}

#[test]
fn a_round_trip_changes_no_bit() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let plan = run();
    let folder = Store::folder(home.path()).expect("there");
    let ours = read(&golden(MODEL), &plan).expect("the stored model");
    let checked = testing::checked(plan.clone());
    export(&ours, &checked, &chosen(&checked, ModelFamily::Bert), &folder).expect("written");
    assert_eq!(FolderFormat::of(home.path()), FolderFormat::Model);
    assert_eq!(weights(home.path()), weights(&golden(MODEL)), "names, shapes and values");
    assert_eq!(read(home.path(), &plan).expect("just written"), ours);
}

#[test]
fn exports_are_those_that_transformers_read() {
    check(&[Case::new(MODEL, run(), ModelFamily::Bert)]);
}

#[test]
fn a_model_of_another_shape_is_explained_key_by_key() {
    let mut plan = run();
    let encoder = EncoderConfig {
        layers: 3,
        heads: 8,
        embedding: Some(32),
        gelu: Gelu::Tanh,
        layer_norm_eps: 1e-5,
        ..plan.encoder
    };
    plan.encoder = encoder;
    plan.encoder.relative_positions.kind = RelativeForm::T5;
    plan.vocab = VocabFacts { size: 301, ..plan.vocab };
    let error = read(&golden(MODEL), &plan).expect_err("another shape").to_string();
    for part in [
        "hf_bert: ",
        "`encoder.layers` is 3, the model has 2",
        "`encoder.heads` is 8, the model has 4",
        "`encoder.embedding` is 32, the model has 64",
        "`encoder.gelu` is `tanh`, the model has `erf`",
        "`encoder.layer_norm_eps` is 1e-5, the model has 1e-12",
        "`encoder.relative_positions` is set",
        "vocabulary of 301 ids, the model of 300: prepare the corpus with the tokenizer",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

fn refused(folder: &Path) -> String {
    let error = read(folder, &run()).expect_err("refused");
    assert!(matches!(error, Error::Checkpoint { .. }), "{error}");
    error.to_string()
}

#[test]
fn pickled_weights_get_the_command_that_converts_them() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = copied(MODEL, home.path());
    std::fs::remove_file(home.path().join("model.safetensors")).expect("there");
    assert!(refused(home.path()).contains("there is no `model.safetensors`"));
    folder.put("pytorch_model.bin", b"pickle").expect("written");
    let error = refused(home.path());
    assert!(error.contains("`pytorch_model.bin`") && error.contains("import BertForMaskedLM as M"), "{error}");
    assert!(error.contains("safe_serialization=True"), "{error}");
}

#[test]
fn damaged_and_foreign_folders_are_refused() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = copied(MODEL, home.path());
    let text = std::fs::read_to_string(golden(MODEL).join("config.json")).expect("stored");
    for (from, to, message) in [
        (
            "\"model_type\": \"bert\"",
            "\"model_type\": \"t5\"",
            "unsupported model type `t5`; supported types: `bert`, `roberta`, `xlm-roberta`",
        ),
        ("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", "its decoder is not tied"),
        ("\"hidden_size\": 64,", "", "hidden_size"),
        ("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "activation is `relu`"),
    ] {
        assert!(text.contains(from), "{from}");
        folder.put("config.json", text.replace(from, to).as_bytes()).expect("written");
        let error = refused(home.path());
        assert!(error.contains(message), "{error}");
    }
    folder.put("config.json", text.as_bytes()).expect("written");
    let weights = weights(&golden(MODEL));
    let damage = |change: &dyn Fn(&mut HostTensors)| {
        let mut weights = weights.clone();
        change(&mut weights);
        let mut file = folder.writer("model.safetensors").expect("begun");
        tensors::write(&weights, &mut file).and_then(|()| file.commit()).expect("written");
        refused(home.path())
    };
    let key = "bert.encoder.layer.1.attention.self.key.weight";
    let missing = damage(&|weights| assert!(weights.remove(key).is_some()));
    assert!(missing.contains(&format!("`model.safetensors` has no `{key}`")), "{missing}");
    let other = weights["cls.predictions.bias"].clone();
    let misshapen = damage(&|weights| assert!(weights.insert(key.to_owned(), other.clone()).is_some()));
    assert!(misshapen.contains(&format!("`{key}` is [300], but its `config.json` says [64, 64]")), "{misshapen}");
}

#[test]
fn old_names_and_bare_encoders_are_read() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let plan = run();
    let folder = copied(MODEL, home.path());
    let weights = weights(&golden(MODEL));
    let import = |weights: &HostTensors| {
        let mut file = folder.writer("model.safetensors").expect("begun");
        tensors::write(weights, &mut file).and_then(|()| file.commit()).expect("written");
        read(home.path(), &plan).expect("readable")
    };
    let today = import(&weights);
    let aged = |name: &String| {
        let name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        name.replace("cls.predictions.bias", "cls.predictions.decoder.bias")
    };
    assert_eq!(import(&weights.iter().map(|(name, tensor)| (aged(name), tensor.clone())).collect()), today);

    let bare = |(name, tensor): (&String, &HostTensor)| Some((name.strip_prefix("bert.")?.to_owned(), tensor.clone()));
    let encoder = import(&weights.iter().filter_map(bare).collect());
    assert!(!encoder.is_empty() && encoder.keys().all(|name| name.starts_with("encoder.")));
    assert!(encoder.iter().all(|(name, tensor)| today[name] == *tensor));
}

/// A word table padded to a multiple of 8 has rows without ids, which are not read.
#[test]
fn a_padded_vocabulary_is_read_without_its_padding() {
    let _generator = testing::generator();
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = copied(MODEL, home.path());
    let mut weights = tensors::read(&home.path().join("model.safetensors")).expect("stored");
    for (name, shape) in [("bert.embeddings.word_embeddings.weight", vec![4, 64]), ("cls.predictions.bias", vec![4])] {
        let table = weights[name].to_tensor().expect("float32");
        let padding = Tensor::ones(shape, (table.kind(), table.device()));
        weights.insert(name.to_owned(), HostTensor::copy_of(&Tensor::cat(&[table, padding], 0)).expect("float32"));
    }
    let mut file = folder.writer("model.safetensors").expect("opened");
    tensors::write(&weights, &mut file).and_then(|()| file.commit()).expect("written");
    let config = std::fs::read_to_string(home.path().join("config.json")).expect("stored");
    let config = config.replace("\"vocab_size\": 300", "\"vocab_size\": 304");
    folder.put("config.json", config.as_bytes()).expect("written");
    let expected = read(&golden(MODEL), &run()).expect("the stored model");
    let found = read(home.path(), &run()).expect("the padded model");
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(found.iter().all(|(name, tensor)| *tensor == expected[name]));
    // Another number of rows is no padding.
    folder.put("config.json", config.replace("304", "302").as_bytes()).expect("written");
    assert!(refused(home.path()).contains("vocabulary of 300 ids, the model of 302"));
}
