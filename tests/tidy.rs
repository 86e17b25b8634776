//! Repository checks that replace reviewer memory: dependency directions, the shape of component files, and documents
//! that match the tree. Each failure lists every offender with its place and a fix.

#[path = "tidy/import_cycles.rs"]
mod import_cycles;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/lengths.rs"]
mod lengths;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/pages.rs"]
mod pages;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/public.rs"]
mod public;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::root;
use testkit::tree::{self, has_extension, is_test};

use self::import_cycles::import_cycles;

/// Direct dependencies that a package may have, for itself and for its build script. They are the arrows of
/// ARCHITECTURE.md. No package depends on `cloze`, and pipeline and trainer do not depend on each other. Tokenizers
/// belong to the pipeline, libtorch to the trainer, channels and threads to runtime, tokio and anyhow to the top.
/// schemas contains only plain data.
const MAY_USE: &[(&str, &str)] = &[
    ("cloze-analysis", "cloze-schemas schemars serde"),
    ("cloze-duplicates", "blake3 unicode-normalization"),
    (
        "cloze-filters",
        "cloze-duplicates cloze-schemas aho-corasick blake3 foldhash memchr regex schemars serde unicode-normalization whatlang",
    ),
    (
        "cloze-remote-store",
        "cloze-store async-trait blake3 bytes chrono futures-util object_store percent-encoding reqwest rustls serde serde_json tokio tracing url",
    ),
    ("cloze-report", "cloze-schemas maud"),
    ("cloze-runtime", "crossbeam-channel libc thiserror tracing"),
    ("cloze-store", "blake3 libc rustix serde serde_json tracing"),
    ("cloze-schemas", "arrow-array arrow-buffer arrow-schema blake3 schemars serde serde_json thiserror"),
    ("cloze-tasks", "cloze-schemas flate2 parquet schemars serde serde_json unicode-normalization"),
    (
        "cloze-telemetry",
        "cloze-runtime cloze-schemas async-trait bytesize crc32c indicatif opentelemetry opentelemetry-http opentelemetry-otlp \
         opentelemetry-proto opentelemetry_sdk percent-encoding prometheus prost rustix schemars serde serde_json tracing \
         tracing-subscriber ureq",
    ),
    (
        "cloze-pipeline",
        "cloze-duplicates cloze-filters cloze-remote-store cloze-runtime cloze-schemas cloze-store cloze-tasks cloze-telemetry arrow-array arrow-buffer \
         arrow-ipc arrow-schema blake3 bytes \
         bzip2 csv-core encoding_rs flate2 glob liblzma lz4_flex memchr parquet quick-xml schemars serde serde_json thiserror tokenizers toml tracing \
         unicode-segmentation zstd",
    ),
    (
        "cloze-server",
        "cloze-report cloze-schemas cloze-store cloze-telemetry axum base64 blake3 futures-util hyper hyper-util maud rustix schemars serde serde_json \
         sha2 thiserror tokio tokio-io-timeout tower-http tracing",
    ),
    (
        "cloze-profiler",
        "cloze-pipeline cloze-report cloze-runtime cloze-telemetry anyhow maud prost rustix serde serde_json serde_path_to_error thiserror tracing tracing-subscriber",
    ),
    (
        "cloze-trainer-plan",
        "cloze-schemas cloze-store cloze-telemetry blake3 safetensors schemars serde serde_json thiserror tracing",
    ),
    (
        "cloze-trainer",
        "cloze-analysis cloze-runtime cloze-trainer-plan cloze-schemas cloze-store cloze-telemetry blake3 cc safetensors serde serde_json tch tracing",
    ),
    ("cloze-fuzz", "blake3 bolero serde serde_json tempfile"),
    ("cloze-pretend-cuda", "cloze-testkit cc libc"),
    ("cloze-testkit", "cloze-store blake3 libc rustix serde_json tempfile toml"),
    (
        "cloze",
        "cloze-analysis cloze-remote-store cloze-runtime cloze-schemas cloze-store cloze-telemetry cloze-pipeline cloze-profiler cloze-report cloze-server cloze-tasks cloze-trainer-plan anyhow arrow-array blake3 chrono clap clap_complete clap_mangen maud parquet ratatui schemars serde \
         serde_json serde_path_to_error strsim thiserror tokio toml toml_edit tracing rustix",
    ),
    (
        "cloze-train",
        "cloze cloze-analysis cloze-remote-store cloze-runtime cloze-schemas cloze-store cloze-telemetry cloze-pipeline cloze-profiler cloze-server cloze-tasks cloze-trainer cloze-trainer-plan anyhow \
         blake3 serde_json toml tracing",
    ),
];

