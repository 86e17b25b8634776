//! Models as Hugging Face keeps them: write one that `transformers` loads, read one to continue from.
//!
//! A folder has `config.json` and `model.safetensors` of a BERT, RoBERTa or ELECTRA; the tokenizer's files next to them
//! are the command line's business. Padding rows of the word table stay here, and a decoder, which is the word table,
//! is not written twice. Values pass through unchanged, to the bit.
//!
//! | architecture | read, with the heads that the run has too | written |
//! |---|---|---|
//! | BERT | `BertModel`, `BertForMaskedLM`, `BertForPreTraining`: prediction head, pooler and classifier | `BertForMaskedLM` |
//! | RoBERTa | `RobertaModel`, `RobertaForMaskedLM` (also of XLM-R): prediction head | `RobertaForMaskedLM` |
//! | ELECTRA | `ElectraModel`, `ElectraForPreTraining`, `ElectraForMaskedLM`: detection or prediction head | `ElectraForPreTraining`, or `ElectraForMaskedLM` of a run that detects nothing |
//!
//! RoBERTa's positions begin at `pad_token_id + 1`: the rows before have no place here and are zeros in what is
//! written. It has one token type; ours has two, of which the second starts as zeros and is not written.

use std::collections::BTreeSet;
use std::path::Path;

use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::config::ModelFamily;
use trainer_plan::encoder::Gelu;
use trainer_plan::hf::{CONFIG, HeadPlace, Layout, ModelConfig, Target, TensorEntry, choose};

use crate::device::native::Checked as _;
use crate::device::precision::MASTER;
use crate::device::tensors;
use crate::device::tensors::{HostTensor, HostTensors};

const WEIGHTS: &str = "model.safetensors";

/// Whether `folder` looks like a model of `transformers` rather than a checkpoint of ours.
#[must_use]
pub(crate) fn is_model(folder: &Path) -> bool {
    folder.join(CONFIG).is_file()
}

/// Puts `config.json` and `model.safetensors`, the latter first: where there is a config, the model is whole.
///
/// `weights` are those of a checkpoint's `main.safetensors`. The head is the first, by name, that has the weights of
/// the architecture's.
///
/// # Errors
/// [`Error::Config`] if there is no such head, or if the architecture lacks something that the run's encoder has.
pub fn export(
    weights: &HostTensors,
    plan: &TrainPlan,
    architecture: ModelFamily,
    out: &Store,
) -> Result<&'static str, Error> {
    let names: BTreeSet<&str> = weights.keys().map(String::as_str).collect();
    let (class, head) = choose(plan, architecture, &names)?;
    let target = Target::main(plan, names.iter().copied());
    let first_position = architecture.first_position(plan.vocab.special.pad);
    let layout = target.layout(architecture, first_position, architecture.token_types());
    // Next to the config of a model that was there before, half of this one would look whole.
    out.remove(CONFIG)?;
    let mut file = out.begin(WEIGHTS)?;
    tensors::write(&theirs(weights, &layout, &target.path, &head)?, &mut file)?;
    file.commit()?;
    out.put(CONFIG, &ModelConfig::of(&layout, class, &plan.vocab).to_json())?;
    Ok(class)
}

/// Our tensors under their names: values, or gradients.
fn theirs(ours: &HostTensors, layout: &Layout<'_>, path: &str, head: &HeadPlace) -> Result<HostTensors, Error> {
    let mut renamed = HostTensors::new();
    for entry in layout.encoder(path).into_iter().chain(layout.head(head)) {
        let tensor = ours
            .get(&entry.ours)
            .ok_or_else(|| Error::Config(format!("the weights have no `{}`: they belong to another run", entry.ours)))?
            .to_tensor()?;
        let rows = entry.shape[0] - entry.skipped;
        for (part, name) in (0..).zip(entry.theirs) {
            let part = tensor.f_narrow(0, part * rows, rows).checked()?;
            let part =
                if entry.skipped == 0 { part } else { part.f_constant_pad_nd([0, 0, entry.skipped, 0]).checked()? };
            renamed.insert(name, HostTensor::copy_of(&part)?);
        }
    }
    Ok(renamed)
}

