//! Parsing of each table to its own type, with all failures collected.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::key_path::{KeyPath, RemovedElements, Step};
use super::mistake::{Mistake, Mistakes, did_you_mean};
use super::renamed;
use super::source::ConfigSource;

/// Maximum number of mistakes that are reported of a section. Each one costs another parse.
const MISTAKES_MAX: usize = 100;

/// Maximum number of keys of a component that are tried for the cause of an error. No component has half as many.
const COMPONENT_KEYS_MAX: usize = 64;

/// A table that is parsed section by section.
pub(super) struct Sections<'a> {
    table: Table,
    known: Vec<&'static str>,
    names: BTreeMap<&'static str, Vec<String>>,
    source: &'a ConfigSource,
    problems: Mistakes,
    /// Keys whose values are not as written, because of a mistake in them.
    broken: Vec<String>,
}

/// Result of the parsing of all sections.
pub(super) struct SectionsEnd {
    /// All mistakes, including unknown sections.
    pub(super) mistakes: Mistakes,
    /// Component names of every table, as written.
    pub(super) names: BTreeMap<&'static str, Vec<String>>,
    /// Keys whose values are not as written, because of a mistake in them.
    pub(super) broken: Vec<String>,
}

impl<'a> Sections<'a> {
    /// Starts with `table`. Earlier `mistakes` are listed first.
    pub(super) fn new(table: Table, source: &'a ConfigSource, mistakes: Vec<Mistake>) -> Self {
        let problems = Mistakes(mistakes);
        Self { table, known: Vec::new(), names: BTreeMap::new(), source, problems, broken: Vec::new() }
    }

    /// Parses a top-level value.
    pub(super) fn value<T: DeserializeOwned>(&mut self, key: &'static str, default: T) -> T {
        self.known.push(key);
        match self.table.remove(key).map(|value| self.parse(key, value)) {
            None => default,
            Some(parsed) => parsed.unwrap_or(default),
        }
    }

    /// Parses a section. Its struct supplies missing keys.
    pub(super) fn section<T: DeserializeOwned + Default>(&mut self, key: &'static str) -> T {
        self.value(key, T::default())
    }

    /// Takes a table of tables with user-defined names.
    fn tables(&mut self, key: &'static str) -> Table {
        self.known.push(key);
        let named = match self.table.remove(key) {
            None => return Table::new(),
            Some(Value::Table(named)) => named,
            Some(_) => {
                self.problems.push(self.source.mistake(key, format!("`{key}` is a table of named components")));
                self.broken.push(key.to_owned());
                return Table::new();
            }
        };
        self.names.insert(key, named.keys().cloned().collect());
        named
    }

    /// Parses a table of sections of one type with user-defined names.
    pub(super) fn named<T: DeserializeOwned>(&mut self, key: &'static str) -> BTreeMap<String, T> {
        let mut sections = BTreeMap::new();
        for (name, value) in self.tables(key) {
            let path = format!("{key}.{name}");
            sections.extend(self.parse(&path, value).map(|section| (name, section)));
        }
        sections
    }

    /// Parses a table of named components, each by its kind.
    pub(super) fn components<T: DeserializeOwned>(&mut self, key: &'static str, kinds: &[&str]) -> BTreeMap<String, T> {
        let mut components = BTreeMap::new();
        for (name, value) in self.tables(key) {
            let path = format!("{key}.{name}");
            let Value::Table(table) = &value else {
                let problem = self.source.mistake(&path, format!("`{path}` is {}, not a component", a(&value)));
                self.problems
                    .push(problem.hint(format!("write `[{path}]` and its `kind`, one of {}", kinds.join(", "))));
                continue;
            };
            if !table.contains_key("kind") {
                let problem = self.source.mistake(&path, format!("`{path}` has no `kind`"));
                self.problems.push(problem.hint(format!("add `kind = …`, one of {}", kinds.join(", "))));
            } else if let Some(component) = self.parse(&path, value) {
                components.insert(name, component);
            }
        }
        components
    }

