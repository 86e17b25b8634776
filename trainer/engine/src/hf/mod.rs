//! Hugging Face model folders: export of models that `transformers` loads, and import of initial weights.
//!
//! A folder has `config.json` and `model.safetensors`. The command line writes the tokenizer's files next to them.
//! Padding rows of the word table are not exported. A decoder that is tied to the word table is not written twice.
//! Values are unchanged, bit by bit, except where this table says so.
//!
//! | family | imported classes, with the heads that the run has | exported classes |
//! |---|---|---|
//! | BERT | `BertModel`, `BertForMaskedLM`, `BertForPreTraining`: prediction head, pooler and classifier | `BertForMaskedLM`, `BertForPreTraining` |
//! | RoBERTa | `RobertaModel`, `RobertaForMaskedLM` (also of XLM-R): prediction head | `RobertaForMaskedLM` |
//! | ELECTRA | `ElectraModel`, `ElectraForPreTraining`, `ElectraForMaskedLM`: detection or prediction head | `ElectraForPreTraining`, `ElectraForMaskedLM` |
//! | MPNet | `MPNetModel`, `MPNetForMaskedLM`: prediction head | `MPNetForMaskedLM`, `MPNetModel` |
//! | own code | `ClozeForMaskedLM`, `ClozeForPreTraining`: prediction, decoding or detection head | the same |
//!
//! The positions of RoBERTa and MPNet begin at `pad_token_id + 1`. Import skips the rows before it, and export writes
//! zeros there. RoBERTa has one token type. The trainer has two; the second starts as zeros and is not exported.
//!
//! MPNet has no token types: export adds the first one to each position. Its code requires the padding id 1: export
//! exchanges the id 1 with that of the run's padding.
//!
//! Positive scores of a detection head mean "replaced" in `transformers`. Weights of a head whose positive scores mean
//! "original" are exported and imported with the opposite sign.

use std::path::Path;

use store::Store;
use tch::{Device, Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::encoder::Gelu;
use trainer_plan::hf::{
    CONFIG, ExportChoice, HeadPlace, HeadRole, Layout, ModelConfig, OWN_CODE, Target, TensorEntry, WEIGHTS, exchanged,
    read_config, unwrapped, weights_problem,
};

use crate::device::native::CheckStatus as _;
use crate::device::precision::MASTER;
use crate::device::tensors;
use crate::device::tensors::{HostTensor, HostTensors};

/// Content of [`OWN_CODE`].
const OWN_CODE_TEXT: &str = include_str!("modeling_cloze.py");

/// Writes `model.safetensors`, then `config.json`: a folder with a config is complete.
///
/// `weights` are those of a checkpoint's `main.safetensors`.
///
/// # Errors
/// Returns [`Error::Config`] if the weights belong to another run than the plan.
pub fn export(weights: &HostTensors, plan: &TrainPlan, choice: &ExportChoice, out: &Store) -> Result<(), Error> {
    let target = choice.target(plan)?;
    let layout = target.exported_layout(choice.family);
    // Remove the config of an earlier model first; with it, an incomplete folder would look complete.
    out.delete(CONFIG)?;
    if choice.family.has_own_code() {
        out.put(OWN_CODE, OWN_CODE_TEXT.as_bytes())?;
    }
    let mut file = out.writer(WEIGHTS)?;
    tensors::write(&to_exported(weights, &layout, &target.path, &choice.heads)?, &mut file)?;
    file.commit()?;
    out.put(CONFIG, &ModelConfig::new(&layout, choice, &plan.vocab).to_json())?;
    Ok(())
}

/// Renames tensors of the trainer, values or gradients, to the names of `transformers`.
fn to_exported(ours: &HostTensors, layout: &Layout<'_>, path: &str, heads: &[HeadPlace]) -> Result<HostTensors, Error> {
    let mut renamed = HostTensors::new();
    let heads = heads.iter().flat_map(|head| layout.head(head));
    for entry in layout.encoder(path).into_iter().chain(heads) {
        let mut tensor = find(ours, &entry.ours)?.to_tensor()?;
        if let Some(folded) = &entry.folded {
            tensor += find(ours, folded)?.to_tensor()?.f_narrow(0, 0, 1).checked()?;
        }
        if let Some(rows) = entry.swapped {
            tensor = swap(&tensor, rows)?;
        }
        if entry.is_negated {
            tensor = -tensor;
        }
        let rows = entry.shape[0] - entry.skipped;
        for (part, name) in (0..).zip(entry.theirs) {
            let part = tensor.f_narrow(0, part * rows, rows).checked()?;
            let part = if entry.skipped == 0 { part } else { pad_rows(&part, entry.skipped, 0)? };
            renamed.insert(name, HostTensor::copy_of(&part)?);
        }
    }
    Ok(renamed)
}

/// Finds a weight of a run. A table that a generator shares with the main network is that of the main network.
fn find<'a>(ours: &'a HostTensors, name: &str) -> Result<&'a HostTensor, Error> {
    let shared = || {
        let (_, main) = name.split_once('.')?;
        ours.get(main).filter(|_| main.starts_with("encoder.embeddings."))
    };
    ours.get(name)
        .or_else(shared)
        .ok_or_else(|| Error::Config(format!("the weights have no `{name}`: they belong to another run")))
}

