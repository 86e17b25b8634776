//! JSON schema of events, generated from their types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema as _, SchemaGenerator};
use serde_json::{Value, json};

use crate::event::{EventKind, Position};

/// Returns the schema of one event, which is a line of a log: the envelope, and each kind with its keys. Later versions of
/// the program may add kinds, and keys of kinds.
#[must_use]
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut generator = settings.into_generator();
    let kinds = EventKind::schemas(&mut generator).into_iter().map(|(kind, meaning, schema)| {
        let mut of_kind = json!({ "title": kind, "description": meaning, "properties": { "kind": { "const": kind } } });
        of_kind["required"] = json!(["kind"]);
        join(&mut of_kind, schema.to_value());
        of_kind
    });
    let kinds: Vec<Value> = kinds.collect();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of cloze",
        "description": "A line of a run's log, `log/*.jsonl`.",
        "type": "object",
        "properties": envelope(),
        "required": ["version", "time", "elapsed_s", "kind"],
        "oneOf": kinds,
    });
    join(&mut schema, position_schema(&mut generator));
    tidy(&mut schema);
    schema["$defs"] = json!({ "number": {
        "description": "Number. A value that is not finite is a string.",
        "anyOf": [{ "type": "number" }, { "enum": ["NaN", "Infinity", "-Infinity"] }],
    } });
    schema
}

fn envelope() -> Value {
    json!({
        "version": { "type": "integer", "description": "Version of the event format." },
        "time": { "type": "integer", "description": "Wall-clock time in milliseconds since the Unix epoch." },
        "elapsed_s": {
            "$ref": "#/$defs/number",
            "description": "Seconds since this process started the run or the preparation, by a monotonic clock.",
        },
        "kind": { "type": "string", "description": "Kind of the event." },
    })
}

fn position_schema(generator: &mut SchemaGenerator) -> Value {
    Position::json_schema(generator).to_value()
}

/// Adds the properties and the required keys of one object schema to another.
fn join(to: &mut Value, from: Value) {
    let Value::Object(from) = from else { unreachable!("payloads of events are objects") };
    for (key, value) in from {
        match (key.as_str(), value) {
            ("properties", Value::Object(more)) => {
                let keys = to["properties"].as_object_mut().expect("it has keys");
                keys.extend(more);
            }
            ("required", Value::Array(more)) => to["required"].as_array_mut().expect("it has keys").extend(more),
            _ => {}
        }
    }
}

/// Converts doc comments to one line without links, and removes the number formats of Rust.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(tidy),
        Value::Object(object) => {
            // A key of an event may have the name of a schema keyword.
            let is_type = object.get("type").is_some_and(|of| of.is_string() || of.is_array());
            if is_type {
                for keyword in ["format", "default", "minimum", "maximum"] {
                    object.remove(keyword);
                }
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = prose(text);
            }
            object.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

fn prose(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind<'a>(schema: &'a Value, name: &str) -> &'a Value {
        let kinds = schema["oneOf"].as_array().expect("kinds");
        kinds.iter().find(|kind| kind["title"] == name).unwrap_or_else(|| panic!("no `{name}`"))
    }

    #[test]
    fn every_kind_is_in_the_schema_with_its_payload() {
        let schema = schema();
        let kinds: Vec<&str> =
            schema["oneOf"].as_array().expect("kinds").iter().filter_map(|kind| kind["title"].as_str()).collect();
        assert_eq!(kinds, EventKind::KINDS);
        let report = kind(&schema, "report");
        assert_eq!(report["description"], "Some steps are done.");
        assert_eq!(report["properties"]["loss"]["$ref"], "#/$defs/number", "flattened, and may be not finite");
        assert_eq!(report["properties"]["skipped"]["type"], "integer");
        assert_eq!(report["properties"]["mfu"]["anyOf"][1]["type"], "null");
        assert!(report["required"].as_array().expect("a list").contains(&json!("loss")), "{report}");
        assert!(
            !report["required"].as_array().expect("a list").contains(&json!("phases")),
            "a later key may be missing"
        );
        assert_eq!(schema["properties"]["step"]["description"], "Steps done.");
    }
}
