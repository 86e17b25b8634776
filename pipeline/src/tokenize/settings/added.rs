//! Tokens that were added to a vocabulary.

use serde_json::{Value, json};

/// Token that was added to the vocabulary.
pub(super) struct Added {
    pub(super) id: u64,
    pub(super) content: String,
    pub(super) entry: Value,
    pub(super) file: &'static str,
}

/// Returns an added token in the format of `tokenizer.json`. As in `transformers`, only special ones are searched in the
/// text as it is.
pub(super) fn entry(id: u64, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
           "normalized": !special, "special": special})
}

/// Returns the text of a token: a string, or an object with its `content`.
pub(super) fn content(token: &Value) -> Option<String> {
    token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned)
}

/// Returns the values of a list or of an object.
pub(super) fn items(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(items) => items.values().collect(),
        _ => Vec::new(),
    }
}
