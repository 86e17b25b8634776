//! A pipeline that is looked at while it runs: a thread beside it reads all clocks again and again.
//!
//! # What
//! Every moment it looks at how full queues are; at the end of each window it reads the clocks of all actors, and what the
//! kernel knows of their threads: time on a processor, and time in which one was ready and had none. There are [`WINDOWS`]
//! windows at the most: then two become one, and the next are twice as long, so that a minute and a week take the same room.
//!
//! # Definition
//! What is told is from the end of the warm-up ([`warm_up`]) to the newest window. It is enough when the rate is
//! known to [`ENOUGH`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pipeline::actor::{self, Gauges, Reading, Scheduled};

use super::statistics::{Estimate, mean_of, warm_up};

/// Between two looks at the queues.
const LOOK: Duration = Duration::from_millis(1);

/// The first windows, and how many there are at the most.
const WINDOW: Duration = Duration::from_millis(20);
const WINDOWS: usize = 256;

/// Half of the interval, as a share of the rate, at which it is known well enough; and windows before which nobody says so.
const ENOUGH: f64 = 0.03;
const WINDOWS_MIN: usize = 32;
const ITEMS_ENOUGH: u64 = 200;

/// Items before which nothing is judged, and those before which nothing is unless they took long.
pub(crate) const ITEMS_FEW: u64 = 5;
pub(crate) const ITEMS_MIN: u64 = 50;

/// What an actor did while it was measured: shares of the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ActorFigures {
    pub(crate) name: String,
    pub(crate) items: u64,
    pub(crate) busy: f64,
    pub(crate) starved: f64,
    pub(crate) blocked: f64,
    /// Of the busy time: on a processor; ready, and none was free. What is left waits for something outside: a disk, a sleep.
    /// None where the kernel does not say.
    pub(crate) cpu: Option<f64>,
    pub(crate) queued: Option<f64>,
}

impl ActorFigures {
    /// The share of all time in which it worked and waited for something outside.
    pub(crate) fn outside(&self) -> f64 {
        match (self.cpu, self.queued) {
            (Some(cpu), Some(queued)) => (self.busy - cpu - queued).max(0.0),
            _ => 0.0,
        }
    }
}

/// How full the queues were: shares of their places, and of the looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct QueueFigures {
    pub(crate) capacity: usize,
    pub(crate) mean: f64,
    pub(crate) full: f64,
    pub(crate) empty: f64,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// When somebody began to look.
    pub(crate) begun: Option<Instant>,
    /// Seconds that count, and those before them that do not.
    pub(crate) seconds: f64,
    pub(crate) warm_up_s: f64,
    /// Items that the reader took a second; none where there are too few windows to say.
    pub(crate) rate: Option<Estimate>,
    /// The same of each window, for who compares.
    pub(crate) windows: Vec<f64>,
    pub(crate) lanes: Vec<ActorFigures>,
    pub(crate) reader: ActorFigures,
    pub(crate) queues: QueueFigures,
    /// Busy seconds of each of the newest items: of the lanes together, of the reader.
    pub(crate) lane_costs: Vec<f32>,
    pub(crate) reader_costs: Vec<f32>,
    pub(crate) cores: usize,
    pub(crate) depth: usize,
}

/// Means over the lanes that had something to do, as shares of the time.
pub(crate) struct Means {
    pub(crate) busy: f64,
    pub(crate) starved: f64,
    pub(crate) blocked: f64,
    pub(crate) cpu: f64,
    pub(crate) queued: f64,
    pub(crate) outside: f64,
    /// Lanes that had something to do, and those that had not.
    pub(crate) at_work: usize,
    pub(crate) idle: usize,
}

impl Means {
    pub(crate) fn of(measured: &Measured) -> Self {
        let at_work = measured.at_work().count();
        let mean = |of: fn(&ActorFigures) -> f64| measured.at_work().map(of).sum::<f64>() / at_work.max(1) as f64;
        Self {
            busy: mean(|lane| lane.busy),
            starved: mean(|lane| lane.starved),
            blocked: mean(|lane| lane.blocked),
            cpu: mean(|lane| lane.cpu.unwrap_or(lane.busy)),
            queued: mean(|lane| lane.queued.unwrap_or(0.0)),
            outside: mean(ActorFigures::outside),
            at_work,
            idle: measured.lanes.len() - at_work,
        }
    }
}

