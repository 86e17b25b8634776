//! Measurement of a running pipeline by a thread that samples all clocks.
//!
//! # What
//! The thread samples the queue fill 100 times a second. At the end of each window it reads the clocks of all actors
//! and the kernel's times of their threads: time on a processor, and time ready without one. If there are more than
//! [`WINDOWS`] windows, pairs are merged and later windows are twice as long. A minute and a week therefore take the
//! same memory.
//!
//! # Definition
//! Results cover the time from the end of the warm-up ([`warm_up`]) to the newest window. The measurement is complete
//! when the rate is known to [`ENOUGH`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use runtime::{PoolStats, ThreadSchedule};

pub use crate::figures::{ActorMetrics, QueueMetrics};
use crate::figures::{figures, queues};
use crate::look::{Fill, StatsSnapshot};
use crate::statistics::{Estimate, mean_of, warm_up};
pub use crate::timeline::Timeline;

/// Interval of queue samples. A wake-up takes about 20 µs: 1000 per second would use 2 % of a processor.
const LOOK: Duration = Duration::from_millis(10);

/// Length of the first windows, and largest number of windows.
const WINDOW: Duration = Duration::from_millis(20);
const WINDOWS: usize = 256;

/// Precision at which the rate is known well enough: half of the interval, as a share of the rate. The next two are
/// the least windows and items for it.
pub const ENOUGH: f64 = 0.03;
const WINDOWS_MIN: usize = 32;
const ITEMS_ENOUGH: u64 = 200;

/// Windows between two checks for completion. Detecting the warm-up visits each pair of windows.
const JUDGE_EVERY: usize = 8;

/// Least mean number of items between two snapshots that count.
const ITEMS_OF_WINDOW: f64 = 4.0;

/// Least number of windows of a profile after merging, if it has that many.
const WINDOWS_KEPT: usize = 16;

/// Least number of items for a verdict: `ITEMS_FEW` in every case, `ITEMS_MIN` unless the items took long.
pub(crate) const ITEMS_FEW: u64 = 5;
pub(crate) const ITEMS_MIN: u64 = 50;

/// Result of a measurement.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Start of the measurement.
    pub begun: Option<Instant>,
    /// Seconds that count, without the warm-up.
    pub seconds: f64,
    /// Seconds of the warm-up, which are not counted.
    pub warm_up_s: f64,
    /// Items per second that the reader took. `None` if there are too few windows.
    pub rate: Option<Estimate>,
    /// Items per second of each window, for comparisons.
    pub windows: Vec<f64>,
    /// Metrics of each worker.
    pub workers: Vec<ActorMetrics>,
    /// Metrics of the reader.
    pub reader: ActorMetrics,
    /// Metrics of the queues between workers and reader.
    pub queues: QueueMetrics,
    /// Busy seconds of each of the newest items, of all workers together.
    pub worker_costs: Vec<f32>,
    /// Busy seconds of each of the newest items of the reader.
    pub reader_costs: Vec<f32>,
    /// Processors of the machine.
    pub cores: usize,
    /// Capacity of a worker's queue.
    pub depth: usize,
    /// Timeline of the whole measurement, warm-up included.
    pub timeline: Timeline,
    /// Overhead of the measurement, as a share of one processor. `None` where the kernel does not report it.
    pub overhead: Option<f64>,
}

/// Means over the workers that had work, as shares of the time.
pub struct MeanShares {
    pub(crate) busy: f64,
    pub(crate) starved: f64,
    /// Waiting for room in the output queue.
    pub blocked: f64,
    pub(crate) cpu: f64,
    pub(crate) queued: f64,
    pub(crate) delayed: f64,
    pub(crate) outside: f64,
    /// Number of workers that had work, and of those that had none.
    pub(crate) at_work: usize,
    pub(crate) idle: usize,
}

impl MeanShares {
    /// Computes the means of a measurement.
    pub fn new(measured: &Measured) -> Self {
        let at_work = measured.at_work().count();
        let mean = |of: fn(&ActorMetrics) -> f64| measured.at_work().map(of).sum::<f64>() / at_work.max(1) as f64;
        Self {
            busy: mean(|worker| worker.busy),
            starved: mean(|worker| worker.starved),
            blocked: mean(|worker| worker.blocked),
            cpu: mean(|worker| worker.cpu.unwrap_or(worker.busy)),
            queued: mean(|worker| worker.queued.unwrap_or(0.0)),
            delayed: mean(|worker| worker.delayed.unwrap_or(0.0)),
            outside: mean(ActorMetrics::outside),
            at_work,
            idle: measured.workers.len() - at_work,
        }
    }
}

