//! Reference of all configuration keys: type, default and meaning.
//!
//! All of it is derived from the types of the sections. Names and choices come from serde, meanings from doc comments
//! (`schemars`), and defaults from the values of an empty file. So each fact is written once, and new keys are included
//! automatically.

#[cfg(test)]
mod events;
#[cfg(test)]
mod markdown;
pub(crate) mod page;
pub(crate) mod schema;

use serde_json::Value as Json;
use toml::{Table, Value};

use self::schema::schema;
use crate::config::Config;
use crate::config::sources::SourceConfig;

/// Section of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Section {
    /// Heading: `[train]`, `[views.NAME]`, or empty for keys outside all sections.
    pub(crate) head: String,
    /// `kind` of a component.
    pub(crate) kind: Option<String>,
    /// Purpose of the section.
    pub(crate) meaning: String,
    /// Keys of the section.
    pub(crate) keys: Vec<Key>,
}

/// Key of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    /// Name in the section; dotted for keys of an inner table.
    pub(crate) name: String,
    /// Type in words: `whole number`, `"pinned", "latest"`.
    pub(crate) what: String,
    /// Unit of the value.
    pub(crate) unit: Option<&'static str>,
    /// Default as TOML; `None` for keys that are unset or required.
    pub(crate) default: Option<String>,
    /// Meaning from the doc comment.
    pub(crate) meaning: String,
    /// Choices, each with its meaning if documented.
    pub(crate) choices: Vec<(String, String)>,
}

/// Unit of a key by the last word of its name.
const UNITS: [(&str, &str); 31] = [
    ("bytes", "bytes"),
    ("steps", "steps"),
    ("every_steps", "steps"),
    ("warmup_steps", "steps"),
    ("max_skipped_steps", "steps"),
    ("rows", "rows"),
    ("global_batch_size", "rows"),
    ("micro_batch_size", "rows"),
    ("copies_per_sample", "rows"),
    ("max_seq_len", "tokens"),
    ("seq_len", "tokens"),
    ("max_positions", "tokens"),
    ("max_offset", "tokens"),
    ("max_distance", "tokens"),
    ("vocab_size", "ids"),
    ("workers", "threads"),
    ("threads", "threads"),
    ("shuffle_window_groups", "row groups"),
    ("prefetch_batches", "batches"),
    ("keep", "checkpoints"),
    ("keep_every_steps", "steps"),
    ("keep_best", "checkpoints"),
    ("max_tokens", "tokens"),
    ("max_hours", "hours"),
    ("max_bad_lines", "lines"),
    ("rate", "share"),
    ("fraction", "share"),
    ("sample", "share"),
    ("dropout", "probability"),
    ("replacement", "percent"),
    ("limit_alphabet", "characters"),
];

/// Returns all sections, in the order of a configuration that is written out.
pub(crate) fn sections() -> Vec<Section> {
    let schema = schema();
    let defaults = table(Some(Config::unwritten()));
    let mut alone = Section { head: String::new(), kind: None, meaning: String::new(), keys: Vec::new() };
    let mut sections = Vec::new();
    for name in ordered(&schema, &defaults) {
        let property = &schema["properties"][&name];
        match families(&name) {
            Some(family) => {
                let members = property["additionalProperties"]["oneOf"].as_array().into_iter().flatten();
                sections.extend(members.filter_map(|member| {
                    let kind = member["properties"]["kind"]["const"].as_str()?;
                    let head = format!("[{name}.NAME]");
                    Some(Section { head, kind: Some(kind.to_owned()), ..section(member, &family(kind)) })
                }));
            }
            // A build without the trainer knows only the names of its sections.
            None if property["type"] == "object"
                && property["properties"].is_null()
                && property["additionalProperties"].is_null() => {}
            None if property["type"] == "object" => {
                let named = &property["additionalProperties"];
                if named["properties"].is_object() {
                    // A table of sections of one type.
                    let head = format!("[{name}.NAME]");
                    let one = section(named, &table(Some(SourceConfig::default())));
                    sections.push(Section { head, meaning: meaning(property), ..one });
                    continue;
                }
                let written = defaults.get(&name).and_then(Value::as_table).cloned().unwrap_or_default();
                let mut section = Section { head: format!("[{name}]"), ..section(property, &written) };
                if property["additionalProperties"].is_object() {
                    let meaning = "The key is the name of a component.".to_owned();
                    let key = keys("NAME", &property["additionalProperties"], None);
                    section.keys.extend(key.into_iter().map(|key| Key { meaning: meaning.clone(), ..key }));
                }
                sections.push(section);
                sections.extend(filters(property));
            }
            None => alone.keys.extend(keys(&name, property, defaults.get(&name))),
        }
    }
    sections.insert(0, alone);
    sections
}

