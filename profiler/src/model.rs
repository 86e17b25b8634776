//! Simulation of a pipeline with other numbers of workers and queue places.
//!
//! # What
//! Workers produce items in turn, each into its own queue, and one reader takes them in order. The simulation runs
//! item by item with the measured times. An item of a worker takes processor time and time waiting for a disk or a
//! sleep, and so does an item of the reader. Processor time is shared: if more actors compute than there are cores,
//! all of them slow down.
//!
//! # What it leaves out
//! Contention among workers (locks, memory) and lower clock rates when many processors work. Their effect is
//! detected: a simulation of the measured layout must match the measured rate ([`Model::misfit`]).

/// Number of simulated items. The first tenth fills the queues and is not counted.
const ITEMS: usize = 4000;

/// Cost of one item for its producer or consumer, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Processor time, if no other actor uses the processor.
    pub(crate) cpu: f64,
    /// Waiting time that more processors do not shorten.
    pub(crate) wait: f64,
}

/// Layout of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    /// Number of threads that produce items.
    pub(crate) workers: usize,
    /// Capacity of each worker's queue, in items.
    pub(crate) depth: usize,
    /// Processors available to workers and reader. A fraction remains if other programs use part of one.
    pub(crate) cores: f64,
}

/// Measured costs, replayed in the order of their measurement.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) worker: Vec<Cost>,
    pub(crate) reader: Vec<Cost>,
}

/// Result of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Simulation {
    /// Items per second.
    pub(crate) rate: f64,
    /// Mean shares of time: workers busy, workers blocked, reader busy.
    pub(crate) workers_busy: f64,
    pub(crate) workers_blocked: f64,
    pub(crate) reader_busy: f64,
}

/// State of a simulated actor.
#[derive(Clone, Copy, Debug)]
enum WorkerPhase {
    /// Remaining processor time, then the time to wait.
    Computes { cpu: f64, wait: f64 },
    /// Waits until this time.
    Sleeps { until: f64 },
    /// Worker with a finished item and a full queue.
    Blocked,
    /// Reader without an item, or worker without work.
    Idle,
}

impl WorkerPhase {
    fn new(cost: Cost) -> Self {
        Self::Computes { cpu: cost.cpu, wait: cost.wait }
    }
}

impl Model {
    /// Simulates a layout.
    pub(crate) fn play(&self, layout: Layout) -> Simulation {
        Play::new(self, layout).run()
    }

    /// Returns the relative deviation of the simulated from the measured rate: 0.1 is a tenth too fast.
    pub(crate) fn misfit(&self, layout: Layout, measured: f64) -> f64 {
        self.play(layout).rate / measured - 1.0
    }
}

struct Play<'a> {
    model: &'a Model,
    layout: Layout,
    now: f64,
    workers: Vec<WorkerPhase>,
    /// Items in the queue of each worker.
    queued: Vec<usize>,
    /// Item that each worker produces now or next.
    items: Vec<usize>,
    reader: WorkerPhase,
    taken: usize,
    counted: CountedCosts,
}

#[derive(Clone, Copy, Default)]
struct CountedCosts {
    since: f64,
    items: usize,
    workers_busy: f64,
    workers_blocked: f64,
    reader_busy: f64,
}

impl<'a> Play<'a> {
    fn new(model: &'a Model, layout: Layout) -> Self {
        let mut play = Self {
            model,
            layout,
            now: 0.0,
            workers: vec![WorkerPhase::Idle; layout.workers],
            queued: vec![0; layout.workers],
            items: (0..layout.workers).collect(),
            reader: WorkerPhase::Idle,
            taken: 0,
            counted: CountedCosts::default(),
        };
        (0..layout.workers).for_each(|worker| play.begin(worker));
        play
    }

    fn run(mut self) -> Simulation {
        if self.model.worker.is_empty() || self.model.reader.is_empty() || self.layout.workers == 0 {
            return Simulation::default();
        }
        let items = ITEMS.max(40 * self.layout.workers);
        while self.taken < items {
            if self.taken == items / 10 && self.counted.items == 0 {
                self.counted = CountedCosts { since: self.now, ..CountedCosts::default() };
                // Counted from the next item.
                self.counted.items = self.taken;
            }
            self.step();
        }
        let CountedCosts { since, items: before, workers_busy, workers_blocked, reader_busy } = self.counted;
        let wall = (self.now - since).max(1e-12);
        let workers = self.layout.workers as f64;
        Simulation {
            rate: (self.taken - before) as f64 / wall,
            workers_busy: workers_busy / wall / workers,
            workers_blocked: workers_blocked / wall / workers,
            reader_busy: reader_busy / wall,
        }
    }

    fn begin(&mut self, worker: usize) {
        let costs = &self.model.worker;
        if costs.is_empty() {
            return;
        }
        self.workers[worker] = WorkerPhase::new(costs[self.items[worker] % costs.len()]);
        self.items[worker] += self.layout.workers;
    }

    /// Advances the simulation to the next event.
    fn step(&mut self) {
        let workers = || self.workers.iter().chain([&self.reader]);
        let computing = workers().filter(|doing| matches!(doing, WorkerPhase::Computes { .. })).count();
        let speed = (self.layout.cores / computing.max(1) as f64).min(1.0);
        let until = |doing: &WorkerPhase| match doing {
            WorkerPhase::Computes { cpu, .. } => Some(cpu / speed),
            WorkerPhase::Sleeps { until } => Some(until - self.now),
            WorkerPhase::Blocked | WorkerPhase::Idle => None,
        };
        let passed = workers().filter_map(until).fold(f64::INFINITY, f64::min).max(0.0);
        assert!(passed.is_finite(), "some actor always works: the reader takes from a full queue");
        self.count(passed);
        self.now += passed;
        for worker in 0..self.workers.len() {
            self.workers[worker] = advance(self.workers[worker], passed * speed, self.now);
            if matches!(self.workers[worker], WorkerPhase::Idle) {
                self.finish(worker);
            }
        }
        if !matches!(self.reader, WorkerPhase::Idle) {
            self.reader = advance(self.reader, passed * speed, self.now);
        }
        self.take_item();
    }

