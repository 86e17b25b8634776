//! Names that are skipped in folders, because programs write them for themselves.
//!
//! Names that begin with `.` or `_` are skipped as Spark and Hive do: `_temporary`, `_delta_log`, `_SUCCESS`, `.hive-staging_…`
//! and the like hold copies of rows or no rows. So are the folders in which Iceberg keeps its metadata.

use std::collections::BTreeSet;
use std::path::Path;

/// Kind of skipped names that programs such as Spark write for themselves.
pub(super) const UNDERSCORE: &str = "names that begin with `_`";

/// Kind of skipped folders of Iceberg.
pub(super) const ICEBERG: &str = "folders with the metadata of Iceberg";

/// Whether a file or a folder with this name is skipped in a folder. `_NAME=VALUE` is the folder of a column.
#[must_use]
pub fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || (name.starts_with('_') && !name.contains('='))
}

/// Whether a file with this name makes its folder `metadata` one of an Iceberg table.
pub(super) fn is_iceberg_metadata(name: &str) -> bool {
    name.ends_with(".metadata.json")
}

/// Returns the folders `metadata` of Iceberg tables in a listing.
pub(super) fn iceberg_folders<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let folders = names.filter(|name| is_iceberg_metadata(name)).filter_map(|name| name.rsplit_once('/'));
    let folders = folders.map(|(folder, _)| folder);
    folders.filter(|folder| folder.rsplit('/').next() == Some("metadata")).map(str::to_owned).collect()
}

/// Whether a glob has a part that begins with `_`: then names that begin so are meant.
pub(super) fn names_underscores(glob: &str) -> bool {
    glob.split('/').any(|part| part.starts_with('_'))
}

/// Whether a name below `base` begins with `_`.
pub(super) fn has_underscore(path: &Path, base: &Path) -> bool {
    let below = path.strip_prefix(base).unwrap_or(path);
    let mut names = below.components().map(|part| part.as_os_str().to_string_lossy());
    names.any(|name| name.starts_with('_') && is_hidden(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs_are_hidden_and_partitions_are_not() {
        for name in [
            "_temporary",
            "_SUCCESS",
            "_delta_log",
            "_committed_1",
            "_started_1",
            "_metadata",
            ".a.crc",
            ".hive-staging",
        ] {
            assert!(is_hidden(name), "{name}");
        }
        for name in ["a_b", "_lang=en", "metadata", "", "part-0.parquet"] {
            assert!(!is_hidden(name), "{name}");
        }
        let names =
            ["t/metadata/v1.metadata.json", "u/metadata/a.json", "metadata/v1.metadata.json", "w/v1.metadata.json"];
        let found = iceberg_folders(names.into_iter());
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["metadata", "t/metadata"]);
    }
}
