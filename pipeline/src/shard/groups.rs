//! Decoded row groups. Each is decoded once per pass through its window and shared by all workers. Arithmetic
//! determines when it is freed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use runtime::spans::{SPANS, unique_number};
use runtime::starved;
use schemas::Split;
use tracing::{Level, enabled, trace, trace_span};

use super::opened::OpenShards;
use super::reader::{Damage, Group};
use crate::sampler::Block;

/// Decoded groups of the windows in flight.
///
/// Workers fill the slots of the window that they work in. The slots are freed when the *reader* of the stream has
/// received the last batch that uses the window ([`release_before`](Self::release_before)). This replaces reference
/// counts by arithmetic. There is no eviction and no wait for memory, so there is no deadlock. Batches in flight span
/// at most two windows, so at most `2·W` groups are alive for each source of the stream.
#[derive(Debug)]
pub struct Groups {
    sources: Vec<SourceGroups>,
    counts: Arc<Counts>,
}

/// Position of a worker among those of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerIndex {
    /// Index of the worker.
    pub index: usize,
    /// Number of workers.
    pub count: usize,
}

impl WorkerIndex {
    /// The only worker.
    pub const ALONE: Self = Self { index: 0, count: 1 };
}

/// Groups of one prepared folder.
#[derive(Debug)]
struct SourceGroups {
    shards: Arc<OpenShards>,
    windows: Mutex<BTreeMap<u64, Arc<Slots>>>,
}

/// Slots by block.
type Slots = Mutex<BTreeMap<usize, Arc<Slot>>>;

#[derive(Debug, Default)]
struct Slot {
    claimed: AtomicBool,
    group: OnceLock<Result<LiveGroup, Damage>>,
    /// Bit set of the workers that used the group while a trace was recorded. The trace needs one arrow per worker.
    traced: AtomicU64,
}

/// Group that is counted while it is alive.
#[derive(Debug)]
struct LiveGroup {
    group: Group,
    counts: Arc<Counts>,
    /// Id of the trace arrow from the decoding worker to the others.
    number: u64,
}

#[derive(Debug, Default)]
struct Counts {
    decoded: AtomicU64,
    decode_ns: AtomicU64,
    alive: AtomicU64,
    alive_max: AtomicU64,
}