    fn count(&mut self, passed: f64) {
        let is_busy = |doing: &WorkerPhase| matches!(doing, WorkerPhase::Computes { .. } | WorkerPhase::Sleeps { .. });
        let workers = |of: &dyn Fn(&WorkerPhase) -> bool| self.workers.iter().filter(|doing| of(doing)).count() as f64;
        self.counted.workers_busy += passed * workers(&is_busy);
        self.counted.workers_blocked += passed * workers(&|doing| matches!(doing, WorkerPhase::Blocked));
        self.counted.reader_busy += if is_busy(&self.reader) { passed } else { 0.0 };
    }

    /// Handles a finished item of a worker.
    fn finish(&mut self, worker: usize) {
        if self.queued[worker] < self.layout.depth {
            self.queued[worker] += 1;
            self.begin(worker);
        } else {
            self.workers[worker] = WorkerPhase::Blocked;
        }
    }

    /// Lets the reader take the next item if it is ready.
    fn take_item(&mut self) {
        let worker = self.taken % self.workers.len();
        if !matches!(self.reader, WorkerPhase::Idle) || self.queued[worker] == 0 {
            return;
        }
        self.queued[worker] -= 1;
        let costs = &self.model.reader;
        self.reader = WorkerPhase::new(costs[self.taken % costs.len()]);
        self.taken += 1;
        if matches!(self.workers[worker], WorkerPhase::Blocked) {
            self.finish(worker);
        }
    }
}

/// Returns the state of an actor after some processor time, at the time `now`.
fn advance(doing: WorkerPhase, cpu_passed: f64, now: f64) -> WorkerPhase {
    /// Times are sums of many: what is left of one by rounding is nothing.
    const NOTHING: f64 = 1e-12;
    match doing {
        WorkerPhase::Computes { cpu, wait } if cpu - cpu_passed <= NOTHING => {
            if wait > NOTHING {
                WorkerPhase::Sleeps { until: now + wait }
            } else {
                WorkerPhase::Idle
            }
        }
        WorkerPhase::Computes { cpu, wait } => WorkerPhase::Computes { cpu: cpu - cpu_passed, wait },
        WorkerPhase::Sleeps { until } if until - now <= NOTHING => WorkerPhase::Idle,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e-3;

    fn wait(ms: f64) -> Vec<Cost> {
        vec![Cost { cpu: 0.0, wait: ms * MS }]
    }

    fn cpu(ms: f64) -> Vec<Cost> {
        vec![Cost { cpu: ms * MS, wait: 0.0 }]
    }

    fn rate(worker: Vec<Cost>, reader: Vec<Cost>, workers: usize, depth: usize, cores: u8) -> f64 {
        Model { worker, reader }.play(Layout { workers, depth, cores: cores.into() }).rate
    }

    fn assert_near(found: f64, expected: f64, within: f64) {
        assert!((found / expected - 1.0).abs() < within, "{found}, expected {expected}");
    }

    #[test]
    fn bottleneck_sets_the_rate() {
        // By hand: n workers of 4 ms make n/4 items per ms, a reader of 1 ms takes one.
        for (workers, expected) in [(1, 250.0), (2, 500.0), (3, 750.0), (4, 1000.0), (8, 1000.0)] {
            assert_near(rate(wait(4.0), wait(1.0), workers, 2, 1), expected, 0.01);
        }
    }

    #[test]
    fn processors_are_shared() {
        // Four workers of 4 ms of processor time on two cores: two at a time, for any number of workers.
        for workers in [2, 4, 8] {
            assert_near(rate(cpu(4.0), wait(0.1), workers, 2, 2), 500.0, 0.01);
        }
        // The reader needs a core as well: 4 ms and 1 ms per item, two cores give 2 ms per ms.
        assert_near(rate(cpu(4.0), cpu(1.0), 8, 4, 2), 400.0, 0.01);
    }

    #[test]
    fn bursts_need_queue_capacity() {
        // One of eight items takes 8 ms, the others nothing: the reader waits with a queue of one, but not with one
        // of eight.
        let mut worker = vec![Cost { cpu: 0.0, wait: 0.05 * MS }; 8];
        worker[0].wait = 8.0 * MS;
        let short = rate(worker.clone(), wait(1.0), 2, 1, 4);
        let long = rate(worker, wait(1.0), 2, 16, 4);
        assert!(long > 1.15 * short && long < 1001.0, "{short}, {long}");
    }

    #[test]
    fn shares_say_who_waits() {
        let played = Model { worker: wait(4.0), reader: wait(1.0) }.play(Layout { workers: 8, depth: 2, cores: 1.0 });
        assert!(played.reader_busy > 0.99 && (played.workers_blocked - 0.5).abs() < 0.01, "{played:?}");
        let starving = Model { worker: wait(4.0), reader: wait(1.0) }.play(Layout { workers: 2, depth: 2, cores: 1.0 });
        assert!((starving.reader_busy - 0.5).abs() < 0.01 && starving.workers_busy > 0.99, "{starving:?}");
    }

    #[test]
    fn empty_measurement_predicts_nothing() {
        let nothing = Model { worker: Vec::new(), reader: wait(1.0) };
        assert_eq!(nothing.play(Layout { workers: 2, depth: 1, cores: 1.0 }), Simulation::default());
    }
}
