//! Work dealt by demand: whoever is free takes the next item.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};

use super::channel::{Stop, Stopper, stopper};
use super::lanes::{Gauges, LaneOptions};
use super::meter::{Activity, Meter, adopt};
use super::supervisor::{Actor, guard, spawn};
use super::traced;
use crate::error::{Error, Result};

/// What a thread made, of which item, and by which lane.
struct Made<T> {
    index: u64,
    lane: usize,
    value: Result<T>,
}

/// The values of `make(0), make(1), …, make(count - 1)`, as they finish.
///
/// [`Lanes`](super::Lanes) give order, and a slow item holds up those behind it. Here a slow item holds up nobody: a lane
/// that is free takes the lowest index that nobody has taken, and the reader gets what is ready. Their order is that of
/// chance, so a fold over them must not depend on it. The first error is told when it comes; of several that are known,
/// the one of the lowest index. Then, and when the reader is dropped, the other lanes are asked to stop in the middle of
/// what they do, and are waited for.
#[derive(Debug)]
pub(crate) struct Demand<T> {
    results: Option<Receiver<Made<T>>>,
    threads: Vec<Actor<()>>,
    stopper: Stopper,
    gauges: Gauges,
    /// What one item is called.
    item: &'static str,
    left: u64,
    /// Why there is no thread where one should be.
    refused: Option<Error>,
}

impl<T> std::fmt::Debug for Made<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Made").field("index", &self.index).field("lane", &self.lane).finish_non_exhaustive()
    }
}

/// What [`Demand::next_within`] found.
#[derive(Debug)]
pub(crate) enum Ready<T> {
    /// An item, of whatever index.
    Item(T),
    /// Nothing yet.
    NotYet,
    /// There are no more.
    End,
}

impl<T: Send + 'static> Demand<T> {
    /// Starts `options.count` threads over `count` items; `options.depth` finished ones wait for the reader, at most.
    /// `make` gives `None` only if it was asked to stop.
    ///
    /// # Panics
    /// If there would be no thread, or no place for a finished item.
    pub(crate) fn over(
        count: u64,
        options: LaneOptions,
        make: impl Fn(u64, &Stop) -> Result<Option<T>> + Send + Sync + 'static,
    ) -> Self {
        assert!(options.count > 0 && options.depth > 0, "a lane and a place in the queue are the least");
        let (sender, results) = bounded(options.depth);
        let (stopper, stop) = stopper();
        let reader = Meter::new(format!("{}-reader", options.name), 0);
        let mut demand = Self {
            results: Some(results),
            threads: Vec::new(),
            stopper,
            gauges: Gauges { lanes: Vec::new(), reader },
            item: options.item,
            left: count,
            refused: None,
        };
        let stream = demand.gauges.reader.number();
        let work = Arc::new(Work { make, next: AtomicU64::new(0), count, item: (options.item, stream) });
        for lane in 0..options.count {
            let name = format!("{}-{lane}", options.name);
            let meter = Meter::new(name.clone(), options.depth);
            demand.gauges.lanes.push(Arc::clone(&meter));
            let lane = Lane { name: name.clone(), number: lane, meter, results: sender.clone(), stop: stop.clone() };
            let work = Arc::clone(&work);
            match spawn(name, move || lane.run(&work)) {
                Ok(thread) => demand.threads.push(thread),
                Err(error) => {
                    // The reader meets it first.
                    demand.refused = Some(error);
                    break;
                }
            }
        }
        demand
    }

    /// The clocks, for as long as anyone wants to look.
    #[must_use]
    pub(crate) fn gauges(&self) -> Gauges {
        self.gauges.clone()
    }

    /// What is ready within `patience`. After an error there is nothing more.
    pub(crate) fn next_within(&mut self, patience: Duration) -> Result<Ready<T>> {
        if let Some(error) = self.refused.take() {
            self.close();
            return Err(error);
        }
        let left = self.left;
        let Some(results) = self.results.as_ref().filter(|_| left > 0) else { return Ok(Ready::End) };
        self.gauges.reader.enter(Activity::Starved);
        let received = results.recv_timeout(patience);
        self.gauges.reader.enter(Activity::Busy);
        let made = match received {
            Ok(made) => made,
            Err(RecvTimeoutError::Timeout) => return Ok(Ready::NotYet),
            Err(RecvTimeoutError::Disconnected) => panic!("{} items are left and every lane has ended", self.left),
        };
        self.note(&made);
        match made.value {
            Ok(item) => {
                self.left -= 1;
                Ok(Ready::Item(item))
            }
            Err(error) => Err(self.earliest(made.index, error)),
        }
    }

    /// The error of the lowest index that is known by now; ends everything.
    fn earliest(&mut self, mut index: u64, mut error: Error) -> Error {
        self.stopper.stop();
        for made in self.results.iter().flat_map(Receiver::try_iter) {
            if let Err(other) = made.value
                && made.index < index
            {
                (index, error) = (made.index, other);
            }
        }
        self.close();
        error
    }

    fn note(&self, made: &Made<T>) {
        if let Some(meter) = self.gauges.lanes.get(made.lane) {
            meter.is_relieved();
        }
        self.gauges.reader.finish_item();
        traced::takes(self.gauges.reader.number(), (self.item, made.index));
    }
}

