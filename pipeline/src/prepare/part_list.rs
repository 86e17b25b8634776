//! Part lists: `versions/00000.json`, sealed. A list is written before its first part and never changed.
//!
//! A list contains new parts, dropped parts, and documents to forget. All lists together define the parts *in effect*:
//! the parts of any list that no list drops.

use std::collections::{BTreeMap, BTreeSet};

use schemas::manifest::DatasetVersionEntry;
use schemas::{DatasetVersion, PartId, SealError, Sealed, manifest};
use serde::{Deserialize, Serialize};
use store::{Created, Store};

use super::config::Settings;
use super::listing::head_file;
use crate::corpus::Part;
use crate::{Error, Result};

/// One part list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartList {
    /// Number of the list.
    pub(super) dataset_version: DatasetVersion,
    /// Settings of the parts, the same in every list.
    pub(super) settings: Settings,
    /// Dropped parts of earlier lists, ascending.
    pub(super) dropped: Vec<PartId>,
    /// BLAKE3 of the ids of documents that its parts, and those of later lists, omit.
    pub(super) forgotten: Vec<String>,
    /// New parts.
    pub(super) parts: Vec<Part>,
}

impl Sealed for PartList {
    const FORMAT: &'static str = "cloze part list";
    const VERSION: u32 = 3;
    const PRETTY: bool = false;
}

impl PartList {
    /// Whether an entry of a manifest was published for the list.
    pub(super) fn is_published_as(&self, entry: &DatasetVersionEntry) -> bool {
        let own = self.parts.iter().map(|part| part.id);
        entry.dropped == self.dropped && entry.parts.iter().map(|part| part.id).eq(own)
    }
}

/// Newest list of a folder, if its bytes are damaged. Also the first list, if parts are there without any list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DamagedList {
    /// Name of its file.
    pub(super) name: String,
    /// Description of the damage.
    problem: String,
}

impl DamagedList {
    /// Error that the list cannot be planned again, with the reason.
    pub(super) fn refuse(&self, store: &Store, reason: &str) -> Error {
        invalid(store, &self.name, &format!("{}, and cannot be planned again: {reason}", self.problem))
    }

    /// Returns the problem, and the command that plans the list again.
    pub(super) fn message(&self, store: &Store) -> String {
        let way = "`cloze prepare` and `cloze verify --repair` plan it again if the inputs are unchanged; otherwise \
                   restore the original file, or prepare into another `prepare.folder`";
        format!("{}: {}; {way}", store.place(&self.name), self.problem)
    }
}

/// Lists of a folder, and its newest one if that is damaged.
#[derive(Default)]
pub(super) struct ReadableLists {
    pub(super) lists: VersionLists,
    pub(super) damaged: Option<DamagedList>,
}

/// Returns `prepare.valid_fraction` of a prepared folder. None if its part lists are missing or damaged.
#[must_use]
pub fn valid_fraction(store: &Store) -> Option<f64> {
    VersionLists::read_undamaged(store).ok()?.lists.settings()?.valid_fraction()
}

/// All lists of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VersionLists(Vec<PartList>);

impl VersionLists {
    /// Reads all lists; empty if there are none. Lists of other origin or of an earlier format are an error.
    pub(super) fn read(store: &Store) -> Result<Self> {
        let ReadableLists { lists, damaged } = Self::read_undamaged(store)?;
        damaged.map_or(Ok(lists), |damaged| Err(Error::Config(damaged.message(store))))
    }

    /// Reads all lists. If only the newest one is damaged or lost, it is returned apart.
    pub(super) fn read_undamaged(store: &Store) -> Result<ReadableLists> {
        let mut lists = Vec::new();
        let mut damaged = None;
        let mut entries = store.list("versions")?;
        if entries.is_empty() && has_parts(store)? {
            // Another process may have written the first list and its first part since.
            entries = store.list("versions")?;
            let name = file_name(0);
            if entries.is_empty() && head_file(store, &name)?.is_none() {
                damaged = Some(DamagedList { name, problem: "it is missing, but there are parts".to_owned() });
            }
        }
        let newest = entries.len().saturating_sub(1);
        for (number, entry) in entries.into_iter().enumerate() {
            let name = file_name(number);
            if is_list_name(&entry.name) && entry.name != name {
                return Err(invalid(store, &name, "it is missing, but a later list is there"));
            }
            if entry.name != name {
                return Err(invalid(store, &entry.name, &format!("not a part list: the next one is `{name}`")));
            }
            let list = match PartList::unseal(&store.get(&name)?) {
                Ok(list) => list,
                Err(error @ (SealError::Syntax(_) | SealError::Checksum)) if number == newest => {
                    damaged = Some(DamagedList { name, problem: error.to_string() });
                    break;
                }
                Err(error) => return Err(invalid(store, &name, &error.to_string())),
            };
            if list.dataset_version.0 as usize != number {
                return Err(invalid(store, &name, "the list of another dataset version"));
            }
            lists.push(list);
        }
        let lists = Self(lists);
        lists.check().map_err(|(name, message)| invalid(store, &name, &message))?;
        Ok(ReadableLists { lists, damaged })
    }

