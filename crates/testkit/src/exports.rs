//! Checks of exported models that need no Python.

use std::path::Path;

use serde_json::{Value, json};

/// Panics unless the tokenizer of an export says everything that `transformers` needs to make the inputs of the model from
/// text: versions 4 and 5 have different defaults.
///
/// # Panics
/// If a file is missing, or says something else.
pub fn assert_tokenizer(folder: &Path) {
    let read = |name: &str| -> Value {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let [model, config, tokenizer] = ["config.json", "tokenizer_config.json", "tokenizer.json"].map(read);
    let kind = model["model_type"].as_str().expect("a type");
    let has_segments = matches!(kind, "bert" | "electra" | "cloze");
    let inputs = if has_segments {
        json!(["input_ids", "token_type_ids", "attention_mask"])
    } else {
        json!(["input_ids", "attention_mask"])
    };
    assert_eq!(config["model_input_names"], inputs, "{kind}");
    assert_eq!(config["tokenizer_class"], "PreTrainedTokenizerFast");
    let id = |token: &Value| {
        let added = tokenizer["added_tokens"].as_array().expect("a list");
        let added = added.iter().find(|it| it["content"] == *token).and_then(|it| it["id"].as_u64());
        added.or_else(|| tokenizer["model"]["vocab"][token.as_str()?].as_u64())
    };
    for role in ["pad_token", "cls_token", "sep_token", "mask_token", "unk_token"] {
        assert!(id(&config[role]).is_some(), "{role} is {}", config[role]);
    }
    let pad = id(&config["pad_token"]).expect("an id");
    assert_eq!(model["pad_token_id"], pad);
    let first = if has_segments { 0 } else { pad + 1 };
    let length = config["model_max_length"].as_u64().expect("a number");
    assert_eq!(model["max_position_embeddings"], length + first);
    assert!(!tokenizer["post_processor"].is_null(), "texts are framed");
    if kind == "cloze" {
        for head in ["MaskedLM", "PreTraining", "SequenceClassification", "TokenClassification", "QuestionAnswering"] {
            assert_eq!(model["auto_map"][format!("AutoModelFor{head}")], format!("modeling_cloze.ClozeFor{head}"));
        }
    }
}
