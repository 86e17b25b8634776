//! Content of a folder.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Returns the hash of the names and bytes of all [`files`] below `folder`.
pub fn folder_hash(folder: &Path) -> String {
    let mut listing = String::new();
    for (name, bytes) in files(folder) {
        writeln!(listing, "{name} {}", blake3::hash(&bytes)).expect("a string takes any text");
    }
    blake3::hash(listing.as_bytes()).to_string()
}

/// Returns every file below `folder` by relative name, except `lock` and `fingerprints.json` at its root, which contain
/// a process or a time.
pub fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("a path below the folder").to_string_lossy().into_owned();
                if !["lock", "fingerprints.json"].contains(&name.as_str()) {
                    found.insert(name, std::fs::read(&path).expect("a readable file"));
                }
            }
        }
    }
    found
}

/// Whether an interrupted write leaves a file of this name.
pub fn is_temporary(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "tmp")
}