    /// Returns the mistakes and names of all sections.
    pub(super) fn finish(mut self) -> SectionsEnd {
        for key in self.table.keys() {
            let problem = self.source.mistake(key, format!("unknown section `{key}`"));
            self.problems.push(match renamed::section(key) {
                Some(new) => problem.hint(format!("renamed to `{new}` in version 0.2")),
                None => suggest(problem, key, &self.known),
            });
        }
        SectionsEnd { mistakes: self.problems, names: self.names, broken: self.broken }
    }

    /// Parses a value. If a key is invalid, records the mistake, removes the key and tries again to check the other
    /// keys.
    fn parse<T: DeserializeOwned>(&mut self, path: &str, mut value: Value) -> Option<T> {
        let mut removed = RemovedElements::default();
        for _ in 0..MISTAKES_MAX {
            let error = match serde_path_to_error::deserialize::<_, T>(value.clone()) {
                Ok(parsed) => return Some(parsed),
                Err(error) => error,
            };
            let message = error.inner().message().to_owned();
            let key = wrong_key::<T>(&value, &error);
            self.problems.push(explain(self.source, &removed.original(&key).below(path), &message));
            let holder = useless_part(&value, key, &message);
            let original = removed.original(&holder);
            let is_element = matches!(holder.last(), Some(Step::Index(_)));
            // The elements behind a removed one have other indices now.
            let broken = if is_element { original.parent() } else { None };
            self.broken.push(broken.unwrap_or_else(|| original.clone()).element().below(path));
            if !holder.remove(&mut value) {
                return None;
            }
            if is_element {
                removed.add(original);
            }
        }
        self.broken.push(path.to_owned());
        None
    }
}

/// Returns the key that an error is about.
fn wrong_key<T: DeserializeOwned>(value: &Value, error: &serde_path_to_error::Error<toml::de::Error>) -> KeyPath {
    let inner = KeyPath::from_serde(error.path());
    let message = error.inner().message();
    if let Some(field) = quoted(message, "unknown field") {
        // serde has the field in its path, or only in its message.
        return if inner.last() == Some(&Step::Key(field.to_owned())) { inner } else { inner.key(field) };
    }
    // The path of an error in a component ends at the component. Its key is the one that fails alone.
    let is_component = |table: &&Table| table.contains_key("kind") && table.len() <= COMPONENT_KEYS_MAX;
    let component = inner.find(value).and_then(Value::as_table).filter(is_component);
    let mut keys = component.into_iter().flat_map(Table::keys).filter(|key| *key != "kind");
    let is_cause = |key: &&String| {
        let mut alone = value.clone();
        if let Some(Value::Table(table)) = inner.find_mut(&mut alone) {
            table.retain(|other, _| other == "kind" || other == *key);
        }
        let again = serde_path_to_error::deserialize::<_, T>(alone).err();
        again.is_some_and(|again| KeyPath::from_serde(again.path()) == inner && again.inner().message() == message)
    };
    keys.find(is_cause).map_or(inner.clone(), |key| inner.key(key))
}

/// Returns the path of what cannot be checked further: the wrong key, or the component whose kind is wrong.
fn useless_part(value: &Value, key: KeyPath, message: &str) -> KeyPath {
    let is_kind = key.last() == Some(&Step::Key("kind".to_owned())) && quoted(message, "unknown field").is_none();
    let holder = key.parent().filter(|holder| is_kind && holder.find(value).is_some_and(Value::is_table));
    holder.unwrap_or(key)
}

/// Converts an error of serde to a mistake, with a suggestion if serde lists the choices.
fn explain(source: &ConfigSource, path: &str, message: &str) -> Mistake {
    let first_line = message.lines().next().unwrap_or_default();
    for kind in ["unknown field", "unknown variant"] {
        if let Some(wrong) = quoted(message, kind) {
            let choices: Vec<&str> = first_line.split('`').skip(3).step_by(2).collect();
            let is_key = kind == "unknown field";
            let what = if is_key { "unknown key" } else { "unknown choice" };
            let mistake = source.mistake(path, format!("{what} `{wrong}`"));
            let renamed = if is_key { renamed::key(path) } else { renamed::choice(path, wrong) };
            return match renamed {
                Some(new) => mistake.hint(format!("renamed to `{new}` in version 0.2")),
                None => suggest(mistake, wrong, &choices),
            };
        }
    }
    source.mistake(path, in_words(first_line))
}

