//! Generation of `docs/events.md` and its schema from the event types.

use std::fmt::Write as _;

use serde_json::Value as Json;
use store::Store;

use super::{meaning, what};

/// The page between these marks is generated; the rest is written by hand.
const BEGIN: &str = "<!-- `make keys` writes what follows -->\n";
const END: &str = "<!-- up to here -->\n";

/// `make keys` updates both files.
#[test]
fn generated_events_page_is_current() {
    let docs = Store::existing(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).expect("docs/ is there");
    let read = |name: &str| String::from_utf8_lossy(&docs.get(name).unwrap_or_default()).into_owned();
    let schema = telemetry::schema::schema();
    let json = serde_json::to_string_pretty(&schema).expect("plain data") + "\n";
    let page = read("events.md");
    let (head, rest) = page.split_once(BEGIN).expect("the page has a begin mark");
    let (_, tail) = rest.split_once(END).expect("the page has an end mark");
    let page = format!("{head}{BEGIN}\n{}\n{END}{tail}", tables(&schema));
    if std::env::var_os("UPDATE").is_some() {
        docs.put("events.md", page.as_bytes()).expect("written");
        docs.put("events.schema.json", json.as_bytes()).expect("written");
    }
    let hint = "differs from the doc comments: run `make keys`, then review the diff";
    assert!(read("events.md") == page, "docs/events.md {hint}");
    assert!(read("events.schema.json") == json, "docs/events.schema.json {hint}");
}

#[test]
fn every_key_of_an_event_has_a_meaning() {
    let schema = telemetry::schema::schema();
    for kind in schema["oneOf"].as_array().expect("kinds") {
        assert!(meaning(kind).len() > 10, "{kind}");
        for row in rows("", kind) {
            assert!(row.meaning.len() > 4 && !row.meaning.contains("]("), "{}: {row:?}", kind["title"]);
        }
    }
}

fn tables(schema: &Json) -> String {
    let mut text = table("", schema);
    for kind in schema["oneOf"].as_array().expect("kinds") {
        let name = kind["title"].as_str().expect("a name");
        let _ = write!(text, "\n### `{name}`\n\n{}\n\n{}", meaning(kind), table("", kind));
    }
    text
}

fn table(prefix: &str, schema: &Json) -> String {
    let mut text = "| key | type | meaning |\n|---|---|---|\n".to_owned();
    for Row { name, what, meaning } in rows(prefix, schema) {
        let _ = writeln!(text, "| `{name}` | {what} | {} |", meaning.replace('|', "\\|"));
    }
    text
}

#[derive(Debug)]
struct Row {
    name: String,
    what: String,
    meaning: String,
}

/// Returns the keys of an object, and those of inner objects.
fn rows(prefix: &str, schema: &Json) -> Vec<Row> {
    let required = |name: &String| schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
    let keys = schema["properties"].as_object().into_iter().flatten().filter(|(_, key)| key["const"].is_null());
    keys.flat_map(|(name, key)| {
        let shown = format!("{prefix}{name}");
        let may_miss = if required(name) { "" } else { ", may be missing" };
        let inner = object(key);
        let what = match inner {
            Some((_, true)) => "list of objects".to_owned(),
            Some((_, false)) => "object".to_owned(),
            None => type_of(key),
        };
        let row = Row { name: shown.clone(), what: format!("{what}{may_miss}"), meaning: meaning(key) };
        let below = inner.map(|(inner, in_list)| rows(&format!("{shown}{}.", if in_list { "[]" } else { "" }), inner));
        [row].into_iter().chain(below.into_iter().flatten()).collect::<Vec<_>>()
    })
    .collect()
}

/// Returns the inner object of a key and whether it is an item of a list; `None` if the value is no object.
fn object(key: &Json) -> Option<(&Json, bool)> {
    let any = key["anyOf"].as_array().into_iter().flatten();
    let found = any.chain([key]).find(|one| one["properties"].is_object());
    let in_list = || key["items"]["properties"].is_object().then(|| (&key["items"], true));
    found.map(|one| (one, false)).or_else(in_list)
}

/// Returns the type of a key in words.
fn type_of(key: &Json) -> String {
    let is_number = |key: &Json| key["$ref"] == "#/$defs/number";
    if is_number(key) {
        return "number".to_owned();
    }
    if let Some(any) = key["anyOf"].as_array() {
        return any.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    if let Some(types) = key["type"].as_array() {
        let one = |of: &Json| type_of(&serde_json::json!({ "type": of }));
        return types.iter().map(one).collect::<Vec<_>>().join(" or ");
    }
    match key["type"].as_str() {
        Some("null") => "null".to_owned(),
        Some("array") if is_number(&key["items"]) => "list of numbers".to_owned(),
        Some("object") if is_number(&key["additionalProperties"]) => "numbers by name".to_owned(),
        Some("object") if key["additionalProperties"].is_object() => {
            format!(
                "by name: {}",
                object(&key["additionalProperties"]).map_or_else(
                    || type_of(&key["additionalProperties"]),
                    |_| {
                        let names =
                            key["additionalProperties"]["properties"].as_object().into_iter().flat_map(|it| it.keys());
                        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                    }
                )
            )
        }
        _ => what(key),
    }
}
