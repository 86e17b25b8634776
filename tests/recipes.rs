//! The files of `configs/` match the tables of `configs/README.md`: each hyperparameter has a row with its value, and
//! with its value in the paper and in the original code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use testkit::root;
use toml::{Table, Value};

/// Unpublished runs of this project.
const OWN: [&str; 5] = ["demo.toml", "tiny.toml", "eltec-mlm.toml", "eltec-taco.toml", "eltec-taco-matched.toml"];
/// Keys of paths and of reporting.
const ELSEWHERE: [&str; 10] = [
    "seed",
    "extends",
    "prepare.inputs",
    "prepare.tokenizer",
    "prepare.folder",
    "data.folder",
    "run",
    "validation",
    "checkpoints",
    "report",
];
/// Keys that connect components.
const WIRES: [&str; 10] =
    ["kind", "of", "view", "network", "input_view", "output_view", "positives", "positive", "clean", "teacher"];

fn configs() -> PathBuf {
    root().join("configs")
}

/// Collects every number, text and list of a table by its dotted key.
fn leaves(table: &Table, above: &str, found: &mut BTreeMap<String, Value>) {
    for (key, value) in table {
        let key = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            Value::Table(table) => leaves(table, &key, found),
            leaf => drop(found.insert(key, leaf.clone())),
        }
    }
}

/// Returns the hyperparameters that a file of `configs/` sets itself.
fn stated(file: &str) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(configs().join(file)).expect("a preset");
    let mut found = BTreeMap::new();
    leaves(&toml::from_str(&text).expect("TOML"), "", &mut found);
    let is_below =
        |key: &str, above: &str| key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    found.retain(|key, _| {
        let component = ["views.", "objectives.", "networks."].iter().any(|section| key.starts_with(section));
        let wire = component && WIRES.contains(&key.rsplit('.').next().unwrap_or_default());
        !wire && !ELSEWHERE.iter().any(|above| is_below(key, above))
    });
    found
}

/// Returns the values in the rows of a table, by dotted key.
fn promised(rows: &[&str]) -> Result<BTreeMap<String, Value>, String> {
    let mut found = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [keys, _paper, _code, here] = cells[..] else { return Err(format!("not four cells: {row}")) };
        // Rows without keys are remarks.
        if !keys.starts_with('`') {
            continue;
        }
        let mut rest = here;
        for key in keys.split(", ") {
            let key = key.trim_matches('`');
            let (value, after) = rest
                .strip_prefix('`')
                .and_then(|rest| rest.split_once('`'))
                .ok_or_else(|| format!("`{key}` has no value at its place in: {here}"))?;
            rest = after.strip_prefix(", ").unwrap_or(after);
            let parsed: Table =
                toml::from_str(&format!("value = {value}")).map_err(|error| format!("{key}: {error}"))?;
            match &parsed["value"] {
                Value::Table(table) => leaves(table, key, &mut found),
                leaf => drop(found.insert(key.to_owned(), leaf.clone())),
            }
        }
    }
    Ok(found)
}

/// Returns the rows of each table, by the file in its heading.
fn tables(text: &str) -> BTreeMap<String, Vec<&str>> {
    let mut found = BTreeMap::new();
    for section in text.split("\n### `").skip(1) {
        let (file, rest) = section.split_once('`').expect("a heading ends");
        // Skip the two header lines.
        found.insert(file.to_owned(), rest.lines().filter(|line| line.starts_with('|')).skip(2).collect());
    }
    found
}

/// Returns the differences between a table and its file.
fn differences(file: &str, rows: &[&str]) -> Vec<String> {
    let (stated, promised) = match promised(rows) {
        Ok(promised) => (stated(file), promised),
        Err(problem) => return vec![format!("{file}: {problem}")],
    };
    let keys: BTreeSet<&String> = stated.keys().chain(promised.keys()).collect();
    let differs = keys.into_iter().filter(|key| stated.get(*key) != promised.get(*key));
    differs
        .map(|key| format!("{file}: `{key}` is {:?}, its row says {:?}", stated.get(key), promised.get(key)))
        .collect()
}

#[test]
fn every_hyperparameter_has_a_row_with_its_value() {
    let text = std::fs::read_to_string(configs().join("README.md")).expect("the tables");
    let tables = tables(&text);
    let entries = std::fs::read_dir(configs()).expect("a folder").map(|entry| entry.expect("readable").file_name());
    let files: BTreeSet<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    let presets = files.into_iter().filter(|name| {
        Path::new(name).extension().is_some_and(|ending| ending == "toml") && !OWN.contains(&name.as_str())
    });
    assert_eq!(presets.collect::<Vec<_>>(), tables.keys().cloned().collect::<Vec<_>>(), "a table for each recipe");
    let wrong: Vec<String> = tables.iter().flat_map(|(file, rows)| differences(file, rows)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_and_missing_rows_are_detected() {
    let text = std::fs::read_to_string(configs().join("README.md")).expect("the tables");
    let rows = &tables(&text)["coco-lm-large++.toml"];
    assert_eq!(differences("coco-lm-large++.toml", rows), [""; 0]);
    for at in 0..rows.len() {
        let mut fewer = rows.clone();
        fewer.remove(at);
        assert!(!differences("coco-lm-large++.toml", &fewer).is_empty(), "without {}", rows[at]);
    }
    let changed: Vec<String> = rows.iter().map(|row| row.replace("`6`", "`4`")).collect();
    let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
    let wrong = differences("coco-lm-large++.toml", &changed);
    assert!(wrong.len() == 1 && wrong[0].contains("networks.generator.layers"), "{wrong:?}");
}