    /// Checks the consistency of the lists with each other, which seals do not cover.
    fn check(&self) -> Result<(), (String, String)> {
        let mut known = BTreeSet::new();
        let mut gone = BTreeSet::new();
        for (number, list) in self.0.iter().enumerate() {
            let wrong = |message: String| Err((file_name(number), message));
            if list.settings != self.0[0].settings {
                return wrong("other settings than the first list".into());
            }
            if let Some(id) = list.dropped.iter().find(|id| !known.contains(*id) || !gone.insert(**id)) {
                return wrong(format!("part {id} is dropped but not in effect"));
            }
            if let Some(part) = list.parts.iter().find(|part| !known.insert(part.id)) {
                return wrong(format!("part {} is listed twice", part.id));
            }
            if known.contains(&PartId(u32::MAX)) {
                return wrong("no part number is left".into());
            }
        }
        Ok(())
    }

    /// Returns the lists, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PartList> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the settings of all lists.
    pub(super) fn settings(&self) -> Option<&Settings> {
        self.0.first().map(|list| &list.settings)
    }

    /// Returns the number of the next list, and of its first part.
    pub(super) fn next(&self) -> (DatasetVersion, PartId) {
        let parts = self.0.iter().flat_map(|list| &list.parts).map(|part| part.id.0 + 1);
        (DatasetVersion(u32::try_from(self.0.len()).expect("lists are few")), PartId(parts.max().unwrap_or(0)))
    }

    /// Returns the dataset version of the newest list, or the first version if there is no list.
    pub(super) fn newest(&self) -> DatasetVersion {
        self.0.last().map_or(DatasetVersion(0), |list| list.dataset_version)
    }

    /// Returns the lists up to that of a dataset version.
    pub(super) fn up_to(&self, dataset_version: DatasetVersion) -> Self {
        Self(self.0.iter().take(dataset_version.0 as usize + 1).cloned().collect())
    }

    /// Returns the parts that lists up to `dataset_version` drop.
    pub(super) fn dropped(&self, dataset_version: DatasetVersion) -> BTreeSet<PartId> {
        self.0.iter().take(dataset_version.0 as usize + 1).flat_map(|list| &list.dropped).copied().collect()
    }

    /// Returns the numbers of all parts, dropped ones included.
    pub(super) fn all_parts(&self) -> BTreeSet<PartId> {
        self.0.iter().flat_map(|list| &list.parts).map(|part| part.id).collect()
    }

    /// Returns the parts in effect, each with the number of its list.
    pub(super) fn in_effect(&self) -> BTreeMap<PartId, (DatasetVersion, &Part)> {
        let dropped: BTreeSet<PartId> = self.0.iter().flat_map(|list| &list.dropped).copied().collect();
        let parts =
            self.0.iter().flat_map(|list| list.parts.iter().map(|part| (part.id, (list.dataset_version, part))));
        parts.filter(|(id, _)| !dropped.contains(id)).collect()
    }

    /// Returns BLAKE3 of the ids of documents that parts of that list omit, each with the first list that omits it.
    pub(super) fn forgotten(&self, dataset_version: DatasetVersion) -> BTreeMap<&str, DatasetVersion> {
        let lists = self.0.iter().take(dataset_version.0 as usize + 1);
        let mut forgotten = BTreeMap::new();
        for (number, id) in lists.flat_map(|list| list.forgotten.iter().map(|id| (list.dataset_version, id.as_str()))) {
            forgotten.entry(id).or_insert(number);
        }
        forgotten
    }

    /// Writes one more list and adds it.
    pub(super) fn append(&mut self, store: &Store, list: PartList) -> Result<()> {
        let name = file_name(self.0.len());
        let bytes = list.seal();
        if store.put_if_absent(&name, &bytes)? == Created::Exists && store.get(&name)? != bytes {
            let message = "another process wrote a list meanwhile; run the same command again".to_owned();
            return Err(Error::Unfinished { place: store.place(&name), message });
        }
        self.0.push(list);
        Ok(())
    }

