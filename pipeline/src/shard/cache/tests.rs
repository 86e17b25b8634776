use runtime::cancel_pair;
use schemas::Manifest;
use store::{FaultConfig, MemoryBackend};

use super::*;
use crate::shard::opened::OpenShards;
use crate::shard::reader::ShardExpectation;
use crate::shard::synthetic::Synthetic;
use crate::testing::write_all;

/// Remote folder of a dozen shards of one row group, and an empty folder for copies.
struct Remote {
    memory: MemoryBackend,
    store: Store,
    manifest: Manifest,
    home: tempfile::TempDir,
}

impl Remote {
    fn new() -> Self {
        Self::with_memory(MemoryBackend::new(FaultConfig::none()))
    }

    fn with_memory(memory: MemoryBackend) -> Self {
        let store = Store::from_memory(&memory);
        let shape = Synthetic { rows_per_group: 20, groups_per_shard: 1, train_rows: 240, ..Synthetic::default() };
        let manifest = shape.write(&store).expect("written");
        Self { memory, store, manifest, home: tempfile::tempdir().expect("a temporary folder") }
    }

    fn shards(&self) -> Vec<Shard> {
        self.manifest.now().train.shards
    }

    /// Cache of another process.
    fn cache(&self, max_bytes: u64) -> ShardCache {
        ShardCache::new(self.home.path().join("cache"), max_bytes)
    }

    fn open(&self, cache: &ShardCache) -> OpenShards {
        let expectation = ShardExpectation::from_manifest(&self.manifest);
        OpenShards::new(self.store.clone(), expectation).with_cache(Some(cache.clone()))
    }

    fn requests(&self) -> u64 {
        self.memory.tally().calls
    }

    /// Names and bytes of the files, without those of writers.
    fn files(&self) -> BTreeMap<String, u64> {
        let folder = self.home.path().join("cache");
        let entries = fs::read_dir(folder).expect("there").map(|entry| entry.expect("readable"));
        entries
            .map(|entry| (entry.file_name().into_string().expect("text"), entry.metadata().expect("there").len()))
            .collect()
    }
}

const MANY: u64 = 1 << 30;

#[test]
fn a_shard_is_downloaded_once_for_all_processes() {
    let remote = Remote::new();
    let before = remote.requests();
    let first = remote.cache(MANY);
    let second = remote.cache(MANY);
    for cache in [&first, &second, &first] {
        let shards = remote.open(cache);
        for shard in remote.shards() {
            assert_eq!(shards.read(&shard, 0).expect("good").rows(), 20);
        }
    }
    let names: Vec<String> = remote.shards().iter().map(file_name).collect();
    assert_eq!(remote.requests() - before, names.len() as u64, "one request each");
    let expected: BTreeSet<_> = names.into_iter().collect();
    assert_eq!(remote.files().into_keys().collect::<BTreeSet<_>>(), expected);
}

/// Ranks of a host begin with the same shards at the same time.
#[test]
fn processes_that_begin_together_download_a_shard_once() {
    let memory = MemoryBackend::new(FaultConfig { latency: Duration::from_millis(50), ..FaultConfig::none() });
    let remote = Remote::with_memory(memory);
    let shard = &remote.shards()[0];
    let before = remote.requests();
    let caches = [(); 4].map(|()| remote.cache(MANY));
    std::thread::scope(|scope| {
        for cache in &caches {
            scope.spawn(|| cache.fetch(&remote.store, shard, None).expect("fetched"));
        }
    });
    assert_eq!(remote.requests() - before, 1);
    assert_eq!(remote.files().into_keys().collect::<Vec<_>>(), [file_name(shard)], "no lock is left");
}

#[test]
fn damaged_and_missing_files_are_downloaded_again() {
    let remote = Remote::new();
    let shard = &remote.shards()[0];
    let cache = remote.cache(MANY);
    let shards = remote.open(&cache);
    shards.read(shard, 0).expect("good");
    let path = cache.folder().join(file_name(shard));
    let good = fs::read(&path).expect("there");
    let flipped: Vec<u8> = good.iter().map(|byte| byte ^ 1).collect();
    // Another process hashes the file before it uses it.
    for damage in [&flipped[..], &good[..9]] {
        write_all(cache.folder(), &[(&*file_name(shard), damage)]);
        remote.open(&remote.cache(MANY)).read(shard, 0).expect("downloaded again");
        assert!(fs::read(&path).expect("there") == good);
    }
    // This process has verified it, and reads it again when it cannot be decoded or is gone.
    write_all(cache.folder(), &[(&*file_name(shard), &flipped)]);
    assert_eq!(shards.read(shard, 0).expect("downloaded again").rows(), 20);
    fs::remove_file(&path).expect("ours");
    assert_eq!(shards.read(shard, 0).expect("downloaded again").rows(), 20);
    assert!(fs::read(&path).expect("there") == good);
}

