//! Comparison with `transformers`, using the numbers that `tests/reference/hf_parity.py` stored.

mod bert;
mod exports;
mod families;
mod labelled;
mod presets;
mod prompts;
mod relative;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemas::columns::{ATTENTION_MASK, INPUT_IDS, LABELS, TOKEN_TYPES};
use schemas::ordinal::{BatchIndex, Step};
use schemas::{Batch, BatchBuilder};
use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::config::{ModelFamily, TrainConfig};
use trainer_plan::encoder::{EncoderConfig, VocabFacts};
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::AnyObjective;
use trainer_plan::optimizer::OptimizerConfig;
use trainer_plan::schedule::{ScheduleConfig, ScheduleKind};
use trainer_plan::{TrainPlan, TrainRequest};

use super::{ExportChoice, Target, export, import, to_exported};
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
    let mut ours: HostTensors =
        trainer.parameters().iter().map(|(name, weight)| (name.to_owned(), copy(&weight.tensor))).collect();
    let choice = chosen(trainer.plan(), architecture);
    let target = choice.target(trainer.plan()).expect("chosen");
    let layout = target.exported_layout(architecture);
    if layout.token_types == 0 {
        // The gradient of a sum of positions and segments is that of the positions.
        let name = "encoder.embeddings.token_type.weight";
        let zeros = ours[name].to_tensor().expect("float32").zeros_like();
        ours.insert(name.to_owned(), HostTensor::copy_of(&zeros).expect("float32"));
    }
    let renamed = to_exported(&ours, &layout, &target.path, &choice.heads).expect("all there");
    renamed.into_iter().map(|(name, tensor)| (name, tensor.to_tensor().expect("float32"))).collect()
}

/// Class of the main network.
fn chosen(plan: &TrainPlan, architecture: ModelFamily) -> ExportChoice {
    trainer_plan::hf::choose(plan, MAIN, Some(architecture), None).expect("a class")
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

/// Copies a stored model, so that a test can damage it.
fn copied(model: &str, home: &Path) -> Store {
    let folder = Store::folder(home).expect("there");
    for name in ["config.json", "model.safetensors"] {
        folder.put(name, &std::fs::read(golden(model).join(name)).expect("stored")).expect("copied");
    }
    folder
}
