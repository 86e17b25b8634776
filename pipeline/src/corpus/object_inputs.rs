//! Objects that an input names by URL: one object, all below a prefix, or those that a glob matches.
//!
//! A prefix is listed as a whole, without a request per object. A configuration is checked before its corpus is opened,
//! and both need the listing: that of the check is kept until the corpus takes it. An error of the check is kept too: a
//! store that does not answer is waited for once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use store::{Entry, Store};

use super::hidden_names::{is_hidden, names_underscores};
use super::own_folders::{is_below, own_folders};
use crate::{Error, Result};

/// Objects of an input, with names relative to its prefix.
#[derive(Debug)]
pub(super) struct ObjectListing {
    pub(super) store: Store,
    pub(super) entries: Vec<Entry>,
    /// Folders that `cloze` wrote, whose objects are left out.
    pub(super) own: BTreeSet<String>,
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

/// Result of a check.
#[derive(Clone, Debug)]
enum KeptListing {
    Listed(Arc<ObjectListing>),
    /// Error of a store or of the network.
    Failed(ErrorKind, String),
}

impl KeptListing {
    fn result(self) -> Result<Arc<ObjectListing>> {
        match self {
            Self::Listed(listing) => Ok(listing),
            Self::Failed(kind, message) => Err(Error::Io(io::Error::new(kind, message))),
        }
    }
}

/// Results that checks have kept, by input.
static KEPT: LazyLock<Mutex<BTreeMap<String, KeptListing>>> = LazyLock::new(Mutex::default);

/// Returns the objects that an input names by its URL.
pub(super) fn find(input: &str, purpose: Purpose) -> Result<Arc<ObjectListing>> {
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = if purpose == Purpose::Check { kept().get(input).cloned() } else { kept().remove(input) };
    if let Some(known) = known {
        return known.result();
    }
    let listed = match list(input) {
        Ok(listing) => KeptListing::Listed(Arc::new(listing)),
        Err(Error::Io(error)) => KeptListing::Failed(error.kind(), error.to_string()),
        Err(error) => return Err(error),
    };
    if purpose == Purpose::Check {
        kept().insert(input.to_owned(), listed.clone());
    }
    listed.result()
}

fn list(input: &str) -> Result<ObjectListing> {
    let shown = remote_store::without_secrets(input);
    let refused = |message: String| Error::Corpus { path: PathBuf::from(&shown), line: None, message };
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => refused(format!("{error}; check `prepare.inputs`")),
        // Settings, credentials or a server that lacks something: the message of the store has the way out.
        ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::InvalidData => {
            refused(error.to_string())
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
        let (mut entries, own) = without_own(store.list("").map_err(failed)?);
        // As in a folder, names that begin with `_` are read only if the glob has one.
        let is_hidden = |name: &str| !names_underscores(input) && name.split('/').any(is_hidden);
        entries.retain(|entry| pattern.matches_with(&entry.name, options) && !is_hidden(&entry.name));
        return Ok(ObjectListing { store, entries, own, is_exact: true });
    }
    if let Some((parent, name)) = split_name(input) {
        let store = open(parent)?;
        let stat = store.head(name).map_err(failed)?;
        if let Some(stat) = stat {
            let entries = vec![Entry { name: name.to_owned(), stat }];
            return Ok(ObjectListing { store, entries, own: BTreeSet::new(), is_exact: true });
        }
    }
    if is_web {
        return Err(refused("no such file; the URL of a web server must name a file, because it lists none".into()));
    }
    let store = open(input)?;
    let (entries, own) = without_own(store.list("").map_err(failed)?);
    Ok(ObjectListing { store, entries, own, is_exact: false })
}

/// Removes the objects of folders that `cloze` wrote. Returns these folders too.
fn without_own(mut entries: Vec<Entry>) -> (Vec<Entry>, BTreeSet<String>) {
    let own = own_folders(entries.iter().map(|entry| &*entry.name));
    entries.retain(|entry| !is_below(&entry.name, &own));
    (entries, own)
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

    /// A check and the corpus after it are one command.
    #[test]
    fn a_store_that_fails_is_asked_once_by_a_check_and_its_corpus() {
        // Nothing listens on port 1.
        let url = "http://127.0.0.1:1/asked-once.txt";
        let error = find(url, Purpose::Check).expect_err("refused").to_string();
        assert!(error.contains("check the address") && error.contains("run the same command again"), "{error}");
        KEPT.lock().expect("no panic").insert(url.to_owned(), KeptListing::Failed(ErrorKind::Other, "kept".to_owned()));
        for purpose in [Purpose::Check, Purpose::Corpus] {
            assert_eq!(find(url, purpose).expect_err("kept").to_string(), "kept");
        }
        let error = find(url, Purpose::Corpus).expect_err("the next corpus asks again").to_string();
        assert!(error.contains("check the address"), "{error}");
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
