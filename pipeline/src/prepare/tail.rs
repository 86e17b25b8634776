//! Segments of a folder that is still being prepared, for a run that reads them as they are finished.

use std::collections::{BTreeMap, BTreeSet};

use schemas::manifest::{CorpusReport, DatasetVersionEntry, FileEntry, PartEntry};
use schemas::{DatasetVersion, Manifest, ManifestError, PartId, Sealed};
use store::Store;

use super::commit_record::{FoundPart, PartBinding};
use super::config::Settings;
use super::job::{Task, in_order};
use super::part_list::VersionLists;
use super::provisional_manifest::ProvisionalManifest;
use super::verdicts::{VerdictDigests, VersionVerdicts};
use crate::epoch_plan::Segment;
use crate::{Error, Result};

/// The part lists of a folder.
#[derive(Clone, Debug)]
pub struct PartLists {
    store: Store,
    lists: VersionLists,
}

impl PartLists {
    /// Reads the part lists. Returns `None` if there are none.
    ///
    /// # Errors
    /// If a list is damaged, or the lists are inconsistent.
    pub fn read(store: &Store) -> Result<Option<Self>> {
        let lists = VersionLists::read(store)?;
        Ok((!lists.is_empty()).then(|| Self { store: store.clone(), lists }))
    }

    /// Returns the dataset version of the newest list.
    #[must_use]
    pub fn newest(&self) -> DatasetVersion {
        self.lists.newest()
    }

    /// Identifies each dataset version before it is complete: BLAKE3 of its lists, which name its parts and its settings.
    #[must_use]
    pub fn hashes(&self) -> Vec<String> {
        let mut hasher = blake3::Hasher::new();
        self.lists.iter().map(|list| hasher.update(&list.seal()).finalize().to_hex().to_string()).collect()
    }

    /// Returns the parts of that dataset version that a later list dropped, each with that list.
    #[must_use]
    pub fn dropped_since(&self, dataset_version: DatasetVersion) -> BTreeMap<PartId, DatasetVersion> {
        let known: BTreeSet<PartId> = self.tasks(dataset_version).iter().map(|task| task.part.id).collect();
        let later = self.lists.iter().skip(dataset_version.0 as usize + 1);
        let dropped = later.flat_map(|list| list.dropped.iter().map(|&id| (id, list.dataset_version)));
        dropped.filter(|(id, _)| known.contains(id)).collect()
    }

    /// Returns the parts in effect in a dataset version, in the order of its lists.
    #[must_use]
    pub fn parts(&self, dataset_version: DatasetVersion) -> Vec<PartId> {
        self.tasks(dataset_version).into_iter().map(|task| task.part.id).collect()
    }

    /// Returns the segments of a dataset version that is being prepared.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if the provisional manifest is missing.
    pub fn pending(&self, dataset_version: DatasetVersion) -> Result<PendingSegments> {
        let settings = self.lists.settings().map(Settings::digest).unwrap_or_default();
        let removes_duplicates = self.lists.settings().is_some_and(Settings::removes_duplicates);
        Ok(PendingSegments {
            store: self.store.clone(),
            announcement: ProvisionalManifest::read(&self.store)?,
            lists: self.up_to(dataset_version),
            settings,
            verdicts: VerdictDigests::empty(removes_duplicates),
            tasks: self.tasks(dataset_version),
            at: 0,
            found: FoundPart::default(),
            entries: BTreeMap::new(),
        })
    }

    fn tasks(&self, dataset_version: DatasetVersion) -> Vec<Task> {
        in_order(&self.up_to(dataset_version))
    }

    fn up_to(&self, dataset_version: DatasetVersion) -> VersionLists {
        self.lists.up_to(dataset_version)
    }
}

/// Segments of a dataset version whose records existed at the last poll.
#[derive(Debug)]
pub struct PendingSegments {
    store: Store,
    announcement: ProvisionalManifest,
    lists: VersionLists,
    settings: String,
    /// Verdicts that were there at the last poll.
    verdicts: VerdictDigests,
    tasks: Vec<Task>,
    /// Number of complete parts.
    at: usize,
    /// Existing records of the next part.
    found: FoundPart,
    entries: BTreeMap<PartId, PartEntry>,
}

impl PendingSegments {
    /// Polls for segments after the known ones, and returns those with training shards.
    ///
    /// # Errors
    /// If a record is of another folder, or the store fails. A damaged record counts as missing: the segment is made
    /// again.
    pub fn more(&mut self) -> Result<Vec<Segment>> {
        let mut told = Vec::new();
        while let Some(task) = self.tasks.get(self.at) {
            if self.found.is_whole() {
                (self.at, self.found) = (self.at + 1, FoundPart::default());
                continue;
            }
            if self.verdicts.get(task.part.id).is_none() {
                self.verdicts.add(VersionVerdicts::read(&self.store, &self.settings, task.dataset_version)?);
            }
            // Documents are compared before the first part is made.
            let Some(verdicts) = self.verdicts.get(task.part.id) else { break };
            let forgotten = task.forgotten.name();
            let bound = PartBinding { settings: &self.settings, forgotten, verdicts, part: &task.part };
            if !self.found.read_next(&self.store, bound)? {
                break;
            }
            let record = self.found.records.last_mut().expect("it was just read");
            // Drops the long fields of the record, which are not needed here.
            (record.counts, record.examples) = (Vec::new(), Vec::new());
            let id = task.part.id;
            let entry = self.entries.entry(id);
            let entry = entry.or_insert_with(|| PartEntry { id, train: Vec::new(), valid: Vec::new() });
            entry.train.extend_from_slice(&record.train);
            entry.valid.extend_from_slice(&record.valid);
            let place = self.store.place(&record.file_name());
            let content = self.announcement.content();
            entry.check(content).map_err(|why| Error::Manifest { place, why: ManifestError::Contradiction(why) })?;
            if !record.train.is_empty() {
                told.push(Segment { place: self.at as u64, shards: record.train.clone() });
            }
        }
        Ok(told)
    }

    /// Number of complete parts, and of all parts.
    #[must_use]
    pub fn done(&self) -> (usize, usize) {
        (self.at, self.tasks.len())
    }

    /// Returns the manifest of the segments read so far.
    ///
    /// # Errors
    /// If the records contradict the provisional manifest.
    pub fn manifest(&self) -> Result<Manifest> {
        let empty = |id| PartEntry { id, train: Vec::new(), valid: Vec::new() };
        let part = |id: PartId| self.entries.get(&id).cloned().unwrap_or_else(|| empty(id));
        self.announcement.manifest(self.lists.iter().map(|list| DatasetVersionEntry {
            dropped: list.dropped.clone(),
            parts: list.parts.iter().map(|listed| part(listed.id)).collect(),
            vocab: FileEntry::default(),
            corpus: CorpusReport::default(),
            content: String::new(),
        }))
    }
}