/// Converts serde's message about a wrong type to TOML terms.
fn in_words(message: &str) -> String {
    let kinds = ["invalid type: ", "invalid value: "];
    if let Some(key) = quoted(message, "missing field") {
        return format!("the key `{key}` is missing");
    }
    let parts = kinds.iter().find_map(|kind| message.strip_prefix(kind)?.split_once(", expected "));
    let Some((found, expected)) = parts else { return message.to_owned() };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" if found.starts_with("integer `-") => "a whole number of at least 0",
        "u8" | "u16" | "u32" if found.starts_with("integer ") => "a smaller whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "a string" | "path string" => "a text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        it if it.starts_with("struct ") || it.starts_with("internally tagged enum ") => "a table",
        it if it.starts_with("enum ") || it.starts_with("string or table") || it == "variant identifier" => {
            "one of its names, in quotes"
        }
        it => it,
    };
    format!("expected {expected}, found {found}")
}

/// Returns the type of a value, with its article.
fn a(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "a boolean",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

fn suggest(problem: Mistake, wrong: &str, choices: &[&str]) -> Mistake {
    if choices.is_empty() {
        return problem;
    }
    match did_you_mean(wrong, choices.iter().copied()) {
        Some(near) => problem.hint(format!("did you mean `{near}`? The choices are {}", choices.join(", "))),
        None => problem.hint(format!("the choices are {}", choices.join(", "))),
    }
}

/// Returns the word in back quotes that follows `kind` at the start of serde's message.
fn quoted<'a>(message: &'a str, kind: &str) -> Option<&'a str> {
    message.strip_prefix(kind)?.split('`').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        steps: u64,
        lr: f64,
    }

    fn problems(text: &str) -> (Example, Vec<Mistake>) {
        let table: Table = toml::from_str(text).expect("the test writes TOML");
        let source = ConfigSource::default();
        let mut sections = Sections::new(table, &source, Vec::new());
        let example = sections.section("example");
        (example, sections.finish().mistakes.0)
    }

    #[test]
    fn every_mistake_of_a_section_is_reported_and_valid_keys_are_kept() {
        let (example, problems) = problems("[example]\nstepps = 1\nlr = 'x'\nsteps = 7\nzzz = 1\n[exampel]\n");
        assert_eq!(example, Example { steps: 7, lr: 0.0 });
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(messages.len(), 4, "{messages:?}");
        assert!(messages.contains(&"unknown key `stepps`") && messages.contains(&"unknown section `exampel`"));
        let hint =
            problems.iter().find(|problem| problem.message.contains("stepps")).and_then(|problem| problem.hint.clone());
        assert_eq!(hint.as_deref(), Some("did you mean `steps`? The choices are steps, lr"));
    }

    #[test]
    fn wrong_types_are_reported_in_toml_terms() {
        let message_of = |text: &str| problems(text).1.remove(0).message;
        assert_eq!(message_of("[example]\nsteps = 'many'"), "expected a whole number, found string \"many\"");
        assert_eq!(message_of("[example]\nsteps = -1"), "expected a whole number of at least 0, found integer `-1`");
        assert_eq!(message_of("[example]\nlr = true"), "expected a number, found boolean `true`");
        assert_eq!(message_of("example = 3"), "expected a table, found integer `3`");
        let source = ConfigSource::default();
        let table = toml::from_str("views.masked = 3").expect("TOML");
        let mut sections = Sections::new(table, &source, Vec::new());
        let _ = sections.components::<Example>("views", &["mask", "crop"]);
        let mistake = sections.finish().mistakes.0.remove(0);
        assert_eq!(mistake.message, "`views.masked` is a whole number, not a component");
        assert_eq!(mistake.hint.as_deref(), Some("write `[views.masked]` and its `kind`, one of mask, crop"));
    }
}
