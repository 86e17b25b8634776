//! The ordered parallel map.

use std::ops::Range;
use std::sync::Arc;

use super::channel::{MeteredReceiver, MeteredSender, Received, Stop, metered};
use super::meter::{Meter, Reading, adopt};
use super::supervisor::{Actor, guard, spawn};
use super::traced;
use crate::error::Result;

/// How many lanes, and how far each may run ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOptions {
    /// Threads are called `name-0`, `name-1`, …
    pub name: &'static str,
    /// What one item is called.
    pub item: &'static str,
    /// Number of threads, at least 1.
    pub count: usize,
    /// Finished items that wait in each lane's queue, at least 1.
    pub depth: usize,
}

impl LaneOptions {
    /// Items alive at most: each lane holds one and its queue `depth`, and the reader has one.
    #[must_use]
    pub fn items_alive_max(&self) -> usize {
        self.count * (self.depth + 1) + 1
    }
}

/// An iterator over `make(start), make(start + 1), …`, computed by several threads.
///
/// Lane `i % n` makes item `i` and the reader takes item `i` from lane `i % n`: the order is by construction, and the
/// same for any number of lanes. The first failing *index* is the one reported, however the threads race; after it the
/// iterator ends. Dropping the reader stops and joins all threads, each after the item in its hands.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    next: u64,
    end: u64,
    /// Items travel with their index, so that none is ever taken for another.
    queues: Vec<MeteredReceiver<(u64, Result<T>)>>,
    threads: Vec<Actor<()>>,
    gauges: Gauges,
    /// What one item is called.
    item: &'static str,
}

/// What `Lanes::next_or` found.
#[derive(Debug)]
pub enum Next<T> {
    /// The next item.
    Item(T),
    /// There are no more.
    End,
    /// The stop was asked for first; the item is still to come.
    Stopped,
}

/// The clocks of some lanes and of their reader, for another thread to look at while they run.
#[derive(Clone, Debug)]
pub struct Gauges {
    pub(super) lanes: Vec<Arc<Meter>>,
    pub(super) reader: Arc<Meter>,
}

impl Gauges {
    /// Every lane now.
    #[must_use]
    pub fn lanes(&self) -> Vec<Reading> {
        self.lanes.iter().map(|meter| meter.read()).collect()
    }

    /// Items that wait behind each lane now, and how many can.
    pub fn queues(&self) -> impl Iterator<Item = (usize, usize)> {
        self.lanes.iter().map(|meter| meter.queue_now())
    }

    /// What each of the newest items took, in seconds of work: of all lanes, one item of each in turn; of the reader.
    #[must_use]
    pub fn costs(&self) -> (Vec<f32>, Vec<f32>) {
        let lanes: Vec<Vec<f32>> = self.lanes.iter().map(|meter| meter.costs()).collect();
        let least = lanes.iter().map(Vec::len).filter(|len| *len > 0).min().unwrap_or(0);
        // As they were made: lanes make items in turn.
        let rows = (0..least)
            .flat_map(|at| lanes.iter().filter_map(move |lane| lane.get(lane.len().checked_sub(least)? + at)));
        (rows.copied().collect(), self.reader.costs())
    }

    /// The reader now: starved in its waits, busy between them.
    #[must_use]
    pub fn reader(&self) -> Reading {
        self.reader.read()
    }
}

