//! Folders that `cloze` wrote: prepared folders and runs. They are no corpus, although some of their files have its
//! extensions.

use std::collections::BTreeSet;

/// Entries that only such a folder has, all of a row: a prepared folder from its beginning on, one of an earlier version,
/// a run, and a run before its first checkpoint.
const SIGNS: [&[&str]; 4] = [
    &["provisional_manifest.json"],
    &["versions", "parts"],
    &["checkpoints", "log"],
    &["config.toml", "plan.json", "log"],
];

/// Whether `cloze` wrote the folder that has these entries.
pub(super) fn is_own(has: impl Fn(&str) -> bool) -> bool {
    SIGNS.iter().any(|signs| signs.iter().all(|sign| has(sign)))
}

/// Returns the folders of a listing that `cloze` wrote; empty text stands for the listed prefix itself.
pub(super) fn own_folders<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut found = BTreeSet::<(&str, &str)>::new();
    for name in names {
        for folder in folders_of(name) {
            let below = if folder.is_empty() { name } else { &name[folder.len() + 1..] };
            let entry = below.split('/').next().unwrap_or_default();
            if SIGNS.iter().any(|signs| signs.contains(&entry)) {
                found.insert((folder, entry));
            }
        }
    }
    let folders: BTreeSet<&str> = found.iter().map(|(folder, _)| *folder).collect();
    let own = folders.into_iter().filter(|folder| is_own(|entry| found.contains(&(folder, entry))));
    own.map(str::to_owned).collect()
}

/// Whether an object is below one of these folders.
pub(super) fn is_below(name: &str, own: &BTreeSet<String>) -> bool {
    folders_of(name).any(|folder| own.contains(folder))
}

/// Returns the folders of a name, from the listed prefix (empty) down.
fn folders_of(name: &str) -> impl Iterator<Item = &str> {
    std::iter::once("").chain(name.match_indices('/').map(|(slash, _)| &name[..slash]))
}
