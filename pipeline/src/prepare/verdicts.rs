//! Verdicts on duplicates: `verdicts/part-00000.bin` for each part, and the sealed `verdicts/00000.json` of each
//! dataset version, which is written last and has their BLAKE3.
//!
//! The object of a part lists its removed documents in order, 17 bytes each, little-endian: the piece (uint32), the
//! number of the document among those of the piece (uint32), its start (uint64), and 0 for an exact or 1 for a near
//! duplicate (uint8). A commit record contains the BLAKE3 of the verdicts that its part was made with. Verdicts of a
//! dataset version are never changed. [`partners`](super::partners) has the partners of the removed documents.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{DatasetVersion, PartId, Sealed};
use serde::{Deserialize, Serialize};
use store::Store;

use super::config::Settings;
use super::json_lines::{SUFFIX, is_intact};
use super::listing::replaceable;
use super::part_list::{PartList, VersionLists};
use super::requests::request_all;
use crate::Result;
use crate::corpus::Part;

/// Bytes of a removed document.
const ENTRY: usize = 17;

/// Kind of a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DuplicateKind {
    /// The words equal those of an earlier document.
    Exact,
    /// The document is in a cluster with an earlier one.
    Near,
}

/// Removed document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemovedDocument {
    pub(super) piece: u32,
    /// Number among the compared documents of the piece.
    pub(super) number: u32,
    /// Start within the file.
    pub(super) start: u64,
    pub(super) kind: DuplicateKind,
}

/// Verdict on one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundVerdict {
    /// Index among the removed documents of the part.
    pub(super) index: usize,
    pub(super) kind: DuplicateKind,
}

/// Removed documents of a part, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PartVerdicts(Vec<RemovedDocument>);

impl PartVerdicts {
    pub(super) fn push(&mut self, removed: RemovedDocument) {
        self.0.push(removed);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RemovedDocument> {
        self.0.iter()
    }

    /// Returns the verdict on the document that begins there, if it is removed.
    pub(super) fn find(&self, piece: usize, start: u64) -> Option<FoundVerdict> {
        let key = |removed: &RemovedDocument| (removed.piece as usize, removed.start);
        let index = self.0.binary_search_by_key(&(piece, start), key).ok()?;
        Some(FoundVerdict { index, kind: self.0[index].kind })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * ENTRY);
        for removed in &self.0 {
            bytes.extend_from_slice(&removed.piece.to_le_bytes());
            bytes.extend_from_slice(&removed.number.to_le_bytes());
            bytes.extend_from_slice(&removed.start.to_le_bytes());
            bytes.push(u8::from(removed.kind == DuplicateKind::Near));
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Self {
        let (entries, _) = bytes.as_chunks::<ENTRY>();
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let entry = |entry: &[u8; ENTRY]| RemovedDocument {
            piece: number(&entry[..4]),
            number: number(&entry[4..8]),
            start: u64::from_le_bytes(entry[8..16].try_into().expect("eight bytes")),
            kind: if entry[16] == 0 { DuplicateKind::Exact } else { DuplicateKind::Near },
        };
        Self(entries.iter().map(entry).collect())
    }

    /// Writes the verdicts of a part. Returns their BLAKE3.
    pub(super) fn write(&self, store: &Store, part: &Part) -> Result<String> {
        store.put(&part_name(part.id), &self.to_bytes())?;
        Ok(self.digest())
    }

    /// Returns the BLAKE3 of the verdicts.
    pub(super) fn digest(&self) -> String {
        blake3::hash(&self.to_bytes()).to_hex().to_string()
    }

    /// Reads the verdicts of a part. Returns `None` if they are missing or have changed.
    pub(super) fn read(store: &Store, part: PartId, digest: &str) -> Result<Option<Self>> {
        let Some((bytes, _)) = replaceable(store.get_with_stat(&part_name(part)))? else { return Ok(None) };
        let is_unchanged = blake3::hash(&bytes).to_hex().as_str() == digest;
        Ok(is_unchanged.then(|| Self::parse(&bytes)))
    }
}

/// Verdicts of a dataset version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionVerdicts {
    /// BLAKE3 of the settings.
    pub(super) settings: String,
    pub(super) dataset_version: DatasetVersion,
    /// BLAKE3 of the verdicts of each part that was in effect when they were made.
    pub(super) parts: BTreeMap<PartId, String>,
    /// BLAKE3 of the partners of each part with removed documents. Empty if removed documents are not listed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) partners: BTreeMap<PartId, String>,
}

impl Sealed for VersionVerdicts {
    const FORMAT: &'static str = "cloze duplicate verdicts";
    const VERSION: u32 = 1;
    const PRETTY: bool = false;
}

impl VersionVerdicts {
    /// Reads the verdicts of a part list. Returns `None` if they are missing, damaged or of another folder.
    pub(super) fn read(store: &Store, settings: &str, dataset_version: DatasetVersion) -> Result<Option<Self>> {
        let Some((bytes, _)) = replaceable(store.get_with_stat(&version_name(dataset_version)))? else {
            return Ok(None);
        };
        let found = Self::unseal(&bytes).ok();
        Ok(found.filter(|found| found.settings == settings && found.dataset_version == dataset_version))
    }

