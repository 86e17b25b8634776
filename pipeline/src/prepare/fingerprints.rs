//! Fingerprints of the corpus files when they were cut or last read: `fingerprints.json`, so that a run does not read them again.
//!
//! An entry only saves a reading of its file. If it is lost, damaged or of another machine, the file is read again. Like the
//! lock, the object depends on when and where it was written.

use std::collections::BTreeMap;

use schemas::Sealed;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::Result;
use crate::corpus::{FileIdentity, InputFile};

/// The object.
pub(super) const NAME: &str = "fingerprints.json";

/// The files that are what the parts in effect were made of, as they were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Fingerprints(BTreeMap<String, FileIdentity>);

impl Sealed for Fingerprints {
    const FORMAT: &'static str = "cloze fingerprints";
    const VERSION: u32 = 2;
    const PRETTY: bool = false;
}

impl Fingerprints {
    pub(super) fn read(store: &Store) -> Result<Self> {
        let found = store.read_with_stat(NAME)?;
        Ok(found.and_then(|(bytes, _)| Self::unseal(&bytes).ok()).unwrap_or_default())
    }

    /// Whether it was seen as it is.
    pub(super) fn has(&self, file: &InputFile) -> bool {
        self.0.get(&file.name) == Some(&file.identity)
    }

    /// Whether anything is known of a file of that name.
    pub(super) fn knows(&self, file: &InputFile) -> bool {
        self.0.contains_key(&file.name)
    }

    pub(super) fn note(&mut self, file: &InputFile) {
        self.0.insert(file.name.clone(), file.identity);
    }

    /// Keeps it, unless that is what is kept.
    pub(super) fn write(&self, store: &Store) -> Result<()> {
        if *self == Self::read(store)? {
            return Ok(());
        }
        if self.0.is_empty() {
            return Ok(store.remove(NAME)?);
        }
        store.put(NAME, &self.seal())?;
        Ok(())
    }
}
