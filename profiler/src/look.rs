//! All clocks and counts of a pipeline at one moment.

use std::time::{Duration, Instant};

use runtime::{PoolStats, ThreadCounters, ThreadSchedule, WorkerStats};
use telemetry::host_memory::resident_bytes;

/// Seconds between two readings of what the kernel counts in addition time: of the process and of each thread. Two more files of
/// `/proc` for each are too much for each window of many threads.
const COUNT_EVERY: f64 = 0.1;

/// An actor: its own clocks, and what the kernel knows of its thread, which may be nothing yet.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) reading: WorkerStats,
    pub(super) scheduled: Option<ThreadSchedule>,
    pub(super) counted: Option<ThreadCounters>,
}

/// All clocks at one moment, in seconds since the beginning.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) at: f64,
    pub(super) workers: Vec<Seen>,
    pub(super) reader: Seen,
    pub(super) fill: Fill,
    /// Bytes that the process has of the machine; none where nobody says.
    pub(super) resident: Option<u64>,
    /// When threads were counted last.
    counted_at: f64,
}

/// Looks at queues, summed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fill {
    pub(super) looks: u64,
    pub(super) share: f64,
    pub(super) full: u64,
    pub(super) empty: u64,
}

impl Fill {
    pub(super) fn look(&mut self, gauges: &PoolStats) {
        for (queued, capacity) in gauges.queues() {
            self.looks += 1;
            self.share += queued as f64 / capacity.max(1) as f64;
            self.full += u64::from(queued == capacity);
            self.empty += u64::from(queued == 0);
        }
    }
}

impl Seen {
    /// Its clocks now; of a thread that has ended, what was known of it before.
    fn now(reading: WorkerStats, before: Option<&Self>, counts: bool) -> Self {
        let scheduled = reading.thread.and_then(ThreadSchedule::read).or_else(|| before?.scheduled);
        // Who was not known yet is counted as soon as it is: what it did before its first item is no item's.
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

impl Look {
    /// Before anything happened.
    pub(super) fn nothing(gauges: &PoolStats) -> Self {
        Self {
            at: 0.0,
            workers: gauges.workers().into_iter().map(Seen::nothing).collect(),
            reader: Seen::nothing(gauges.reader()),
            fill: Fill::default(),
            resident: None,
            counted_at: 0.0,
        }
    }

    pub(super) fn now(begun: Instant, gauges: &PoolStats, fill: Fill, before: Option<&Self>) -> Self {
        let at = begun.elapsed().as_secs_f64();
        let counts = before.is_none_or(|before| at - before.counted_at >= COUNT_EVERY);
        let counted_at = if counts { at } else { before.map_or(at, |before| before.counted_at) };
        let workers = gauges.workers().into_iter().enumerate();
        let workers =
            workers.map(|(worker, now)| Seen::now(now, before.and_then(|before| before.workers.get(worker)), counts));
        let workers = workers.collect();
        let reader = Seen::now(gauges.reader(), before.map(|before| &before.reader), counts);
        let resident = if counts { resident_bytes() } else { before.and_then(|before| before.resident) };
        Self { at: begun.elapsed().as_secs_f64(), workers, reader, fill, resident, counted_at }
    }

    /// The same with threads counted now, for who looks last.
    pub(super) fn count(&mut self) {
        for seen in self.workers.iter_mut().chain([&mut self.reader]) {
            seen.counted = seen.reading.thread.and_then(ThreadCounters::read).or(seen.counted);
        }
    }

    /// Workers, then the reader.
    pub(super) fn actors(&self) -> impl Iterator<Item = &Seen> {
        self.workers.iter().chain([&self.reader])
    }

    /// Bytes of the items that wait, each as large as those of its worker are in the mean.
    pub(super) fn queued_bytes(&self) -> u64 {
        let workers = self.workers.iter().map(|worker| &worker.reading);
        workers.map(|worker| worker.bytes / worker.items.max(1) * worker.queued as u64).sum()
    }
}
