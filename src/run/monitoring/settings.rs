//! A configuration for people who look at a run: every key, and which are not as an empty file has them.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use toml::{Table, Value};

/// `{"keys": [{"key", "value", "default", "changed"}], "toml"}` of a resolved configuration next to that of an empty file.
pub(crate) fn settings(resolved: &str, default: &Table) -> Json {
    let now = resolved.parse::<Table>().map(|table| flat(&table)).unwrap_or_default();
    let default = flat(default);
    let keys: Vec<Json> = now
        .iter()
        .map(|(key, value)| {
            let default = default.get(key);
            json!({ "key": key, "value": value, "default": default, "changed": default != Some(value) })
        })
        .collect();
    json!({ "keys": keys, "toml": resolved })
}

/// Every key with its value as text, by its whole name.
fn flat(table: &Table) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    gather("", table, &mut found);
    found
}

fn gather(above: &str, table: &Table, found: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            Value::Table(inner) if !inner.is_empty() => gather(&key, inner, found),
            value => {
                found.insert(key, value.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_others_are_said() {
        let default: Table = "seed = 1\n[train]\nsteps = 10\n".parse().expect("TOML");
        let found = settings("seed = 1\n[train]\nsteps = 20\n[views.m]\nkind = \"mask\"\n", &default);
        let keys: Vec<String> = found["keys"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|key| format!("{} {} {}", key["key"], key["value"], key["changed"]))
            .collect();
        let expected = [r#""seed" "1" false"#, r#""train.steps" "20" true"#, r#""views.m.kind" "\"mask\"" true"#];
        assert_eq!(keys, expected);
    }
}
