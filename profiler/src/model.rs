//! A pipeline that runs on paper: what other numbers of lanes and places would bring.
//!
//! # What
//! Lanes make items in turn, each into a queue of its own; one reader takes them in order. It is played item by item, with
//! the times that were measured: an item of a lane takes processor time and time in which it waits for something outside
//! (a disk, a sleep), an item of the reader as well. Processor time is shared: where more want a core than there are, all
//! of them are slower.
//!
//! # What it leaves out
//! That lanes hinder one another (locks, memory), and that processors are slower when many work. Whether that matters is
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

/// How a pipeline is laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    /// Threads that make items.
    pub(crate) lanes: usize,
    /// Finished items that wait in each lane's queue.
    pub(crate) depth: usize,
    /// Processors that they have together with the reader: a part of one is what other programs leave of it.
    pub(crate) cores: f64,
}

/// Costs as they were measured, drawn from again in the order in which they came.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) lane: Vec<Cost>,
    pub(crate) reader: Vec<Cost>,
}

/// What came of a play.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Played {
    /// Items a second.
    pub(crate) rate: f64,
    /// Shares of time: of the lanes in the mean, busy and blocked; of the reader, busy.
    pub(crate) lanes_busy: f64,
    pub(crate) lanes_blocked: f64,
    pub(crate) reader_busy: f64,
}

/// Somebody who works.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Processor time left, then the time to wait.
    Computes { cpu: f64, wait: f64 },
    /// Waits until then.
    Sleeps { until: f64 },
    /// A lane with an item in its hands and no room for it.
    Blocked,
    /// The reader without an item; a lane that has nothing left to make.
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
    lanes: Vec<Doing>,
    /// Items that wait behind each lane.
    queued: Vec<usize>,
    /// The item that each lane makes, or makes next.
    items: Vec<usize>,
    reader: Doing,
    taken: usize,
    counted: Counted,
}

#[derive(Clone, Copy, Default)]
struct Counted {
    since: f64,
    items: usize,
    lanes_busy: f64,
    lanes_blocked: f64,
    reader_busy: f64,
}

impl<'a> Play<'a> {
    fn new(model: &'a Model, layout: Layout) -> Self {
        let mut play = Self {
            model,
            layout,
            now: 0.0,
            lanes: vec![Doing::Idle; layout.lanes],
            queued: vec![0; layout.lanes],
            items: (0..layout.lanes).collect(),
            reader: Doing::Idle,
            taken: 0,
            counted: Counted::default(),
        };
        (0..layout.lanes).for_each(|lane| play.begin(lane));
        play
    }

    fn run(mut self) -> Played {
        if self.model.lane.is_empty() || self.model.reader.is_empty() || self.layout.lanes == 0 {
            return Played::default();
        }
        let items = ITEMS.max(40 * self.layout.lanes);
        while self.taken < items {
            if self.taken == items / 10 && self.counted.items == 0 {
                self.counted = Counted { since: self.now, ..Counted::default() };
                // Counted from the next one on.
                self.counted.items = self.taken;
            }
            self.step();
        }
        let Counted { since, items: before, lanes_busy, lanes_blocked, reader_busy } = self.counted;
        let wall = (self.now - since).max(1e-12);
        let lanes = self.layout.lanes as f64;
        Played {
            rate: (self.taken - before) as f64 / wall,
            lanes_busy: lanes_busy / wall / lanes,
            lanes_blocked: lanes_blocked / wall / lanes,
            reader_busy: reader_busy / wall,
        }
    }

    fn begin(&mut self, lane: usize) {
        let costs = &self.model.lane;
        if costs.is_empty() {
            return;
        }
        self.lanes[lane] = Doing::of(costs[self.items[lane] % costs.len()]);
        self.items[lane] += self.layout.lanes;
    }

    /// Up to whatever happens next.
    fn step(&mut self) {
        let workers = || self.lanes.iter().chain([&self.reader]);
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
        for lane in 0..self.lanes.len() {
            self.lanes[lane] = pass(self.lanes[lane], passed * speed, self.now);
            if matches!(self.lanes[lane], Doing::Idle) {
                self.finish(lane);
            }
        }
        if !matches!(self.reader, Doing::Idle) {
            self.reader = pass(self.reader, passed * speed, self.now);
        }
        self.take();
    }

