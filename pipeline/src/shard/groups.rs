//! Decoded row groups: each decoded once per pass through its window, shared by all workers, freed by arithmetic.

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

/// The decoded groups of the windows in flight.
///
/// A window's slots are filled by the workers that work in it and freed when the *reader* of the stream has received the
/// last batch that touches it ([`release_before`](Self::release_before)): reference counting by arithmetic, without
/// eviction and without waiting for memory, so without deadlock. Batches in flight span at most two windows, so at
/// most `2·W` groups are alive, of each source of the stream.
#[derive(Debug)]
pub struct Groups {
    sources: Vec<OfSource>,
    counts: Arc<Counts>,
}

/// The groups of one prepared folder.
#[derive(Debug)]
struct OfSource {
    shards: Arc<OpenShards>,
    windows: Mutex<BTreeMap<u64, Arc<Slots>>>,
}

/// Slots by block.
type Slots = Mutex<BTreeMap<usize, Arc<Slot>>>;

#[derive(Debug, Default)]
struct Slot {
    claimed: AtomicBool,
    group: OnceLock<Result<Alive, Damage>>,
    /// Workers that took it while a trace was recorded, a bit for each: one arrow to each is enough.
    traced: AtomicU64,
}

/// A group that is counted for as long as it lives.
#[derive(Debug)]
struct Alive {
    group: Group,
    counts: Arc<Counts>,
    /// Of its way from who decoded it to those who take it.
    number: u64,
}

#[derive(Debug, Default)]
struct Counts {
    decoded: AtomicU64,
    decode_ns: AtomicU64,
    alive: AtomicU64,
    alive_max: AtomicU64,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.counts.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A decoded group, kept alive while it is held.
#[derive(Clone, Debug)]
pub struct Held(Arc<Slot>);

impl std::ops::Deref for Held {
    type Target = Group;

    fn deref(&self) -> &Group {
        match self.0.group.get() {
            Some(Ok(alive)) => &alive.group,
            _ => unreachable!("a slot is held after it was filled"),
        }
    }
}

impl Held {
    /// Says so, the first time that a worker takes it.
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
    /// No groups yet of the shards of these sources.
    #[must_use]
    pub fn new(sources: impl IntoIterator<Item = Arc<OpenShards>>) -> Self {
        let none = |shards| OfSource { shards, windows: Mutex::default() };
        Self { sources: sources.into_iter().map(none).collect(), counts: Arc::default() }
    }

    /// The groups of `blocks` of a source's `split` in its `window`, which is always of one split, each decoded by the first
    /// that asks for it.
    ///
    /// `rank` of `ranks` is the asking worker: it begins at its own share of the blocks, so that workers that enter a window
    /// together share the decoding, and waits for another's work only when nothing is left to begin.
    pub fn get(
        &self,
        source: usize,
        split: &Split,
        window: u64,
        blocks: &[(usize, Block)],
        (rank, ranks): (usize, usize),
    ) -> Result<BTreeMap<usize, Held>, Damage> {
        let shards = &self.sources[source].shards;
        let slots = self.slots(source, window, blocks);
        let first = if slots.is_empty() { 0 } else { rank % ranks * slots.len() / ranks };
        let (before, after) = slots.split_at(first);
        for (_, block, slot) in after.iter().chain(before) {
            if slot.group.get().is_none() && !slot.claimed.swap(true, Ordering::Relaxed) {
                slot.group.get_or_init(|| self.decode(shards, split, *block));
            }
        }
        let held = |(index, block, slot): (usize, Block, Arc<Slot>)| {
            if slot.group.get().is_none() {
                let _span = trace_span!(target: SPANS, "wait for a row group").entered();
                starved(|| slot.group.get_or_init(|| self.decode(shards, split, block)).is_ok());
            }
            match slot.group.get() {
                Some(Err(damage)) => Err(damage.clone()),
                _ => Ok((index, Held(slot).taken_by(rank, block))),
            }
        };
        slots.into_iter().map(held).collect()
    }

    /// Frees all windows of a source before `window`: nobody will ask for them again.
    pub fn release_before(&self, source: usize, window: u64) {
        let mut windows = self.lock(source);
        let kept = windows.split_off(&window);
        let freed = std::mem::replace(&mut *windows, kept);
        // The buffers go after the lock, so that no worker waits for the allocator.
        drop(windows);
        drop(freed);
    }

    /// Groups decoded so far.
    pub fn decoded(&self) -> u64 {
        self.counts.decoded.load(Ordering::Relaxed)
    }

    /// Nanoseconds spent decoding and verifying, over all workers.
    pub fn decode_ns(&self) -> u64 {
        self.counts.decode_ns.load(Ordering::Relaxed)
    }

    /// Groups that are alive.
    pub fn alive(&self) -> u64 {
        self.counts.alive.load(Ordering::Relaxed)
    }

    /// The most groups that were alive at once.
    pub fn alive_max(&self) -> u64 {
        self.counts.alive_max.load(Ordering::Relaxed)
    }

    fn slots(&self, source: usize, window: u64, blocks: &[(usize, Block)]) -> Vec<(usize, Block, Arc<Slot>)> {
        let window = Arc::clone(self.lock(source).entry(window).or_default());
        let mut slots = window.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.iter().map(|&(index, block)| (index, block, Arc::clone(slots.entry(index).or_default()))).collect()
    }

    fn decode(&self, shards: &OpenShards, split: &Split, block: Block) -> Result<Alive, Damage> {
        let (began, number) = (std::time::Instant::now(), unique_number());
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
        Ok(Alive { group, counts: Arc::clone(&self.counts), number })
    }

    fn lock(&self, source: usize) -> MutexGuard<'_, BTreeMap<u64, Arc<Slots>>> {
        self.sources[source].windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
