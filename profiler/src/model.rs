//! A pipeline that runs on paper: what other numbers of workers and places would bring.
//!
//! # What
//! Workers make items in turn, each into its own queue; one reader takes them in order. It is played item by item, with
//! the times that were measured: an item of a worker takes processor time and time in which it waits for something outside
//! (a disk, a sleep), an item of the reader as well. Processor time is shared: where more want a core than there are, all
//! of them are slower.
//!
//! # What it leaves out
//! That workers hinder one another (locks, memory), and that processors are slower when many work. Whether that matters is
//! seen: played as it was, it has to come to what was measured ([`Model::misfit`]).

/// Items that are played: the first tenth fills the queues and is not counted.
const ITEMS: usize = 4000;

/// What one item costs who makes or takes it, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// On a processor, if it has one to itself.
    pub(crate) cpu: f64,
    /// Waiting for something that more processors make no faster.
    pub(crate) wait: f64,
}

/// How a pipeline is placed out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    /// Threads that make items.
    pub(crate) workers: usize,
    /// Finished items that wait in each worker's queue.
    pub(crate) depth: usize,
    /// Processors that they have together with the reader: a part of one is what other programs leave of it.
    pub(crate) cores: f64,
}

/// Costs as they were measured, drawn from again in the order in which they came.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) worker: Vec<Cost>,
    pub(crate) reader: Vec<Cost>,
}

/// What came of a play.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Played {
    /// Items a second.
    pub(crate) rate: f64,
    /// Shares of time: of the workers in the mean, busy and blocked; of the reader, busy.
    pub(crate) workers_busy: f64,
    pub(crate) workers_blocked: f64,
    pub(crate) reader_busy: f64,
}

/// Somebody who works.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Processor time left, then the time to wait.
    Computes { cpu: f64, wait: f64 },
    /// Waits until then.
    Sleeps { until: f64 },
    /// A worker with an item in its hands and no room for it.
    Blocked,
    /// The reader without an item; a worker that has nothing left to make.
    Idle,
}

impl Doing {
    fn of(cost: Cost) -> Self {
        Self::Computes { cpu: cost.cpu, wait: cost.wait }
    }
}

impl Model {
    /// Plays a layout.
    pub(crate) fn play(&self, layout: Layout) -> Played {
        Play::new(self, layout).run()
    }

    /// How far the play of a layout is from what was measured of it, as a share: 0.1 is a tenth too fast.
    pub(crate) fn misfit(&self, layout: Layout, measured: f64) -> f64 {
        self.play(layout).rate / measured - 1.0
    }
}

struct Play<'a> {
    model: &'a Model,
    layout: Layout,
    now: f64,
    workers: Vec<Doing>,
    /// Items that wait behind each worker.
    queued: Vec<usize>,
    /// The item that each worker makes, or makes next.
    items: Vec<usize>,
    reader: Doing,
    taken: usize,
    counted: Counted,
}