impl Measured {
    /// Iterates over the workers that had work.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &ActorMetrics> {
        self.workers.iter().filter(|worker| worker.items > 0)
    }

    /// Returns the mean share of time in which the other workers waited for queue space. `None` if there are no
    /// others.
    pub(crate) fn others_blocked(&self, name: &str) -> Option<f64> {
        let others: Vec<f64> =
            self.at_work().filter(|worker| worker.name != name).map(|worker| worker.blocked).collect();
        (!others.is_empty()).then(|| others.iter().sum::<f64>() / others.len() as f64)
    }

    /// Returns the mean busy seconds of a worker per item.
    pub(crate) fn cost_of_item(&self) -> f64 {
        let costs = &self.worker_costs;
        costs.iter().map(|cost| f64::from(*cost)).sum::<f64>() / costs.len().max(1) as f64
    }

    /// Returns the number of processors that all actors used.
    pub(crate) fn processors_had(&self) -> f64 {
        self.workers.iter().chain([&self.reader]).map(|actor| actor.cpu.unwrap_or(actor.busy)).sum()
    }

    /// Returns whether all processors are in use.
    pub(crate) fn are_all_at_work(&self) -> bool {
        self.processors_had() >= 0.9 * self.cores as f64
    }

    /// Returns the processors available to the actors: all, unless other programs used some, so that actors were
    /// ready for longer than they ran.
    pub(crate) fn processors(&self) -> f64 {
        let ready: f64 = self.workers.iter().chain([&self.reader]).filter_map(|actor| actor.queued).sum();
        let all = self.cores as f64;
        let had = self.processors_had();
        // A thread that sleeps most of the time is always ready for a moment, without any other load.
        if ready > 0.1 * had && ready > 0.1 * all { had.clamp(0.05, all) } else { all }
    }
}

/// Sampling thread of a pipeline. It stops when this handle is dropped.
pub struct MeasureWatch {
    shared: Arc<Shared>,
    worker_stats: PoolStats,
}

struct Shared {
    begun: Instant,
    looks: Mutex<Vec<StatsSnapshot>>,
    is_over: AtomicBool,
    is_enough: AtomicBool,
    /// Nanoseconds on a processor that sampling used.
    looked_ns: AtomicU64,
}

impl MeasureWatch {
    /// Starts the sampling thread.
    pub fn from_stats(worker_stats: PoolStats) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            begun: Instant::now(),
            looks: Mutex::default(),
            is_over: AtomicBool::new(false),
            is_enough: AtomicBool::new(false),
            looked_ns: AtomicU64::new(0),
        });
        let seen = Arc::clone(&shared);
        let watched = worker_stats.clone();
        runtime::spawn("profile-watch", move || seen.look_on(&watched))?;
        Ok(Self { shared, worker_stats })
    }

    /// Returns whether the rate is known well enough.
    pub fn is_enough(&self) -> bool {
        self.shared.is_enough.load(Ordering::Relaxed)
    }

    /// Returns the result up to the newest window.
    pub fn measured(&self) -> Measured {
        self.seen(false)
    }

    /// Returns the result including the time after the last window, for a pipeline that has just ended.
    pub fn measured_to_the_end(&self) -> Measured {
        self.seen(true)
    }

    fn seen(&self, to_the_end: bool) -> Measured {
        let mut looks = self.shared.looks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A pipeline that ended before its first window is measured as a whole.
        let is_short = looks.len() < 2;
        if is_short {
            looks.insert(0, StatsSnapshot::nothing(&self.worker_stats));
        }
        if is_short || to_the_end {
            let last = looks.last().filter(|_| !is_short);
            let fill = looks.last().map_or_else(Fill::default, |last| last.fill);
            looks.push(StatsSnapshot::now(self.shared.begun, &self.worker_stats, fill, last));
        }
        if let Some(last) = looks.last_mut() {
            last.count();
        }
        let costs = self.worker_stats.costs();
        let begun = Some(self.shared.begun);
        let overhead = self.overhead();
        Measured { begun, worker_costs: costs.0, reader_costs: costs.1, overhead, ..between(&looks) }
    }

    /// Returns the processor share that sampling used.
    fn overhead(&self) -> Option<f64> {
        let looked = Duration::from_nanos(self.shared.looked_ns.load(Ordering::Relaxed));
        let share = looked.as_secs_f64() / self.shared.begun.elapsed().as_secs_f64().max(1e-9);
        (!looked.is_zero()).then_some(share)
    }
}