impl Measured {
    /// The lanes that had something to do.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &ActorFigures> {
        self.lanes.iter().filter(|lane| lane.items > 0)
    }

    /// Processors that the actors had between them.
    pub(crate) fn processors_had(&self) -> f64 {
        self.lanes.iter().chain([&self.reader]).map(|actor| actor.cpu.unwrap_or(actor.busy)).sum()
    }

    /// Whether no processor is left.
    pub(crate) fn are_all_at_work(&self) -> bool {
        self.processors_had() >= 0.9 * self.cores as f64
    }

    /// Processors that they could have: all, unless they were ready for more than they got, which others then had.
    pub(crate) fn processors(&self) -> f64 {
        let ready: f64 = self.lanes.iter().chain([&self.reader]).filter_map(|actor| actor.queued).sum();
        let (all, had) = (self.cores as f64, self.processors_had());
        // Who sleeps most of the time is always ready for a moment: that is nobody's doing.
        if ready > 0.1 * had && ready > 0.1 * all { had.clamp(0.05, all) } else { all }
    }
}

/// All clocks at one moment.
#[derive(Clone, Debug)]
struct Look {
    at: f64,
    lanes: Vec<(Reading, Option<Scheduled>)>,
    reader: (Reading, Option<Scheduled>),
    fill: Fill,
}

/// Looks at queues, summed.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    looks: u64,
    share: f64,
    full: u64,
    empty: u64,
}

/// Looks at a pipeline until it is dropped or asked what it saw.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    gauges: Gauges,
}

struct Shared {
    begun: Instant,
    looks: Mutex<Vec<Look>>,
    is_over: AtomicBool,
    is_enough: AtomicBool,
}

impl Watch {
    /// Begins to look.
    pub(crate) fn over(gauges: Gauges) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            begun: Instant::now(),
            looks: Mutex::default(),
            is_over: AtomicBool::new(false),
            is_enough: AtomicBool::new(false),
        });
        let (seen, watched) = (Arc::clone(&shared), gauges.clone());
        actor::spawn("profile-watch", move || seen.look_on(&watched))?;
        Ok(Self { shared, gauges })
    }

    /// Whether the rate is known well enough.
    pub(crate) fn is_enough(&self) -> bool {
        self.shared.is_enough.load(Ordering::Relaxed)
    }

    /// What was seen.
    pub(crate) fn measured(&self) -> Measured {
        let mut looks = self.shared.looks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // What was over before the first window was over is seen all the same.
        if looks.len() < 2 {
            looks.insert(0, Look::nothing(&self.gauges));
            let seen = looks.last().map_or_else(Fill::default, |last| last.fill);
            looks.push(Look::now(self.shared.begun, &self.gauges, seen, None));
        }
        let costs = self.gauges.costs();
        let begun = Some(self.shared.begun);
        Measured { begun, lane_costs: costs.0, reader_costs: costs.1, ..between(&looks) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn look_on(&self, gauges: &Gauges) {
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
                let rates = rates(&looks);
                let from = warm_up(&rates);
                let items = looks.last().map_or(0, |last| last.reader.0.items - looks[from].reader.0.items);
                let is_known = rates.len() - from >= WINDOWS_MIN
                    && mean_of(&rates[from..]).is_some_and(|rate| rate.spread() < ENOUGH)
                    && items >= ITEMS_ENOUGH;
                self.is_enough.store(is_known, Ordering::Relaxed);
                next = begun.elapsed() + window;
            }
            sleep(LOOK);
        }
    }
}

impl Fill {
    fn look(&mut self, gauges: &Gauges) {
        for (queued, capacity) in gauges.queues() {
            self.looks += 1;
            self.share += queued as f64 / capacity.max(1) as f64;
            self.full += u64::from(queued == capacity);
            self.empty += u64::from(queued == 0);
        }
    }
}

