//! Comparison with `transformers`, using the numbers that `tests/reference/hf_parity.py` stored.

mod bert;
mod families;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemas::columns::{ATTENTION_MASK, INPUT_IDS, LABELS, TOKEN_TYPES};
use schemas::ordinal::{BatchIndex, Step};
use schemas::{Batch, BatchBuilder};
use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::TrainRequest;
use trainer_plan::config::TrainConfig;
use trainer_plan::encoder::{EncoderConfig, VocabFacts};
use trainer_plan::objectives::AnyObjective;
use trainer_plan::optimizer::OptimizerConfig;
use trainer_plan::schedule::{ScheduleConfig, ScheduleKind};

use super::{ModelFamily, Target, export, import, to_exported};
use crate::device::tensors;
use crate::device::tensors::{HostTensor, HostTensors};
use crate::model::forward::{Forward, StepContext};
use crate::model::host_batch::HostBatch;
use crate::model::layers::Mode;
use crate::model::staging_buffer::Staging;
use crate::testing;
use crate::training::step::Trainer;

const VIEW: &str = "masked";

/// Folder of a stored model.
fn golden(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(model)
}

fn expected(model: &str) -> BTreeMap<String, Tensor> {
    let read = tensors::read(&golden(model).join("expected.safetensors")).expect("stored");
    read.into_iter().map(|(name, tensor)| (name, tensor.to_tensor().expect("known types"))).collect()
}

fn weights(folder: &Path) -> HostTensors {
    tensors::read(&folder.join("model.safetensors")).expect("there")
}

fn objective(kind: &str) -> AnyObjective {
    AnyObjective::examples().into_iter().find(|objective| objective.kind() == kind).expect("registered")
}

/// Run of the given shape with plain masked language modelling and the script's optimizer.
fn plan(encoder: EncoderConfig, vocab_size: u32) -> TrainRequest {
    let plan = testing::request();
    let unigram_log_probabilities = vec![-f64::from(vocab_size).ln(); vocab_size as usize];
    TrainRequest {
        width: 14,
        encoder: EncoderConfig { dropout: 0.0, ..encoder },
        vocab: VocabFacts { size: vocab_size, unigram_log_probabilities, ..plan.vocab },
        objectives: [("mlm".to_owned(), objective("masked_lm"))].into(),
        loss: [("mlm".to_owned(), 1.0)].into(),
        train: TrainConfig { global_batch_size: 3, micro_batch_size: 3, ..plan.train },
        optimizer: OptimizerConfig { lr: 1e-3, eps: 1e-6, ..OptimizerConfig::default() },
        schedule: ScheduleConfig { kind: ScheduleKind::Constant, warmup_steps: 0, ..ScheduleConfig::default() },
        ..plan
    }
}

/// Trainer that starts from the stored model.
fn begun(plan: &TrainRequest, model: &str) -> Trainer {
    let mut plan = plan.clone();
    plan.train.init_from = Some(golden(model));
    let mut trainer = testing::trainer(&plan);
    trainer.begin().expect("the stored model");
    trainer
}

/// Stored ids, labels and masks as the columns of a view.
fn batch(inputs: &BTreeMap<String, Tensor>, view: &str) -> Batch {
    let mut builder = BatchBuilder::new(BatchIndex(0), 3);
    let ids = |name: &str| Vec::<i32>::try_from(inputs[name].to_kind(Kind::Int).view([-1])).expect("whole numbers");
    let flags = |flags: &Tensor| Vec::<u8>::try_from(flags.to_kind(Kind::Uint8).view([-1])).expect("flags");
    builder.push(view, INPUT_IDS, 14, ids("input_ids"));
    builder.push(view, LABELS, 14, ids("labels"));
    builder.push(view, ATTENTION_MASK, 14, flags(&inputs["attention_mask"]));
    if let Some(token_types) = inputs.get("token_type_ids") {
        builder.push(view, TOKEN_TYPES, 14, flags(token_types));
    }
    builder.finish()
}

fn forward<'a>(trainer: &Trainer, batch: &'a HostBatch<'a>) -> Forward<'a> {
    let passes = trainer.members()[0].passes.iter().cloned().collect();
    let context = StepContext { seed: 1, step: Step(0), mode: Mode::Train };
    let mut staging = Staging::default();
    trainer.members()[0].loss.send(batch, &mut staging);
    Forward::run(batch, &passes, &passes, context, staging).expect("all columns are there")
}

fn host<'a>(trainer: &'a Trainer, batch: &'a Batch) -> HostBatch<'a> {
    HostBatch::new(batch, trainer.networks()).expect("a good batch")
}

/// Logits `[3, 14, v]`, without the padding of the vocabulary.
fn logits(trainer: &Trainer, forward: &Forward<'_>) -> Tensor {
    let hidden_nd = forward.encoded("main", VIEW).hidden_btd.flatten(0, 1);
    let head = trainer.members()[0].loss.token_head(trainer.networks());
    let size = i64::from(trainer.networks().vocab_ids());
    head.expect("masked language modelling has one").logits(&hidden_nd).narrow(1, 0, size).view([3, 14, size])
}