#[test]
fn the_bound_holds_and_the_least_recently_used_files_go() {
    let remote = Remote::new();
    let shards = remote.shards();
    let bound = shards[..4].iter().map(|shard| shard.bytes).sum::<u64>() + 100;
    let cache = remote.cache(bound);
    let fetch = |index: usize| cache.fetch(&remote.store, &shards[index], None).expect("fetched");
    for index in [0, 1, 2] {
        fetch(index);
        let file = File::open(cache.folder().join(file_name(&shards[index]))).expect("there");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(index as u64)).expect("set");
    }
    fetch(0);
    for index in 3..shards.len() {
        fetch(index);
        let files = remote.files();
        assert!(files.values().sum::<u64>() <= bound, "{files:?}");
        let has = |index: usize| files.contains_key(&file_name(&shards[index]));
        match index {
            3 => assert!(has(0) && has(1) && has(2) && has(3)),
            4 => assert!(has(0) && !has(1) && has(2), "the first was used again"),
            _ => assert!(has(index)),
        }
    }
    // Another process finds the files, and respects the same bound.
    let other = remote.cache(bound);
    for shard in &shards {
        other.fetch(&remote.store, shard, None).expect("fetched");
        assert!(remote.files().values().sum::<u64>() <= bound);
    }
}

#[test]
fn shards_are_read_directly_where_no_copy_can_be_made() {
    let remote = Remote::new();
    let shard = &remote.shards()[0];
    let too_small = remote.cache(shard.bytes - 1);
    assert_eq!(remote.open(&too_small).read(shard, 0).expect("good").rows(), 20);
    write_all(remote.home.path(), &[("cache", "a file")]);
    assert_eq!(remote.open(&remote.cache(MANY)).read(shard, 0).expect("good").rows(), 20);
}

#[test]
fn damage_in_the_store_is_reported_and_leaves_no_file() {
    let remote = Remote::new();
    let shard = &remote.shards()[0];
    let mut bytes = remote.store.get(&shard.path).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    remote.store.put(&shard.path, &bytes).expect("written");
    let error = remote.open(&remote.cache(MANY)).read(shard, 0).expect_err("damaged");
    assert!(crate::Error::from(error).to_string().contains("BLAKE3"));
    assert!(remote.files().is_empty(), "{:?}", remote.files());
}

#[test]
fn interrupted_downloads_leave_no_half_file() {
    let remote = Remote::new();
    let shard = &remote.shards()[0];
    let cache = remote.cache(MANY);
    let (source, stop) = cancel_pair();
    source.cancel();
    assert!(cache.fetch(&remote.store, shard, Some(&stop)).is_none());
    assert!(remote.files().is_empty(), "{:?}", remote.files());
    write_all(remote.home.path(), &[("any", "some bytes")]);
    // The file of a killed writer, and that of one at work.
    let [dead, alive, locked] = [
        format!(".{}.parquet.host-1-0123456789abcdef.tmp", "d".repeat(64)),
        format!(".{}.parquet.host-1-0123456789abcdef.tmp", "a".repeat(64)),
        format!(".{}.lock", "d".repeat(64)),
    ];
    let long = 2 * ABANDONED.as_secs();
    // Files of other programs stay, whatever their age.
    let others = [".bashrc", ".state.tmp", "mine.parquet"];
    let old = others.iter().map(|name| (*name, long));
    for (name, age) in [(&*dead, long), (&*alive, 0), (&*locked, long)].into_iter().chain(old) {
        let path = cache.folder().join(name);
        fs::copy(remote.home.path().join("any"), &path).expect("free");
        let file = File::open(&path).expect("ours");
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("set");
    }
    remote.cache(MANY).fetch(&remote.store, shard, None).expect("fetched");
    let expected: BTreeSet<String> = others.map(str::to_owned).into_iter().chain([alive, file_name(shard)]).collect();
    assert_eq!(remote.files().into_keys().collect::<BTreeSet<_>>(), expected);
    // Nor do they make room.
    let other = &remote.shards()[1];
    remote.cache(shard.bytes.max(other.bytes)).fetch(&remote.store, other, None).expect("fetched");
    let left = remote.files();
    assert!(others.iter().all(|name| left.contains_key(*name)), "{:?}", left.keys());
    assert!(!left.contains_key(&file_name(shard)), "{:?}", left.keys());
}
