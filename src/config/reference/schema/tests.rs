//! The schema accepts all configurations in `configs/`, and refuses mistyped ones.

use std::path::{Path, PathBuf};

use super::*;

/// Returns every file of `configs/`.
fn configs() -> Vec<PathBuf> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("configs")];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "toml") {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn the_schema_accepts_every_file_in_configs_and_refuses_mistakes() {
    let schema = schema();
    let files = configs();
    assert!(files.len() > 40, "{}", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        let table: toml::Table = toml::from_str(&text).expect("TOML");
        let value = serde_json::to_value(table).expect("JSON");
        let wrong = validate(&schema, &value, "");
        assert!(wrong.is_empty(), "{}: {wrong:#?}", file.display());
    }
    for (wrong, at) in [
        (json!({ "sede": 1 }), "sede"),
        (json!({ "seed": "one" }), "/seed"),
        (json!({ "prepare": { "max_seq_len": -4 } }), "/prepare/max_seq_len"),
        (json!({ "prepare": { "format": "docx" } }), "/prepare/format"),
        (json!({ "prepare": { "inputs": ["a", 3] } }), "/prepare/inputs/1"),
        (json!({ "data": { "wdith": 64 } }), "wdith"),
        (json!({ "views": { "masked": { "kind": "musk" } } }), "/views/masked"),
        (json!({ "views": { "masked": { "kind": "mask", "rat": 0.1 } } }), "/views/masked"),
        (json!({ "views": { "masked": { "rat": 0.1 } } }), "/views/masked"),
        (json!({ "views": { "masked": { "rate": "0.1" } } }), "/views/masked"),
    ] {
        let found = validate(&schema, &wrong, "");
        assert!(found.iter().any(|found| found.contains(at)), "{wrong} was accepted: {found:?}");
    }
}

/// Validator for the keywords that the schema uses. Panics at any other keyword, so that none is ignored.
fn validate(schema: &Json, value: &Json, at: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(keywords) = schema.as_object() else {
        return if schema == &Json::Bool(false) { vec![format!("{at} is not allowed")] } else { wrong };
    };
    for (keyword, wanted) in keywords {
        let mut check = |is_valid: bool| {
            if !is_valid {
                wrong.push(format!("{at}: {value} against {keyword} {wanted}"));
            }
        };
        match keyword.as_str() {
            "$schema" | "title" | "description" | "default" => {}
            "type" => check(is_of(wanted.as_str().expect("one type"), value)),
            "const" => check(wanted == value),
            "enum" => check(wanted.as_array().expect("a list").contains(value)),
            "minimum" => check(value.as_f64().is_none_or(|number| Some(number) >= wanted.as_f64())),
            "maximum" => check(value.as_f64().is_none_or(|number| Some(number) <= wanted.as_f64())),
            "minItems" => check(value.as_array().is_none_or(|list| Some(list.len() as u64) >= wanted.as_u64())),
            "maxItems" => check(value.as_array().is_none_or(|list| Some(list.len() as u64) <= wanted.as_u64())),
            "required" => {
                let names = wanted.as_array().expect("a list").iter().filter_map(Json::as_str);
                names.for_each(|name| check(value.get(name).is_some()));
            }
            "oneOf" => {
                let matching = wanted.as_array().expect("a list").iter();
                check(matching.filter(|one| validate(one, value, at).is_empty()).count() == 1);
            }
            "anyOf" => {
                let mut any = wanted.as_array().expect("a list").iter();
                check(any.any(|one| validate(one, value, at).is_empty()));
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    wrong.extend(validate(wanted, item, &format!("{at}/{index}")));
                }
            }
            "properties" => {
                for (name, item) in value.as_object().into_iter().flatten() {
                    wrong.extend(
                        wanted.get(name).map(|it| validate(it, item, &format!("{at}/{name}"))).unwrap_or_default(),
                    );
                }
            }
            "additionalProperties" => {
                let named = |name: &str| keywords.get("properties").is_some_and(|known| known.get(name).is_some());
                for (name, item) in value.as_object().into_iter().flatten().filter(|(name, _)| !named(name)) {
                    wrong.extend(validate(wanted, item, &format!("{at}/{name}")));
                }
            }
            unknown => panic!("the schema has the unsupported keyword `{unknown}` at {at}"),
        }
    }
    wrong
}

fn is_of(kind: &str, value: &Json) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("no type `{other}`"),
    }
}

#[test]
fn links_become_plain_text() {
    assert_eq!(prose("How [`Spans`] and\n [`mask`](super::mask) differ."), "How `Spans` and `mask` differ.");
    assert_eq!(prose("Says it. See the [module](self)."), "Says it.");
}