    pub(super) fn write(&self, store: &Store) -> Result<()> {
        store.put(&version_name(self.dataset_version), &self.seal())?;
        Ok(())
    }

    /// Whether the verdicts of all these parts are there as they were written, with the partners.
    pub(super) fn is_intact(&self, store: &Store, parts: &[&Part]) -> Result<bool> {
        let mut objects: Vec<(String, String)> = Vec::new();
        for part in parts {
            let Some(digest) = self.parts.get(&part.id) else { return Ok(false) };
            objects.push((part_name(part.id), digest.clone()));
            objects.extend(self.partners.get(&part.id).map(|digest| (partners_name(part.id), digest.clone())));
        }
        let are_intact = request_all(store, objects, |store, (name, digest)| is_intact(store, name, digest))?;
        Ok(are_intact.into_iter().all(|is_intact| is_intact))
    }
}

/// BLAKE3 of the verdicts of each part, which commit records contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VerdictDigests {
    /// Whether duplicates are removed. Otherwise all digests are empty.
    is_on: bool,
    digests: BTreeMap<PartId, String>,
    /// BLAKE3 of the partners of each part that has some.
    partners: BTreeMap<PartId, String>,
}

impl VerdictDigests {
    /// Reads the digests of all lists. Lists without verdicts have none.
    pub(super) fn read(store: &Store, settings: &Settings, lists: &VersionLists) -> Result<Self> {
        let mut found = Self { is_on: settings.removes_duplicates(), ..Self::default() };
        if found.is_on {
            let digest = settings.digest();
            for list in lists.iter() {
                found.add(VersionVerdicts::read(store, &digest, list.dataset_version)?);
            }
        }
        Ok(found)
    }

    /// Returns the digests of a configuration that removes duplicates, before any verdict.
    pub(super) fn empty(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    pub(super) fn add(&mut self, verdicts: Option<VersionVerdicts>) {
        if let Some(VersionVerdicts { parts, partners, .. }) = verdicts {
            self.digests.extend(parts);
            self.partners.extend(partners);
        }
    }

    /// Returns the digest of the partners of a part, if it has some.
    pub(super) fn partners(&self, part: PartId) -> Option<&str> {
        self.partners.get(&part).map(String::as_str)
    }

    /// Returns the digest of a part: empty if duplicates stay, `None` if there is no verdict yet.
    pub(super) fn get(&self, part: PartId) -> Option<&str> {
        if self.is_on { self.digests.get(&part).map(String::as_str) } else { Some("") }
    }
}

/// Returns the parts of a list that no list drops.
pub(super) fn parts_in_effect<'a>(list: &'a PartList, dropped: &BTreeSet<PartId>) -> Vec<&'a Part> {
    list.parts.iter().filter(|part| !dropped.contains(&part.id)).collect()
}

/// Returns the object name of the verdicts of a part.
pub(super) fn part_name(part: PartId) -> String {
    format!("verdicts/part-{:05}.bin", part.0)
}

/// Returns the names of the objects of a part. The partners may be absent.
pub(super) fn object_names(part: PartId) -> [String; 2] {
    [part_name(part), partners_name(part)]
}

/// Returns the object name of the partners of a part.
pub(super) fn partners_name(part: PartId) -> String {
    format!("verdicts/part-{:05}{SUFFIX}", part.0)
}

pub(super) fn version_name(dataset_version: DatasetVersion) -> String {
    format!("verdicts/{:05}.json", dataset_version.0)
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    #[test]
    fn verdicts_are_read_as_written_or_not_at_all() {
        let store = Store::in_memory(FaultConfig::none());
        let part = Part { id: PartId(3), bytes: 1, pieces: Vec::new() };
        let removed = |piece, number, start, kind| RemovedDocument { piece, number, start, kind };
        let mut verdicts = PartVerdicts::default();
        verdicts.push(removed(0, 1, 1 << 40, DuplicateKind::Near));
        verdicts.push(removed(2, 0, 7, DuplicateKind::Exact));
        let digest = verdicts.write(&store, &part).expect("written");
        let found = PartVerdicts::read(&store, part.id, &digest).expect("answered");
        assert_eq!(found.as_ref(), Some(&verdicts));
        let found = |index, kind| Some(FoundVerdict { index, kind });
        assert_eq!(verdicts.find(0, 1 << 40), found(0, DuplicateKind::Near));
        assert_eq!(verdicts.find(2, 7), found(1, DuplicateKind::Exact));
        assert_eq!((verdicts.find(1, 7), verdicts.find(2, 8)), (None, None));
        store.put("verdicts/part-00003.bin", &[0; 34]).expect("written");
        assert_eq!(PartVerdicts::read(&store, part.id, &digest).expect("answered"), None);
    }
}