impl Drop for LiveGroup {
    fn drop(&mut self) {
        self.counts.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Decoded group, kept alive while this handle exists.
#[derive(Clone, Debug)]
pub struct HeldGroup(Arc<Slot>);

impl std::ops::Deref for HeldGroup {
    type Target = Group;

    fn deref(&self) -> &Group {
        match self.0.group.get() {
            Some(Ok(alive)) => &alive.group,
            _ => unreachable!("a slot is held after it was filled"),
        }
    }
}

impl HeldGroup {
    /// Records a trace arrow at the first use by a worker.
    fn taken_by(self, rank: usize, block: Block) -> Self {
        if enabled!(target: SPANS, Level::TRACE)
            && let Some(Ok(alive)) = self.0.group.get()
        {
            let worker = 1 << (rank % 64);
            if self.0.traced.fetch_or(worker, Ordering::Relaxed) & worker == 0 {
                trace!(target: SPANS, takes = alive.number, what = "row group", shard = block.shard, group = block.group);
            }
        }
        self
    }
}

impl Groups {
    /// Creates an empty cache for the shards of these sources.
    #[must_use]
    pub fn new(sources: impl IntoIterator<Item = Arc<OpenShards>>) -> Self {
        let none = |shards| SourceGroups { shards, windows: Mutex::default() };
        Self { sources: sources.into_iter().map(none).collect(), counts: Arc::default() }
    }

    /// Returns the groups of `blocks` of a source's `split` in its `window`. A window always belongs to one split. The
    /// first worker that requests a group decodes it.
    ///
    /// The requesting worker begins at its own share of the blocks, so that workers that enter
    /// a window together share the decoding. It waits for another worker only when no block is left to decode.
    pub fn get(
        &self,
        source: usize,
        split: &Split,
        window: u64,
        blocks: &[(usize, Block)],
        worker: WorkerIndex,
    ) -> Result<BTreeMap<usize, HeldGroup>, Damage> {
        let shards = &self.sources[source].shards;
        let slots = self.slots(source, window, blocks);
        let WorkerIndex { index, count } = worker;
        let first = if slots.is_empty() { 0 } else { index % count * slots.len() / count };
        let (before, after) = slots.split_at(first);
        for (_, block, slot) in after.iter().chain(before) {
            if slot.group.get().is_none() && !slot.claimed.swap(true, Ordering::Relaxed) {
                slot.group.get_or_init(|| self.decode(shards, split, *block));
            }
        }
        let held = |(at, block, slot): (usize, Block, Arc<Slot>)| {
            if slot.group.get().is_none() {
                let _span = trace_span!(target: SPANS, "wait for a row group").entered();
                starved(|| slot.group.get_or_init(|| self.decode(shards, split, block)).is_ok());
            }
            match slot.group.get() {
                Some(Err(damage)) => Err(damage.clone()),
                _ => Ok((at, HeldGroup(slot).taken_by(index, block))),
            }
        };
        slots.into_iter().map(held).collect()
    }

    /// Frees all windows of a source before `window`. No worker requests them again.
    pub fn release_before(&self, source: usize, window: u64) {
        let mut windows = self.lock(source);
        let kept = windows.split_off(&window);
        let freed = std::mem::replace(&mut *windows, kept);
        // Buffers are freed after the lock is released, so that no worker waits for the allocator.
        drop(windows);
        drop(freed);
    }

    /// Number of groups decoded so far.
    pub fn decoded(&self) -> u64 {
        self.counts.decoded.load(Ordering::Relaxed)
    }

    /// Nanoseconds spent decoding and verifying, over all workers.
    pub fn decode_ns(&self) -> u64 {
        self.counts.decode_ns.load(Ordering::Relaxed)
    }

    /// Number of groups that are alive.
    pub fn alive(&self) -> u64 {
        self.counts.alive.load(Ordering::Relaxed)
    }

    /// Maximum number of groups that were alive at once.
    pub fn alive_max(&self) -> u64 {
        self.counts.alive_max.load(Ordering::Relaxed)
    }

    fn slots(&self, source: usize, window: u64, blocks: &[(usize, Block)]) -> Vec<(usize, Block, Arc<Slot>)> {
        let window = Arc::clone(self.lock(source).entry(window).or_default());
        let mut slots = window.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.iter().map(|&(index, block)| (index, block, Arc::clone(slots.entry(index).or_default()))).collect()
    }

    fn decode(&self, shards: &OpenShards, split: &Split, block: Block) -> Result<LiveGroup, Damage> {
        let began = std::time::Instant::now();
        let number = unique_number();
        let _span =
            trace_span!(target: SPANS, "decode", shard = block.shard, group = block.group, makes = number).entered();
        let entry = &split.shards[block.shard as usize];
        let group = shards.read(entry, block.group as usize)?;
        let rows = entry.groups[block.group as usize];
        assert_eq!(group.rows(), rows as usize, "a decoded group has the rows that its block counts with");
        let alive = self.counts.alive.fetch_add(1, Ordering::Relaxed) + 1;
        self.counts.alive_max.fetch_max(alive, Ordering::Relaxed);
        self.counts.decoded.fetch_add(1, Ordering::Relaxed);
        let spent = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counts.decode_ns.fetch_add(spent, Ordering::Relaxed);
        Ok(LiveGroup { group, counts: Arc::clone(&self.counts), number })
    }

    fn lock(&self, source: usize) -> MutexGuard<'_, BTreeMap<u64, Arc<Slots>>> {
        self.sources[source].windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