impl<T: Send + 'static> Lanes<T> {
    /// Starts `options.count` threads over the indices of `range`.
    ///
    /// # Panics
    /// If `count` or `depth` is 0. Whoever reads panics if a lane ends before its last item.
    pub(crate) fn over(
        range: Range<u64>,
        options: LaneOptions,
        make: impl Fn(u64) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        assert!(options.count > 0 && options.depth > 0, "a lane and a place in its queue are the least");
        let make = Arc::new(make);
        let reader = Meter::new(format!("{}-reader", options.name), 0);
        let mut lanes = Self {
            next: range.start,
            end: range.end,
            queues: Vec::new(),
            threads: Vec::new(),
            gauges: Gauges { lanes: Vec::new(), reader },
            item: options.item,
        };
        let item = (options.item, lanes.gauges.reader.number());
        for lane in 0..options.count as u64 {
            let name = format!("{}-{lane}", options.name);
            let meter = Meter::new(name.clone(), options.depth);
            let (sender, receiver) = metered(options.depth, &meter);
            lanes.queues.push(receiver);
            lanes.gauges.lanes.push(Arc::clone(&meter));
            let first = first_of(lane, options.count as u64, range.start);
            let indices = first..range.end;
            let (make, step) = (Arc::clone(&make), options.count);
            let body = move || {
                adopt(&meter);
                run(&name, indices.step_by(step), &sender, &*make, item);
                meter.end();
            };
            lanes.start(first, format!("{}-{lane}", options.name), body);
        }
        lanes
    }

    fn start(&mut self, first: u64, name: String, body: impl FnOnce() + Send + 'static) {
        match spawn(name, body) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                // The reader meets this error when it comes to the lane.
                let meter = self.gauges.lanes.last().expect("its meter was just made");
                let (sender, receiver) = metered(1, meter);
                sender.send((first, Err(error)));
                *self.queues.last_mut().expect("its queue was just made") = receiver;
            }
        }
    }

    /// Like [`next`](Iterator::next), but returns as soon as `stop` is asked for, also in the middle of a wait.
    pub(crate) fn next_or(&mut self, stop: &Stop) -> Next<Result<T>> {
        self.advance(Some(stop))
    }

    /// The clocks, for as long as anyone wants to look.
    #[must_use]
    pub(crate) fn gauges(&self) -> Gauges {
        self.gauges.clone()
    }

    fn advance(&mut self, stop: Option<&Stop>) -> Next<Result<T>> {
        if self.next >= self.end || self.queues.is_empty() {
            return Next::End;
        }
        let lane = usize::try_from(self.next % self.queues.len() as u64).expect("below the number of lanes");
        match self.queues[lane].receive(&self.gauges.reader, stop) {
            Received::Stopped => Next::Stopped,
            // A lane ends with its last item or with an error; an order that has a hole must not pass for one that ended.
            Received::End => panic!("lane {lane} ended before item {} of {}", self.next, self.end),
            Received::Item((index, item)) => {
                assert_eq!(index, self.next, "lane {lane} is out of step");
                self.next += 1;
                self.gauges.reader.finish_item();
                traced::takes(self.gauges.reader.number(), (self.item, index));
                if item.is_err() {
                    self.close();
                }
                Next::Item(item)
            }
        }
    }
}

impl<T> Lanes<T> {
    fn close(&mut self) {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            // Its panics were items already.
            let _ = thread.join();
        }
        self.gauges.reader.end();
    }
}

impl<T: Send + 'static> Iterator for Lanes<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self.advance(None) {
            Next::Item(item) => Some(item),
            Next::End | Next::Stopped => None,
        }
    }
}

impl<T> Drop for Lanes<T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// The first index at or after `start` that belongs to `lane`.
fn first_of(lane: u64, count: u64, start: u64) -> u64 {
    start.saturating_add((lane + count - start % count) % count)
}

