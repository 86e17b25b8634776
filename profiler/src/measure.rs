//! A pipeline that is looked at while it runs: a thread next to it reads all clocks again and again.
//!
//! # What
//! A hundred times a second it looks at how full queues are; at the end of each window it reads the clocks of all actors, and what the
//! kernel knows of their threads: time on a processor, and time in which one was ready and had none. There are [`WINDOWS`]
//! windows at the most: then two become one, and the next are twice as long, so that a minute and a week take the same room.
//!
//! # Definition
//! What is told is from the end of the warm-up ([`warm_up`]) to the newest window. It is enough when the rate is
//! known to [`ENOUGH`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use runtime::{PoolStats, ThreadSchedule};

pub use crate::figures::{ActorFigures, QueueFigures};
use crate::figures::{figures, queues};
use crate::look::{Fill, Look};
use crate::statistics::{Estimate, mean_of, warm_up};
pub use crate::timeline::Timeline;

/// Between two looks at the queues. Waking up for one takes some 20 µs: a thousand a second were 2 % of a processor.
const LOOK: Duration = Duration::from_millis(10);

/// The first windows, and how many there are at the most.
const WINDOW: Duration = Duration::from_millis(20);
const WINDOWS: usize = 256;

/// Half of the interval, as a share of the rate, at which it is known well enough; and windows before which nobody says so.
pub const ENOUGH: f64 = 0.03;
const WINDOWS_MIN: usize = 32;
const ITEMS_ENOUGH: u64 = 200;

/// Windows between two judgements whether it is enough: finding the warm-up looks at each pair of windows.
const JUDGE_EVERY: usize = 8;

/// Items between two looks that count, in the mean, at the least.
const ITEMS_OF_WINDOW: f64 = 4.0;

/// Windows that are left of a profile at the least, where it has so many.
const WINDOWS_KEPT: usize = 16;

/// Items before which nothing is judged, and those before which nothing is unless they took long.
pub(crate) const ITEMS_FEW: u64 = 5;
pub(crate) const ITEMS_MIN: u64 = 50;

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// When somebody began to look.
    pub begun: Option<Instant>,
    /// Seconds that count, and those before them that do not.
    pub seconds: f64,
    /// Seconds at the beginning that are not counted.
    pub warm_up_s: f64,
    /// Items that the reader took a second; none where there are too few windows to say.
    pub rate: Option<Estimate>,
    /// The same of each window, for who compares.
    pub windows: Vec<f64>,
    /// Figures of each worker.
    pub workers: Vec<ActorFigures>,
    /// Figures of the consumer.
    pub reader: ActorFigures,
    /// Figures of the queues between them.
    pub queues: QueueFigures,
    /// Busy seconds of each of the newest items: of the workers together, of the reader.
    pub worker_costs: Vec<f32>,
    /// Seconds of each of the consumer's items.
    pub reader_costs: Vec<f32>,
    /// Processors of the machine.
    pub cores: usize,
    /// Capacity of the queue.
    pub depth: usize,
    /// The course of it all, warm-up included.
    pub timeline: Timeline,
    /// Time on a processor that looking took, as a share of one processor; none where the kernel does not say.
    pub looking: Option<f64>,
}

/// Means over the workers that had something to do, as shares of the time.
pub struct Means {
    pub(crate) busy: f64,
    pub(crate) starved: f64,
    /// Waiting for room in the output queue.
    pub blocked: f64,
    pub(crate) cpu: f64,
    pub(crate) queued: f64,
    pub(crate) delayed: f64,
    pub(crate) outside: f64,
    /// Workers that had something to do, and those that had not.
    pub(crate) at_work: usize,
    pub(crate) idle: usize,
}

impl Means {
    /// The means of a measurement.
    pub fn of(measured: &Measured) -> Self {
        let at_work = measured.at_work().count();
        let mean = |of: fn(&ActorFigures) -> f64| measured.at_work().map(of).sum::<f64>() / at_work.max(1) as f64;
        Self {
            busy: mean(|worker| worker.busy),
            starved: mean(|worker| worker.starved),
            blocked: mean(|worker| worker.blocked),
            cpu: mean(|worker| worker.cpu.unwrap_or(worker.busy)),
            queued: mean(|worker| worker.queued.unwrap_or(0.0)),
            delayed: mean(|worker| worker.delayed.unwrap_or(0.0)),
            outside: mean(ActorFigures::outside),
            at_work,
            idle: measured.workers.len() - at_work,
        }
    }
}

impl Measured {
    /// The workers that had something to do.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &ActorFigures> {
        self.workers.iter().filter(|worker| worker.items > 0)
    }

    /// The share of the time in which the workers but that one waited for room, in the mean; none where there are no others.
    pub(crate) fn others_blocked(&self, name: &str) -> Option<f64> {
        let others: Vec<f64> =
            self.at_work().filter(|worker| worker.name != name).map(|worker| worker.blocked).collect();
        (!others.is_empty()).then(|| others.iter().sum::<f64>() / others.len() as f64)
    }

    /// Seconds of work that a worker has with an item, in the mean.
    pub(crate) fn cost_of_item(&self) -> f64 {
        let costs = &self.worker_costs;
        costs.iter().map(|cost| f64::from(*cost)).sum::<f64>() / costs.len().max(1) as f64
    }

    /// Processors that the actors had between them.
    pub(crate) fn processors_had(&self) -> f64 {
        self.workers.iter().chain([&self.reader]).map(|actor| actor.cpu.unwrap_or(actor.busy)).sum()
    }

    /// Whether no processor is left.
    pub(crate) fn are_all_at_work(&self) -> bool {
        self.processors_had() >= 0.9 * self.cores as f64
    }

    /// Processors that they could have: all, unless they were ready for more than they got, which others then had.
    pub(crate) fn processors(&self) -> f64 {
        let ready: f64 = self.workers.iter().chain([&self.reader]).filter_map(|actor| actor.queued).sum();
        let (all, had) = (self.cores as f64, self.processors_had());
        // Who sleeps most of the time is always ready for a moment: that is nobody's doing.
        if ready > 0.1 * had && ready > 0.1 * all { had.clamp(0.05, all) } else { all }
    }
}

