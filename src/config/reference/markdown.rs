//! The page `docs/configuration.md` is what the keys say.

use std::fmt::Write as _;

use super::{Key, Section, sections};

/// `make keys` writes it.
#[test]
fn the_page_of_keys_is_what_their_doc_comments_say() {
    let docs = store::Store::existing(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).expect("docs/ is there");
    let page = page(&sections());
    if std::env::var_os("UPDATE").is_some() {
        docs.put("configuration.md", page.as_bytes()).expect("written");
    }
    let written = docs.read("configuration.md").unwrap_or_default();
    let hint = "docs/configuration.md is not what the doc comments say: `make keys`, then read the difference";
    assert!(String::from_utf8_lossy(&written) == page, "{hint}");
}

fn page(sections: &[Section]) -> String {
    let mut page = String::from(HEAD);
    for section in sections {
        let title = match &section.kind {
            Some(kind) => format!("### `{}` `kind = \"{kind}\"`", section.head),
            None if section.head.is_empty() => "## Above all sections".to_owned(),
            None => format!("## `{}`", section.head),
        };
        let meaning = if section.meaning.is_empty() { String::new() } else { format!("{}\n\n", section.meaning) };
        let _ = write!(page, "\n{title}\n\n{meaning}");
        if section.keys.is_empty() {
            page.push_str("It has no keys.\n");
            continue;
        }
        page.push_str("| key | what stands there | if unwritten | meaning |\n|---|---|---|---|\n");
        for key in &section.keys {
            let default = key.default.as_ref().map_or_else(|| "–".to_owned(), |value| format!("`{value}`"));
            let (what, meaning) = (key.type_and_unit(), with_choices(key));
            let _ = writeln!(page, "| `{}` | {} | {default} | {} |", key.name, cell(&what), cell(&meaning));
        }
    }
    page
}

const HEAD: &str = "# Configuration

A run is one TOML file. This page is made from the doc comments of the program's own types (`make keys`
writes it anew, and a test holds it true); `cloze config` prints the same, `cloze config train prepare.workers` a part of it,
and `cloze config schema` is a JSON schema for editors. `cloze init CORPUS` writes a file to begin with.

A key that is not written is as the third column says; `–` is nothing, or must be written where a verb needs it. Keys that
nobody knows are refused, with a suggestion. `extends = \"other.toml\"` takes over another file: sections are merged key by
key, but `[loss]` and a component with another `kind` are replaced whole. `--set train.steps=100` changes one key. Two keys
follow others where they are not written: `data.folder` is `prepare.folder`, and `prepare.format` is told by the endings of
the files that `prepare.inputs` names.
";

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The meaning, and that of each choice that says one.
fn with_choices(key: &Key) -> String {
    let told = key.choices.iter().filter(|(_, meaning)| !meaning.is_empty());
    told.fold(key.meaning.clone(), |text, (name, meaning)| text + &format!("<br>`\"{name}\"`: {meaning}"))
}
