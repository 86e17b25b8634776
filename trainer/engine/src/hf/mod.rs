//! Hugging Face model folders: export of models that `transformers` loads, and import of initial weights.
//!
//! A folder has `config.json` and `model.safetensors` of a BERT, RoBERTa or ELECTRA. The command line writes the
//! tokenizer's files next to them. Padding rows of the word table are not exported. A decoder that is tied to the word
//! table is not written twice. Values are unchanged, bit by bit.
//!
//! | architecture | imported classes, with the heads that the run has | exported class |
//! |---|---|---|
//! | BERT | `BertModel`, `BertForMaskedLM`, `BertForPreTraining`: prediction head, pooler and classifier | `BertForMaskedLM` |
//! | RoBERTa | `RobertaModel`, `RobertaForMaskedLM` (also of XLM-R): prediction head | `RobertaForMaskedLM` |
//! | ELECTRA | `ElectraModel`, `ElectraForPreTraining`, `ElectraForMaskedLM`: detection or prediction head | `ElectraForPreTraining`, or `ElectraForMaskedLM` if the run has no detection head |
//!
//! RoBERTa's positions begin at `pad_token_id + 1`. Import skips the rows before it, and export writes zeros there.
//! RoBERTa has one token type. The trainer has two; the second starts as zeros and is not exported.

use std::collections::BTreeSet;
use std::path::Path;

use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::config::ModelFamily;
use trainer_plan::encoder::Gelu;
use trainer_plan::hf::{
    CONFIG, HeadPlace, Layout, ModelConfig, Target, TensorEntry, WEIGHTS, choose, read_config, weights_problem,
};

use crate::device::native::CheckStatus as _;
use crate::device::precision::MASTER;
use crate::device::tensors;
use crate::device::tensors::{HostTensor, HostTensors};

/// Writes `model.safetensors`, then `config.json`: a folder with a config is complete.
///
/// `weights` are those of a checkpoint's `main.safetensors`. The exported head is the first one, by name, that has the
/// weights of the architecture's head.
///
/// # Errors
/// Returns [`Error::Config`] if there is no such head, or if the architecture lacks a feature of the run's encoder.
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
    // Remove the config of an earlier model first; with it, an incomplete folder would look complete.
    out.delete(CONFIG)?;
    let mut file = out.writer(WEIGHTS)?;
    tensors::write(&to_exported(weights, &layout, &target.path, &head)?, &mut file)?;
    file.commit()?;
    out.put(CONFIG, &ModelConfig::new(&layout, class, &plan.vocab).to_json())?;
    Ok(class)
}

/// Renames tensors of the trainer, values or gradients, to the names of `transformers`.
fn to_exported(ours: &HostTensors, layout: &Layout<'_>, path: &str, head: &HeadPlace) -> Result<HostTensors, Error> {
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

/// Reads a model as float32 weights under the names of the target. The model may lack any of the target's heads.
///
/// # Errors
/// Returns [`Error::Checkpoint`] if the shape or the vocabulary differs, the type is unknown, or the folder is damaged.
pub(crate) fn import(folder: &Path, target: &Target<'_>) -> Result<HostTensors, Error> {
    let model = Model::open(folder)?;
    let differences = model.config.differences(target);
    if !differences.is_empty() {
        return Err(model.invalid(&format!("this run has another shape: {}", differences.join("; "))));
    }
    let config = &model.config;
    let layout = target.layout(config.architecture(), config.first_position(), config.token_types());
    let layout = Layout { vocab_rows: config.vocab_rows(), ..layout };
    let mut entries = layout.encoder(&target.path);
    for head in &target.heads {
        let weights = layout.head(head);
        if !weights.iter().flat_map(|entry| &entry.theirs).any(|name| model.find(&layout, name).is_some()) {
            continue;
        }
        if target.encoder.gelu == Gelu::Tanh && layout.architecture.has_fixed_gelu(head.form) {
            return Err(model
                .invalid("the gelu of its head is `erf`, that of its layers `tanh`; the trainer requires equal ones"));
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

/// Content of a model folder.
struct Model<'a> {
    folder: &'a Path,
    config: ModelConfig,
    weights: HostTensors,
}

impl<'a> Model<'a> {
    fn open(folder: &'a Path) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Checkpoint { path: folder.to_owned(), problem };
        let config = read_config(folder).map_err(&refuse)?;
        if let Some(problem) = weights_problem(folder, &config) {
            return Err(refuse(problem));
        }
        Ok(Self { folder, config, weights: tensors::read(&folder.join(WEIGHTS))? })
    }

    fn find(&self, layout: &Layout<'_>, name: &str) -> Option<&HostTensor> {
        layout.spellings(name).iter().find_map(|spelling| self.weights.get(spelling))
    }

    /// Reads one weight: concatenates the model's parts, removes the rows that only the model has, and appends padding rows.
    fn read(&self, layout: &Layout<'_>, entry: &TensorEntry) -> Result<Tensor, Error> {
        let part = |name: &String| {
            let found = self.find(layout, name);
            self.checked(
                name,
                found.ok_or_else(|| self.invalid(&format!("`{WEIGHTS}` has no `{name}`")))?,
                &entry.shape,
            )
        };
        let parts = entry.theirs.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let joined = Tensor::f_cat(&parts, 0).checked()?;
        let rows = joined.size()[0] - entry.skipped - entry.dropped;
        let joined = joined.f_narrow(0, entry.skipped, rows).checked()?;
        Ok(if entry.padding == 0 { joined } else { joined.f_constant_pad_nd([0, 0, 0, entry.padding]).checked()? })
    }

    fn checked(&self, name: &str, found: &HostTensor, shape: &[i64]) -> Result<Tensor, Error> {
        let tensor = found.to_tensor()?;
        if tensor.size() != shape {
            let problem =
                format!("`{name}` is {:?}, but its `{CONFIG}` says {shape:?}; the folder is damaged", tensor.size());
            return Err(self.invalid(&problem));
        }
        if !matches!(tensor.kind(), Kind::Float | Kind::Half | Kind::BFloat16 | Kind::Double) {
            return Err(self.invalid(&format!("`{name}` holds {:?}, not floats", tensor.kind())));
        }
        Ok(tensor.to_kind(MASTER))
    }

    fn invalid(&self, problem: &str) -> Error {
        Error::Checkpoint { path: self.folder.to_owned(), problem: problem.to_owned() }
    }
}

#[cfg(test)]
mod tests;
