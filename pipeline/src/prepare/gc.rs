//! Removal of objects that no part list needs: of dropped parts, and of segments that were made differently.

use std::collections::BTreeSet;

use store::Store;

use super::provisional_manifest::ProvisionalManifest;
use crate::Result;

const FOLDERS: [&str; 4] = ["documents", "parts", "train", "valid"];

/// Removes every object of ours that is not among those of the parts in effect. Returns how many there were.
pub(super) fn remove_others(store: &Store, ours: &[String]) -> Result<u64> {
    let ours: BTreeSet<&str> = ours.iter().map(String::as_str).collect();
    let mut removed = 0;
    for folder in FOLDERS {
        for entry in store.list(folder)? {
            // What has another name is somebody else's.
            let is_part = entry.name[folder.len()..].starts_with("/part-");
            if is_part && !ours.contains(entry.name.as_str()) {
                store.remove(&entry.name)?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

/// Removes the records and lists of a corpus without documents: they are all that was written.
pub(super) fn withdraw(store: &Store) -> Result<()> {
    remove_others(store, &[])?;
    store.remove_all("versions")?;
    ProvisionalManifest::withdraw(store)
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    #[test]
    fn what_is_ours_and_vouched_for_stays_and_what_is_not_ours_too() {
        let store = Store::memory(FaultConfig::calm());
        let names =
            ["documents/part-1.parquet", "parts/part-1.json", "parts/readme", "train/part-0.parquet", "valid/x"];
        for name in names {
            store.put(name, b"1").expect("put");
        }
        assert_eq!(remove_others(&store, &["train/part-0.parquet".to_owned()]).expect("removed"), 2);
        let left: Vec<String> = store.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, ["parts/readme", "train/part-0.parquet", "valid/x"]);
    }
}