/// For a table of named components: returns a function from a kind to the defaults of that kind.
fn families(name: &str) -> Option<fn(&str) -> Table> {
    match name {
        "views" => Some(|kind| table(pipeline::views::AnyView::of_kind(kind))),
        "objectives" => Some(|kind| table(trainer_plan::objectives::AnyObjective::of_kind(kind))),
        "networks" => Some(|kind| table(trainer_plan::networks::AnyNetwork::of_kind(kind))),
        _ => None,
    }
}

/// Returns the sections of filters, if the section has a list of them.
fn filters(property: &Json) -> Vec<Section> {
    let members = property["properties"]["filters"]["items"]["oneOf"].as_array().into_iter().flatten();
    let sections = members.filter_map(|member| {
        let kind = member["properties"]["kind"]["const"].as_str()?;
        let defaults = table(pipeline::prepare::AnyFilter::of_kind(kind));
        let head = "[[prepare.filters]]".to_owned();
        Some(Section { head, kind: Some(kind.to_owned()), ..section(member, &defaults) })
    });
    sections.collect()
}

fn table(component: Option<impl serde::Serialize>) -> Table {
    component.and_then(|it| Value::try_from(it).ok()).and_then(|it| it.as_table().cloned()).unwrap_or_default()
}

fn section(schema: &Json, written: &Table) -> Section {
    // The kind is shown above the keys.
    let is_key = |name: &String| schema["properties"][name]["const"].is_null();
    let names = ordered(schema, written).into_iter().filter(is_key);
    let keys = names.flat_map(|name| keys(&name, &schema["properties"][&name], written.get(&name)));
    Section { head: String::new(), kind: None, meaning: meaning(schema), keys: keys.collect() }
}

/// Returns the properties of a schema: first those in `written`, in that order, then the others.
fn ordered(schema: &Json, written: &Table) -> Vec<String> {
    let properties = || schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
    let first = written.keys().filter(|key| properties().any(|known| known == *key));
    first.chain(properties().filter(|key| !written.contains_key(*key))).cloned().collect()
}

/// Returns a key, or the keys of a table.
fn keys(name: &str, schema: &Json, default: Option<&Value>) -> Vec<Key> {
    if schema["properties"].is_object() {
        let inner = default.and_then(Value::as_table).cloned().unwrap_or_default();
        let below = section(schema, &inner).keys.into_iter();
        return below.map(|key| Key { name: format!("{name}.{}", key.name), ..key }).collect();
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    let unit = UNITS.iter().find(|(key, _)| *key == last || last.ends_with(&format!("_{key}"))).map(|(_, unit)| *unit);
    let what = what(schema);
    // Other values than numbers have no unit, whatever the name of the key.
    let unit = unit.filter(|_| what.contains("number"));
    // A section that is off has the defaults of its type.
    let stated =
        Some(&schema["default"]).filter(|value| !value.is_null()).and_then(|value| Value::try_from(value).ok());
    let default = default.or(stated.as_ref());
    let is_set = |value: &&Value| value.as_str() != Some("") && value.as_array().is_none_or(|list| !list.is_empty());
    vec![Key {
        name: name.to_owned(),
        what,
        unit,
        default: default.filter(is_set).map(written),
        meaning: meaning(schema),
        choices: choices(schema),
    }]
}

/// Formats a value as TOML, with short floats.
fn written(value: &Value) -> String {
    match value {
        Value::Float(number) if *number != 0.0 && !(1e-3..1e6).contains(&number.abs()) => format!("{number:e}"),
        value => value.to_string(),
    }
}

/// Returns the type of a key in words.
fn what(schema: &Json) -> String {
    let choices = choices(schema);
    if !choices.is_empty() {
        return choices.iter().map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return any.iter().map(what).collect::<Vec<_>>().join(" or ");
    }
    match schema["type"].as_str() {
        Some("integer") => "whole number".to_owned(),
        Some("number") => "number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => match (schema["minItems"].as_u64(), &schema["items"]) {
            (Some(count), items) if schema["maxItems"] == schema["minItems"] => format!("{count} of {}", what(items)),
            (_, items) => format!("list of {}", what(items)),
        },
        None if schema["oneOf"].is_array() => "tables with `kind`".to_owned(),
        Some("object") if schema["properties"].is_object() => {
            let names = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
            format!("{{ {} }}", names.map(|name| format!("{name} = …")).collect::<Vec<_>>().join(", "))
        }
        Some("object") => format!("table of {}", what(&schema["additionalProperties"])),
        _ => "text".to_owned(),
    }
}

