//! Names and shapes of Hugging Face models: architectures, `config.json`, and the choice of the exported class.
//!
//! The `hf` module of the engine reads and writes their weights.

mod architecture;
mod choice;
mod config;
mod heads;
mod layout;
mod numbers;
mod target;

use std::collections::BTreeMap;
use std::path::Path;

pub use self::choice::{ExportChoice, choose};
pub use self::config::{ModelConfig, OWN_CODE};
pub use self::heads::{HeadPlace, HeadRole};
pub use self::layout::{Layout, TensorEntry, exchanged};
pub use self::numbers::CONFIG;
pub use self::target::Target;
use schemas::shell_quoted;
use store::Store;

use crate::config::TrainConfig;
use crate::encoder::VocabFacts;
use crate::error::Error;
use crate::objectives::AnyObjective;
use crate::repeated_keys::refuse_repeated_keys;
use crate::request::TrainRequest;
use crate::safetensors_header;
use crate::train_plan::TrainPlan;

/// Name of the file with the weights of a model.
pub const WEIGHTS: &str = "model.safetensors";

/// Prefixes that `torch.compile` and `DataParallel` put before the names of the model that they wrap.
const WRAPPERS: [&str; 2] = ["_orig_mod.", "module."];

/// Returns the name of a tensor without the prefixes of PyTorch's wrappers, which a saved `state_dict` keeps.
#[must_use]
pub fn unwrapped(mut name: &str) -> &str {
    while let Some(rest) = WRAPPERS.iter().find_map(|wrapper| name.strip_prefix(wrapper)) {
        name = rest;
    }
    name
}

/// Reads the configuration of the model in `folder`.
///
/// # Errors
/// A message without the folder if the file is missing, or as [`ModelConfig::parse`].
pub fn read_config(folder: &Path) -> Result<ModelConfig, String> {
    let file = folder.join(CONFIG);
    // Opening a pipe would wait for a writer.
    if file.exists() && !file.is_file() {
        return Err(format!("`{CONFIG}`: it is not a file"));
    }
    let json = std::fs::read(file).map_err(|error| format!("`{CONFIG}`: {error}"))?;
    refuse_repeated_keys(&json).map_err(|problem| format!("`{CONFIG}`: {problem}"))?;
    ModelConfig::parse(&json)
}

/// Returns the problem of the weights in a folder: they are missing, not whole, or of another shape than `config` says.
pub fn weights_problem(folder: &Path, config: &ModelConfig) -> Option<String> {
    if !folder.join(WEIGHTS).is_file() {
        return Some(missing_weights(folder, config));
    }
    let shapes =
        Store::existing(folder).map_err(Into::into).and_then(|folder| safetensors_header::shapes(&folder, WEIGHTS));
    let shapes = match shapes {
        Ok(shapes) => shapes,
        Err(error) => return Some(error.to_string()),
    };
    if let Some(problem) = missing_word_table(&shapes, config) {
        return Some(problem);
    }
    let layers = shapes.keys().filter_map(|name| {
        let (_, rest) = name.split_once("encoder.layer.")?;
        rest.split_once('.')?.0.parse::<u32>().ok()
    });
    let found = layers.max().map_or(0, |last| last + 1);
    if found != 0 && found != config.num_hidden_layers {
        return Some(format!(
            "`{WEIGHTS}` has {found} layers, but its `{CONFIG}` says {}; the folder is damaged",
            config.num_hidden_layers
        ));
    }
    let square = vec![i64::from(config.hidden_size); 2];
    let is_query =
        |name: &str| name.ends_with(".attention.self.query.weight") || name.ends_with(".attention.attn.q.weight");
    let query = shapes.iter().find(|(name, shape)| is_query(name) && **shape != square);
    query.map(|(name, shape)| {
        format!("`{name}` is {shape:?}, but its `{CONFIG}` says {square:?}; the folder is damaged")
    })
}

/// Returns the problem of weights that have no word table under any name that is read.
fn missing_word_table(shapes: &BTreeMap<String, Vec<i64>>, config: &ModelConfig) -> Option<String> {
    const WORDS: &str = "embeddings.word_embeddings.weight";
    let prefix = config.architecture().prefix();
    if shapes.keys().any(|name| {
        let name = unwrapped(name);
        name.strip_prefix(prefix).unwrap_or(name) == WORDS
    }) {
        return None;
    }
    let other = shapes.keys().find(|name| name.ends_with(WORDS));
    let other = other.map_or_else(String::new, |name| format!(" but `{name}`"));
    Some(format!("`{WEIGHTS}` has no `{prefix}{WORDS}`{other}; save the model with `save_pretrained`"))
}

