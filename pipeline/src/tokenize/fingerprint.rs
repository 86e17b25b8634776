//! Fingerprint of a tokenizer, independent of its serialization.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the BLAKE3 of the tokenizer without padding and truncation, keys sorted: equal for all serializations.
pub(super) fn fingerprint(json: &Value) -> String {
    let mut text = Vec::new();
    match json {
        Value::Object(object) => write_object(object, &["padding", "truncation"], &mut text),
        other => write_sorted(other, &mut text),
    }
    blake3::hash(&text).to_hex().to_string()
}

/// Writes an object without the keys in `omitted`.
fn write_object(object: &Map<String, Value>, omitted: &[&str], text: &mut Vec<u8>) {
    text.push(b'{');
    let sorted: BTreeMap<_, _> = object.iter().filter(|(key, _)| !omitted.contains(&key.as_str())).collect();
    for (key, value) in sorted {
        write_leaf(key, text);
        text.push(b':');
        write_sorted(value, text);
        text.push(b',');
    }
    text.push(b'}');
}

fn write_leaf(value: &impl Serialize, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("memory can be written, and keys are strings");
}

fn write_sorted(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(object) => write_object(object, &[], text),
        Value::Array(items) => {
            text.push(b'[');
            for item in items {
                write_sorted(item, text);
                text.push(b',');
            }
            text.push(b']');
        }
        leaf => write_leaf(leaf, text),
    }
}
