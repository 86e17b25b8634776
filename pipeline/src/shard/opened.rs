//! Shards that are open: verified once, remembered while they are used.
//!
//! What a footer comes to in memory is a hundredth of its shard's decoded groups, but a corpus has a hundred thousand
//! shards. So the footers of those used last are kept, and of the others only that they were verified.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use schemas::Shard;
use store::Store;

use super::reader::{Damage, Promise, ShardReader};

/// Shards whose footers are in memory, at most. A window touches as many as it has row groups; those of two windows fit.
pub(crate) const SHARDS_OPEN_MAX: usize = 64;

/// The shards of a folder, opened when they are first asked for.
#[derive(Debug)]
pub struct OpenShards {
    store: Store,
    promise: Promise,
    known: Mutex<Known>,
}

/// A shard that somebody asked for.
type Opened = OnceLock<Result<ShardReader, Damage>>;

#[derive(Debug, Default)]
struct Known {
    /// By path: a later dataset version's are mostly the same. With when each was asked for last.
    open: BTreeMap<String, (u64, Arc<Opened>)>,
    verified: BTreeSet<String>,
    asked: u64,
}

impl OpenShards {
    /// None yet.
    #[must_use]
    pub fn new(store: Store, promise: Promise) -> Self {
        Self { store, promise, known: Mutex::default() }
    }

    /// Reads a row group of a shard, which is opened and verified unless it was before.
    pub(super) fn read(&self, shard: &Shard, group: usize) -> Result<super::reader::Group, Damage> {
        let (opened, is_verified) = self.find(&shard.path);
        let reader = opened.get_or_init(|| {
            if is_verified {
                return ShardReader::again(&self.store, shard, self.promise);
            }
            let reader = ShardReader::open(&self.store, shard, self.promise)?;
            self.lock().verified.insert(shard.path.clone());
            Ok(reader)
        });
        reader.as_ref().map_err(Clone::clone)?.read(group)
    }

    /// Footers that are in memory.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().open.len()
    }

    fn find(&self, path: &str) -> (Arc<Opened>, bool) {
        let mut known = self.lock();
        known.asked += 1;
        let (now, is_verified) = (known.asked, known.verified.contains(path));
        if let Some((asked, opened)) = known.open.get_mut(path) {
            *asked = now;
            return (Arc::clone(opened), is_verified);
        }
        if known.open.len() >= SHARDS_OPEN_MAX {
            let oldest = known.open.iter().min_by_key(|(_, (asked, _))| *asked).map(|(path, _)| path.clone());
            oldest.map(|path| known.open.remove(&path));
        }
        let opened = Arc::<Opened>::default();
        known.open.insert(path.to_owned(), (now, Arc::clone(&opened)));
        (opened, is_verified)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
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
        let store = Store::memory(FaultConfig::calm());
        let shape = Synthetic { rows_per_group: 2, groups_per_shard: 1, train_rows: 200, ..Synthetic::default() };
        let manifest = shape.write(&store).expect("written");
        (store, manifest)
    }

    #[test]
    fn footers_are_bounded_whatever_the_folder() {
        let (store, manifest) = folder();
        let (shards, train) = (OpenShards::new(store, Promise::of(&manifest)), manifest.now().train);
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
        let (shards, train) = (OpenShards::new(store.clone(), Promise::of(&manifest)), manifest.now().train);
        for shard in &train.shards {
            shards.read(shard, 0).expect("good");
        }
        // The first one's footer is forgotten by now, and that it was good is not.
        let first = &train.shards[0];
        let other = Shard { blake3: "other".into(), ..first.clone() };
        shards.read(&other, 0).expect("known to be good");
        let error = OpenShards::new(store, Promise::of(&manifest)).read(&other, 0).expect_err("never seen");
        assert!(crate::Error::from(error).to_string().contains("BLAKE3"));
    }

    #[test]
    fn what_is_no_file_is_refused_with_a_place_and_a_way_out() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("there");
        let manifest = Synthetic::default().write(&store).expect("written");
        let (promise, shard) = (Promise::of(&manifest), &manifest.now().train.shards[0]);
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
