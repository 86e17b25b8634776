//! Whether one location lies below another, however both are spelled.
//!
//! Two spellings of a place are equal after parsing: `s3a://` and `s3://`, `file:///x` and `/x`, `..`, `/` at the end, and
//! symbolic links to folders.

use std::path::{Component, Path, PathBuf};

use crate::location::{self, BucketPlace, Location};

/// Whether a location is a folder or lies below it. Of a glob, the part before its first wildcard counts.
pub(crate) fn is_within(location: &str, folder: &Path) -> bool {
    let folder = folder.to_str().map_or_else(|| Ok(Location::Folder(folder.to_owned())), Location::parse);
    match (Location::parse(without_wildcard(location)), folder) {
        (Ok(Location::Folder(inner)), Ok(Location::Folder(folder))) => resolved(&inner).starts_with(resolved(&folder)),
        (Ok(Location::Bucket(inner)), Ok(Location::Bucket(folder))) => is_below(&inner, &folder),
        // Other stores are only read, and no folder is written there.
        _ => false,
    }
}

/// Returns the folder before the first part with a wildcard.
fn without_wildcard(location: &str) -> &str {
    let is_url = location::scheme(location).is_some();
    if !is_url && Path::new(location).exists() {
        return location;
    }
    // An object may have a `#` in its name, but no URL of a prefix has.
    let wildcard = location.find(|letter| "*?[".contains(letter) || is_url && letter == '#');
    wildcard.map_or(location, |wildcard| match location[..wildcard].rfind('/') {
        Some(slash) => &location[..=slash],
        None => ".",
    })
}

fn is_below(inner: &BucketPlace, folder: &BucketPlace) -> bool {
    // A URL without an account is of the account of the environment, which may be the other one.
    let is_other_account = matches!((&inner.account, &folder.account), (Some(one), Some(other)) if one != other);
    let rest = inner.prefix.strip_prefix(&folder.prefix);
    (inner.service, &inner.bucket) == (folder.service, &folder.bucket)
        && !is_other_account
        && rest.is_some_and(|rest| folder.prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

/// Returns the absolute path without links and `..`. Parts that do not exist are kept.
fn resolved(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut resolved = PathBuf::new();
    for part in absolute.components() {
        if part == Component::ParentDir {
            resolved.pop();
            continue;
        }
        resolved.push(part);
        if let Ok(target) = resolved.canonicalize() {
            resolved = target;
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use std::fs::create_dir_all;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_place_is_within_a_folder_however_both_are_spelled() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| home.path().join(name).display().to_string();
        create_dir_all(at("data/sub")).expect("made");
        create_dir_all(at("data[1]")).expect("made");
        symlink(at("data"), at("link")).expect("linked");
        for (location, folder) in [
            (at("data"), at("data/")),
            (at("data/sub/../a.txt"), at("data")),
            (at("data/absent/../../data/a"), at("data")),
            (at("link/a.txt"), at("data")),
            (at("data/*.txt"), at("link")),
            (at("data/**/a.txt"), format!("file://{}", at("data"))),
            (format!("file://{}", at("data/a.txt")), at("data")),
            (at("data[1]"), at("data[1]")),
            ("a*.txt".to_owned(), ".".to_owned()),
            ("s3a://bucket/data/a".to_owned(), "s3://bucket/data/".to_owned()),
            ("s3://bucket/data/*/a?.txt".to_owned(), "S3://bucket/data".to_owned()),
            ("s3://bucket/a".to_owned(), "s3://bucket".to_owned()),
            ("abfss://c@one.dfs.core.windows.net/data/a".to_owned(), "az://c/data".to_owned()),
        ] {
            assert!(is_within(&location, Path::new(&folder)), "{location} {folder}");
        }
        for (location, folder) in [
            (at("data"), at("data/sub")),
            (at("data2/a.txt"), at("data")),
            (at("link/../a.txt"), at("data/sub")),
            (at("d*/a.txt"), at("data")),
            ("s3://bucket/database/a".to_owned(), "s3://bucket/data".to_owned()),
            ("s3://bucket/data/a".to_owned(), "gs://bucket/data".to_owned()),
            ("s3://bucket/data/a".to_owned(), "s3://other/data".to_owned()),
            ("abfs://c@one.dfs.core.windows.net/a".to_owned(), "abfs://c@two.dfs.core.windows.net".to_owned()),
            ("https://host/data/a".to_owned(), "https://host/data".to_owned()),
            ("/bucket/data".to_owned(), "s3://bucket/data".to_owned()),
        ] {
            assert!(!is_within(&location, Path::new(&folder)), "{location} {folder}");
        }
    }
}
