//! Checks that the documents match the tree: names, tables, pictures.

use std::collections::{BTreeMap, BTreeSet};

use testkit::root;
use testkit::tree::{has_extension, is_test};

use super::{REGISTRIES, files, read, report, text, workspace_packages};

#[test]
fn documents_name_only_what_exists() {
    let makefile = read("Makefile");
    let verbs: BTreeSet<&str> =
        makefile.lines().filter_map(|line| line.split_once(':')).map(|(verb, _)| verb).collect();
    let exists = |path: &str| root().join(path).exists();
    let mut offences = Vec::new();
    let docs = files().into_iter().filter(|path| path.starts_with("docs/") && has_extension(path, "md"));
    let pages =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "configs/README.md", "deploy/README.md"].map(str::to_owned);
    for page in pages.into_iter().chain(docs) {
        let content = read(&page);
        for command in commands(&content) {
            let verb = command.strip_prefix("make ").and_then(|rest| rest.split_whitespace().next());
            if verb.is_some_and(|verb| !verbs.contains(verb)) {
                offences.push(format!("{page}: `{command}`: the Makefile has no such verb"));
            }
            let paths = command.split_whitespace().filter(|word| is_path(word) && !is_example(&content, word));
            offences.extend(paths.filter(|path| !exists(path)).map(|path| format!("{page}: `{path}` does not exist")));
        }
    }
    report("documents that name missing items", "fix the page, or the tree", &offences);
}

/// Each row of the table names existing files and their test: a verb of the Makefile, or tests.
#[test]
fn table_of_additions_names_existing_tests() {
    let page = read("CONTRIBUTING.md");
    let rows = table(&page, "| to add | touch | tried by |");
    let sources: String = files().iter().filter(|path| has_extension(path, "rs")).map(|path| read(path)).collect();
    let script = read("scripts/test-extension");
    let mut offences = Vec::new();
    for row in &rows {
        let [what, touched, tried] = &row[..] else {
            offences.push(format!("{row:?}: not three cells"));
            continue;
        };
        let touched = spans(touched);
        let tried = spans(tried);
        let missing = touched.iter().filter(|path| is_path(path) && !root().join(path).exists());
        offences.extend(missing.map(|path| format!("{what}: `{path}` does not exist")));
        if tried.is_empty() {
            offences.push(format!("{what}: no test covers it"));
        }
        for by in tried {
            let mut registries = touched.iter().filter(|path| path.ends_with("/mod.rs")).peekable();
            let is_there = match by {
                "make test-extension" => {
                    registries.peek().is_some() && registries.all(|registry| script.contains(registry))
                }
                _ if by.starts_with("make ") => true,
                test => sources.contains(&format!("#[test]\nfn {test}()")),
            };
            if !is_there {
                offences.push(format!("{what}: `{by}` does not test it"));
            }
        }
    }
    for (folder, family) in REGISTRIES {
        let [file, registry] = [format!("`{folder}/<name>.rs`"), format!("`{folder}/mod.rs`")];
        if !rows.iter().any(|row| row[1].contains(&file) && row[1].contains(&registry)) {
            offences.push(format!("a {family}: no row with {file} and {registry}"));
        }
    }
    report("rows of the table of additions", "CONTRIBUTING.md lists the files to change and their test", &offences);
}

/// A file with a call that deletes, moves or cuts files has a row that says what limits it, and each row has such a call.
#[test]
fn every_deletion_is_listed_with_its_limit() {
    const CALLS: [&str; 9] = [
        "fs::remove_",
        "fs::rename(",
        "rename_over(",
        ".delete(",
        ".delete_all(",
        ".sweep(",
        "set_len(length",
        "checkpoint::discard(",
        "remove_dir(",
    ];
    let page = read("docs/deletions.md");
    let rows = table(&page, "| file | what | limited to |");
    let listed: BTreeSet<&str> = rows.iter().flat_map(|row| spans(&row[0])).collect();
    let is_of_the_product = |path: &String| {
        has_extension(path, "rs") && !is_test(path) && path.contains("src/") && !path.contains("testkit/")
    };
    let deletes = |path: &String| {
        let source = read(path);
        let lines = source.lines().take_while(|line| !line.ends_with("mod tests {"));
        let mut code = lines.map(|line| line.split("//").next().unwrap_or_default());
        code.any(|line| CALLS.iter().any(|call| line.contains(call)))
    };
    let found: BTreeSet<String> = files().into_iter().filter(is_of_the_product).filter(deletes).collect();
    let missing = found.iter().filter(|path| !listed.contains(path.as_str())).map(|path| format!("{path}: not listed"));
    let stale = listed.iter().filter(|path| !found.contains(**path)).map(|path| format!("{path}: deletes nothing"));
    report(
        "deletions without a row",
        "docs/deletions.md says what limits each",
        &missing.chain(stale).collect::<Vec<_>>(),
    );
}

