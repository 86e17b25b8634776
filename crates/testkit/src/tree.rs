//! Source files, test files and packages of the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Root of the repository, or `CLOZE_TEST_ROOT` if the tests run on another machine.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let built = || Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/testkit").to_owned();
        std::env::var_os("CLOZE_TEST_ROOT").map_or_else(built, PathBuf::from)
    })
}

/// Returns every file of the tree below `root` as sorted relative paths, except files that its .gitignore names.
pub fn files(root: &Path) -> Vec<String> {
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

/// Returns the content of a file of the tree below `root`.
pub fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the source folders of all packages: folders with a `lib.rs` or a `main.rs`.
pub fn packages(files: &[String]) -> Vec<String> {
    let roots = files.iter().filter_map(|path| path.strip_suffix("/lib.rs").or_else(|| path.strip_suffix("/main.rs")));
    let folders = roots.filter(|folder| *folder == "src" || folder.ends_with("/src")).map(str::to_owned);
    // A package may have a library and a program.
    folders.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the import name of the library with its sources in `folder`.
pub fn library(root: &Path, folder: &str) -> String {
    let manifest = Path::new(folder).with_file_name("Cargo.toml");
    let manifest: toml::Table = read(root, &manifest.to_string_lossy()).parse().expect("a manifest is TOML");
    let name = |section: &str| manifest.get(section)?.get("name")?.as_str();
    name("lib").or_else(|| name("package")).expect("a package has a name").replace('-', "_")
}

/// Returns whether a path has the given extension.
pub fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Whether a file contains only test code.
pub fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.starts_with("crates/testkit/")
        || ["/tests.rs", "/contract.rs", "/fuzz.rs"].iter().any(|end| path.ends_with(end))
        || path.contains("/tests/")
        || path.contains("/benches/")
}
