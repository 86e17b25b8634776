//! Generation of `docs/configuration.md` from the keys.

use std::fmt::Write as _;

use super::{Key, Section, sections};

/// `make keys` updates the page.
#[test]
fn generated_keys_page_is_current() {
    let docs = store::Store::existing(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).expect("docs/ is there");
    let page = page(&sections());
    if std::env::var_os("UPDATE").is_some() {
        docs.put("configuration.md", page.as_bytes()).expect("written");
    }
    let written = docs.get("configuration.md").unwrap_or_default();
    let hint = "docs/configuration.md differs from the doc comments: run `make keys`, then review the diff";
    assert!(String::from_utf8_lossy(&written) == page, "{hint}");
}

fn page(sections: &[Section]) -> String {
    let mut page = String::from(HEAD);
    for section in sections {
        let title = match &section.kind {
            Some(kind) => format!("### `{}` `kind = \"{kind}\"`", section.head),
            None if section.head.is_empty() => "## Top-level keys".to_owned(),
            None => format!("## `{}`", section.head),
        };
        let meaning = if section.meaning.is_empty() { String::new() } else { format!("{}\n\n", section.meaning) };
        let _ = write!(page, "\n{title}\n\n{meaning}");
        if section.keys.is_empty() {
            page.push_str("No keys.\n");
            continue;
        }
        page.push_str("| key | type | default | description |\n|---|---|---|---|\n");
        for key in &section.keys {
            let default = key.default.as_ref().map_or_else(|| "–".to_owned(), |value| format!("`{value}`"));
            let what = key.type_and_unit();
            let meaning = with_choices(key);
            let _ = writeln!(page, "| `{}` | {} | {default} | {} |", key.name, cell(&what), cell(&meaning));
        }
    }
    page
}

const HEAD: &str = "# Configuration

A run is one TOML file. This page is generated from the doc comments of the configuration types: `make keys` writes
it, and a test compares it. `cloze config` prints the same text, and `cloze config train prepare.workers` a part of it.
`cloze config schema` writes a JSON schema for editors. `cloze init CORPUS` writes a first configuration.

Columns: key, type, default, description. `–`: no default; the key is optional, or required by the commands that use it.
Unknown keys are refused, with a suggestion. `extends = \"other.toml\"` inherits from another file: sections are merged
key by key, but `[loss]` and a component with another `kind` are replaced as a whole. `--set train.steps=100` overrides
one key. Two defaults depend on other keys: `data.folder` defaults to `prepare.folder`, and `prepare.format` follows from
the extensions of the files in `prepare.inputs`.
";

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns the meaning of a key, followed by the meanings of its choices.
fn with_choices(key: &Key) -> String {
    let described = key.choices.iter().filter(|(_, meaning)| !meaning.is_empty());
    described.fold(key.meaning.clone(), |text, (name, meaning)| text + &format!("<br>`\"{name}\"`: {meaning}"))
}
