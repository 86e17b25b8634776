//! Objects that an input names by URL: one object, all below a prefix, or those that a glob matches.
//!
//! A prefix is listed as a whole, without a request per object. A configuration is checked before its corpus is opened,
//! and both need the listing: that of the check is kept until the corpus takes it.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use store::{Entry, Store};

use super::hidden_names::{is_hidden, names_underscores};
use crate::{Error, Result};

/// Objects of an input, with names relative to its prefix.
#[derive(Debug)]
pub(super) struct ObjectListing {
    pub(super) store: Store,
    pub(super) entries: Vec<Entry>,
    /// Whether the input names the objects themselves, by their name or by a glob.
    pub(super) is_exact: bool,
}

/// Use of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A check, before a corpus is opened. The listing is kept.
    Check,
    /// A corpus. It takes a kept listing, so that the next corpus sees changes.
    Corpus,
}

/// Listings that checks have kept, by input.
static KEPT: LazyLock<Mutex<BTreeMap<String, Arc<ObjectListing>>>> = LazyLock::new(Mutex::default);

/// Returns the objects that an input names by its URL.
pub(super) fn find(input: &str, purpose: Purpose) -> Result<Arc<ObjectListing>> {
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = if purpose == Purpose::Check { kept().get(input).cloned() } else { kept().remove(input) };
    if let Some(known) = known {
        return Ok(known);
    }
    let listed = Arc::new(list(input)?);
    if purpose == Purpose::Check {
        kept().insert(input.to_owned(), Arc::clone(&listed));
    }
    Ok(listed)
}

fn list(input: &str) -> Result<ObjectListing> {
    let shown = remote_store::without_secrets(input);
    let refused = |message: String| Error::Corpus { path: PathBuf::from(&shown), line: None, message };
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::Unsupported => {
            refused(format!("{error}; check `prepare.inputs`"))
        }
        // The network or the server: the next try may succeed. The message of the store names the URL.
        kind => Error::Io(io::Error::new(kind, format!("{error}; run the same command again"))),
    };
    let open = |location: &str| remote_store::existing(location).map_err(failed);
    // The URL of a web server names one object.
    let is_web = remote_store::is_web(input);
    if is_web && shown.len() < input.len() {
        let message = "a URL with a query or a user, which may hold a secret, cannot be an input; download the file, and \
                       name it";
        return Err(refused(message.to_owned()));
    }
    if !is_web && input.contains(['*', '?', '[']) {
        let (base, pattern) = split_glob(input);
        let pattern = glob::Pattern::new(pattern)
            .map_err(|error| refused(format!("not a glob: {error}; check `prepare.inputs`")))?;
        let options = glob::MatchOptions {
            require_literal_separator: true,
            require_literal_leading_dot: true,
            ..glob::MatchOptions::default()
        };
        let store = open(base)?;
        let entries = store.list("").map_err(failed)?;
        // As in a folder, names that begin with `_` are read only if the glob has one.
        let is_hidden = |name: &str| !names_underscores(input) && name.split('/').any(is_hidden);
        let is_found = |entry: &Entry| pattern.matches_with(&entry.name, options) && !is_hidden(&entry.name);
        let entries = entries.into_iter().filter(is_found).collect();
        return Ok(ObjectListing { store, entries, is_exact: true });
    }
    if let Some((parent, name)) = split_name(input) {
        let store = open(parent)?;
        let stat = store.head(name).map_err(failed)?;
        if let Some(stat) = stat {
            let entries = vec![Entry { name: name.to_owned(), stat }];
            return Ok(ObjectListing { store, entries, is_exact: true });
        }
    }
    if is_web {
        return Err(refused("no such file; the URL of a web server must name a file, because it lists none".into()));
    }
    let store = open(input)?;
    let entries = store.list("").map_err(failed)?;
    Ok(ObjectListing { store, entries, is_exact: false })
}

/// Splits a URL into the prefix before the first part with a wildcard, and the glob of names below it.
fn split_glob(url: &str) -> (&str, &str) {
    let wildcard = url.find(['*', '?', '[']).unwrap_or(url.len());
    let slash = url[..wildcard].rfind('/').map_or(0, |slash| slash + 1);
    url.split_at(slash)
}

/// Splits the URL of an object into the prefix and the name of the object; `None` for the root of a store and for a URL
/// that ends with `/`.
fn split_name(url: &str) -> Option<(&str, &str)> {
    let (scheme, path) = url.split_once("://")?;
    // Parts that name the store: none of a file system, `datasets/OWNER/NAME` of the Hub, a bucket or a host.
    let root = match &*scheme.to_ascii_lowercase() {
        "file" => 0,
        "hf" => 3,
        _ => 1,
    };
    let parts = path.split('/').filter(|part| !part.is_empty()).count();
    let (parent, name) = url.rsplit_once('/')?;
    let is_object = parts > root && !name.is_empty();
    is_object.then(|| (&url[..=parent.len()], name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_prefix_and_names() {
        for (url, expected) in [
            ("s3://bucket/a/b.txt", Some(("s3://bucket/a/", "b.txt"))),
            ("s3://bucket/a/", None),
            ("s3://bucket", None),
            ("s3://bucket/", None),
            ("hf://datasets/owner/name@main", None),
            ("hf://datasets/owner/name/data/a.parquet", Some(("hf://datasets/owner/name/data/", "a.parquet"))),
            ("https://host/a.jsonl.zst", Some(("https://host/", "a.jsonl.zst"))),
            ("file:///a.txt", Some(("file:///", "a.txt"))),
        ] {
            assert_eq!(split_name(url), expected, "{url}");
        }
        assert_eq!(split_glob("s3://bucket/a/b*/c.txt"), ("s3://bucket/a/", "b*/c.txt"));
        assert_eq!(split_glob("s3://bucket/**/*.txt"), ("s3://bucket/", "**/*.txt"));
    }

    #[test]
    fn a_query_is_refused_without_its_secret() {
        for url in [
            "https://host/a.txt?token=SECRET",
            "https://user:SECRET@host/a.txt",
            "HTTPS://host/a.txt?sig=SECRET",
            "https://host/a.txt#SECRET",
        ] {
            let error = find(url, Purpose::Check).expect_err("refused").to_string();
            assert!(error.contains("https://host/a.txt: a URL with a query") && !error.contains("SECRET"), "{error}");
        }
        let error = find("s3://user:SECRET@bucket/a.txt", Purpose::Check).expect_err("refused").to_string();
        assert!(error.contains("s3://bucket/a.txt: ") && !error.contains("SECRET"), "{error}");
    }
}