/// Exchanges two rows.
fn swap(tensor: &Tensor, pair: (i64, i64)) -> Result<Tensor, Error> {
    let order: Vec<i64> = (0..tensor.size()[0]).map(|row| exchanged(row, pair)).collect();
    tensor.f_index_select(0, &Tensor::from_slice(&order)).checked()
}

/// Adds rows of zeros before and after those of a vector or a matrix.
fn pad_rows(tensor: &Tensor, before: i64, after: i64) -> Result<Tensor, Error> {
    let rows = [before, after];
    let columns = [0, 0].into_iter().take(2 * (tensor.dim() - 1));
    tensor.f_constant_pad_nd(columns.chain(rows).collect::<Vec<_>>()).checked()
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
        // A decoder of the run's own stays as drawn if the model has none.
        let is_untied = head.form == HeadRole::PredictUntied;
        let form = if is_untied && config.is_tied() { HeadRole::Predict } else { head.form };
        let head = HeadPlace { form, ..head.clone() };
        let mut weights = layout.head(&head);
        if head.outputs > 0 {
            // The new head takes what fits: a trained pooler, or the head of a model for the same classes.
            weights.retain(|entry| model.fits(&layout, entry));
            entries.extend(weights);
            continue;
        }
        if !weights.iter().flat_map(|entry| &entry.theirs).any(|name| model.find(&layout, name).is_some()) {
            continue;
        }
        if target.encoder.gelu == Gelu::Tanh && layout.architecture.has_fixed_gelu(head.form) {
            return Err(model
                .invalid("the gelu of its head is `erf`, that of its layers `tanh`; the trainer requires equal ones"));
        }
        if head.form == HeadRole::Predict && !config.is_tied() {
            return Err(model.invalid("its decoder is not tied to its word table; set `tied = false` of `masked_lm`"));
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
        let weights = tensors::read(&folder.join(WEIGHTS))?;
        let weights = weights.into_iter().map(|(name, tensor)| (unwrapped(&name).to_owned(), tensor)).collect();
        Ok(Self { folder, config, weights })
    }

    fn find(&self, layout: &Layout<'_>, name: &str) -> Option<&HostTensor> {
        layout.spellings(name).iter().find_map(|spelling| self.weights.get(spelling))
    }

    /// Whether the model has all parts of a weight, in its shape.
    fn fits(&self, layout: &Layout<'_>, entry: &TensorEntry) -> bool {
        let mut parts = entry.theirs.iter().map(|name| self.find(layout, name));
        parts.all(|found| found.is_some_and(|found| found.has_shape(&entry.shape)))
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
        if entry.theirs.is_empty() {
            let shape = [entry.shape[0] + entry.padding, entry.shape[1]];
            return Ok(Tensor::zeros(shape, (MASTER, Device::Cpu)));
        }
        let parts = entry.theirs.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let joined = Tensor::f_cat(&parts, 0).checked()?;
        let rows = joined.size()[0] - entry.skipped - entry.dropped;
        let joined = joined.f_narrow(0, entry.skipped, rows).checked()?;
        let joined = if entry.is_negated { -joined } else { joined };
        if entry.padding == 0 { Ok(joined) } else { pad_rows(&joined, 0, entry.padding) }
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
