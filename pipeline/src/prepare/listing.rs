//! Lengths and write times of the objects of a prepared folder, from one listing.
//!
//! A folder of 100,000 shards is opened in seconds only if no request is made for each object.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::SystemTime;

use store::{Stat, Store};

use super::part_objects;
use crate::Result;

/// Object as it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListedObject {
    pub(super) bytes: u64,
    /// Time of the write, by the clock of the storage.
    pub(super) modified: SystemTime,
}

/// Objects of parts at the time of the listing. Later objects are looked up in the store.
#[derive(Debug, Default)]
pub(super) struct ObjectListing(BTreeMap<String, ListedObject>);

impl ObjectListing {
    /// Lists the objects of all parts.
    pub(super) fn read(store: &Store) -> Result<Self> {
        let mut objects = BTreeMap::new();
        for folder in part_objects::folders() {
            let listed = store.list(folder)?.into_iter();
            objects
                .extend(listed.map(|entry| {
                    (entry.name, ListedObject { bytes: entry.stat.bytes, modified: entry.stat.modified })
                }));
        }
        Ok(Self(objects))
    }

    /// Returns the names of the listed objects, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether the object was listed.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the listed object, or asks the store for one that was not listed.
    pub(super) fn find(&self, store: &Store, name: &str) -> Result<Option<ListedObject>> {
        if let Some(listed) = self.0.get(name) {
            return Ok(Some(*listed));
        }
        Ok(head_file(store, name)?.map(|stat| ListedObject { bytes: stat.bytes, modified: stat.modified }))
    }
}

/// Asks the store for the metadata of an object. A folder, a pipe or a broken link in its place is an error.
pub(super) fn head_file(store: &Store, name: &str) -> Result<Option<Stat>> {
    let found = match store.head(name) {
        // A folder has no metadata, like a missing object, but cannot be read.
        Ok(None) => store.get_with_stat(name).map(|found| found.map(|(_, stat)| stat)),
        found => found,
    };
    found.map_err(|error| if is_no_file(&error) { no_file(&error).into() } else { error.into() })
}

/// Returns what the store has found of an object that is written again if it is missing. A pipe or a broken link in its
/// place counts as missing: the next write replaces it.
pub(super) fn replaceable<T>(found: io::Result<Option<T>>) -> Result<Option<T>> {
    match found {
        Err(error) if is_no_file(&error) => Ok(None),
        found => Ok(found?),
    }
}

/// Whether an error says that a folder, a pipe or a broken link is in the place of an object.
pub(super) fn is_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::IsADirectory)
}

/// Returns the error with a hint.
pub(super) fn no_file(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{error}; move it elsewhere, then run `cloze prepare` to make the part again"))
}