impl<T> Demand<T> {
    fn close(&mut self) {
        self.stopper.stop();
        self.results = None;
        for thread in self.threads.drain(..) {
            // Its panics were items already.
            let _ = thread.join();
        }
        self.gauges.reader.end();
    }
}

impl<T> Drop for Demand<T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// What is dealt.
struct Work<F> {
    make: F,
    next: AtomicU64,
    count: u64,
    /// What one is called, and the number of who reads them.
    item: (&'static str, u64),
}

/// One thread.
struct Lane<T> {
    name: String,
    number: usize,
    meter: Arc<Meter>,
    results: Sender<Made<T>>,
    stop: Stop,
}

impl<T> Lane<T> {
    fn run<F: Fn(u64, &Stop) -> Result<Option<T>>>(&self, work: &Work<F>) {
        adopt(&self.meter);
        loop {
            let index = work.next.fetch_add(1, Ordering::Relaxed);
            if index >= work.count || self.stop.is_asked() {
                break;
            }
            let value = {
                let _span = traced::item(work.item, index);
                guard(&self.name, index, || (work.make)(index, &self.stop)).transpose()
            };
            let Some(value) = value.filter(|_| !self.stop.is_asked()) else { break };
            let failed = value.is_err();
            if !self.send(Made { index, lane: self.number, value }) || failed {
                break;
            }
        }
        self.meter.end();
    }

    /// Waits for room. False if nobody reads any more.
    fn send(&self, made: Made<T>) -> bool {
        self.meter.puts();
        let sent = match self.results.try_send(made) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(made)) => {
                self.meter.enter(Activity::Blocked);
                let sent = self.results.send(made).is_ok();
                self.meter.enter(Activity::Busy);
                sent
            }
        };
        self.meter.finish_item();
        sent
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn options(count: usize, depth: usize) -> LaneOptions {
        LaneOptions { name: "test", item: "item", count, depth }
    }

    fn all<T: Send + 'static>(demand: &mut Demand<T>) -> Result<Vec<T>> {
        let mut found = Vec::new();
        loop {
            match demand.next_within(LONG)? {
                Ready::Item(item) => found.push(item),
                Ready::NotYet => panic!("a minute is long"),
                Ready::End => return Ok(found),
            }
        }
    }

    #[test]
    fn every_item_is_made_once_for_any_number_of_lanes() {
        for count in [1, 2, 5] {
            for depth in [1, 7] {
                let mut demand = Demand::over(40, options(count, depth), |index, _| Ok(Some(index)));
                let found = all(&mut demand).expect("none fails");
                let indices: BTreeSet<u64> = found.iter().copied().collect();
                assert_eq!((indices, found.len()), ((0..40).collect(), 40), "{count} lanes, depth {depth}");
            }
        }
    }

    /// Item 0 waits until all the others are read: with lanes in turn nobody would get past it.
    #[test]
    fn a_slow_item_holds_up_no_other() {
        let (open, gate) = bounded::<()>(1);
        let mut demand = Demand::over(30, options(2, 1), move |index, _| {
            if index == 0 {
                gate.recv().expect("opened in the end");
            }
            Ok(Some(index))
        });
        let before: Vec<u64> = (0..29)
            .map(|_| match demand.next_within(LONG).expect("none fails") {
                Ready::Item(index) => index,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(!before.contains(&0), "{before:?}");
        assert!(matches!(demand.next_within(Duration::ZERO).expect("none fails"), Ready::NotYet));
        open.send(()).expect("it waits");
        assert_eq!(all(&mut demand).expect("none fails"), [0]);
    }

    #[test]
    fn an_error_is_told_while_others_work_and_asks_them_to_stop() {
        let stopped = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&stopped);
        let all_began = Barrier::new(3);
        let mut demand = Demand::<u64>::over(10, options(3, 2), move |index, stop| {
            all_began.wait();
            if index == 1 {
                return Err(Error::Config("one".into()));
            }
            // The others would work for ever: only the stop ends them.
            while !stop.is_asked() {
                std::thread::yield_now();
            }
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(None)
        });
        assert_eq!(demand.next_within(LONG).expect_err("a failure").to_string(), "one");
        assert!(matches!(demand.next_within(LONG).expect("it has ended"), Ready::End));
        assert_eq!(stopped.load(Ordering::SeqCst), 2, "both were waited for");
    }

    #[test]
    fn of_the_errors_that_are_known_the_lowest_wins_and_panics_are_errors() {
        let (told, both) = bounded::<()>(2);
        let mut demand = Demand::<u64>::over(2, options(2, 2), move |index, _| {
            told.send(()).expect("there is room");
            assert!(index != 0, "item {index} is bad");
            Err(Error::Config("later".into()))
        });
        (0..2).for_each(|_| both.recv().expect("both began"));
        while demand.results.as_ref().is_some_and(|results| results.len() < 2) {
            std::thread::yield_now();
        }
        let error = demand.next_within(LONG).expect_err("a failure").to_string();
        assert!(error.ends_with("failed at item 0: item 0 is bad"), "{error}");
    }
}
