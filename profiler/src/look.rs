//! Snapshot of all clocks and counters of a pipeline.

use std::time::{Duration, Instant};

use runtime::{PoolStats, ThreadCounters, ThreadSchedule, WorkerStats};
use telemetry::host::resident_bytes;

/// Seconds between two readings of the kernel's counters of the process and of each thread. Two more files of `/proc`
/// per thread are too expensive for each window of many threads.
const COUNT_EVERY: f64 = 0.1;

/// State of one actor: its own clocks and the kernel's data of its thread, which may be missing.
#[derive(Clone, Debug)]
pub(super) struct StatsSample {
    pub(super) reading: WorkerStats,
    pub(super) scheduled: Option<ThreadSchedule>,
    pub(super) counted: Option<ThreadCounters>,
}

/// All clocks at one moment, in seconds since the start.
#[derive(Clone, Debug)]
pub(super) struct StatsSnapshot {
    pub(super) at: f64,
    pub(super) workers: Vec<StatsSample>,
    pub(super) reader: StatsSample,
    pub(super) fill: Fill,
    /// Resident bytes of the process. `None` where the kernel does not report them.
    pub(super) resident: Option<u64>,
    /// Time of the last reading of the thread counters.
    counted_at: f64,
}

/// Sum of queue samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fill {
    pub(super) looks: u64,
    pub(super) share: f64,
    pub(super) full: u64,
    pub(super) empty: u64,
}

impl Fill {
    pub(super) fn sample(&mut self, worker_stats: &PoolStats) {
        for (queued, capacity) in worker_stats.queues() {
            self.looks += 1;
            self.share += queued as f64 / capacity.max(1) as f64;
            self.full += u64::from(queued == capacity);
            self.empty += u64::from(queued == 0);
        }
    }
}

impl StatsSample {
    /// Reads the clocks now. If the thread has ended, keeps the previous values.
    fn now(reading: WorkerStats, before: Option<&Self>, counts: bool) -> Self {
        let scheduled = reading.thread.and_then(ThreadSchedule::read).or_else(|| before?.scheduled);
        // A new thread is counted at once: its work before the first item belongs to no item.
        let counts = counts || before.is_none_or(|before| before.counted.is_none());
        let counted = reading.thread.filter(|_| counts).and_then(ThreadCounters::read).or_else(|| before?.counted);
        Self { reading, scheduled, counted }
    }

    fn nothing(reading: WorkerStats) -> Self {
        let none = Duration::ZERO;
        let reading =
            WorkerStats { busy: none, starved: none, blocked: none, wall: none, items: 0, bytes: 0, ..reading };
        Self { reading: WorkerStats { tokens: 0, ..reading }, scheduled: None, counted: None }
    }
}

impl StatsSnapshot {
    /// Snapshot before anything happened.
    pub(super) fn nothing(worker_stats: &PoolStats) -> Self {
        Self {
            at: 0.0,
            workers: worker_stats.workers().into_iter().map(StatsSample::nothing).collect(),
            reader: StatsSample::nothing(worker_stats.reader()),
            fill: Fill::default(),
            resident: None,
            counted_at: 0.0,
        }
    }

    pub(super) fn now(begun: Instant, worker_stats: &PoolStats, fill: Fill, before: Option<&Self>) -> Self {
        let at = begun.elapsed().as_secs_f64();
        let counts = before.is_none_or(|before| at - before.counted_at >= COUNT_EVERY);
        let counted_at = if counts { at } else { before.map_or(at, |before| before.counted_at) };
        let workers = worker_stats.workers().into_iter().enumerate();
        let workers = workers
            .map(|(worker, now)| StatsSample::now(now, before.and_then(|before| before.workers.get(worker)), counts));
        let workers = workers.collect();
        let reader = StatsSample::now(worker_stats.reader(), before.map(|before| &before.reader), counts);
        let resident = if counts { resident_bytes() } else { before.and_then(|before| before.resident) };
        Self { at: begun.elapsed().as_secs_f64(), workers, reader, fill, resident, counted_at }
    }

    /// Reads the thread counters now, for the last snapshot.
    pub(super) fn count(&mut self) {
        for seen in self.workers.iter_mut().chain([&mut self.reader]) {
            seen.counted = seen.reading.thread.and_then(ThreadCounters::read).or(seen.counted);
        }
    }

    /// Iterates over the workers, then the reader.
    pub(super) fn actors(&self) -> impl Iterator<Item = &StatsSample> {
        self.workers.iter().chain([&self.reader])
    }

    /// Bytes of the queued items, estimated by the mean item size of each worker.
    pub(super) fn queued_bytes(&self) -> u64 {
        let workers = self.workers.iter().map(|worker| &worker.reading);
        workers.map(|worker| worker.bytes / worker.items.max(1) * worker.queued as u64).sum()
    }
}
