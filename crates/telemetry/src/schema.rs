//! What stands in a log, for programs: a JSON schema of events, read off the types that say them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema as _, SchemaGenerator};
use serde_json::{Value, json};

use crate::event::{EventKind, Position};

/// The schema of one event, a line of a log, as this program writes it: what every event has, and each kind with its keys.
/// Later programs may add kinds, and keys to kinds.
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
    join(&mut schema, at(&mut generator));
    tidy(&mut schema);
    schema["$defs"] = json!({ "number": {
        "description": "A number; what is not finite has a name.",
        "anyOf": [{ "type": "number" }, { "enum": ["NaN", "Infinity", "-Infinity"] }],
    } });
    schema
}

fn envelope() -> Value {
    json!({
        "version": { "type": "integer", "description": "Version of the format: 1." },
        "time": { "type": "integer", "description": "Milliseconds since the epoch of Unix, by the wall clock." },
        "elapsed_s": {
            "$ref": "#/$defs/number",
            "description": "Seconds since this process began to run or to prepare, by a clock that never goes back.",
        },
        "kind": { "type": "string", "description": "What is said." },
    })
}

fn at(generator: &mut SchemaGenerator) -> Value {
    Position::json_schema(generator).to_value()
}

/// Adds the keys of one object, and which of them must be there, to those of another.
fn join(to: &mut Value, from: Value) {
    let Value::Object(from) = from else { unreachable!("what events carry are objects") };
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

/// Writes doc comments as one line without links, and leaves out how Rust stores a number.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(tidy),
        Value::Object(object) => {
            // A key of an event may be called as a word of the schema is.
            let is_type = object.get("type").is_some_and(|of| of.is_string() || of.is_array());
            if is_type {
                for word in ["format", "default", "minimum", "maximum"] {
                    object.remove(word);
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
    fn every_kind_is_in_the_schema_with_what_it_carries() {
        let schema = schema();
        let kinds: Vec<&str> =
            schema["oneOf"].as_array().expect("kinds").iter().filter_map(|kind| kind["title"].as_str()).collect();
        assert_eq!(kinds, EventKind::KINDS);
        let report = kind(&schema, "report");
        assert_eq!(report["description"], "Some steps are done.");
        assert_eq!(report["properties"]["loss"]["$ref"], "#/$defs/number", "flattened, and may be no number");
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