fn run<T>(
    name: &str,
    indices: impl Iterator<Item = u64>,
    sender: &MeteredSender<(u64, Result<T>)>,
    make: &(impl Fn(u64) -> Result<T> + ?Sized),
    of: (&'static str, u64),
) {
    for index in indices {
        let span = traced::item(of, index);
        let item = guard(name, index, || make(index));
        drop(span);
        let failed = item.is_err();
        if !sender.send((index, item)) || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::actor::stopper;
    use crate::error::Error;

    fn options(count: usize, depth: usize) -> LaneOptions {
        LaneOptions { name: "test", item: "item", count, depth }
    }

    /// A delay of 0 to 1.5 ms that looks random and is not.
    fn jitter(index: u64) {
        sleep(Duration::from_micros(index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48 & 0x5FF));
    }

    #[test]
    fn order_is_independent_of_lane_count() {
        for count in [1, 2, 3, 7] {
            for start in [0, 1, 5, 1_000_003] {
                let lanes = Lanes::over(start..start + 40, options(count, 2), |index| {
                    jitter(index);
                    Ok(index)
                });
                let seen: Vec<u64> = lanes.map(|item| item.expect("none fails")).collect();
                assert_eq!(seen, (start..start + 40).collect::<Vec<_>>(), "{count} lanes from {start}");
            }
        }
    }

    #[test]
    fn the_earliest_failing_index_wins_and_panics_are_errors() {
        for count in [1, 2, 3, 7] {
            let mut lanes = Lanes::over(0..100, options(count, 2), |index| {
                // The later failure happens first.
                if index == 11 {
                    sleep(Duration::from_millis(20));
                    panic!("item {index} is bad");
                }
                if index == 13 { Err(Error::Config("later".into())) } else { Ok(index) }
            });
            let seen: Vec<u64> = lanes.by_ref().take(11).map(|item| item.expect("before the failure")).collect();
            assert_eq!(seen, (0..11).collect::<Vec<_>>());
            let error = lanes.next().expect("an item").expect_err("a failure").to_string();
            assert_eq!(error, format!("actor `test-{}` failed at item 11: item 11 is bad", 11 % count));
            assert!(lanes.next().is_none(), "nothing after a failure");
        }
    }

    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn items_alive_are_lanes_times_depth_plus_one_plus_one() {
        for (count, depth) in [(1, 1), (3, 2), (4, 1), (2, 5)] {
            let alive = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&alive);
            let mut lanes = Lanes::over(0..u64::MAX, options(count, depth), move |_| {
                counter.fetch_add(1, Ordering::SeqCst);
                Ok(Counted(Arc::clone(&counter)))
            });
            let held = lanes.next().expect("endless").expect("none fails");
            let began = Instant::now();
            let bound = options(count, depth).items_alive_max();
            while alive.load(Ordering::SeqCst) < bound && began.elapsed() < Duration::from_secs(5) {
                sleep(Duration::from_millis(1));
            }
            sleep(Duration::from_millis(20));
            assert_eq!(alive.load(Ordering::SeqCst), bound, "{count} lanes, depth {depth}");
            let fill: usize = lanes.gauges().lanes().iter().map(|lane| lane.queued).sum();
            assert_eq!(fill, count * depth);
            drop((held, lanes));
            assert_eq!(alive.load(Ordering::SeqCst), 0, "dropping the reader unwinds and joins every lane");
        }
    }

    #[test]
    fn a_stop_ends_a_wait() {
        let (stopper, stop) = stopper();
        let mut lanes = Lanes::over(0..4, options(1, 1), |index| {
            sleep(Duration::from_millis(if index == 1 { 300 } else { 0 }));
            Ok(index)
        });
        assert!(matches!(lanes.next_or(&stop), Next::Item(Ok(0))));
        let began = Instant::now();
        let signal = spawn("signal", move || {
            sleep(Duration::from_millis(30));
            stopper.stop();
        });
        assert!(matches!(lanes.next_or(&stop), Next::Stopped));
        assert!(began.elapsed() < Duration::from_millis(250), "it did not wait for the item");
        assert_eq!(lanes.next().expect("not lost").expect("none fails"), 1);
        signal.and_then(Actor::join).expect("no panic");
    }

    #[test]
    fn the_clocks_name_the_slow_side() {
        let slow_lanes = Lanes::over(0..10, options(2, 1), |index| {
            sleep(Duration::from_millis(10));
            Ok(index)
        });
        let gauges = slow_lanes.gauges();
        slow_lanes.for_each(drop);
        let reader = gauges.reader();
        assert!(reader.starved > reader.wall / 2, "{reader:?}");

        let fast_lanes = Lanes::over(0..10, options(2, 1), Ok);
        let gauges = fast_lanes.gauges();
        fast_lanes.for_each(|_| sleep(Duration::from_millis(10)));
        for lane in gauges.lanes() {
            assert_eq!(lane.busy + lane.starved + lane.blocked, lane.wall);
            assert!(lane.blocked > lane.wall / 2 && lane.items == 5, "{lane:?}");
        }
    }
}
