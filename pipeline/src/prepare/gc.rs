//! Removal of objects that no part list needs: of dropped parts, and of segments that were made differently.
//!
//! Only objects with a name that a preparation writes, of a part that some list has or had, are removed. Other objects in
//! the folder belong to the user.

use std::collections::BTreeSet;

use store::Store;
use tracing::info;

use super::config::Settings;
use super::listing::ObjectListing;
use super::part_list::{self, VersionLists};
use super::part_objects::part_of;
use super::provisional_manifest::ProvisionalManifest;
use super::requests::request_all;
use super::{fingerprints, leases, planned_inputs, signatures, verdicts};
use crate::Result;

/// Removes every listed object of a part of `lists` that is not among `ours`, the objects of parts in effect. Returns the
/// number of removed objects.
pub(super) fn remove_others(
    store: &Store,
    listing: &ObjectListing,
    lists: &VersionLists,
    ours: &[String],
) -> Result<u64> {
    let others = others(listing, lists, ours);
    let removed = request_all(store, others, |store, name: &String| Ok(store.delete(name)?))?.len();
    if removed > 0 {
        info!(objects = removed, "prepare: removed objects of dropped parts and of unfinished segments");
    }
    Ok(removed as u64)
}

/// Returns every listed object of a part of `lists` that is not among `ours`.
pub(super) fn others(listing: &ObjectListing, lists: &VersionLists, ours: &[String]) -> Vec<String> {
    let ours: BTreeSet<&str> = ours.iter().map(String::as_str).collect();
    let parts = lists.all_parts();
    let is_of_a_list = |name: &&str| part_of(name).is_some_and(|part| parts.contains(&part));
    listing.names().filter(is_of_a_list).filter(|name| !ours.contains(name)).map(str::to_owned).collect()
}

/// Returns the names of the signatures and verdicts of all parts, including dropped ones: without them, lost verdicts
/// could not be made again.
pub(super) fn comparison_objects(lists: &VersionLists) -> Vec<String> {
    let removes_duplicates = lists.settings().is_some_and(Settings::removes_duplicates);
    let parts = lists.iter().filter(|_| removes_duplicates).flat_map(|list| &list.parts);
    parts.flat_map(|part| signatures::object_names(part).into_iter().chain(verdicts::object_names(part.id))).collect()
}

/// Removes the records and lists of a corpus without documents. Nothing else was written for it. Keeps the tokenizer if
/// it is the configured one, which the user has put there.
pub(super) fn remove(store: &Store, lists: &VersionLists, keeps_tokenizer: bool) -> Result<()> {
    remove_others(store, &ObjectListing::read(store)?, lists, &[])?;
    leases::remove_all(store)?;
    store.delete(planned_inputs::NAME)?;
    store.delete(fingerprints::NAME)?;
    for list in lists.iter() {
        store.delete(&verdicts::version_name(list.dataset_version))?;
        store.delete(&part_list::file_name(list.dataset_version.0 as usize))?;
    }
    ProvisionalManifest::remove(store, keeps_tokenizer)
}

#[cfg(test)]
mod tests {
    use schemas::{DatasetVersion, PartId};
    use store::FaultConfig;

    use super::super::part_list::PartList;
    use super::*;
    use crate::corpus::Part;

    #[test]
    fn removal_deletes_only_objects_of_listed_parts() {
        let store = Store::in_memory(FaultConfig::none());
        let list = PartList {
            dataset_version: DatasetVersion(0),
            settings: serde_json::from_value(serde_json::json!({"seed": 1})).expect("settings"),
            dropped: Vec::new(),
            forgotten: Vec::new(),
            parts: (0..2).map(|id| Part { id: PartId(id), bytes: 1, pieces: Vec::new() }).collect(),
        };
        let lists = VersionLists::default().with(list);
        let foreign = [
            "documents/part-00001-00.csv",
            "parts/part-00002-00.json",
            "parts/readme",
            "train/part-00000-1f2a-c000.snappy.parquet",
            "train/part-00000.parquet",
            "valid/part-00001/_SUCCESS",
            "verdicts/part-00001",
        ];
        let stale = ["documents/part-00001-00.parquet", "parts/part-00001-00.json", "train/part-00001-00-00.parquet"];
        let kept = "train/part-00000-00-00.parquet";
        for name in foreign.into_iter().chain(stale).chain([kept]) {
            store.put(name, b"1").expect("put");
        }
        let listing = ObjectListing::read(&store).expect("listed");
        assert_eq!(remove_others(&store, &listing, &lists, &[kept.to_owned()]).expect("removed"), 3);
        let left: BTreeSet<String> = store.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, foreign.into_iter().chain([kept]).map(str::to_owned).collect());
    }
}
