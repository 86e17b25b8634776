//! Segments of a folder that is still being filled, for a run that reads them as they are finished.

use std::collections::{BTreeMap, BTreeSet};

use schemas::manifest::{CorpusReport, DatasetVersionEntry, FileEntry, PartEntry};
use schemas::{DatasetVersion, Manifest, ManifestError, PartId, Sealed};
use store::Store;

use super::commit_record::{Bound, FoundPart};
use super::config::Settings;
use super::job::{Task, in_order};
use super::part_list::Lists;
use super::provisional_manifest::ProvisionalManifest;
use crate::epoch_plan::Segment;
use crate::{Error, Result};

/// The part lists of a folder.
#[derive(Clone, Debug)]
pub struct PartLists {
    store: Store,
    lists: Lists,
}

impl PartLists {
    /// Reads them; none if there are none.
    ///
    /// # Errors
    /// If one is damaged, or they do not fit one another.
    pub fn read(store: &Store) -> Result<Option<Self>> {
        let lists = Lists::read(store)?;
        Ok((!lists.is_empty()).then(|| Self { store: store.clone(), lists }))
    }

    /// The dataset version that the newest list leads to.
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

    /// The parts that a later list dropped though they are in effect in that dataset version, each with the list that did.
    #[must_use]
    pub fn dropped_since(&self, dataset_version: DatasetVersion) -> BTreeMap<PartId, DatasetVersion> {
        let known: BTreeSet<PartId> = self.tasks(dataset_version).iter().map(|task| task.part.id).collect();
        let later = self.lists.iter().skip(dataset_version.0 as usize + 1);
        let dropped = later.flat_map(|list| list.dropped.iter().map(|&id| (id, list.dataset_version)));
        dropped.filter(|(id, _)| known.contains(id)).collect()
    }

    /// The parts in effect in a dataset version, in the order of its lists.
    #[must_use]
    pub fn parts(&self, dataset_version: DatasetVersion) -> Vec<PartId> {
        self.tasks(dataset_version).into_iter().map(|task| task.part.id).collect()
    }

    /// The segments of a dataset version that is being prepared.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if what stands next to the parts is not there.
    pub fn pending(&self, dataset_version: DatasetVersion) -> Result<PendingSegments> {
        let settings = self.lists.settings().map(Settings::digest).unwrap_or_default();
        Ok(PendingSegments {
            store: self.store.clone(),
            announcement: ProvisionalManifest::read(&self.store)?,
            lists: self.up_to(dataset_version),
            settings,
            tasks: self.tasks(dataset_version),
            at: 0,
            found: FoundPart::default(),
            entries: BTreeMap::new(),
        })
    }

    fn tasks(&self, dataset_version: DatasetVersion) -> Vec<Task> {
        in_order(&self.up_to(dataset_version))
    }

    fn up_to(&self, dataset_version: DatasetVersion) -> Lists {
        self.lists.up_to(dataset_version)
    }
}

/// The segments of a dataset version, as far as their records were there at the last look.
#[derive(Debug)]
pub struct PendingSegments {
    store: Store,
    announcement: ProvisionalManifest,
    lists: Lists,
    settings: String,
    tasks: Vec<Task>,
    /// Parts that are whole.
    at: usize,
    /// What is there of the next.
    found: FoundPart,
    entries: BTreeMap<PartId, PartEntry>,
}

impl PendingSegments {
    /// Looks for segments behind those that were told, and tells those that have training shards.
    ///
    /// # Errors
    /// If a record is of another folder, or the store fails. One that is damaged is not there: it is made again.
    pub fn more(&mut self) -> Result<Vec<Segment>> {
        let mut told = Vec::new();
        while let Some(task) = self.tasks.get(self.at) {
            if self.found.is_whole() {
                (self.at, self.found) = (self.at + 1, FoundPart::default());
                continue;
            }
            let bound = Bound { settings: &self.settings, forgotten: task.omit.name(), part: &task.part };
            if !self.found.read_next(&self.store, bound)? {
                break;
            }
            let record = self.found.records.last_mut().expect("it was just read");
            // What is long of a record is of no use here.
            (record.counts, record.examples) = (Vec::new(), Vec::new());
            let id = task.part.id;
            let entry = self.entries.entry(id);
            let entry = entry.or_insert_with(|| PartEntry { id, train: Vec::new(), valid: Vec::new() });
            entry.train.extend_from_slice(&record.train);
            entry.valid.extend_from_slice(&record.valid);
            let (place, content) = (self.store.place(&record.file_name()), self.announcement.content());
            entry.check(content).map_err(|why| Error::Manifest { place, why: ManifestError::Contradiction(why) })?;
            if !record.train.is_empty() {
                told.push(Segment { place: self.at as u64, shards: record.train.clone() });
            }
        }
        Ok(told)
    }

    /// Parts that are whole, of how many.
    #[must_use]
    pub fn done(&self) -> (usize, usize) {
        (self.at, self.tasks.len())
    }

    /// The folder as far as it was told.
    ///
    /// # Errors
    /// If the records contradict what was announced.
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
