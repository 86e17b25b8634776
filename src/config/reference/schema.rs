//! JSON schema of a configuration, for completion and checks in editors (Taplo, Even Better TOML).

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

use crate::config::Config;

/// Returns the schema of a configuration file.
pub(crate) fn schema() -> Json {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Config>().to_value();
    tidy(&mut schema);
    let root = schema.as_object_mut().expect("a configuration is a table");
    root.insert("title".to_owned(), "cloze".into());
    root.insert("description".to_owned(), "The configuration of one run of cloze, a TOML file.".into());
    root.insert("additionalProperties".to_owned(), false.into());
    // No section is required, because each has a default.
    root.remove("required");
    let properties = root.get_mut("properties").and_then(Json::as_object_mut).expect("a configuration has sections");
    properties["seed"]["default"] = json!(Config::unwritten().seed);
    for family in ["views", "networks", "objectives"] {
        if let Some(kinds) =
            properties.get_mut(family).and_then(|it| it["additionalProperties"]["oneOf"].as_array_mut())
        {
            kinds.push(patch(kinds));
        }
    }
    let extends = "Path of another file, relative to this one. Its keys apply unless this file overrides them.";
    properties.insert("extends".to_owned(), json!({ "type": "string", "description": extends }));
    schema
}

/// Schema of a component in a file that extends another: without `kind`, it changes keys of the inherited component.
fn patch(kinds: &[Json]) -> Json {
    let mut keys: Map<String, Json> = Map::new();
    for (name, key) in kinds.iter().filter_map(|kind| kind["properties"].as_object()).flatten() {
        let of_kinds = keys.entry(name.clone()).or_insert_with(|| json!({ "anyOf": [] }));
        let of_kinds = of_kinds["anyOf"].as_array_mut().expect("it was made a list");
        if name != "kind" && !of_kinds.contains(key) {
            of_kinds.push(key.clone());
        }
    }
    keys.remove("kind");
    let what = "Changes the component of this name in the extended file.";
    json!({ "type": "object", "description": what, "properties": keys, "additionalProperties": false })
}

/// Removes null, which TOML lacks, Rust's number formats, and links between doc comments.
fn tidy(schema: &mut Json) {
    match schema {
        Json::Array(all) => all.iter_mut().for_each(tidy),
        Json::Object(object) => {
            for key in ["format", "default"] {
                if object.get(key).is_some_and(|value| key == "format" && value.is_string() || value.is_null()) {
                    object.remove(key);
                }
            }
            without_null(object);
            if let Some(Json::String(text)) = object.get_mut("description") {
                *text = prose(text);
            }
            object.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

fn without_null(object: &mut Map<String, Json>) {
    if let Some(Json::Array(types)) = object.get_mut("type") {
        types.retain(|of| of != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    if let Some(Json::Array(choices)) = object.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    let Some(Json::Array(any)) = object.get_mut("anyOf") else { return };
    any.retain(|one| one["type"] != "null");
    if let [Json::Object(one)] = &any[..] {
        let one = one.clone();
        object.remove("anyOf");
        for (key, value) in one {
            object.entry(key).or_insert(value);
        }
    }
}

/// Converts a doc comment to one line without links: `` [`mask`](super) `` becomes `` `mask` ``. Removes the sentence
/// that only links to the module.
fn prose(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace(" See the [module](self).", "").replace(" See the [module](super).", "");
    let mut out = String::new();
    let mut rest = line.as_str();
    while let Some(open) = rest.find("[`") {
        let Some(close) = rest[open..].find("`]").map(|close| open + close) else { break };
        out.push_str(&rest[..open]);
        out.push_str(&rest[open + 1..=close]);
        rest = &rest[close + 2..];
        if let Some(target) = rest.strip_prefix('(').and_then(|target| target.split_once(')')) {
            rest = target.1;
        }
    }
    out + rest
}

#[cfg(test)]
mod tests;