    /// Writes one more list in place of a damaged one, and adds it.
    pub(super) fn replace(&mut self, store: &Store, list: PartList) -> Result<()> {
        store.put(&file_name(self.0.len()), &list.seal())?;
        self.0.push(list);
        Ok(())
    }

    /// Returns these lists and one more that is not written.
    pub(super) fn with(&self, list: PartList) -> Self {
        Self(self.0.iter().cloned().chain([list]).collect())
    }
}

pub(super) fn file_name(number: usize) -> String {
    format!("versions/{number:05}.json")
}

fn is_list_name(name: &str) -> bool {
    let number = name.strip_prefix("versions/").and_then(|name| name.strip_suffix(".json"));
    number.is_some_and(|number| number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a folder has a manifest or a commit record, which are written after the first list. Records of formats before
/// the part lists have other names.
fn has_parts(store: &Store) -> Result<bool> {
    let is_first = |name: &str| name.strip_suffix("-00.json").is_some_and(|stem| stem.starts_with("parts/part-"));
    let has_manifest = store.head(manifest::NAME)?.is_some();
    Ok(has_manifest || store.list("parts")?.iter().any(|entry| is_first(&entry.name)))
}

pub(super) fn invalid(store: &Store, name: &str, message: &str) -> Error {
    Error::Config(format!(
        "{}: {message}; restore the original file, or prepare into another `prepare.folder`",
        store.place(name)
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn list(dataset_version: u32, dropped: &[u32], parts: &[u32], forgotten: &[&str]) -> PartList {
        let part = |&id: &u32| Part { id: PartId(id), bytes: 1, pieces: Vec::new() };
        PartList {
            dataset_version: DatasetVersion(dataset_version),
            settings: serde_json::from_value(serde_json::json!({"seed": 1})).expect("settings"),
            dropped: dropped.iter().copied().map(PartId).collect(),
            forgotten: forgotten.iter().map(ToString::to_string).collect(),
            parts: parts.iter().map(part).collect(),
        }
    }

    #[test]
    fn active_parts_are_added_and_not_dropped() {
        let store = Store::in_memory(store::FaultConfig::none());
        let mut lists = VersionLists::read(&store).expect("none");
        assert_eq!((lists.is_empty(), lists.next()), (true, (DatasetVersion(0), PartId(0))));
        for one in [list(0, &[], &[0, 1, 2], &[]), list(1, &[1], &[3, 4], &["x"]), list(2, &[0, 3], &[5], &["y", "x"])]
        {
            lists.append(&store, one).expect("written");
            assert_eq!(VersionLists::read(&store).expect("as written"), lists);
        }
        let found: BTreeMap<u32, u32> = lists.in_effect().iter().map(|(id, (list, _))| (id.0, list.0)).collect();
        assert_eq!(found, BTreeMap::from([(2, 0), (4, 1), (5, 2)]));
        assert_eq!(lists.next(), (DatasetVersion(3), PartId(6)), "numbers are never used again");
        assert_eq!(lists.forgotten(DatasetVersion(0)), BTreeMap::new());
        assert_eq!(
            lists.forgotten(DatasetVersion(2)),
            BTreeMap::from([("x", DatasetVersion(1)), ("y", DatasetVersion(2))])
        );
        assert_eq!(lists.dropped(DatasetVersion(1)), BTreeSet::from([PartId(1)]));
    }

    #[test]
    fn lists_that_do_not_fit_one_another_are_refused() {
        let first = || list(0, &[], &[0], &[]);
        for (second, word) in [
            (list(1, &[4], &[], &[]), "dropped but not in effect"),
            (list(1, &[], &[0], &[]), "listed twice"),
            (list(7, &[], &[], &[]), "another dataset version"),
        ] {
            let store = Store::in_memory(store::FaultConfig::none());
            let mut lists = VersionLists::default();
            for one in [first(), second] {
                lists.append(&store, one).expect("written");
            }
            let error = VersionLists::read(&store).expect_err("they do not fit").to_string();
            assert!(error.contains(word) && error.contains("versions/00001.json"), "{error}");
        }
        let store = Store::in_memory(store::FaultConfig::none());
        VersionLists::default().append(&store, first()).expect("written");
        store.put("versions/00000.json", b"{}").expect("written");
        assert!(VersionLists::read(&store).expect_err("damaged").to_string().contains("another `prepare.folder`"));
    }
}