/// The last cell of a package's row names exactly the workspace packages that it uses.
#[test]
fn packages_are_drawn_as_they_are() {
    let packages = workspace_packages();
    let ours: BTreeMap<&str, BTreeSet<&str>> = packages.iter().map(|package| (short(package), uses(package))).collect();
    let page = read("ARCHITECTURE.md");
    let mut offences = Vec::new();
    for row in table(&page, "| package | holds | may use |") {
        let Some(used) = ours.get(row[0].trim_matches(['`', '/'])).filter(|_| row[2] != "everything") else { continue };
        let named = row[2].split([',', ';']).map(str::trim);
        let words: BTreeSet<&str> = named.filter(|word| ours.contains_key(word)).collect();
        if words != *used {
            offences.push(format!("{}: `{}`, but it uses {used:?}", row[0], row[2]));
        }
    }
    report("rows that differ from Cargo.toml", "fix the table in ARCHITECTURE.md", &offences);
}

/// Every package sets `[lib] doctest = false`, since rustdoc would link each of them to run no test. An example in
/// Rust would therefore never be compiled.
#[test]
fn no_doc_comment_has_an_example_that_nothing_runs() {
    let mut offences = Vec::new();
    for path in files().into_iter().filter(|path| has_extension(path, "rs")) {
        let source = read(&path);
        let mut is_open = false;
        let mut number = 0;
        for line in source.lines().map(str::trim_start) {
            number += 1;
            let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let Some(language) = comment.and_then(|text| text.trim_start().strip_prefix("```")) else { continue };
            is_open = !is_open;
            if is_open && !["text", "json", "toml", "sh"].contains(&language) {
                offences.push(format!("{path}:{number}: a block of `{language}`"));
            }
        }
    }
    for package in workspace_packages() {
        for target in package["targets"].as_array().expect("a list").iter().filter(|it| it["kind"][0] == "lib") {
            if target["doctest"] == true {
                offences.push(format!("{}: `[lib]` lacks `doctest = false`", text(&package, "name")));
            }
        }
    }
    report("examples that no test runs", "write a test, and name the language of other blocks", &offences);
}

fn short(package: &serde_json::Value) -> &str {
    text(package, "name").trim_start_matches("cloze-")
}

fn uses(package: &serde_json::Value) -> BTreeSet<&str> {
    let dependencies = package["dependencies"].as_array().expect("cargo metadata lists dependencies");
    let for_itself = dependencies.iter().filter(|dependency| dependency["kind"].is_null());
    for_itself.filter_map(|dependency| text(dependency, "name").strip_prefix("cloze-")).collect()
}

/// Returns the rows of the table with this head, cell by cell.
fn table(page: &str, head: &str) -> Vec<Vec<String>> {
    let rows = page.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<_> = rows
        .map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>())
        .collect();
    assert!(!rows.is_empty(), "there is no table `{head}`");
    rows
}

/// Returns the texts in backticks.
fn spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Returns the commands and paths of a page: lines of fenced blocks, and texts in backticks.
fn commands(page: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (index, piece) in page.split("```").enumerate() {
        if index % 2 == 1 {
            found.extend(piece.lines().skip(1).map(|line| line.trim_start_matches("$ ").trim()));
        } else {
            found.extend(piece.lines().flat_map(|line| line.split('`').skip(1).step_by(2)));
        }
    }
    found
}

/// Returns whether a word is a path into the source tree without placeholders.
fn is_path(word: &str) -> bool {
    let folders = [
        "src/",
        "schemas/",
        "crates/",
        "pipeline/",
        "profiler/",
        "trainer/",
        "configs/",
        "tests/",
        "scripts/",
        "deploy/",
        "docs/",
        ".ci/",
    ];
    folders.iter().any(|folder| word.starts_with(folder)) && !word.contains(['<', '*', '{', '…', ':', '(', ',', '$'])
}

/// Returns whether the page contains the file itself: a code block whose first line is the path, as a comment.
fn is_example(page: &str, path: &str) -> bool {
    page.lines().any(|line| line == format!("// {path}") || line == format!("# {path}"))
}