#[derive(Clone, Copy, Default)]
struct Counted {
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
            workers: vec![Doing::Idle; layout.workers],
            queued: vec![0; layout.workers],
            items: (0..layout.workers).collect(),
            reader: Doing::Idle,
            taken: 0,
            counted: Counted::default(),
        };
        (0..layout.workers).for_each(|worker| play.begin(worker));
        play
    }

    fn run(mut self) -> Played {
        if self.model.worker.is_empty() || self.model.reader.is_empty() || self.layout.workers == 0 {
            return Played::default();
        }
        let items = ITEMS.max(40 * self.layout.workers);
        while self.taken < items {
            if self.taken == items / 10 && self.counted.items == 0 {
                self.counted = Counted { since: self.now, ..Counted::default() };
                // Counted from the next one on.
                self.counted.items = self.taken;
            }
            self.step();
        }
        let Counted { since, items: before, workers_busy, workers_blocked, reader_busy } = self.counted;
        let wall = (self.now - since).max(1e-12);
        let workers = self.layout.workers as f64;
        Played {
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
        self.workers[worker] = Doing::of(costs[self.items[worker] % costs.len()]);
        self.items[worker] += self.layout.workers;
    }

    /// Up to whatever happens next.
    fn step(&mut self) {
        let workers = || self.workers.iter().chain([&self.reader]);
        let computing = workers().filter(|doing| matches!(doing, Doing::Computes { .. })).count();
        let speed = (self.layout.cores / computing.max(1) as f64).min(1.0);
        let until = |doing: &Doing| match doing {
            Doing::Computes { cpu, .. } => Some(cpu / speed),
            Doing::Sleeps { until } => Some(until - self.now),
            Doing::Blocked | Doing::Idle => None,
        };
        let passed = workers().filter_map(until).fold(f64::INFINITY, f64::min).max(0.0);
        assert!(passed.is_finite(), "somebody always works: a full queue has a reader that takes");
        self.count(passed);
        self.now += passed;
        for worker in 0..self.workers.len() {
            self.workers[worker] = pass(self.workers[worker], passed * speed, self.now);
            if matches!(self.workers[worker], Doing::Idle) {
                self.finish(worker);
            }
        }
        if !matches!(self.reader, Doing::Idle) {
            self.reader = pass(self.reader, passed * speed, self.now);
        }
        self.take();
    }

    fn count(&mut self, passed: f64) {
        let is_busy = |doing: &Doing| matches!(doing, Doing::Computes { .. } | Doing::Sleeps { .. });
        let workers = |of: &dyn Fn(&Doing) -> bool| self.workers.iter().filter(|doing| of(doing)).count() as f64;
        self.counted.workers_busy += passed * workers(&is_busy);
        self.counted.workers_blocked += passed * workers(&|doing| matches!(doing, Doing::Blocked));
        self.counted.reader_busy += if is_busy(&self.reader) { passed } else { 0.0 };
    }

    /// A worker has an item in its hands.
    fn finish(&mut self, worker: usize) {
        if self.queued[worker] < self.layout.depth {
            self.queued[worker] += 1;
            self.begin(worker);
        } else {
            self.workers[worker] = Doing::Blocked;
        }
    }

    /// The reader takes the item that is next, if it is there.
    fn take(&mut self) {
        let worker = self.taken % self.workers.len();
        if !matches!(self.reader, Doing::Idle) || self.queued[worker] == 0 {
            return;
        }
        self.queued[worker] -= 1;
        let costs = &self.model.reader;
        self.reader = Doing::of(costs[self.taken % costs.len()]);
        self.taken += 1;
        if matches!(self.workers[worker], Doing::Blocked) {
            self.finish(worker);
        }
    }
}

/// What somebody does after so much processor time, at that time.
fn pass(doing: Doing, cpu_passed: f64, now: f64) -> Doing {
    /// Times are sums of many: what is left of one by rounding is nothing.
    const NOTHING: f64 = 1e-12;
    match doing {
        Doing::Computes { cpu, wait } if cpu - cpu_passed <= NOTHING => {
            if wait > NOTHING {
                Doing::Sleeps { until: now + wait }
            } else {
                Doing::Idle
            }
        }
        Doing::Computes { cpu, wait } => Doing::Computes { cpu: cpu - cpu_passed, wait },
        Doing::Sleeps { until } if until - now <= NOTHING => Doing::Idle,
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

    fn rate(worker: Vec<Cost>, reader: Vec<Cost>, (workers, depth, cores): (usize, usize, u8)) -> f64 {
        Model { worker, reader }.play(Layout { workers, depth, cores: cores.into() }).rate
    }

    fn assert_near(found: f64, expected: f64, within: f64) {
        assert!((found / expected - 1.0).abs() < within, "{found}, expected {expected}");
    }

    #[test]
    fn what_binds_sets_the_rate() {
        // By hand: n workers of 4 ms make n/4 items a ms, a reader of 1 ms takes one.
        for (workers, expected) in [(1, 250.0), (2, 500.0), (3, 750.0), (4, 1000.0), (8, 1000.0)] {
            assert_near(rate(wait(4.0), wait(1.0), (workers, 2, 1)), expected, 0.01);
        }
    }

    #[test]
    fn processors_are_shared() {
        // Four workers of 4 ms of processor time on two cores: two at a time, whatever their number.
        for workers in [2, 4, 8] {
            assert_near(rate(cpu(4.0), wait(0.1), (workers, 2, 2)), 500.0, 0.01);
        }
        // The reader wants a core as well: 4 ms and 1 ms an item, two cores give 2 ms a ms.
        assert_near(rate(cpu(4.0), cpu(1.0), (8, 4, 2)), 400.0, 0.01);
    }

    #[test]
    fn bursts_want_room() {
        // One of eight items takes 8 ms, the others nothing: a queue of one makes the reader wait where one of eight does not.
        let mut worker = vec![Cost { cpu: 0.0, wait: 0.05 * MS }; 8];
        worker[0].wait = 8.0 * MS;
        let short = rate(worker.clone(), wait(1.0), (2, 1, 4));
        let long = rate(worker, wait(1.0), (2, 16, 4));
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
    fn nothing_measured_is_nothing_played() {
        let nothing = Model { worker: Vec::new(), reader: wait(1.0) };
        assert_eq!(nothing.play(Layout { workers: 2, depth: 1, cores: 1.0 }), Played::default());
    }
}