fn choices(schema: &Json) -> Vec<(String, String)> {
    let name = |value: &Json| value.as_str().map(str::to_owned);
    let plain = schema["enum"].as_array().into_iter().flatten().filter_map(|value| Some((name(value)?, String::new())));
    let described = schema["oneOf"].as_array().into_iter().flatten();
    let described = described.flat_map(|one| match name(&one["const"]) {
        Some(name) => vec![(name, meaning(one))],
        None => choices(one),
    });
    plain.chain(described).collect()
}

fn meaning(schema: &Json) -> String {
    schema["description"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sections: &[Section], head: &str, kind: Option<&str>, name: &str) -> Key {
        let section = sections.iter().find(|section| section.head == head && section.kind.as_deref() == kind);
        let keys = section.unwrap_or_else(|| panic!("no {head} {kind:?}")).keys.iter();
        keys.clone().find(|key| key.name == name).unwrap_or_else(|| panic!("no {name} in {head}: {keys:?}")).clone()
    }

    #[test]
    fn every_key_has_a_meaning() {
        let sections = sections();
        for section in &sections {
            assert!(section.head.is_empty() || section.meaning.len() > 4, "{section:?}");
            for key in &section.keys {
                let head = &section.head;
                let name = &key.name;
                assert!(key.meaning.len() > 3, "{head} `{name}` has no doc comment");
                let is_prose = !key.meaning.contains("](") && !key.meaning.contains('\n');
                assert!(is_prose, "{head} `{name}`: links and line breaks are not rendered here: {}", key.meaning);
            }
        }
        let seed = key(&sections, "", None, "seed");
        assert_eq!((seed.what.as_str(), seed.default.as_deref()), ("whole number", Some("1")));
        let workers = key(&sections, "[prepare]", None, "workers");
        assert_eq!((workers.unit, workers.default), (Some("threads"), None));
        let replace = key(&sections, "[views.NAME]", Some("mask"), "replacement");
        assert_eq!((replace.what.as_str(), replace.default.as_deref()), ("3 of whole number", Some("[80, 10, 10]")));
        let bands = key(&sections, "[prepare]", None, "duplicates.bands");
        assert_eq!(bands.default.as_deref(), Some("14"), "the default of a section that is off");
        let filters = key(&sections, "[prepare]", None, "filters");
        assert_eq!(filters.what, "list of tables with `kind`");
        let mask = key(&sections, "[[prepare.filters]]", Some("pii"), "email_replacement");
        assert_eq!((mask.what.as_str(), mask.unit), ("text", None));
        let kind = key(&sections, "[tokenizer]", None, "kind");
        assert_eq!(kind.what, "\"wordpiece\", \"byte_bpe\"");
        let edge = key(&sections, "[views.NAME]", Some("window"), "edge");
        assert_eq!(edge.what, "\"window\", \"anywhere\"");
        assert!(edge.choices.iter().all(|(_, meaning)| meaning.len() > 5), "{edge:?}");
    }

    #[test]
    fn every_unit_belongs_to_a_key() {
        let keys: Vec<Key> = sections().into_iter().flat_map(|section| section.keys).collect();
        // The last word of a key, as in `UNITS`.
        let has_name = |key: &Key, name: &str| {
            let last = key.name.rsplit('.').next().unwrap_or_default();
            last == name || last.ends_with(&format!("_{name}"))
        };
        for (name, unit) in UNITS {
            let mut own = keys.iter().filter(|key| has_name(key, name) && key.unit.is_some()).peekable();
            assert!(own.peek().is_some(), "no key ends in `{name}`");
            assert!(own.any(|key| key.unit == Some(unit)), "`{name}` is shadowed by another row");
        }
    }
}