impl Drop for MeasureWatch {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn look_on(&self, worker_stats: &PoolStats) {
        let begun = self.begun;
        let mut window = WINDOW;
        let mut fill = Fill::default();
        let mut next = window;
        while !self.is_over.load(Ordering::Relaxed) {
            fill.sample(worker_stats);
            if begun.elapsed() >= next {
                let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
                let look = StatsSnapshot::now(begun, worker_stats, fill, looks.last());
                looks.push(look);
                if looks.len() > WINDOWS {
                    *looks = looks.iter().step_by(2).cloned().collect();
                    window *= 2;
                }
                if looks.len().is_multiple_of(JUDGE_EVERY) {
                    self.is_enough.store(is_known(&looks), Ordering::Relaxed);
                }
                let looked = ThreadSchedule::current().map_or(Duration::ZERO, |here| here.ran);
                self.looked_ns.store(u64::try_from(looked.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
                next = begun.elapsed() + window;
            }
            sleep(LOOK);
        }
    }
}

/// Returns whether the rate is known well enough after the warm-up.
fn is_known(looks: &[StatsSnapshot]) -> bool {
    let looks = coarse(looks);
    let rates = rates(&looks);
    let from = warm_up(&rates);
    let items = looks.last().map_or(0, |last| last.reader.reading.items - looks[from].reader.reading.items);
    rates.len() - from >= WINDOWS_MIN
        && mean_of(&rates[from..]).is_some_and(|rate| rate.spread() < ENOUGH)
        && items >= ITEMS_ENOUGH
}

/// Merges snapshots so that each window has a few items. In shorter windows, with one item or none, the warm-up would
/// be cut off by chance.
fn coarse(looks: &[StatsSnapshot]) -> Vec<StatsSnapshot> {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return Vec::new() };
    let items = (last.reader.reading.items - first.reader.reading.items).max(1) as f64;
    // A short profile has few windows: short windows are better than none.
    let most = ((looks.len() - 1) / WINDOWS_KEPT).max(1) as f64;
    let every = (ITEMS_OF_WINDOW * (looks.len() - 1) as f64 / items).ceil().clamp(1.0, most);
    let mut kept: Vec<StatsSnapshot> = looks.iter().rev().step_by(whole(every)).cloned().collect();
    kept.reverse();
    kept
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to the number of looks")]
fn whole(count: f64) -> usize {
    count as usize
}

/// Items per second of each window.
fn rates(looks: &[StatsSnapshot]) -> Vec<f64> {
    let items = |look: &StatsSnapshot| look.reader.reading.items as f64;
    looks.windows(2).map(|pair| (items(&pair[1]) - items(&pair[0])) / (pair[1].at - pair[0].at).max(1e-9)).collect()
}

/// Evaluates the snapshots from the end of the warm-up to the newest one.
fn between(looks: &[StatsSnapshot]) -> Measured {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (Some(begun), Some(last)) = (looks.first(), looks.last()) else {
        return Measured { cores, ..Measured::default() };
    };
    let timeline = Timeline::new(looks);
    let looks = coarse(looks);
    let rates = rates(&looks);
    let from = warm_up(&rates);
    let first = looks.get(from).unwrap_or(begun);
    let counted = &looks[from.min(looks.len() - 1)..];
    Measured {
        seconds: last.at - first.at,
        warm_up_s: first.at,
        rate: mean_of(&rates[from.min(rates.len())..]),
        windows: rates[from.min(rates.len())..].to_vec(),
        workers: (0..last.workers.len()).map(|worker| figures(counted, |look| &look.workers[worker])).collect(),
        reader: figures(counted, |look| &look.reader),
        queues: queues(counted),
        cores,
        depth: last.workers.first().map_or(0, |worker| worker.reading.capacity),
        timeline,
        ..Measured::default()
    }
}