/// Looks at a pipeline until it is dropped or asked what it saw.
pub struct MeasureWatch {
    shared: Arc<Shared>,
    gauges: PoolStats,
}

struct Shared {
    begun: Instant,
    looks: Mutex<Vec<Look>>,
    is_over: AtomicBool,
    is_enough: AtomicBool,
    /// Nanoseconds on a processor that looking has taken.
    looked_ns: AtomicU64,
}

impl MeasureWatch {
    /// Begins to look.
    pub fn over(gauges: PoolStats) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            begun: Instant::now(),
            looks: Mutex::default(),
            is_over: AtomicBool::new(false),
            is_enough: AtomicBool::new(false),
            looked_ns: AtomicU64::new(0),
        });
        let (seen, watched) = (Arc::clone(&shared), gauges.clone());
        runtime::spawn("profile-watch", move || seen.look_on(&watched))?;
        Ok(Self { shared, gauges })
    }

    /// Whether the rate is known well enough.
    pub fn is_enough(&self) -> bool {
        self.shared.is_enough.load(Ordering::Relaxed)
    }

    /// What was seen.
    pub fn measured(&self) -> Measured {
        self.seen(false)
    }

    /// What was seen, and what came after the last window: of who ends by itself, and has just ended.
    pub fn measured_to_the_end(&self) -> Measured {
        self.seen(true)
    }

    fn seen(&self, to_the_end: bool) -> Measured {
        let mut looks = self.shared.looks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // What was over before the first window was over is seen nevertheless.
        let is_short = looks.len() < 2;
        if is_short {
            looks.insert(0, Look::nothing(&self.gauges));
        }
        if is_short || to_the_end {
            let last = looks.last().filter(|_| !is_short);
            let fill = looks.last().map_or_else(Fill::default, |last| last.fill);
            looks.push(Look::now(self.shared.begun, &self.gauges, fill, last));
        }
        if let Some(last) = looks.last_mut() {
            last.count();
        }
        let costs = self.gauges.costs();
        let begun = Some(self.shared.begun);
        let looking = self.looking();
        Measured { begun, worker_costs: costs.0, reader_costs: costs.1, looking, ..between(&looks) }
    }

    /// What looking took of a processor: what it costs is measured as well.
    fn looking(&self) -> Option<f64> {
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
    fn look_on(&self, gauges: &PoolStats) {
        let (begun, mut window, mut fill) = (self.begun, WINDOW, Fill::default());
        let mut next = window;
        while !self.is_over.load(Ordering::Relaxed) {
            fill.look(gauges);
            if begun.elapsed() >= next {
                let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
                let look = Look::now(begun, gauges, fill, looks.last());
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

/// Whether the rate is known well enough after the warm-up.
fn is_known(looks: &[Look]) -> bool {
    let looks = coarse(looks);
    let rates = rates(&looks);
    let from = warm_up(&rates);
    let items = looks.last().map_or(0, |last| last.reader.reading.items - looks[from].reader.reading.items);
    rates.len() - from >= WINDOWS_MIN
        && mean_of(&rates[from..]).is_some_and(|rate| rate.spread() < ENOUGH)
        && items >= ITEMS_ENOUGH
}

/// Looks that are so far apart that a few items lie between each and the next: shorter windows have one or none of them, and
/// what is cut off as a warm-up would be chance.
fn coarse(looks: &[Look]) -> Vec<Look> {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return Vec::new() };
    let items = (last.reader.reading.items - first.reader.reading.items).max(1) as f64;
    // Of a short profile there are few in any case: then rather short windows than none.
    let most = ((looks.len() - 1) / WINDOWS_KEPT).max(1) as f64;
    let every = (ITEMS_OF_WINDOW * (looks.len() - 1) as f64 / items).ceil().clamp(1.0, most);
    let mut kept: Vec<Look> = looks.iter().rev().step_by(whole(every)).cloned().collect();
    kept.reverse();
    kept
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to the number of looks")]
fn whole(count: f64) -> usize {
    count as usize
}

/// Items a second of each window.
fn rates(looks: &[Look]) -> Vec<f64> {
    let items = |look: &Look| look.reader.reading.items as f64;
    looks.windows(2).map(|pair| (items(&pair[1]) - items(&pair[0])) / (pair[1].at - pair[0].at).max(1e-9)).collect()
}

/// What happened between the end of the warm-up and the newest look.
fn between(looks: &[Look]) -> Measured {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (Some(begun), Some(last)) = (looks.first(), looks.last()) else {
        return Measured { cores, ..Measured::default() };
    };
    let timeline = Timeline::of(looks);
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
