//! The source tree: which files there are, which of them are tests, and which folders are packages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// This tree.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of the tree below `root`, relative to it, in order: what its .gitignore leaves out is left out.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let ignored: Vec<String> = read(root, ".gitignore").lines().map(|line| line.trim_matches('/').to_owned()).collect();
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("a folder of the tree is readable") {
            let entry = entry.expect("an entry is readable");
            let path = folder.join(entry.file_name());
            let name = path.to_string_lossy().into_owned();
            let kind = entry.file_type().expect("an entry has a type");
            let foreign = name == ".git" || name.ends_with("__pycache__") || name.starts_with(".libtorch");
            if foreign || ignored.contains(&name) || kind.is_symlink() {
                continue;
            }
            if kind.is_dir() { folders.push(path) } else { found.push(name) }
        }
    }
    found.sort();
    found
}

pub(crate) fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The source folders of the packages: those with a `lib.rs` or a `main.rs`.
pub(crate) fn packages(files: &[String]) -> Vec<String> {
    let roots = files.iter().filter_map(|path| path.strip_suffix("/lib.rs").or_else(|| path.strip_suffix("/main.rs")));
    let folders = roots.filter(|folder| *folder == "src" || folder.ends_with("/src")).map(str::to_owned);
    // A package may have a library and a program.
    folders.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The name by which other packages import the library whose sources lie in `folder`.
pub(crate) fn library(root: &Path, folder: &str) -> String {
    let manifest = Path::new(folder).with_file_name("Cargo.toml");
    let manifest: toml::Table = read(root, &manifest.to_string_lossy()).parse().expect("a manifest is TOML");
    let name = |section: &str| manifest.get(section)?.get("name")?.as_str();
    name("lib").or_else(|| name("package")).expect("a package has a name").replace('-', "_")
}

pub(crate) fn is(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

pub(crate) fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || ["/tests.rs", "/contract.rs", "/fuzz.rs"].iter().any(|end| path.ends_with(end))
        || path.contains("/tests/")
        || path.contains("/benches/")
}
