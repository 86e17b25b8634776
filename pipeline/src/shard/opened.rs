//! Open shards: verified once, cached while they are used.
//!
//! A footer in memory takes 1 % of its shard's decoded groups, but a corpus can have 100,000 shards. The footers used
//! last are therefore cached. For other shards, only the fact that they were verified is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use runtime::{CancelToken, starved};
use schemas::Shard;
use store::Store;

use super::cache::ShardCache;
use super::reader::{Damage, Group, ShardExpectation, ShardReader};

/// Maximum number of shards whose footers are in memory. A window uses at most as many as it has row groups; two
/// windows fit.
pub(crate) const SHARDS_OPEN_MAX: usize = 64;

/// Attempts to read a row group from the cache, before it is read from the folder.
const CACHE_READS_MAX: u32 = 3;

/// Shards of a folder, opened at their first use.
#[derive(Debug)]
pub struct OpenShards {
    store: Store,
    expectation: ShardExpectation,
    /// Cache of a remote folder.
    cache: Option<ShardCache>,
    known: Mutex<KnownShards>,
}

/// Shard that was requested.
type ShardSlot = OnceLock<Result<ShardReader, Damage>>;

#[derive(Debug, Default)]
struct KnownShards {
    /// Shards by path, because dataset versions mostly share them, each with the time of its last use.
    open: BTreeMap<String, (u64, Arc<ShardSlot>)>,
    verified: BTreeSet<String>,
    asked: u64,
}

impl OpenShards {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(store: Store, promise: ShardExpectation) -> Self {
        Self { store, expectation: promise, cache: None, known: Mutex::default() }
    }

    /// Reads the shards through this cache.
    #[must_use]
    pub fn with_cache(self, cache: Option<ShardCache>) -> Self {
        Self { cache, ..self }
    }

    /// Returns the cache, if the shards are read through one.
    pub(crate) fn cache(&self) -> Option<&ShardCache> {
        self.cache.as_ref()
    }

    /// Downloads a shard into the cache, unless it is there or after a cancellation.
    pub(crate) fn prefetch(&self, shard: &Shard, stop: &CancelToken) {
        let _ = self.cache.as_ref().and_then(|cache| cache.fetch(&self.store, shard, Some(stop)));
    }

    /// Reads a row group of a shard. Opens and verifies the shard first, unless that was done before.
    pub(super) fn read(&self, shard: &Shard, group: usize) -> Result<Group, Damage> {
        if let Some(cache) = &self.cache {
            for _ in 0..CACHE_READS_MAX {
                let Some((local, copy)) = starved(|| cache.fetch(&self.store, shard, None)) else { break };
                if let Ok(group) = self.read_copy(&local, &copy, group) {
                    return Ok(group);
                }
                // Another process has removed the file, or it is damaged since it was verified.
                cache.distrust(shard);
                self.lock().open.remove(&copy.path);
            }
        }
        self.read_stored(shard, group)
    }

    /// Reads a row group of a verified copy in the cache.
    fn read_copy(&self, local: &Store, copy: &Shard, group: usize) -> Result<Group, Damage> {
        let (opened, _) = self.find(&copy.path);
        let reader = opened.get_or_init(|| ShardReader::reopen(local, copy, self.expectation));
        reader.as_ref().map_err(Clone::clone)?.read(group)
    }

    /// Reads a row group of a shard in the folder.
    fn read_stored(&self, shard: &Shard, group: usize) -> Result<Group, Damage> {
        let (opened, is_verified) = self.find(&shard.path);
        let reader = opened.get_or_init(|| {
            if is_verified {
                return ShardReader::reopen(&self.store, shard, self.expectation);
            }
            let reader = ShardReader::open(&self.store, shard, self.expectation)?;
            self.lock().verified.insert(shard.path.clone());
            Ok(reader)
        });
        reader.as_ref().map_err(Clone::clone)?.read(group)
    }

    /// Number of footers in memory.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().open.len()
    }

    fn find(&self, path: &str) -> (Arc<ShardSlot>, bool) {
        let mut known = self.lock();
        known.asked += 1;
        let now = known.asked;
        let is_verified = known.verified.contains(path);
        if let Some((asked, opened)) = known.open.get_mut(path) {
            *asked = now;
            return (Arc::clone(opened), is_verified);
        }
        if known.open.len() >= SHARDS_OPEN_MAX {
            let oldest = known.open.iter().min_by_key(|(_, (asked, _))| *asked).map(|(path, _)| path.clone());
            oldest.map(|path| known.open.remove(&path));
        }
        let opened = Arc::<ShardSlot>::default();
        known.open.insert(path.to_owned(), (now, Arc::clone(&opened)));
        (opened, is_verified)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, KnownShards> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use schemas::Manifest;
    use store::FaultConfig;

    use super::*;
    use crate::shard::synthetic::Synthetic;

    fn folder() -> (Store, Manifest) {
        let store = Store::in_memory(FaultConfig::none());
        let shape = Synthetic { rows_per_group: 2, groups_per_shard: 1, train_rows: 200, ..Synthetic::default() };
        let manifest = shape.write(&store).expect("written");
        (store, manifest)
    }

    #[test]
    fn footers_are_bounded_for_any_folder() {
        let (store, manifest) = folder();
        let shards = OpenShards::new(store, ShardExpectation::from_manifest(&manifest));
        let train = manifest.now().train;
        assert!(train.shards.len() > SHARDS_OPEN_MAX);
        for _ in 0..2 {
            for shard in &train.shards {
                assert_eq!(shards.read(shard, 0).expect("good").rows(), 2);
            }
        }
        assert_eq!(shards.count(), SHARDS_OPEN_MAX);
    }

    #[test]
    fn a_shard_is_verified_before_anything_of_it_is_read_and_only_once() {
        let (store, manifest) = folder();
        let shards = OpenShards::new(store.clone(), ShardExpectation::from_manifest(&manifest));
        let train = manifest.now().train;
        for shard in &train.shards {
            shards.read(shard, 0).expect("good");
        }
        // The footer of the first shard is evicted by now, but not the fact that it was verified.
        let first = &train.shards[0];
        let other = Shard { blake3: "other".into(), ..first.clone() };
        shards.read(&other, 0).expect("known to be good");
        let error =
            OpenShards::new(store, ShardExpectation::from_manifest(&manifest)).read(&other, 0).expect_err("never seen");
        assert!(crate::Error::from(error).to_string().contains("BLAKE3"));
    }

    #[test]
    fn non_files_are_refused_with_location_and_hint() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("there");
        let manifest = Synthetic::default().write(&store).expect("written");
        let promise = ShardExpectation::from_manifest(&manifest);
        let shard = &manifest.now().train.shards[0];
        let path = home.path().join(&shard.path);
        let refused = || {
            let error = OpenShards::new(store.clone(), promise).read(shard, 0).expect_err("no file");
            let error = crate::Error::from(error).to_string();
            assert!(error.contains(&shard.path) && error.contains("run `cloze prepare`"), "{error}");
        };
        std::fs::remove_file(&path).expect("ours");
        refused();
        std::fs::create_dir(&path).expect("free");
        refused();
        std::fs::remove_dir(&path).expect("ours");
        std::os::unix::fs::symlink("/dev/zero", &path).expect("free");
        refused();
    }
}
