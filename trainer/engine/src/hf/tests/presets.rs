//! Every file of `configs/` exports models that `transformers` loads, as the table of `docs/evaluate.md` says.

use std::collections::BTreeSet;
use std::path::Path;

use toml::{Table, Value};
use trainer_plan::encoder::EncoderConfig;
use trainer_plan::networks::MAIN;
use trainer_plan::{TrainPlan, TrainRequest};

use super::exports::{Case, check};
use super::plan;
use crate::testing;

/// Paths below `configs/` without `.toml`.
fn names() -> BTreeSet<String> {
    let root = testkit::root().join("configs");
    let mut found = BTreeSet::new();
    let mut open = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("configs/ is there") {
            let path = entry.expect("a readable entry").path();
            let name = path.strip_prefix(&root).expect("it is below").to_str().expect("UTF-8");
            if let Some(name) = name.strip_suffix(".toml") {
                found.insert(name.to_owned());
            } else if path.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

/// Merges tables as the configuration does.
fn merge(base: &mut Table, over: Table, depth: usize) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new))
                if (depth > 0 || key != "loss")
                    && (!new.contains_key("kind") || new.get("kind") == old.get("kind")) =>
            {
                merge(old, new, depth + 1);
            }
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

fn table(file: &Path) -> Table {
    let text = std::fs::read_to_string(file).expect("a file of configs/");
    let mut table: Table = toml::from_str(&text).expect("TOML");
    let Some(base) = table.remove("extends") else { return table };
    let mut base = self::table(&file.with_file_name(base.as_str().expect("a path")));
    merge(&mut base, table, 0);
    base
}

/// Small form of a preset: two layers, narrow, with the heads, tables and buckets of the file.
fn small(name: &str) -> TrainRequest {
    let table = table(&testkit::root().join(format!("configs/{name}.toml")));
    let section = |key: &str| table.get(key).cloned().unwrap_or_else(|| Table::new().into());
    let full: EncoderConfig = section("encoder").try_into().expect("`[encoder]`");
    let mut networks = section("networks");
    if let Some(generator) = networks.get_mut("generator").and_then(Value::as_table_mut) {
        let width = generator.get("hidden").and_then(Value::as_integer).unwrap_or(full.hidden.into());
        let width = if width < full.hidden.into() { 8 } else { 16 };
        for (key, value) in [("layers", 1), ("hidden", width), ("heads", 2), ("feed_forward", 24)] {
            generator.insert(key.to_owned(), value.into());
        }
    }
    let is_narrow = full.embedding.is_some_and(|width| width != full.hidden);
    let encoder = EncoderConfig {
        layers: 2,
        hidden: 16,
        heads: 2,
        feed_forward: 24,
        max_positions: 14,
        embedding: is_narrow.then_some(8),
        word_init: None,
        ..full
    };
    TrainRequest {
        networks: networks.try_into().expect("`[networks]`"),
        objectives: section("objectives").try_into().expect("`[objectives]`"),
        loss: section("loss").try_into().expect("`[loss]`"),
        ..plan(encoder, 90)
    }
}

/// Generators of a run.
fn generators(plan: &TrainPlan) -> impl Iterator<Item = &'static str> {
    let used = plan.used_networks();
    ["generator"].into_iter().filter(move |name| used.contains_key(*name))
}

/// Returns the networks and classes of the rows of the table, by the files that a row names.
fn documented(page: &str) -> Vec<(String, &str, &str)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `configs/"));
    rows.flat_map(|row| {
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").map(str::trim).collect();
        let [files, network, class, _] = cells[..] else { panic!("not four cells: {row}") };
        let files = files.trim_end_matches('`').split("`, `");
        files.map(move |file| {
            (file.trim_end_matches(".toml").to_owned(), network.trim_matches('`'), class.trim_matches('`'))
        })
    })
    .collect()
}

#[test]
fn every_preset_exports_what_the_table_says() {
    let mut cases = Vec::new();
    for name in names() {
        let run = small(&name);
        let plan = testing::checked(run.clone());
        let case = |network: &'static str| {
            let suffix = if network == MAIN { String::new() } else { format!(".{network}") };
            Case { name: format!("presets/{name}{suffix}"), run: run.clone(), network, family: None }
        };
        cases.extend([MAIN].into_iter().chain(generators(&plan)).map(case));
    }
    let choices = check(&cases);
    let page = std::fs::read_to_string(testkit::root().join("docs/evaluate.md")).expect("a page");
    let documented = documented(&page);
    assert!(documented.len() > 10, "{documented:?}");
    for (case, choice) in cases.iter().zip(&choices) {
        let file = case.name.trim_start_matches("presets/").trim_end_matches(".generator");
        let rows = || documented.iter().filter(|(_, network, _)| *network == choice.network);
        // A row for the file itself comes before one for its folder.
        let exact = rows().find(|(pattern, ..)| pattern == file);
        let pattern = |pattern: &str| pattern.strip_suffix('*').is_some_and(|start| file.starts_with(start));
        let row = exact.or_else(|| rows().find(|(it, ..)| pattern(it)));
        let (.., class) = row.unwrap_or_else(|| panic!("docs/evaluate.md has no row for {}", case.name));
        assert_eq!(*class, choice.class, "{}", case.name);
    }
}
