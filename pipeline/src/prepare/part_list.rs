//! Part lists: `versions/00000.json`, sealed, written before the first part of it and never changed.
//!
//! A list says which parts are to be there from now on, which no longer, and which documents are to be forgotten. All
//! lists together say what is *in effect*: the parts of any list that no list drops.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{DatasetVersion, PartId, Sealed};
use serde::{Deserialize, Serialize};
use store::{Created, Store};

use super::config::Settings;
use crate::corpus::Part;
use crate::{Error, Result};

/// One list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartList {
    /// Its number.
    pub(super) dataset_version: DatasetVersion,
    /// What parts are made with; the same in every list.
    pub(super) settings: Settings,
    /// Parts of earlier lists that are to go, ascending.
    pub(super) dropped: Vec<PartId>,
    /// Documents that are left out of its parts, and of those of later lists: BLAKE3 of their ids.
    pub(super) forgotten: Vec<String>,
    /// Parts that are to come.
    pub(super) parts: Vec<Part>,
}

impl Sealed for PartList {
    const FORMAT: &'static str = "cloze part list";
    const VERSION: u32 = 3;
    const PRETTY: bool = false;
}

/// All lists of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists(Vec<PartList>);

impl Lists {
    /// Reads them; none if there are none. A folder that somebody else wrote, or an earlier format, is refused.
    pub(super) fn read(store: &Store) -> Result<Self> {
        let mut lists = Vec::new();
        for (number, entry) in store.list("versions")?.into_iter().enumerate() {
            let name = file_name(number);
            if entry.name != name {
                return Err(refuse(store, &entry.name, &format!("not a part list: the next one is `{name}`")));
            }
            let list =
                PartList::unseal(&store.read(&name)?).map_err(|error| refuse(store, &name, &error.to_string()))?;
            if list.dataset_version.0 as usize != number {
                return Err(refuse(store, &name, "the list of another dataset version"));
            }
            lists.push(list);
        }
        let lists = Self(lists);
        lists.check().map_err(|(name, message)| refuse(store, &name, &message))?;
        Ok(lists)
    }

    /// What seals do not know: that the lists fit one another.
    fn check(&self) -> Result<(), (String, String)> {
        let (mut known, mut gone) = (BTreeSet::new(), BTreeSet::new());
        for (number, list) in self.0.iter().enumerate() {
            let wrong = |message: String| Err((file_name(number), message));
            if list.settings != self.0[0].settings {
                return wrong("other settings than the first list".into());
            }
            if let Some(id) = list.dropped.iter().find(|id| !known.contains(*id) || !gone.insert(**id)) {
                return wrong(format!("part {id} is dropped and not there"));
            }
            if let Some(part) = list.parts.iter().find(|part| !known.insert(part.id)) {
                return wrong(format!("part {} is there twice", part.id));
            }
            if known.contains(&PartId(u32::MAX)) {
                return wrong("no number is left for a next part".into());
            }
        }
        Ok(())
    }

    /// The lists, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PartList> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The settings of all of them.
    pub(super) fn settings(&self) -> Option<&Settings> {
        self.0.first().map(|list| &list.settings)
    }

    /// The number of the next list, and of its first part.
    pub(super) fn next(&self) -> (DatasetVersion, PartId) {
        let parts = self.0.iter().flat_map(|list| &list.parts).map(|part| part.id.0 + 1);
        (DatasetVersion(u32::try_from(self.0.len()).expect("lists are few")), PartId(parts.max().unwrap_or(0)))
    }

    /// The dataset version of the newest list; the first, where there is none.
    pub(super) fn newest(&self) -> DatasetVersion {
        self.0.last().map_or(DatasetVersion(0), |list| list.dataset_version)
    }

    /// The lists up to that of a dataset version.
    pub(super) fn up_to(&self, dataset_version: DatasetVersion) -> Self {
        Self(self.0.iter().take(dataset_version.0 as usize + 1).cloned().collect())
    }

    /// Parts that a list up to `dataset_version` drops.
    pub(super) fn dropped(&self, dataset_version: DatasetVersion) -> BTreeSet<PartId> {
        self.0.iter().take(dataset_version.0 as usize + 1).flat_map(|list| &list.dropped).copied().collect()
    }

    /// The parts in effect, each with the list that it is of, by number.
    pub(super) fn in_effect(&self) -> BTreeMap<PartId, (DatasetVersion, &Part)> {
        let dropped: BTreeSet<PartId> = self.0.iter().flat_map(|list| &list.dropped).copied().collect();
        let parts =
            self.0.iter().flat_map(|list| list.parts.iter().map(|part| (part.id, (list.dataset_version, part))));
        parts.filter(|(id, _)| !dropped.contains(id)).collect()
    }

    /// BLAKE3 of the ids of documents that parts of that list must not have, each with the list that said so.
    pub(super) fn forgotten(&self, dataset_version: DatasetVersion) -> BTreeMap<&str, DatasetVersion> {
        let lists = self.0.iter().take(dataset_version.0 as usize + 1);
        let mut forgotten = BTreeMap::new();
        for (number, id) in lists.flat_map(|list| list.forgotten.iter().map(|id| (list.dataset_version, id.as_str()))) {
            forgotten.entry(id).or_insert(number);
        }
        forgotten
    }

    /// Writes one more list and counts it in.
    pub(super) fn append(&mut self, store: &Store, list: PartList) -> Result<()> {
        let (name, bytes) = (file_name(self.0.len()), list.seal());
        if store.create(&name, &bytes)? == Created::Exists && store.read(&name)? != bytes {
            return Err(refuse(store, &name, "somebody else wrote another list meanwhile; run the same command again"));
        }
        self.0.push(list);
        Ok(())
    }

    /// The same with one more list that is not written.
    pub(super) fn with(&self, list: PartList) -> Self {
        Self(self.0.iter().cloned().chain([list]).collect())
    }
}

pub(super) fn file_name(number: usize) -> String {
    format!("versions/{number:05}.json")
}

pub(super) fn refuse(store: &Store, name: &str, message: &str) -> Error {
    Error::Config(format!(
        "{}: {message}; put the file back as it was, or prepare into another `prepare.folder`",
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
    fn what_is_in_effect_is_what_was_added_and_never_dropped() {
        let store = Store::memory(store::FaultConfig::calm());
        let mut lists = Lists::read(&store).expect("none");
        assert_eq!((lists.is_empty(), lists.next()), (true, (DatasetVersion(0), PartId(0))));
        for one in [list(0, &[], &[0, 1, 2], &[]), list(1, &[1], &[3, 4], &["x"]), list(2, &[0, 3], &[5], &["y", "x"])]
        {
            lists.append(&store, one).expect("written");
            assert_eq!(Lists::read(&store).expect("as written"), lists);
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
            (list(1, &[4], &[], &[]), "dropped and not there"),
            (list(1, &[], &[0], &[]), "there twice"),
            (list(7, &[], &[], &[]), "another dataset version"),
        ] {
            let store = Store::memory(store::FaultConfig::calm());
            let mut lists = Lists::default();
            for one in [first(), second] {
                lists.append(&store, one).expect("written");
            }
            let error = Lists::read(&store).expect_err("they do not fit").to_string();
            assert!(error.contains(word) && error.contains("versions/00001.json"), "{error}");
        }
        let store = Store::memory(store::FaultConfig::calm());
        Lists::default().append(&store, first()).expect("written");
        store.put("versions/00000.json", b"{}").expect("written");
        assert!(Lists::read(&store).expect_err("damaged").to_string().contains("another `prepare.folder`"));
    }
}