/// Returns the problem of a folder without [`WEIGHTS`], with the command that converts other files.
fn missing_weights(folder: &Path, config: &ModelConfig) -> String {
    let other = ["pytorch_model.bin", "model.safetensors.index.json", "tf_model.h5", "flax_model.msgpack"];
    match other.into_iter().find(|name| folder.join(name).is_file()) {
        Some(other) => format!(
            "its weights are in `{other}`, only `{WEIGHTS}` is read; convert them: {}",
            conversion_command(folder, config)
        ),
        None => format!("there is no `{WEIGHTS}`"),
    }
}

/// Returns the shell command that saves the weights of a folder as [`WEIGHTS`] of a new folder.
fn conversion_command(folder: &Path, config: &ModelConfig) -> String {
    // The name becomes code, so other text is not taken from the file.
    let is_name = |class: &&str| class.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let class = config.class().filter(is_name).unwrap_or("AutoModelForPreTraining");
    // The folder is an argument, so that it needs quotes for the shell only.
    format!(
        "python -c \"import sys; from transformers import {class} as M; M.from_pretrained(sys.argv[1])\
         .save_pretrained(sys.argv[1] + '-converted', safe_serialization=True, max_shard_size='100GB')\" {}",
        shell_quoted(folder)
    )
}

/// Returns a plan to predict tokens with the model in `folder`, whose tokenizer has the vocabulary `vocab`.
///
/// # Errors
/// [`Error::Config`] if the folder has no model that predicts tokens, or one of a form that is not supported.
pub fn inference_plan(folder: &Path, vocab: VocabFacts) -> Result<TrainPlan, Error> {
    let refuse = |problem: String| Error::Config(format!("{}: {problem}", folder.display()));
    let config = read_config(folder).map_err(refuse)?;
    if !config.predicts_tokens() {
        let class = config.class().unwrap_or("without `architectures`");
        return Err(refuse(format!("the model is a `{class}`, which predicts no tokens, so it fills in no blanks")));
    }
    encoder_plan(folder, vocab)
}

/// Returns a plan to encode rows with the model in `folder`, whose tokenizer has the vocabulary `vocab`. Its prediction
/// head has initial weights if the model has none.
///
/// # Errors
/// [`Error::Config`] if the folder has no model, or one of a form that is not supported.
pub fn encoder_plan(folder: &Path, vocab: VocabFacts) -> Result<TrainPlan, Error> {
    let refuse = |problem: String| Error::Config(format!("{}: {problem}", folder.display()));
    let config = read_config(folder).map_err(refuse)?;
    if let Some(problem) = weights_problem(folder, &config) {
        return Err(refuse(problem));
    }
    let encoder = config.encoder().map_err(refuse)?;
    let head = if config.has_transform() {
        serde_json::json!({ "kind": "masked_lm", "tied": config.is_tied() })
    } else {
        serde_json::json!({ "kind": "corrective_lm" })
    };
    let head: AnyObjective = serde_json::from_value(head).expect("keys of the objective");
    let width = encoder.max_positions;
    let request = TrainRequest {
        objectives: [("lm".to_owned(), head)].into(),
        loss: [("lm".to_owned(), 1.0)].into(),
        train: TrainConfig { init_from: Some(folder.to_owned()), ..TrainConfig::default() },
        ..TrainRequest::new(encoder, vocab, width)
    };
    TrainPlan::new(request).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(|it| format!("`{}`: {}", it.key, it.message)).collect();
        refuse(problems.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_of_pytorch_are_removed_in_any_order() {
        for name in ["bert.x", "module.bert.x", "_orig_mod.module.bert.x", "module._orig_mod.bert.x"] {
            assert_eq!(unwrapped(name), "bert.x");
        }
        assert_eq!(unwrapped("bert.module.x"), "bert.module.x");
    }

    #[test]
    fn conversion_command_can_be_pasted() {
        let json = br#"{"architectures": ["A'; import os"], "model_type": "bert", "vocab_size": 8, "hidden_size": 8,
            "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "max_position_embeddings": 8}"#;
        let config = ModelConfig::parse(json).expect("a model");
        let command = conversion_command(Path::new("it's $HOME"), &config);
        assert!(command.ends_with(r#"max_shard_size='100GB')" 'it'\''s $HOME'"#), "{command}");
        assert!(command.contains("import AutoModelForPreTraining as M"), "{command}");
    }
}