/// Reads a model as weights of ours, float32, under the names of the target; it may lack any of the target's heads.
///
/// # Errors
/// [`Error::Checkpoint`] for a model of another shape or vocabulary, of an unknown kind, or a damaged one.
pub(crate) fn import(folder: &Path, target: &Target<'_>) -> Result<HostTensors, Error> {
    let model = Model::open(folder)?;
    let differences = model.config.differences(target);
    if !differences.is_empty() {
        return Err(model.refuse(&format!("this run has another shape: {}", differences.join("; "))));
    }
    let config = &model.config;
    let layout = target.layout(config.architecture(), config.first_position(), config.token_types());
    let mut entries = layout.encoder(&target.path);
    for head in &target.heads {
        let weights = layout.head(head);
        if !weights.iter().flat_map(|entry| &entry.theirs).any(|name| model.find(&layout, name).is_some()) {
            continue;
        }
        if target.encoder.gelu == Gelu::Tanh && layout.architecture.has_fixed_gelu(head.form) {
            return Err(model.refuse("the gelu of its head is `erf`, that of its layers `tanh`; here they are one"));
        }
        entries.extend(weights);
    }
    entries
        .into_iter()
        .map(|entry| {
            let tensor = HostTensor::copy_of(&model.read(&layout, &entry)?)?;
            Ok((entry.ours, tensor))
        })
        .collect()
}

/// A folder as it is.
struct Model<'a> {
    folder: &'a Path,
    config: ModelConfig,
    weights: HostTensors,
}

impl<'a> Model<'a> {
    fn open(folder: &'a Path) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Checkpoint { path: folder.to_owned(), problem };
        let json = std::fs::read(folder.join(CONFIG)).map_err(|error| refuse(format!("`{CONFIG}`: {error}")))?;
        let config = ModelConfig::parse(&json).map_err(&refuse)?;
        if !folder.join(WEIGHTS).is_file() {
            return Err(refuse(missing_weights(folder, config.class().unwrap_or("AutoModelForPreTraining"))));
        }
        Ok(Self { folder, config, weights: tensors::read(&folder.join(WEIGHTS))? })
    }

    fn find(&self, layout: &Layout<'_>, name: &str) -> Option<&HostTensor> {
        layout.spellings(name).iter().find_map(|spelling| self.weights.get(spelling))
    }

    /// One weight of ours: the model's parts on top of each other, without the rows that we lack, then rows of padding.
    fn read(&self, layout: &Layout<'_>, entry: &TensorEntry) -> Result<Tensor, Error> {
        let part = |name: &String| {
            let found = self.find(layout, name);
            self.checked(name, found.ok_or_else(|| self.refuse(&format!("`{WEIGHTS}` has no `{name}`")))?, &entry.shape)
        };
        let parts = entry.theirs.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let joined = Tensor::f_cat(&parts, 0).checked()?;
        let joined = joined.f_narrow(0, entry.skipped, joined.size()[0] - entry.skipped).checked()?;
        Ok(if entry.padding == 0 { joined } else { joined.f_constant_pad_nd([0, 0, 0, entry.padding]).checked()? })
    }

    fn checked(&self, name: &str, found: &HostTensor, shape: &[i64]) -> Result<Tensor, Error> {
        let tensor = found.to_tensor()?;
        if tensor.size() != shape {
            let problem =
                format!("`{name}` is {:?}, its `{CONFIG}` says {shape:?}; the folder is damaged", tensor.size());
            return Err(self.refuse(&problem));
        }
        if !matches!(tensor.kind(), Kind::Float | Kind::Half | Kind::BFloat16 | Kind::Double) {
            return Err(self.refuse(&format!("`{name}` holds {:?}, not floats", tensor.kind())));
        }
        Ok(tensor.to_kind(MASTER))
    }

    fn refuse(&self, problem: &str) -> Error {
        Error::Checkpoint { path: self.folder.to_owned(), problem: problem.to_owned() }
    }
}

/// What to do about a folder whose weights are in another file; `class` is what saved them.
fn missing_weights(folder: &Path, class: &str) -> String {
    let convert = format!(
        "python -c \"from transformers import {class} as M; M.from_pretrained('{0}').save_pretrained('{0}-converted', \
         safe_serialization=True, max_shard_size='100GB')\"",
        folder.display()
    );
    let other = ["pytorch_model.bin", "model.safetensors.index.json", "tf_model.h5", "flax_model.msgpack"];
    match other.into_iter().find(|name| folder.join(name).is_file()) {
        Some(other) => format!("its weights are in `{other}`, only `{WEIGHTS}` is read; convert them: {convert}"),
        None => format!("there is no `{WEIGHTS}`"),
    }
}

#[cfg(test)]
mod tests;
