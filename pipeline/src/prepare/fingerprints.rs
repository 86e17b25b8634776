//! Fingerprints of the corpus files when they were cut or last read: `fingerprints.json`. With them a run need not read
//! the files again.
//!
//! An entry only avoids reading its file. If it is lost, damaged or of another machine, the file is read again. Like
//! the lock, the object depends on the time and machine of its writing.

use std::collections::BTreeMap;

use schemas::Sealed;
use serde::{Deserialize, Serialize};
use store::Store;

use super::part_list::VersionLists;
use crate::Result;
use crate::corpus::{FileIdentity, InputFile, KnownFile, KnownFiles};

/// Name of the object.
pub(super) const NAME: &str = "fingerprints.json";

/// Identities of the files whose content equals that of the parts in effect.
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
        let found = store.get_with_stat(NAME)?;
        Ok(found.and_then(|(bytes, _)| Self::unseal(&bytes).ok()).unwrap_or_default())
    }

    /// Whether the file has its recorded identity, or that of the same file on another machine.
    pub(super) fn has(&self, file: &InputFile) -> bool {
        let recorded = self.0.get(&file.name);
        recorded.is_some_and(|recorded| recorded.is_same_file(&file.identity))
    }

    /// Whether a file of that name has an entry.
    pub(super) fn knows(&self, file: &InputFile) -> bool {
        self.0.contains_key(&file.name)
    }

    /// Whether the file has another length or time of its last write than recorded, on whatever machine.
    pub(super) fn has_other_content(&self, file: &InputFile) -> bool {
        self.0.get(&file.name).is_some_and(|recorded| !recorded.has_same_content_stamp(&file.identity))
    }

    /// Returns the files of the parts in effect, with their identities. Without lists, the files of the lost list.
    pub(super) fn known_files(&self, lists: &VersionLists) -> KnownFiles {
        let recorded = self.0.iter().map(|(name, identity)| {
            let known = KnownFile { bytes: identity.bytes(), identity: Some(identity.clone()) };
            (name.clone(), known)
        });
        let mut known: KnownFiles = recorded.collect();
        for piece in lists.in_effect().into_values().flat_map(|(_, part)| &part.pieces) {
            let lost = || KnownFile { bytes: piece.bytes, identity: None };
            known.entry(piece.name.clone()).or_insert_with(lost);
        }
        known
    }

    /// Makes the next plan read a file and compare it with its parts, by an identity that no file has.
    pub(super) fn doubt(store: &Store, name: &str) -> Result<()> {
        let mut fingerprints = Self::read(store)?;
        fingerprints.0.insert(name.to_owned(), FileIdentity::default());
        fingerprints.write(store)
    }

    pub(super) fn note(&mut self, file: &InputFile) {
        self.0.insert(file.name.clone(), file.identity.clone());
    }

    /// Writes the object, unless it is unchanged.
    pub(super) fn write(&self, store: &Store) -> Result<()> {
        if *self == Self::read(store)? {
            return Ok(());
        }
        if self.0.is_empty() {
            return Ok(store.delete(NAME)?);
        }
        store.put(NAME, &self.seal())?;
        Ok(())
    }
}
