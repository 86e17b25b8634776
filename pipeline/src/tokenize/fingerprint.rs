//! Fingerprint of a tokenizer, independent of its serialization.

use std::collections::BTreeMap;

use serde_json::Value;

/// Returns the BLAKE3 of the tokenizer without padding and truncation, keys sorted: equal for all serializations.
pub(super) fn fingerprint(json: &Value) -> String {
    let mut text = Vec::new();
    let mut json = json.clone();
    if let Some(object) = json.as_object_mut() {
        object.remove("padding");
        object.remove("truncation");
    }
    write_sorted(&json, &mut text);
    blake3::hash(&text).to_hex().to_string()
}

fn write_sorted(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(object) => {
            text.push(b'{');
            for (key, value) in object.iter().collect::<BTreeMap<_, _>>() {
                text.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
                text.push(b':');
                write_sorted(value, text);
                text.push(b',');
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            for item in items {
                write_sorted(item, text);
                text.push(b',');
            }
            text.push(b']');
        }
        leaf => text.extend_from_slice(leaf.to_string().as_bytes()),
    }
}
