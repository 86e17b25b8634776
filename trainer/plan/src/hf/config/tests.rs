//! Tests of `config.json`.

use serde_json::{Value, json};

use super::*;

fn parse(model_type: &str, key: &str, value: &Value) -> Result<ModelConfig, String> {
    let mut keys = json!({
        "model_type": model_type, "vocab_size": 30522, "hidden_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 512, "max_position_embeddings": 512,
    });
    keys[key] = value.clone();
    ModelConfig::parse(keys.to_string().as_bytes())
}

#[test]
fn files_of_the_first_years_are_read_or_name_the_missing_key() {
    for key in ["architectures", "torch_dtype", "pad_token_id"] {
        assert!(parse("bert", key, &Value::Null).is_ok(), "{key}");
    }
    let problem = parse("bert", "model_type", &Value::Null).err().expect("refused");
    assert!(problem.contains("no `model_type`") && problem.contains("`\"model_type\": \"bert\"`"), "{problem}");
}

#[test]
fn impossible_numbers_are_refused_with_file_and_key() {
    for (key, value) in [
        ("hidden_size", json!(0)),
        ("hidden_size", json!(-128)),
        ("hidden_size", json!(127)),
        ("hidden_size", json!(128.5)),
        ("num_hidden_layers", json!(0)),
        ("num_hidden_layers", json!(1_000_000_000_000_u64)),
        ("num_attention_heads", json!(0)),
        ("vocab_size", json!(1_000_000_000_000_u64)),
        ("vocab_size", json!(0)),
        ("embedding_size", json!(0)),
        ("intermediate_size", json!(4_000_000_000_u64)),
        ("max_position_embeddings", json!(0)),
        ("pad_token_id", json!(-1)),
        ("hidden_dropout_prob", json!(1.5)),
        ("layer_norm_eps", json!(-1e-12)),
    ] {
        let problem = parse("bert", key, &value).err().unwrap_or_else(|| panic!("{key} = {value} is accepted"));
        assert!(problem.contains("`config.json`: ") && problem.contains(&format!("`{key}`")), "{problem}");
    }
    for (json, words) in [
        (&b"[]"[..], "expected a JSON object"),
        (b"null", "expected a JSON object"),
        (b"\xef\xbb\xbf{}", "byte-order mark"),
        (b"{", "`config.json`: EOF"),
    ] {
        let problem = ModelConfig::parse(json).err().expect("no configuration");
        assert!(problem.contains(words), "{problem}");
    }
    let problem = parse("roberta", "max_position_embeddings", &json!(2)).err().expect("no position is left");
    assert!(problem.contains("leaves no position after `pad_token_id` = 1"), "{problem}");
    assert!(parse("bert", "hidden_size", &json!(256)).is_ok());
    assert!(parse("bert", "pad_token_id", &json!(null)).is_ok());
}
