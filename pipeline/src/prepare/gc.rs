//! Removal of objects that no part list needs: of dropped parts, and of segments that were made differently.

use std::collections::BTreeSet;

use store::Store;

use super::config::Settings;
use super::listing::ObjectListing;
use super::part_list::VersionLists;
use super::provisional_manifest::ProvisionalManifest;
use super::requests::request_all;
use super::{fingerprints, leases, planned_inputs, signatures, verdicts};
use crate::Result;

/// Removes every listed part object that is not among `ours`, the objects of parts in effect. Returns the number of
/// removed objects.
pub(super) fn remove_others(store: &Store, listing: &ObjectListing, ours: &[String]) -> Result<u64> {
    let removed = request_all(store, others(listing, ours), |store, name: &String| Ok(store.delete(name)?))?;
    Ok(removed.len() as u64)
}

/// Returns every listed part object that is not among `ours`.
pub(super) fn others(listing: &ObjectListing, ours: &[String]) -> Vec<String> {
    let ours: BTreeSet<&str> = ours.iter().map(String::as_str).collect();
    // Objects with other names do not belong to cloze.
    let is_part = |name: &&str| name.split_once('/').is_some_and(|(_, name)| name.starts_with("part-"));
    listing.names().filter(is_part).filter(|name| !ours.contains(name)).map(str::to_owned).collect()
}

/// Returns the names of the signatures and verdicts of all parts, including dropped ones: without them, lost verdicts
/// could not be made again.
pub(super) fn comparison_objects(lists: &VersionLists) -> Vec<String> {
    let removes_duplicates = lists.settings().is_some_and(Settings::removes_duplicates);
    let parts = lists.iter().filter(|_| removes_duplicates).flat_map(|list| &list.parts);
    parts.flat_map(|part| signatures::object_names(part).into_iter().chain(verdicts::object_names(part.id))).collect()
}

/// Removes the records and lists of a corpus without documents. Nothing else was written for it.
pub(super) fn remove(store: &Store) -> Result<()> {
    remove_others(store, &ObjectListing::read(store)?, &[])?;
    leases::remove_all(store)?;
    store.delete(planned_inputs::NAME)?;
    store.delete(fingerprints::NAME)?;
    store.delete_all("verdicts")?;
    store.delete_all("versions")?;
    ProvisionalManifest::remove(store)
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    #[test]
    fn removal_deletes_only_unreferenced_objects() {
        let store = Store::in_memory(FaultConfig::none());
        let names =
            ["documents/part-1.parquet", "parts/part-1.json", "parts/readme", "train/part-0.parquet", "valid/x"];
        for name in names {
            store.put(name, b"1").expect("put");
        }
        let listing = ObjectListing::read(&store).expect("listed");
        assert_eq!(remove_others(&store, &listing, &["train/part-0.parquet".to_owned()]).expect("removed"), 2);
        let left: Vec<String> = store.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, ["parts/readme", "train/part-0.parquet", "valid/x"]);
    }
}