    fn count(&mut self, passed: f64) {
        let is_busy = |doing: &Doing| matches!(doing, Doing::Computes { .. } | Doing::Sleeps { .. });
        let lanes = |of: &dyn Fn(&Doing) -> bool| self.lanes.iter().filter(|doing| of(doing)).count() as f64;
        self.counted.lanes_busy += passed * lanes(&is_busy);
        self.counted.lanes_blocked += passed * lanes(&|doing| matches!(doing, Doing::Blocked));
        self.counted.reader_busy += if is_busy(&self.reader) { passed } else { 0.0 };
    }

    /// A lane has an item in its hands.
    fn finish(&mut self, lane: usize) {
        if self.queued[lane] < self.layout.depth {
            self.queued[lane] += 1;
            self.begin(lane);
        } else {
            self.lanes[lane] = Doing::Blocked;
        }
    }

    /// The reader takes the item that is next, if it is there.
    fn take(&mut self) {
        let lane = self.taken % self.lanes.len();
        if !matches!(self.reader, Doing::Idle) || self.queued[lane] == 0 {
            return;
        }
        self.queued[lane] -= 1;
        let costs = &self.model.reader;
        self.reader = Doing::of(costs[self.taken % costs.len()]);
        self.taken += 1;
        if matches!(self.lanes[lane], Doing::Blocked) {
            self.finish(lane);
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

    fn rate(lane: Vec<Cost>, reader: Vec<Cost>, (lanes, depth, cores): (usize, usize, u8)) -> f64 {
        Model { lane, reader }.play(Layout { lanes, depth, cores: cores.into() }).rate
    }

    fn assert_near(found: f64, expected: f64, within: f64) {
        assert!((found / expected - 1.0).abs() < within, "{found}, expected {expected}");
    }

    #[test]
    fn what_binds_sets_the_rate() {
        // By hand: n lanes of 4 ms make n/4 items a ms, a reader of 1 ms takes one.
        for (lanes, expected) in [(1, 250.0), (2, 500.0), (3, 750.0), (4, 1000.0), (8, 1000.0)] {
            assert_near(rate(wait(4.0), wait(1.0), (lanes, 2, 1)), expected, 0.01);
        }
    }

    #[test]
    fn processors_are_shared() {
        // Four lanes of 4 ms of processor time on two cores: two at a time, whatever their number.
        for lanes in [2, 4, 8] {
            assert_near(rate(cpu(4.0), wait(0.1), (lanes, 2, 2)), 500.0, 0.01);
        }
        // The reader wants a core as well: 4 ms and 1 ms an item, two cores give 2 ms a ms.
        assert_near(rate(cpu(4.0), cpu(1.0), (8, 4, 2)), 400.0, 0.01);
    }

    #[test]
    fn bursts_want_room() {
        // One of eight items takes 8 ms, the others nothing: a queue of one makes the reader wait where one of eight does not.
        let mut lane = vec![Cost { cpu: 0.0, wait: 0.05 * MS }; 8];
        lane[0].wait = 8.0 * MS;
        let short = rate(lane.clone(), wait(1.0), (2, 1, 4));
        let long = rate(lane, wait(1.0), (2, 16, 4));
        assert!(long > 1.15 * short && long < 1001.0, "{short}, {long}");
    }

    #[test]
    fn shares_say_who_waits() {
        let played = Model { lane: wait(4.0), reader: wait(1.0) }.play(Layout { lanes: 8, depth: 2, cores: 1.0 });
        assert!(played.reader_busy > 0.99 && (played.lanes_blocked - 0.5).abs() < 0.01, "{played:?}");
        let starving = Model { lane: wait(4.0), reader: wait(1.0) }.play(Layout { lanes: 2, depth: 2, cores: 1.0 });
        assert!((starving.reader_busy - 0.5).abs() < 0.01 && starving.lanes_busy > 0.99, "{starving:?}");
    }

    #[test]
    fn nothing_measured_is_nothing_played() {
        let nothing = Model { lane: Vec::new(), reader: wait(1.0) };
        assert_eq!(nothing.play(Layout { lanes: 2, depth: 1, cores: 1.0 }), Played::default());
    }
}
