//! Conversion of a configuration to JSON: every key, and whether its value differs from the default.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use toml::{Table, Value};

/// Returns `{"keys": [{"key", "value", "default", "changed"}], "toml"}` of a resolved configuration and the defaults.
/// `steps` are the steps of a run, which its configuration may not have: the run was extended.
pub(crate) fn settings(resolved: &str, default: &Table, steps: Option<u64>) -> Json {
    let mut now = resolved.parse::<Table>().map(|table| flat(&table)).unwrap_or_default();
    if let (Some(value), Some(steps)) = (now.get_mut("train.steps"), steps) {
        *value = steps.to_string();
    }
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

/// Returns every dotted key with its value as text.
fn flat(table: &Table) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect_keys("", table, &mut found);
    found
}

fn collect_keys(above: &str, table: &Table, found: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            Value::Table(inner) if !inner.is_empty() => collect_keys(&key, inner, found),
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
    fn changed_keys_are_marked() {
        let default: Table = "seed = 1\n[train]\nsteps = 10\n".parse().expect("TOML");
        let found = settings("seed = 1\n[train]\nsteps = 20\n[views.m]\nkind = \"mask\"\n", &default, None);
        let keys: Vec<String> = found["keys"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|key| format!("{} {} {}", key["key"], key["value"], key["changed"]))
            .collect();
        let expected = [r#""seed" "1" false"#, r#""train.steps" "20" true"#, r#""views.m.kind" "\"mask\"" true"#];
        assert_eq!(keys, expected);
        let extended = settings("seed = 1\n[train]\nsteps = 20\n", &default, Some(30));
        assert_eq!(extended["keys"][1]["value"], "30");
    }
}
