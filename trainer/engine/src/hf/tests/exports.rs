//! Exports of runs whose weights are equal on every machine. `tests/golden/hf_exports.json` has the hashes of the files
//! that `transformers` has read, and the differences of its outputs from ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::TrainRequest;
use trainer_plan::encoder::{Gelu, VocabFacts};
use trainer_plan::hf::{ExportChoice, HeadPlace, HeadRole};
use trainer_plan::networks::MAIN;

use super::super::{OWN_CODE, export, swap};
use super::{ModelFamily, golden};
use crate::device::precision::Precision;
use crate::device::tensors;
use crate::device::tensors::{HostTensor, HostTensors};
use crate::model::encoder::Input;
use crate::model::heads::Dense;
use crate::model::layers::Mode;
use crate::objectives::replaced_token::DetectionHead;
use crate::objectives::row_head::RowHead;
use crate::testing;
use crate::training::step::Trainer;

/// Run whose export is compared.
pub(super) struct Case {
    /// Name in the golden file, and of the folder.
    pub(super) name: String,
    pub(super) run: TrainRequest,
    pub(super) network: &'static str,
    pub(super) family: Option<ModelFamily>,
}

impl Case {
    pub(super) fn new(name: &str, run: TrainRequest, family: ModelFamily) -> Self {
        Self { name: name.to_owned(), run, network: MAIN, family: Some(family) }
    }
}

/// Exports every case. Checks that the files equal those that `transformers` has read, and reads them with it if it is
/// installed (`SETUP=full scripts/setup`). Returns the classes.
pub(super) fn check(cases: &[Case]) -> Vec<ExportChoice> {
    let _generator = testing::generator();
    let home = tempfile::tempdir().expect("a temporary folder");
    let kept = std::env::var_os("HF_CHECK_FOLDER");
    let home = kept.as_ref().map_or_else(|| home.path(), Path::new);
    let written: Vec<(ExportChoice, Value)> = cases.iter().map(|case| write(case, &home.join(&case.name))).collect();
    if kept.is_none() {
        read_with_transformers(home);
    }
    let stored = std::fs::read(golden("hf_exports.json")).expect("written by `hf_parity.py --check`");
    let stored: Value = serde_json::from_slice(&stored).expect("JSON");
    for (case, (_, files)) in cases.iter().zip(&written) {
        let stored = &stored[&case.name];
        assert_eq!(*files, stored["files"], "{}: see tests/reference/hf_parity.py", case.name);
        let differences = stored["largest_differences"].as_object().expect("an object");
        assert!(differences.contains_key("hidden") && differences.values().all(|it| it.as_f64() <= Some(1e-4)));
    }
    written.into_iter().map(|(choice, _)| choice).collect()
}

