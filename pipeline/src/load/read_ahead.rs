//! Read-ahead of a stream: threads that download the shards of the next windows into the cache.
//!
//! Item `i` of a source is the `i`-th shard in the order of its windows. The pool bounds the items ahead of the stream: a
//! slot is free when the stream has reached the window of its item. The batches do not depend on this: a shard that is
//! not in the cache is downloaded when it is read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use runtime::{CancelSource, CancelToken, OrderedPool, PoolOptions, cancel_pair, starved};
use schemas::Shard;

use super::LoadPlan;
use crate::error::Error;
use crate::shard::cache::ShardCache;

/// Maximum number of downloading threads of a stream with at most as many sources; each source has at least one.
const THREADS_MAX: usize = 4;

/// Minimum and maximum number of shards ahead of a source.
const SHARDS_MIN: usize = 8;
const SHARDS_MAX: usize = 64;

/// Read-ahead of the sources of a stream.
#[derive(Debug)]
pub(super) struct ReadAhead {
    /// Cancels downloads, so that their threads can end. Dropped before the threads are joined.
    cancel_source: CancelSource,
    sources: Vec<Option<Mutex<SourceAhead>>>,
}

/// Read-ahead of one source.
#[derive(Debug)]
struct SourceAhead {
    pool: OrderedPool<(), Error>,
    upcoming: Arc<Mutex<Upcoming>>,
    /// Number of items that the stream has reached.
    reached: u64,
}

/// Shards of a source in the order of its windows.
#[derive(Debug)]
struct Upcoming {
    plan: Arc<LoadPlan>,
    source: usize,
    /// First row of the next window.
    row: u64,
    /// Index of the first item in the queue.
    base: u64,
    items: VecDeque<UpcomingShard>,
}

#[derive(Clone, Debug)]
struct UpcomingShard {
    /// First row of its window.
    row: u64,
    /// `None` if the data of this row is not decided yet, or stays decoded.
    shard: Option<Shard>,
    is_decided: bool,
}

impl ReadAhead {
    /// Begins at row `row` of the stream. Returns `None` if no source has a cache.
    pub(super) fn start(plan: &Arc<LoadPlan>, row: u64) -> Option<Self> {
        let (cancel, stop) = cancel_pair();
        let pools = pools(plan);
        if pools.iter().all(Option::is_none) {
            return None;
        }
        let rows = plan.assignment.rows_before(row);
        let sources = pools.into_iter().zip(rows).enumerate().map(|(index, (options, row))| {
            Some(Mutex::new(SourceAhead::start(plan, index, row, options?, stop.clone())))
        });
        Some(Self { cancel_source: cancel, sources: sources.collect() })
    }

    /// Ends the downloads, so that no worker waits for one.
    pub(super) fn cancel(&self) {
        self.cancel_source.cancel();
    }

    /// Frees the slots of all windows that begin before `row` of the stream. Waits for their downloads, unless another
    /// worker does.
    pub(super) fn advance(&self, plan: &LoadPlan, row: u64) {
        let rows = plan.assignment.rows_before(row);
        for (source, row) in self.sources.iter().zip(rows) {
            // A worker that is busy here will free the slots of this window too, or the next batch does.
            if let Some(mut source) = source.as_ref().and_then(|source| source.try_lock().ok()) {
                source.advance(row);
            }
        }
    }
}

impl SourceAhead {
    fn start(plan: &Arc<LoadPlan>, source: usize, row: u64, options: PoolOptions, stop: CancelToken) -> Self {
        let upcoming = Upcoming { plan: Arc::clone(plan), source, row, base: 0, items: VecDeque::new() };
        let upcoming = Arc::new(Mutex::new(upcoming));
        let list = Arc::clone(&upcoming);
        let shards = Arc::clone(&plan.sources[source].shards);
        let pool = OrderedPool::new(0..u64::MAX, options, move |index| {
            let item = list.lock().unwrap_or_else(PoisonError::into_inner).item(index);
            if let Some(shard) = item.shard
                && !stop.is_cancelled()
            {
                shards.prefetch(&shard, &stop);
            }
            Ok(())
        });
        Self { pool, upcoming, reached: 0 }
    }

    fn advance(&mut self, row: u64) {
        // The worker that calls this may be the one that decides the next data, so it does not wait for that.
        let mut undecided = 0;
        while undecided < SHARDS_MAX {
            let item = self.upcoming.lock().unwrap_or_else(PoisonError::into_inner).item(self.reached);
            if item.row >= row || starved(|| self.pool.next()).is_none_or(|item| item.is_err()) {
                return;
            }
            undecided += usize::from(!item.is_decided);
            self.reached += 1;
            self.upcoming.lock().unwrap_or_else(PoisonError::into_inner).forget_before(self.reached);
        }
    }
}

impl Upcoming {
    /// Returns an item that the stream has not reached.
    fn item(&mut self, index: u64) -> UpcomingShard {
        let at = usize::try_from(index - self.base).expect("few items are ahead");
        while self.items.len() <= at {
            self.extend();
        }
        self.items[at].clone()
    }

    fn forget_before(&mut self, index: u64) {
        while self.base < index {
            self.items.pop_front();
            self.base += 1;
        }
    }

    /// Appends the shards of one more window, at least one item.
    fn extend(&mut self) {
        let row = self.row;
        let plan = Arc::clone(&self.plan);
        let window = plan.sources[self.source].epoch_plan.decided_window(row);
        let Some(window) = window else {
            // Asked again when the stream has reached this row.
            self.items.push_back(UpcomingShard { row, shard: None, is_decided: false });
            return;
        };
        self.row = window.end_row;
        let item = |shard| UpcomingShard { row, shard, is_decided: true };
        if window.shards.is_empty() {
            self.items.push_back(item(None));
        }
        self.items.extend(window.shards.into_iter().map(|shard| item(Some(shard))));
    }
}

/// Returns the pool of each source that has a cache. The sources share the threads.
fn pools(plan: &LoadPlan) -> Vec<Option<PoolOptions>> {
    let caches: Vec<Option<&ShardCache>> = plan.sources.iter().map(|source| source.shards.cache()).collect();
    let cached = caches.iter().flatten().count();
    let pools = caches.into_iter().enumerate().map(|(index, cache)| Some(options(plan, index, cache?, cached)));
    pools.collect()
}

/// Returns the threads of one of `cached` sources, and the shards that each has finished ahead: those of two windows. All
/// sources share half of the cache; each has at least one thread and two shards.
fn options(plan: &LoadPlan, index: usize, cache: &ShardCache, cached: usize) -> PoolOptions {
    let threads = (THREADS_MAX / cached).max(1);
    let source = &plan.sources[index];
    let wanted = (2 * source.sampler().window_blocks()).clamp(SHARDS_MIN, SHARDS_MAX);
    let shards = &source.epoch_plan.first().snapshot().split.shards;
    let largest = shards.iter().map(|shard| shard.bytes).max().unwrap_or(0).max(1);
    let fit = usize::try_from(cache.max_bytes() / 2 / cached as u64 / largest).unwrap_or(usize::MAX);
    let most = wanted.min(fit).max(2);
    let workers = threads.min(most / 2);
    PoolOptions { name: "shards", item: "shard", workers, queue_depth: (most / workers - 1).max(1) }
}

impl LoadPlan {
    /// Maximum number of shards that are downloaded ahead of each cached source, over all of them. 0 without a cache.
    pub(super) fn shards_ahead_max(&self) -> usize {
        pools(self).iter().flatten().map(|pool| pool.workers * (pool.queue_depth + 1)).sum()
    }
}