impl Look {
    /// Before anything happened.
    fn nothing(gauges: &Gauges) -> Self {
        let none = |reading: Reading| {
            let zero = Duration::ZERO;
            (Reading { busy: zero, starved: zero, blocked: zero, wall: zero, items: 0, ..reading }, None)
        };
        let (lanes, reader) = (gauges.lanes().into_iter().map(none).collect(), none(gauges.reader()));
        Self { at: 0.0, lanes, reader, fill: Fill::default() }
    }

    /// All clocks; of a thread that has ended, what the look before has.
    fn now(begun: Instant, gauges: &Gauges, fill: Fill, before: Option<&Self>) -> Self {
        let with = |reading: Reading, before: Option<&(Reading, Option<Scheduled>)>| {
            let thread = reading.thread.and_then(Scheduled::of).or_else(|| before.and_then(|(_, thread)| *thread));
            (reading, thread)
        };
        let lanes = gauges.lanes().into_iter().enumerate();
        let lanes = lanes.map(|(at, reading)| with(reading, before.and_then(|before| before.lanes.get(at)))).collect();
        let reader = with(gauges.reader(), before.map(|before| &before.reader));
        Self { at: begun.elapsed().as_secs_f64(), lanes, reader, fill }
    }
}

/// Items a second of each window.
fn rates(looks: &[Look]) -> Vec<f64> {
    let items = |look: &Look| look.reader.0.items as f64;
    looks.windows(2).map(|pair| (items(&pair[1]) - items(&pair[0])) / (pair[1].at - pair[0].at).max(1e-9)).collect()
}

/// What happened between the end of the warm-up and the newest look.
fn between(looks: &[Look]) -> Measured {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (Some(begun), Some(last)) = (looks.first(), looks.last()) else {
        return Measured { cores, ..Measured::default() };
    };
    let rates = rates(looks);
    let from = warm_up(&rates);
    let first = looks.get(from).unwrap_or(begun);
    let seconds = last.at - first.at;
    let lanes = first.lanes.iter().zip(&last.lanes).map(|(first, last)| figures(first, last, seconds));
    let looked = (last.fill.looks - first.fill.looks).max(1) as f64;
    Measured {
        seconds,
        warm_up_s: first.at,
        rate: mean_of(&rates[from.min(rates.len())..]),
        windows: rates[from.min(rates.len())..].to_vec(),
        lanes: lanes.collect(),
        reader: figures(&first.reader, &last.reader, seconds),
        queues: QueueFigures {
            capacity: last.lanes.iter().map(|lane| lane.0.capacity).sum(),
            mean: (last.fill.share - first.fill.share) / looked,
            full: (last.fill.full - first.fill.full) as f64 / looked,
            empty: (last.fill.empty - first.fill.empty) as f64 / looked,
        },
        cores,
        depth: last.lanes.first().map_or(0, |lane| lane.0.capacity),
        ..Measured::default()
    }
}

fn figures(
    (first, first_ran): &(Reading, Option<Scheduled>),
    (last, last_ran): &(Reading, Option<Scheduled>),
    seconds: f64,
) -> ActorFigures {
    let share = |of: fn(&Reading) -> Duration| of(last).saturating_sub(of(first)).as_secs_f64() / seconds.max(1e-9);
    let busy = share(|it| it.busy);
    // Whose thread was not known at first had not finished anything.
    let first_ran = first_ran.or((first.items == 0).then(Scheduled::default));
    let ran = first_ran.zip(*last_ran);
    let of_busy = |of: fn(Scheduled) -> Duration| {
        ran.map(|(a, b)| (of(b).saturating_sub(of(a)).as_secs_f64() / seconds.max(1e-9)).clamp(0.0, busy))
    };
    ActorFigures {
        name: last.name.clone(),
        items: last.items - first.items,
        busy,
        starved: share(|it| it.starved),
        blocked: share(|it| it.blocked),
        cpu: of_busy(|it| it.ran),
        queued: of_busy(|it| it.queued),
    }
}
