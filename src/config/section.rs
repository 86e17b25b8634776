//! Each table into its own type, every failure collected.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::mistake::{Mistake, Mistakes, did_you_mean};
use super::renamed;
use super::source::ConfigSource;

/// A table that is taken apart section by section.
pub(super) struct Sections<'a> {
    table: Table,
    known: Vec<&'static str>,
    names: BTreeMap<&'static str, Vec<String>>,
    source: &'a ConfigSource,
    problems: Mistakes,
}

impl<'a> Sections<'a> {
    /// Takes apart `table`; mistakes that were found before come first.
    pub(super) fn new(table: Table, source: &'a ConfigSource, mistakes: Vec<Mistake>) -> Self {
        Self { table, known: Vec::new(), names: BTreeMap::new(), source, problems: Mistakes(mistakes) }
    }

    /// A top-level value.
    pub(super) fn value<T: DeserializeOwned>(&mut self, key: &'static str, default: T) -> T {
        self.known.push(key);
        match self.table.remove(key).map(|value| self.parse(key, value)) {
            None => default,
            Some(parsed) => parsed.unwrap_or(default),
        }
    }

    /// A section whose struct fills in what is absent.
    pub(super) fn section<T: DeserializeOwned + Default>(&mut self, key: &'static str) -> T {
        self.value(key, T::default())
    }

    /// A table of tables by names of the user's own.
    fn tables(&mut self, key: &'static str) -> Table {
        self.known.push(key);
        let named = match self.table.remove(key) {
            None => return Table::new(),
            Some(Value::Table(named)) => named,
            Some(_) => {
                self.problems.push(self.source.mistake(key, format!("`{key}` is a table of named components")));
                return Table::new();
            }
        };
        self.names.insert(key, named.keys().cloned().collect());
        named
    }

    /// A table of sections by names of the user's own, all of one sort.
    pub(super) fn named<T: DeserializeOwned>(&mut self, key: &'static str) -> BTreeMap<String, T> {
        let mut sections = BTreeMap::new();
        for (name, value) in self.tables(key) {
            let path = format!("{key}.{name}");
            sections.extend(self.parse(&path, value).map(|section| (name, section)));
        }
        sections
    }

    /// A table of named components, each parsed on its own.
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
                let problem = self.source.mistake(&path, format!("`{path}` does not say what it is"));
                self.problems.push(problem.hint(format!("add `kind = …`, one of {}", kinds.join(", "))));
            } else if let Some(component) = self.parse(&path, value) {
                components.insert(name, component);
            }
        }
        components
    }

    /// The component names of every table taken so far, as written.
    pub(super) fn names(&self) -> BTreeMap<&'static str, Vec<String>> {
        self.names.clone()
    }

    /// Everything found wrong, unknown sections included.
    pub(super) fn finish(mut self) -> Mistakes {
        for key in self.table.keys() {
            let problem = self.source.mistake(key, format!("unknown section `{key}`"));
            self.problems.push(match renamed::section(key) {
                Some(new) => problem.hint(format!("since version 0.2 it is `{new}`")),
                None => suggest(problem, key, &self.known),
            });
        }
        self.problems
    }

    /// Parses; where a key is at fault, notes it, leaves it out and tries again, so that its neighbours are checked too.
    fn parse<T: DeserializeOwned>(&mut self, path: &str, mut value: Value) -> Option<T> {
        loop {
            let error = match serde_path_to_error::deserialize::<_, T>(value.clone()) {
                Ok(parsed) => return Some(parsed),
                Err(error) => error,
            };
            let inner = error.path().to_string();
            let message = error.inner().message().to_owned();
            let key =
                quoted(&message, "unknown field").map_or(inner.clone(), |field| join(&parent(&inner, field), field));
            let whole = if key == "." || key.is_empty() { path.to_owned() } else { join(path, &key) };
            self.problems.push(explain(self.source, &whole, &message));
            // Without its kind a component is nothing; what else is wrong with it cannot be known.
            if key == "kind" || !remove(&mut value, &key) {
                return None;
            }
        }
    }
}

/// The problem behind serde's words, with a suggestion where serde lists the choices.
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
                Some(new) => mistake.hint(format!("since version 0.2 it is `{new}`")),
                None => suggest(mistake, wrong, &choices),
            };
        }
    }
    source.mistake(path, in_words(first_line))
}

/// What serde says of a wrong type, in the words of TOML.
fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.strip_prefix("invalid type: ").and_then(|it| it.split_once(", expected "))
    else {
        return message.to_owned();
    };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "a string" | "path string" => "a text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        it if it.starts_with("struct ") || it.starts_with("internally tagged enum ") => "a table",
        it if it.starts_with("enum ") || it.starts_with("string or table") => "one of its names, in quotes",
        it => it,
    };
    format!("{found} stands where {expected} should")
}

/// What a value is, with its article.
fn a(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "a yes or no",
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

/// The word in back quotes that follows `kind` at the start of serde's message.
fn quoted<'a>(message: &'a str, kind: &str) -> Option<&'a str> {
    message.strip_prefix(kind)?.split('`').nth(1)
}

/// serde names an unknown field in its path or only in its message; the table that holds it either way.
fn parent(inner: &str, field: &str) -> String {
    let inner = inner.trim_end_matches('.');
    inner.strip_suffix(field).map_or(inner, |rest| rest.trim_end_matches('.')).to_owned()
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() || path == "." { key.to_owned() } else { format!("{path}.{key}") }
}

/// Removes a dotted key below `value`. False if there is no such key.
fn remove(value: &mut Value, key: &str) -> bool {
    let mut keys: Vec<&str> = key.split('.').collect();
    let Some(last) = keys.pop() else { return false };
    let holder = keys.into_iter().try_fold(value, |value, key| value.as_table_mut()?.get_mut(key));
    holder.and_then(Value::as_table_mut).and_then(|table| table.remove(last)).is_some()
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
        (example, sections.finish().0)
    }

    #[test]
    fn every_mistake_of_a_section_is_found_and_the_rest_is_kept() {
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
    fn wrong_types_are_told_in_the_words_of_toml() {
        let told = |text: &str| problems(text).1.remove(0).message;
        assert_eq!(told("[example]\nsteps = 'many'"), "string \"many\" stands where a whole number should");
        assert_eq!(told("[example]\nlr = true"), "boolean `true` stands where a number should");
        assert_eq!(told("example = 3"), "integer `3` stands where a table should");
        let (source, table) = (ConfigSource::default(), toml::from_str("views.masked = 3").expect("TOML"));
        let mut sections = Sections::new(table, &source, Vec::new());
        let _ = sections.components::<Example>("views", &["mask", "crop"]);
        let mistake = sections.finish().0.remove(0);
        assert_eq!(mistake.message, "`views.masked` is a whole number, not a component");
        assert_eq!(mistake.hint.as_deref(), Some("write `[views.masked]` and its `kind`, one of mask, crop"));
    }
}
