//! Streams from remote folders through the cache: the same batches, few requests, shards ahead of the stream.

use store::{FaultConfig, MemoryBackend};

use super::*;
use crate::load::read_ahead::ReadAhead;
use crate::shard::cache::ShardCache;

const SHARDS: usize = 40;

/// Remote folder of shards of one row group, and a folder for copies.
struct Remote {
    memory: MemoryBackend,
    /// Its folder has the copies.
    home: Home,
}

impl Remote {
    fn new(faults: FaultConfig) -> Self {
        let memory = MemoryBackend::new(FaultConfig::none());
        let shape = Synthetic {
            rows_per_group: 20,
            groups_per_shard: 1,
            train_rows: 20 * SHARDS as u64,
            ..Synthetic::default()
        };
        shape.write(&Store::from_memory(&memory)).expect("written");
        let memory = memory.with_faults(faults);
        let store = Store::from_memory(&memory);
        let manifest = open(&store).expect("there");
        let vocab = Arc::new(read_vocab(&store, &manifest, manifest.newest()).expect("there"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { memory, home: Home { folder, store, manifest, vocab } }
    }

    fn plan(&self, cache: Option<u64>) -> Arc<LoadPlan> {
        let views = taco();
        let wanted = wanted();
        let data = data(2);
        let cache = cache.map(|bytes| ShardCache::new(self.home.folder.path().to_owned(), bytes));
        Arc::new(
            LoadPlan::new(&LoadRequest { cache, ..self.home.request(&data, &views, &wanted) }).expect("no problem"),
        )
    }

    fn has_copy(&self, blake3: &str) -> bool {
        self.home.folder.path().join(format!("{blake3}.parquet")).is_file()
    }
}

fn digests(plan: &Arc<LoadPlan>, batches: usize) -> Vec<Vec<blake3::Hash>> {
    let stream = plan.stream(RowIndex(0), RankShard::ALONE).take(batches);
    stream.map(|batch| batch.expect("good").row_digests().to_vec()).collect()
}

#[test]
fn the_cache_changes_no_batch() {
    // More than an epoch of 100 batches.
    let expected = digests(&Remote::new(FaultConfig::none()).plan(None), 130);
    let failures = FaultConfig { failures: 0.2, seed: 5, ..FaultConfig::none() };
    for (faults, shards) in [(FaultConfig::none(), SHARDS), (failures, SHARDS), (failures, 6)] {
        let remote = Remote::new(faults);
        let largest = remote.home.manifest.now().train.shards.iter().map(|shard| shard.bytes).max().expect("some");
        assert!(digests(&remote.plan(Some(shards as u64 * largest)), 130) == expected, "{shards} shards fit");
    }
}

#[test]
fn each_shard_takes_one_request() {
    let remote = Remote::new(FaultConfig::none());
    let before = remote.memory.tally().calls;
    digests(&remote.plan(Some(1 << 30)), 250);
    assert_eq!(remote.memory.tally().calls - before, SHARDS as u64);
}

#[test]
fn shards_are_downloaded_before_the_stream_reaches_them() {
    let remote = Remote::new(FaultConfig::none());
    let plan = remote.plan(Some(1 << 30));
    let ahead = ReadAhead::start(&plan, 0).expect("it has a cache");
    let plan_of_epochs = &plan.sources[0].epoch_plan;
    let mut row = 0;
    let mut seen = 0;
    while seen < SHARDS {
        let window = plan_of_epochs.decided_window(row).expect("decided");
        ahead.advance(&plan, row + 1);
        for shard in &window.shards {
            assert!(remote.has_copy(&shard.blake3), "window of row {row}");
        }
        seen += window.shards.len();
        row = window.end_row;
    }
    assert_eq!(remote.memory.tally().failed, 0);
}

#[test]
fn a_dropped_stream_ends_its_downloads() {
    let remote = Remote::new(FaultConfig::none());
    let plan = remote.plan(Some(1 << 30));
    let mut stream = plan.stream(RowIndex(0), RankShard::ALONE);
    stream.next().expect("endless").expect("good");
    drop(stream);
    assert!(plan.facts().cache.is_some_and(|cache| cache.shards_ahead_max >= 8));
}
