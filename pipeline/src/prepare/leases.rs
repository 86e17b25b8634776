//! Leases: `leases/part-00012`, one lock object per part that a process makes; also of signatures, shares by index and the
//! comparison of all documents.
//!
//! A lease is renewed while its worker reads. If it does not read a byte within fifteen times the expiry, 15 minutes by
//! default, as on a mount that hangs, another process takes the part over. A lease only avoids double work: two processes
//! that make the same part write the same bytes, so a lease that expires while its holder is suspended loses nothing.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use schemas::PartId;
use store::{Holder, LeaseConfig, LeaseContender, Lock, Store, WorkProgress};

use super::requests::request_all;
use crate::corpus::BytesRead;
use crate::{Error, Result};

/// Folder of the leases.
const FOLDER: &str = "leases";

/// Heartbeats within the time without a heartbeat after which a lease expires.
const HEARTBEATS: u32 = 12;

/// Times of expiry within which the worker of a part must read a byte. A worker that hangs loses its lease then.
const MAX_IDLE: u32 = 15;

/// Takes the lease of a part, of which a worker reads that many bytes. `None` if another process has it.
pub(super) fn try_acquire(contender: &LeaseContender, name: &str, read: &BytesRead) -> Result<Option<Lock>> {
    let read = read.clone();
    let progress = WorkProgress::new(contender.terms().takeover_delay * MAX_IDLE, move || read.get());
    Ok(contender.try_acquire_while(name, progress).map_err(std::io::Error::from)?)
}

/// Name of the lease of a part.
pub(super) fn name(part: PartId) -> String {
    format!("{FOLDER}/part-{:05}", part.0)
}

/// Name of the lease of the signatures of a part.
pub(super) fn signatures_name(part: PartId) -> String {
    format!("{FOLDER}/signatures-{:05}", part.0)
}

/// Name of the lease of a share by index, for one process. Another process of the same share has another name: that of a
/// lost machine does not stand in its way.
pub(super) fn share_name(index: u64, count: u64) -> String {
    format!("{FOLDER}/share-{index}-of-{count}-{:016x}", RandomState::new().build_hasher().finish())
}

/// Name of the lease of the comparison of all documents.
pub(super) fn comparison_name() -> String {
    format!("{FOLDER}/comparison")
}

/// Returns the names of all leases. Other objects of that folder belong to other programs.
fn all(store: &Store) -> Result<Vec<String>> {
    let names = store.list(FOLDER)?.into_iter().map(|entry| entry.name);
    Ok(names.filter(|name| is_lease(name)).collect())
}

/// Whether an object has the name of a lease.
fn is_lease(name: &str) -> bool {
    let Some(name) = name.strip_prefix(FOLDER).and_then(|name| name.strip_prefix('/')) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.split('-').collect::<Vec<_>>()[..] {
        ["comparison"] => true,
        ["part" | "signatures", number] => number.len() >= 5 && is_number(number),
        ["share", index, "of", count, hash] => is_number(index) && is_number(count) && is_hash(hash),
        _ => false,
    }
}

/// Returns the terms of leases that expire after that time without a heartbeat.
pub(super) fn terms(expiry: Duration) -> LeaseConfig {
    LeaseConfig { heartbeat_interval: expiry / HEARTBEATS, takeover_delay: expiry }
}

/// Refuses a folder in which other processes make parts. Returns nothing if all leases are released or abandoned.
///
/// The age of a lease is that of its object, by the clock of the storage. With clocks that differ by more than the expiry,
/// a live lease may count as abandoned; its process then fails and starts again.
pub(super) fn refuse_live(store: &Store) -> Result<()> {
    request_all(store, all(store)?, |store, name: &String| {
        let holder: Option<Holder> = Lock::seen(store, name)?;
        holder
            .map_or(Ok(()), |holder| Err(Error::Locked { path: store.place(name).into(), holder: holder.to_string() }))
    })?;
    Ok(())
}

/// Removes all leases that no process holds, after all parts are complete. Returns the number of removed leases. Files of
/// other programs with the name of a lease, such as `part-00000` of Hadoop, stay.
pub(super) fn remove_all(store: &Store) -> Result<u64> {
    let removed = request_all(store, all(store)?, |store, name: &String| {
        let is_abandoned = Lock::is_lock(store, name)? && Lock::seen(store, name)?.is_none();
        if is_abandoned {
            store.delete(name)?;
        }
        Ok(is_abandoned)
    })?;
    let count = removed.iter().filter(|is_removed| **is_removed).count();
    if count > 0 && count == removed.len() {
        // A sweep keeps the unfinished heartbeat of a killed process as long as its lease exists.
        store.prefixed(FOLDER).sweep()?;
    }
    Ok(count as u64)
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    #[test]
    fn files_of_other_programs_with_the_name_of_a_lease_stay() {
        let store = Store::in_memory(FaultConfig::none());
        let ours = name(PartId(1));
        let holder = Holder::this_process();
        drop(Lock::acquire(&store, &ours, holder, terms(Duration::from_secs(60))).expect("free"));
        for (number, text) in [(0, "hadoop"), (2, ""), (3, "{}")] {
            store.put(&name(PartId(number)), text.as_bytes()).expect("memory");
        }
        assert_eq!(remove_all(&store).expect("memory"), 1);
        let left: Vec<String> = store.list("").expect("memory").into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, [0, 2, 3].map(|number| name(PartId(number))));
    }

    #[test]
    fn only_names_of_leases_are_leases() {
        for name in [name(PartId(7)), signatures_name(PartId(123_456)), share_name(0, 12), comparison_name()] {
            assert!(is_lease(&name), "{name}");
        }
        for name in
            ["contract.pdf", "part-00001.txt", "part-1", "part-", "share-a-of-2-0", "sub/part-00001", "comparison/x"]
        {
            assert!(!is_lease(&format!("{FOLDER}/{name}")), "{name}");
        }
    }
}
