//! Models as Hugging Face keeps them: write one that `transformers` loads, read one to continue from.
//!
//! A folder has `config.json` and `model.safetensors` of a `BertForMaskedLM`; the tokenizer's files beside them are
//! the command line's business. Padding rows of the word table stay here, and the decoder, which is the word table, is
//! not written twice. Values pass through unchanged, to the bit.

mod config;
mod names;

use std::path::Path;

use schemas::atomic::Folder;
use tch::{Kind, Tensor};

use self::config::BertConfig;
use self::names::Entry;
use crate::error::Error;
use crate::networks::padded_rows;
use crate::plan::{EncoderConfig, VocabFacts};
use crate::precision::MASTER;
use crate::tensors::{self, HostTensor, HostTensors};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";

/// Whether `folder` looks like a model of `transformers` rather than a checkpoint of ours.
#[must_use]
pub fn is_model(folder: &Path) -> bool {
    folder.join(CONFIG).is_file()
}

/// Writes `config.json` and `model.safetensors`, the latter first: a folder with a config is whole.
///
/// `weights` are those of a checkpoint's `main.safetensors`. The head is the first, by name, that has the weights of
/// BERT's prediction head; without one there is nothing that `BertForMaskedLM` could predict with.
pub fn export(
    weights: &HostTensors,
    encoder: &EncoderConfig,
    vocab: &VocabFacts,
    folder: &Folder,
) -> Result<(), Error> {
    let head = names::prediction_heads(weights.keys().map(String::as_str)).into_iter().next().ok_or_else(|| {
        Error::Config("this run has no `masked_lm` objective, hence no head to export; train one with it".to_owned())
    })?;
    let mut file = folder.begin(WEIGHTS)?;
    tensors::write(&theirs(weights, &head, encoder, vocab)?, &mut file)?;
    file.commit()?;
    folder.write(CONFIG, &BertConfig::of(encoder, vocab).to_json())?;
    Ok(())
}

/// Our tensors under Hugging Face's names: values, or gradients.
fn theirs(ours: &HostTensors, head: &str, encoder: &EncoderConfig, vocab: &VocabFacts) -> Result<HostTensors, Error> {
    let mut renamed = HostTensors::new();
    for entry in names::entries(encoder, vocab.size, &[head.to_owned()]) {
        let tensor = ours
            .get(&entry.ours)
            .ok_or_else(|| Error::Config(format!("the weights have no `{}`: they belong to another run", entry.ours)))?
            .to_tensor()?;
        for (part, name) in (0..).zip(entry.theirs) {
            let rows = entry.shape[0];
            renamed.insert(name, HostTensor::copy_of(&tensor.f_narrow(0, part * rows, rows)?)?);
        }
    }
    Ok(renamed)
}

/// Reads a `BertForMaskedLM` or `BertModel` as weights of ours, float32, for a run of this shape.
///
/// `heads` are the run's heads that have BERT's form: each gets the model's, if the model has one.
pub fn import(
    folder: &Path,
    encoder: &EncoderConfig,
    vocab: &VocabFacts,
    heads: &[String],
) -> Result<HostTensors, Error> {
    let model = Model::open(folder)?;
    let differences = model.config.differences(encoder, vocab);
    if !differences.is_empty() {
        return Err(model.refuse(&format!("this run has another shape: {}", differences.join("; "))));
    }
    let has_head = model.weights.contains_key("cls.predictions.transform.dense.weight");
    let mut ours = HostTensors::new();
    for entry in names::entries(encoder, vocab.size, if has_head { heads } else { &[] }) {
        ours.insert(entry.ours.clone(), HostTensor::copy_of(&model.read(&entry, vocab)?)?);
    }
    Ok(ours)
}

/// The heads among weights of ours, by their names in the config, that have the form of BERT's prediction head.
#[must_use]
pub fn prediction_heads<'a>(weights: impl Iterator<Item = &'a str>) -> Vec<String> {
    names::prediction_heads(weights)
}

/// A folder as it is.
struct Model<'a> {
    folder: &'a Path,
    config: BertConfig,
    weights: HostTensors,
}

impl<'a> Model<'a> {
    fn open(folder: &'a Path) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Checkpoint { path: folder.to_owned(), problem };
        let json = std::fs::read(folder.join(CONFIG)).map_err(|error| refuse(format!("`{CONFIG}`: {error}")))?;
        let config = BertConfig::parse(&json).map_err(&refuse)?;
        if !folder.join(WEIGHTS).is_file() {
            return Err(refuse(missing_weights(folder)));
        }
        Ok(Self { folder, config, weights: tensors::read(&folder.join(WEIGHTS))? })
    }

    /// One weight of ours: the model's parts on top of each other, then rows of padding.
    fn read(&self, entry: &Entry, vocab: &VocabFacts) -> Result<Tensor, Error> {
        let parts = entry.theirs.iter().map(|name| self.part(name, &entry.shape)).collect::<Result<Vec<_>, _>>()?;
        let joined = Tensor::f_cat(&parts, 0)?;
        if !entry.is_padded {
            return Ok(joined);
        }
        let padding = padded_rows(vocab.size) - i64::from(vocab.size);
        Ok(joined.f_constant_pad_nd([0, 0, 0, padding])?)
    }

    fn part(&self, name: &str, shape: &[i64]) -> Result<Tensor, Error> {
        let found = names::spellings(name).into_iter().find_map(|spelling| self.weights.get(&spelling));
        let tensor = found.ok_or_else(|| self.refuse(&format!("`{WEIGHTS}` has no `{name}`")))?.to_tensor()?;
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

fn missing_weights(folder: &Path) -> String {
    let convert = format!(
        "python -c \"from transformers import AutoModelForMaskedLM as M; \
         M.from_pretrained('{0}').save_pretrained('{0}-converted', max_shard_size='100GB')\"",
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