/// Loss of the first term of the first objective.
fn loss(trainer: &Trainer, forward: &Forward<'_>) -> Tensor {
    let member = &trainer.members()[0];
    &member.loss.compute(forward).sums[0] / member.loss.terms(forward.batch())[0].count
}

fn largest(tensor: &Tensor) -> f64 {
    f64::try_from(tensor.detach().abs().max().to_kind(Kind::Double)).expect("one number")
}

/// Collects a tensor of each weight, under the names of `transformers`.
fn collect(trainer: &Trainer, architecture: ModelFamily, of: impl Fn(&Tensor) -> Tensor) -> BTreeMap<String, Tensor> {
    let copy = |tensor: &Tensor| HostTensor::copy_of(&of(tensor)).expect("float32");
    let ours: HostTensors =
        trainer.parameters().iter().map(|(name, weight)| (name.to_owned(), copy(&weight.tensor))).collect();
    let target = Target::main(trainer.plan(), ours.keys().map(String::as_str));
    let first_position = architecture.first_position(trainer.plan().vocab.special.pad);
    let layout = target.layout(architecture, first_position, architecture.token_types());
    let renamed = to_exported(&ours, &layout, &target.path, &target.heads[0]).expect("all there");
    renamed.into_iter().map(|(name, tensor)| (name, tensor.to_tensor().expect("float32"))).collect()
}

/// Compares every stored tensor with the prefix with the one in `found`.
fn check_all(
    found: &BTreeMap<String, Tensor>,
    expected: &BTreeMap<String, Tensor>,
    prefix: &str,
    tolerance: impl Fn(&Tensor) -> f64,
) {
    let stored: Vec<_> = expected.iter().filter_map(|(name, it)| Some((name.strip_prefix(prefix)?, it))).collect();
    assert!(stored.len() > 5, "{prefix}");
    for (name, expected) in stored {
        let gap = largest(&(&found[name] - expected));
        assert!(gap <= tolerance(expected), "{prefix}{name}: off by {gap:e}, largest {:e}", largest(expected));
    }
}

/// Returns the tolerance of a gradient. A softmax is independent of the bias of the keys, so its gradient is rounding,
/// 1e-9 on both sides.
fn gradient_tolerance(expected: &Tensor) -> f64 {
    (1e-3 * largest(expected)).max(1e-7)
}

/// Sets weights that are equal on every machine: small fractions, computed from name and position.
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

/// Exports a run with weights of [`pattern`]. Checks that the bytes equal those that `hf_parity.py --check` accepted.
fn check_export(
    model: &str,
    plan: &TrainRequest,
    architecture: ModelFamily,
    view: &str,
    logits: impl Fn(&Trainer, &Forward<'_>) -> Tensor,
) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let target = std::env::var_os("HF_CHECK_FOLDER").map_or_else(|| home.path().to_owned(), PathBuf::from).join(model);
    let folder = Store::folder(&target).expect("made");
    let trainer = testing::trainer(plan);
    pattern(&trainer);
    export(&trainer.weights().expect("on the host"), &testing::checked(plan.clone()), architecture, &folder)
        .expect("written");

    let hash = |name: &str| blake3::hash(&std::fs::read(target.join(name)).expect("written")).to_hex().to_string();
    let hashes: BTreeMap<&str, String> =
        ["config.json", "model.safetensors"].into_iter().map(|name| (name, hash(name))).collect();
    let mut inputs = expected(model);
    // `hf_parity.py --check` passes one segment.
    inputs.remove("token_type_ids");
    let batch = batch(&inputs, view);
    let check: HostTensors = [
        ("input_ids", inputs["input_ids"].shallow_clone()),
        ("attention_mask", inputs["attention_mask"].shallow_clone()),
        ("logits", logits(&trainer, &forward(&trainer, &host(&trainer, &batch))).detach()),
    ]
    .into_iter()
    .map(|(name, tensor)| (name.to_owned(), HostTensor::copy_of(&tensor).expect("a known type")))
    .collect();
    let mut file = folder.writer("check.safetensors").expect("begun");
    tensors::write(&check, &mut file).and_then(|()| file.commit()).expect("written");
    folder.put("check.json", &serde_json::to_vec(&hashes).expect("strings")).expect("written");

    let stored: serde_json::Value = serde_json::from_slice(
        &std::fs::read(golden(model).join("exported.json")).expect("written by `hf_parity.py --check`"),
    )
    .expect("JSON");
    assert_eq!(serde_json::to_value(&hashes).expect("strings"), stored["blake3"]);
    assert!(stored["largest_difference_of_logits"].as_f64().is_some_and(|difference| difference <= 1e-4));
}

/// Copies a stored model, so that a test can damage it.
fn copied(model: &str, home: &Path) -> Store {
    let folder = Store::folder(home).expect("there");
    for name in ["config.json", "model.safetensors"] {
        folder.put(name, &std::fs::read(golden(model).join(name)).expect("stored")).expect("copied");
    }
    folder
}