/// Additional packages that tests and benchmarks may use.
const TESTS_MAY_USE: &str = "arrow-array bytes cloze-fuzz cloze-pretend-cuda cloze-store cloze-testkit crc32fast criterion flate2 half libc parquet proc-macro2 proptest \
                             prost serde_json syn tempfile toml tracing-subscriber zstd zstd-sys";

/// Component families: the folder of each registry and the word for a member.
const REGISTRIES: &[(&str, &str)] = &[
    ("pipeline/src/corpus", "corpus format"),
    ("pipeline/src/pack", "way of packing"),
    ("pipeline/src/views", "view"),
    ("trainer/plan/src/objectives", "objective"),
    ("trainer/plan/src/networks", "network"),
    ("crates/tasks/src/task", "task"),
    ("crates/analysis/src/analysis", "analysis"),
    ("crates/filters/src/filter", "filter"),
];

/// Families whose members are configured in one package and built in another, with both folders.
const BUILT: &[(&str, &str)] = &[
    ("trainer/plan/src/objectives", "trainer/engine/src/objectives"),
    ("trainer/plan/src/networks", "trainer/engine/src/model/networks"),
];

#[test]
fn packages_use_only_what_the_architecture_allows() {
    let mut offences = Vec::new();
    for package in workspace_packages() {
        let name = text(&package, "name");
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            offences.push(format!("package `{name}` has no line in MAY_USE"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("cargo metadata lists dependencies") {
            let used = text(dependency, "name");
            let for_tests = dependency["kind"] == "dev";
            let mut allowed = allowed.split_whitespace().chain(TESTS_MAY_USE.split_whitespace().filter(|_| for_tests));
            if !allowed.any(|allowed| allowed == used) {
                offences.push(format!("`{name}` must not depend on `{used}`"));
            }
        }
    }
    report("dependencies against the direction of the architecture", "see MAY_USE in tests/tidy.rs", &offences);
}

/// Packages have no import cycles, so that files can be read bottom-up and removed one by one.
/// `tests/tidy/imports.rs` defines an import.
#[test]
fn no_package_has_an_import_cycle() {
    let mut offences = Vec::new();
    for folder in tree::packages(&files()) {
        for cycle in import_cycles(&imports::of_package(root(), &folder)) {
            let lines = cycle.iter().map(|import| format!("{}:{} imports {}", import.from, import.line, import.to));
            offences.push(format!("cycle:\n    {}", lines.collect::<Vec<_>>().join("\n    ")));
        }
    }
    let hint = "move shared items into a file that all of them import";
    report("import cycles", hint, &offences);
}

/// Every public item has a user outside its package. `tests/tidy/public.rs` defines use.
#[test]
fn public_items_are_used_outside_their_package() {
    let files: Vec<_> = files().into_iter().filter(|path| has_extension(path, "rs")).collect();
    let sources: public::Sources = files.iter().map(|path| (path.clone(), read(path))).collect();
    let words = public::words(&sources);
    let mut offences = Vec::new();
    for folder in tree::packages(&files) {
        let found = public::Public::of_package(&folder, &tree::library(root(), &folder), &sources, &words);
        if !found.unused.is_empty() {
            let names: Vec<_> = found.unused.iter().map(|(path, name)| format!("\n    {path}: {name}")).collect();
            let names = names.concat();
            let unused = found.unused.len();
            let unnamed = found.unnamed.len();
            let all = found.all.len();
            offences.push(format!("{folder}: {unused} of {all} ({unnamed} are not named outside){names}"));
        }
    }
    report("public items without a user", "make them `pub(crate)`, or delete them", &offences);
}

#[test]
fn packages_carry_both_licences() {
    let mut offences = Vec::new();
    for (file, phrase) in [("LICENSE-MIT", "MIT License"), ("LICENSE-APACHE", "Version 2.0, January 2004")] {
        if !fs::read_to_string(root().join(file)).is_ok_and(|licence| licence.contains(phrase)) {
            offences.push(format!("{file} is missing, or is not that licence"));
        }
    }
    for package in workspace_packages().iter().filter(|package| package["license"] != "MIT OR Apache-2.0") {
        offences.push(format!("package `{}` lacks `license.workspace = true`", text(package, "name")));
    }
    report("licences", "both texts at the root, `MIT OR Apache-2.0` in each package", &offences);
}

#[test]
fn bans_have_reasons() {
    let bans: toml::Table = read("clippy.toml").parse().expect("clippy.toml is TOML");
    let entries = ["disallowed-methods", "disallowed-types"].map(|list| bans[list].as_array().expect("a list of bans"));
    let silent = entries.into_iter().flatten().filter(|ban| ban.get("reason").is_none());
    let silent: Vec<_> = silent.map(|ban| format!("clippy.toml: {ban}")).collect();
    report("bans without a reason", "add `reason = \"…\"`", &silent);
}

#[test]
fn configs_are_toml() {
    let configs: Vec<_> =
        files().into_iter().filter(|path| path.starts_with("configs/") && has_extension(path, "toml")).collect();
    assert!(!configs.is_empty(), "configs/ has no presets");
    let broken = configs.iter().filter_map(|path| {
        let error = read(path).parse::<toml::Table>().err()?;
        Some(format!("{path}: {error}"))
    });
    report("configs that are not TOML", "see the message", &broken.collect::<Vec<_>>());
}

#[test]
fn components_explain_themselves() {
    let mut offences = Vec::new();
    for component in components() {
        let file = component.built.as_ref().unwrap_or(&component.file);
        let source = read(file);
        for section in ["What", "Why", "Definition", "Reference"] {
            let head = format!("//! # {section}");
            if !source.lines().any(|line| line == head) {
                offences.push(format!("{file}: no section `{head}`"));
            }
        }
    }
    report("components without their sections", "CONTRIBUTING.md shows the shape of the module doc", &offences);
}

#[test]
fn modules_begin_with_what_they_are_for() {
    let sources = files().into_iter().filter(|path| has_extension(path, "rs") && !is_test(path));
    let silent: Vec<_> = sources.filter(|path| !read(path).starts_with("//! ")).collect();
    report("modules without a module doc", "begin with `//!` and a sentence", &silent);
}

/// A component is added with one file and one registry line, so no other file may contain its name.
#[test]
fn components_are_named_only_at_home() {
    let sources: BTreeMap<_, _> = files()
        .into_iter()
        .filter(|path| has_extension(path, "rs"))
        .map(|path| (path.clone(), code(&read(&path))))
        .collect();
    let mut offences = Vec::new();
    for component in components() {
        let strangers = sources.iter().filter(|(path, _)| !component.is_home(path) && !is_test(path));
        for (path, lines) in strangers {
            // A name of another library that contains the word.
            let ours = |line: &str| line.replace("OffsetReferential::Original", "");
            let is_named = |line: &str| words(&ours(line)).any(|word| word == component.name);
            for (number, line) in lines.iter().filter(|(_, line)| is_named(line)) {
                offences.push(format!(
                    "{path}:{number}: names {} `{}`: {}",
                    component.what,
                    component.name,
                    line.trim()
                ));
            }
        }
    }
    report("component names outside their file, registry and tests", "use the trait", &offences);
}

#[test]
fn source_is_free_of_forbidden_words() {
    let forbidden = [
        ("TODO", "do it, or describe it in an issue"),
        ("FIXME", "do it, or describe it in an issue"),
        ("todo!(", "implement it or remove it"),
        ("unimplemented!(", "implement it or remove it"),
        ("//! **", "sections of a module's doc are headings: `//! # What`"),
        ("#[ignore", "run the test or remove it"),
    ];
    let found = lines_of(|path| has_extension(path, "rs")).flat_map(|(place, line)| {
        let words = forbidden.iter().filter(move |(word, _)| line.contains(word));
        words.map(move |(word, reason)| format!("{place}: `{word}`: {reason}"))
    });
    report("forbidden words", "each has its reason", &found.collect::<Vec<_>>());
}

#[test]
fn unsafe_code_stays_in_its_places() {
    let places = [
        "trainer/engine/src/device/native.rs",
        "crates/runtime/src/exit.rs",
        "pipeline/src/tokenize/fast/kernels.rs",
        "pipeline/src/philox.rs",
        "crates/duplicates/src/permute.rs",
    ];
    let elsewhere = |path: &str| has_extension(path, "rs") && !places.contains(&path) && !is_test(path);
    let found = lines_of(elsewhere).filter(|(_, line)| words(line).any(|word| word == "unsafe_code"));
    let found: Vec<_> = found.map(|(place, line)| format!("{place}: {}", line.trim())).collect();
    report("unsafe code outside its files", &format!("{} are the places for it", places.join(", ")), &found);
}

#[test]
fn nothing_names_a_folder_of_one_machine() {
    let found = lines_of(|_| true).filter_map(|(place, line)| {
        let folder = ["/work/", "/root/", "/home/", "/Users/"].into_iter().find(|folder| line.contains(folder))?;
        Some(format!("{place}: `{folder}`"))
    });
    report("paths of one machine", "use a path relative to the repository", &found.collect::<Vec<_>>());
}

#[test]
fn golden_files_are_used() {
    let all = files();
    let readers = all
        .iter()
        .filter(|path| !path.starts_with("tests/golden/") && (has_extension(path, "rs") || has_extension(path, "py")));
    let readers: String = readers.map(|path| read(path)).collect();
    let unused = all.iter().filter(|path| path.starts_with("tests/golden/")).filter(|path| {
        let name = Path::new(path).file_name().expect("a file has a name").to_string_lossy();
        !readers.contains(name.as_ref())
    });
    report(
        "golden files that no test or script names",
        "delete them, or check them",
        &unused.cloned().collect::<Vec<_>>(),
    );
}

/// Line of a registry.
struct Component {
    what: &'static str,
    name: String,
    file: String,
    registry: String,
    /// File that builds the component, if it is a different one.
    built: Option<String>,
}

impl Component {
    /// Returns whether a path belongs to the component: its files, its folders, and the tables that list it.
    fn is_home(&self, path: &str) -> bool {
        let is_of = |file: &str| {
            let folder = file.trim_end_matches(".rs").trim_end_matches("/mod");
            path == file || path.starts_with(&format!("{folder}/"))
        };
        let is_table = |file: &str| Path::new(path) == Path::new(file).with_file_name("mod.rs");
        path == self.registry || is_of(&self.file) || self.built.iter().any(|file| is_of(file) || is_table(file))
    }
}

/// Returns every member of every registry, read from the tables.
fn components() -> Vec<Component> {
    let mut members = Vec::new();
    for (folder, what) in REGISTRIES {
        let registry = format!("{folder}/mod.rs");
        let source = read(&registry);
        let table = source.lines().skip_while(|line| !line.contains("pub enum")).take_while(|line| *line != "}");
        for (module, name) in table.filter_map(|line| line.trim().strip_suffix(',')?.split_once("::")) {
            let candidates = [format!("{folder}/{module}.rs"), format!("{folder}/{module}/mod.rs")];
            let file = candidates.into_iter().find(|file| root().join(file).exists());
            let file = file.unwrap_or_else(|| panic!("{registry}: `{module}` has no file"));
            let built = BUILT.iter().find(|(configured, _)| configured == folder);
            let built = built.map(|(_, built)| format!("{built}/{module}.rs"));
            members.push(Component { what, name: name.to_owned(), file, registry: registry.clone(), built });
        }
        assert!(members.iter().any(|member| member.what == *what), "{registry}: no `registry!` table found");
    }
    members
}

/// Returns the numbered lines above the tests, without comments: prose may contain the name of a component.
fn code(source: &str) -> Vec<(usize, String)> {
    let lines = source.lines().enumerate().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
    lines.map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default().to_owned())).collect()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

/// Returns every line, with its `path:number`, of the selected text files. This file is excluded, since it contains
/// the forbidden words.
fn lines_of(wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (String, String)> {
    let paths = files().into_iter().filter(move |path| wanted(path) && path != "tests/tidy.rs");
    paths.flat_map(|path| {
        // Binary files have no lines.
        let content = fs::read_to_string(root().join(&path)).unwrap_or_default();
        let lines = content.lines().enumerate().map(|(index, line)| (format!("{path}:{}", index + 1), line.to_owned()));
        lines.collect::<Vec<_>>()
    })
}

/// Returns the packages from `cargo metadata`. `--no-deps` needs no network.
fn workspace_packages() -> Vec<serde_json::Value> {
    let command = ["metadata", "--offline", "--no-deps", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(command).current_dir(root()).stderr(Stdio::inherit()).output();
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.expect("cargo runs").stdout).expect("cargo metadata answers in JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

fn text<'a>(value: &'a serde_json::Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("cargo metadata has `{key}`"))
}

fn files() -> Vec<String> {
    tree::files(root())
}

fn read(path: &str) -> String {
    tree::read(root(), path)
}

fn report(what: &str, hint: &str, offences: &[String]) {
    let listed = offences.join("\n  ");
    assert!(offences.is_empty(), "{what}:\n  {listed}\nhint: {hint}");
}