/// Compares the exports below `home` with `transformers`, if it is installed.
fn read_with_transformers(home: &Path) {
    let venv = testkit::root().join(".venv");
    if !venv.join("installed").is_file() {
        return;
    }
    let script = testkit::root().join("tests/reference/hf_parity.py");
    let output = Command::new(venv.join("bin/python")).arg(script).arg("--compare").arg(home).output();
    let output = output.expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Writes the export of a case with our outputs. Returns the hashes of the files.
fn write(case: &Case, folder: &Path) -> (ExportChoice, Value) {
    let plan = testing::checked(case.run.clone());
    let choice = trainer_plan::hf::choose(&plan, case.network, case.family, None);
    let choice = choice.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let trainer = testing::trainer(&case.run);
    pattern(&trainer);
    let store = Store::folder(folder).expect("made");
    export(&trainer.weights().expect("on the host"), &plan, &choice, &store).expect("written");

    let (ids_bt, valid_bt) = inputs(&plan.vocab, plan.encoder.max_positions);
    let mut check = outputs(&trainer, &choice, &ids_bt, &valid_bt);
    let ids_bt = match choice.target(&plan).expect("chosen").exported_layout(choice.family).swapped_ids {
        None => ids_bt,
        Some((a, b)) => {
            if let Some(logits_btv) = check.get_mut("logits") {
                let logits_vbt = swap(&logits_btv.permute([2, 0, 1]), (a.into(), b.into())).expect("rows");
                *logits_btv = logits_vbt.permute([1, 2, 0]).contiguous();
            }
            let [is_a, is_b] = [a, b].map(|id| ids_bt.eq(i64::from(id)));
            ids_bt.masked_fill(&is_a, i64::from(b)).masked_fill(&is_b, i64::from(a))
        }
    };
    check.extend([("input_ids", ids_bt), ("attention_mask", valid_bt.to_kind(Kind::Int64))]);
    let host = |tensor: &Tensor| HostTensor::copy_of(&tensor.detach()).expect("a known type");
    let check: HostTensors = check.iter().map(|(name, tensor)| ((*name).to_owned(), host(tensor))).collect();
    let mut file = store.writer("check.safetensors").expect("begun");
    tensors::write(&check, &mut file).and_then(|()| file.commit()).expect("written");

    let hash = |name: &str| Some(blake3::hash(&std::fs::read(folder.join(name)).ok()?).to_hex().to_string());
    let names = ["config.json", "model.safetensors", OWN_CODE];
    let hashes: BTreeMap<&str, String> = names.into_iter().filter_map(|name| Some((name, hash(name)?))).collect();
    let files = json!({ "class": choice.class, "blake3": hashes });
    store.put("check.json", files.to_string().as_bytes()).expect("written");
    (choice, files)
}

/// Three rows of ids, two of them padded, with masks, and with the id 1, which may change.
fn inputs(vocab: &VocabFacts, width: u32) -> (Tensor, Tensor) {
    let special = vocab.special;
    let lengths = [width, width / 3 * 2, width / 3];
    let cells =
        || lengths.into_iter().enumerate().flat_map(|(row, length)| (0..width).map(move |at| (row, at, length)));
    let id = |(row, at, length): (usize, u32, u32)| {
        let row = u32::try_from(row).expect("few rows");
        match at {
            _ if at >= length => special.pad,
            0 => special.cls,
            2 if special.pad != 1 => 1,
            _ if (row + at).is_multiple_of(3) => special.mask,
            _ => 5 + (row * 31 + at * 17) % (vocab.size - 5),
        }
    };
    let ids: Vec<i64> = cells().map(|cell| id(cell).into()).collect();
    let valid: Vec<bool> = cells().map(|(_, at, length)| at < length).collect();
    let shape = [3, width.into()];
    (Tensor::from_slice(&ids).view(shape), Tensor::from_slice(&valid).view(shape))
}

/// Computes the outputs of the exported class: hidden states of the last layer, and the scores of its heads.
fn outputs(
    trainer: &Trainer,
    choice: &ExportChoice,
    ids_bt: &Tensor,
    valid_bt: &Tensor,
) -> BTreeMap<&'static str, Tensor> {
    let networks = trainer.networks();
    let input = Input { ids_bt, token_types_bt: None, valid_bt: Some(valid_bt), packed: None };
    let hidden_btd = networks.encoder(&choice.network).forward(input, Mode::Eval).hidden_btd;
    let mut found = BTreeMap::new();
    for head in &choice.heads {
        let output = match head.form {
            HeadRole::Predict | HeadRole::PredictUntied | HeadRole::Decode => {
                let head = if choice.network == MAIN {
                    trainer.token_head().expect("the class has one")
                } else {
                    networks.head(&choice.network).leaves(Precision::F32)
                };
                let size = i64::from(networks.vocab_ids());
                let logits_nv = head.logits(&hidden_btd.flatten(0, 1)).narrow(1, 0, size);
                ("logits", logits_nv.view([3, -1, size]))
            }
            HeadRole::Detect | HeadRole::DetectLinear => {
                let scores_bt = detection_head(trainer, head).logits(&hidden_btd);
                ("logits", if head.is_negated { -scores_bt } else { scores_bt })
            }
            HeadRole::Classify => {
                ("seq_relationship_logits", pair_head(trainer, &head.path).logits(&hidden_btd, Mode::Eval))
            }
            HeadRole::LabelRow => {
                let dense = |name: &str| dense(trainer, &head.path, name);
                let activation = head.activation.expect("a head over rows has one");
                let head =
                    RowHead { activation, ..RowHead::of_pairs(dense("pooler"), dense("classifier"), Precision::F32) };
                ("row_logits", head.logits(&hidden_btd, Mode::Eval))
            }
            HeadRole::LabelTokens => {
                ("token_logits", dense(trainer, &head.path, "classifier").apply(&hidden_btd, Precision::F32))
            }
            HeadRole::LabelSpan => {
                ("span_logits", dense(trainer, &head.path, "outputs").apply(&hidden_btd, Precision::F32))
            }
            // The class for detection reads the same folder.
            HeadRole::Copy => ("detection", -detection_head(trainer, head).logits(&hidden_btd)),
            HeadRole::Pool => continue,
        };
        found.extend([output]);
    }
    found.insert("hidden", hidden_btd);
    found
}

fn weight(trainer: &Trainer, path: &str, name: &str) -> Tensor {
    trainer.parameters().get(&format!("{path}.{name}")).expect("a head").shallow_clone()
}

fn dense(trainer: &Trainer, path: &str, name: &str) -> Dense {
    let weight = |kind: &str| weight(trainer, path, &format!("{name}.{kind}"));
    Dense { weight_oi: weight("weight"), bias_o: weight("bias") }
}

/// Head of next sentence prediction with the weights below `path`.
pub(super) fn pair_head(trainer: &Trainer, path: &str) -> RowHead {
    let dense = |name: &str| dense(trainer, path, name);
    RowHead::of_pairs(dense("pooler"), dense("classifier"), Precision::F32)
}

/// Head of replaced token detection.
pub(super) fn detection_head(trainer: &Trainer, head: &HeadPlace) -> DetectionHead {
    let has_dense = head.form == HeadRole::Detect;
    let below = if head.form == HeadRole::Copy { "copy." } else { "" };
    DetectionHead {
        dense: has_dense.then(|| (dense(trainer, &head.path, "dense"), Gelu::Erf)),
        weight_d: weight(trainer, &head.path, &format!("{below}weight")).squeeze_dim(0),
        bias_1: weight(trainer, &head.path, &format!("{below}bias")),
        precision: Precision::F32,
    }
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
