//! Ordered parallel map.

use std::ops::Range;
use std::sync::Arc;

use crate::cancel::CancelToken;
use crate::channel::{Received, TimedReceiver, TimedSender, timed_channel};
use crate::error::{Error, Result};
use crate::panic_guard::guard_item;
use crate::spans::ItemStream;
use crate::supervisor::{NamedThread, spawn};
use crate::time_account::{TimeAccount, WorkerStats, adopt};

/// Size of a pool and names of its threads and items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Threads are called `name-0`, `name-1`, …
    pub name: &'static str,
    /// Name of one item.
    pub item: &'static str,
    /// Number of threads, at least 1.
    pub workers: usize,
    /// Maximum number of finished items per worker, at least 1; in a [`WorkPool`](crate::WorkPool), of all workers
    /// together.
    pub queue_depth: usize,
}

impl PoolOptions {
    /// Maximum number of items alive in an [`OrderedPool`]: one in each worker, `queue_depth` in each queue, and one in
    /// the reader.
    #[must_use]
    pub fn max_items_alive(&self) -> usize {
        self.workers * (self.queue_depth + 1) + 1
    }
}

/// Iterator over `make(start), make(start + 1), …`, computed by several threads.
///
/// Worker `i % n` computes item `i`, and the reader takes item `i` from worker `i % n`. Therefore the order is the same
/// for any number of workers. The error of the lowest *index* is reported, independent of timing; after it the iterator
/// ends. Dropping the reader stops and joins all threads, each after its current item.
#[derive(Debug)]
pub struct OrderedPool<T, E> {
    next: u64,
    end: u64,
    /// Queues of items with their indices, which the reader checks.
    queues: Vec<TimedReceiver<(u64, Result<T, E>)>>,
    threads: Vec<NamedThread<()>>,
    stats: PoolStats,
    items: ItemStream,
}

/// Outcome of [`OrderedPool::next_or_cancelled`].
#[derive(Debug)]
pub enum NextItem<T> {
    /// The next item.
    Item(T),
    /// No items remain.
    End,
    /// A cancellation was requested first; the item can still be read.
    Cancelled,
}

/// Time accounts of the workers of a pool and of its reader, for another thread to read while they run.
#[derive(Clone, Debug)]
pub struct PoolStats {
    pub(crate) workers: Vec<Arc<TimeAccount>>,
    pub(crate) reader: Arc<TimeAccount>,
}

impl PoolStats {
    /// Returns the statistics of every worker.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerStats> {
        self.workers.iter().map(|account| account.read()).collect()
    }

    /// Returns the items in each worker's queue, and its capacity.
    pub fn queues(&self) -> impl Iterator<Item = (usize, usize)> {
        self.workers.iter().map(|account| account.queue())
    }

    /// Returns the busy seconds of each of the newest items, of all workers in index order and of the reader.
    #[must_use]
    pub fn costs(&self) -> (Vec<f32>, Vec<f32>) {
        let workers: Vec<Vec<f32>> = self.workers.iter().map(|account| account.costs()).collect();
        let shortest = workers.iter().map(Vec::len).filter(|len| *len > 0).min().unwrap_or(0);
        // Items alternate between the workers, so this is the order of the items.
        let rows = (0..shortest).flat_map(|at| {
            workers.iter().filter_map(move |worker| worker.get(worker.len().checked_sub(shortest)? + at))
        });
        (rows.copied().collect(), self.reader.costs())
    }

    /// Returns the statistics of the reader: starved in its waits, busy between them.
    #[must_use]
    pub fn reader(&self) -> WorkerStats {
        self.reader.read()
    }
}

impl<T: Send + 'static, E: From<Error> + Send + 'static> OrderedPool<T, E> {
    /// Starts `options.workers` threads over the indices of `range`.
    ///
    /// # Panics
    /// If `workers` or `queue_depth` is 0. The reader panics if a worker ends before its last item.
    pub fn new(
        range: Range<u64>,
        options: PoolOptions,
        make: impl Fn(u64) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        assert!(options.workers > 0 && options.queue_depth > 0, "`workers` and `queue_depth` must be at least 1");
        let make = Arc::new(make);
        let reader = TimeAccount::new(format!("{}-reader", options.name), 0);
        let items = ItemStream { item: options.item, reader: reader.number() };
        let mut pool = Self {
            next: range.start,
            end: range.end,
            queues: Vec::new(),
            threads: Vec::new(),
            stats: PoolStats { workers: Vec::new(), reader },
            items,
        };
        for worker in 0..options.workers as u64 {
            let name = format!("{}-{worker}", options.name);
            let account = TimeAccount::new(name.clone(), options.queue_depth);
            let (sender, receiver) = timed_channel(options.queue_depth, &account);
            pool.queues.push(receiver);
            pool.stats.workers.push(Arc::clone(&account));
            let first = first_of(worker, options.workers as u64, range.start);
            let indices = first..range.end;
            let make = Arc::clone(&make);
            let step = options.workers;
            let body = move || {
                adopt(&account);
                run(&name, indices.step_by(step), &sender, &*make, items);
                account.end();
            };
            pool.start(first, format!("{}-{worker}", options.name), body);
        }
        pool
    }

    fn start(&mut self, first: u64, name: String, body: impl FnOnce() + Send + 'static) {
        match spawn(name, body) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                // The reader gets this error when it reads from this worker.
                let account = self.stats.workers.last().expect("its account was created above");
                let (sender, receiver) = timed_channel(1, account);
                sender.send((first, Err(error.into())));
                *self.queues.last_mut().expect("its queue was created above") = receiver;
            }
        }
    }

    /// Like [`next`](Iterator::next), but returns on a cancellation, also in the middle of a wait.
    pub fn next_or_cancelled(&mut self, token: &CancelToken) -> NextItem<Result<T, E>> {
        self.advance(Some(token))
    }

    /// Returns the time accounts; they outlive the pool.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.stats.clone()
    }

    fn advance(&mut self, token: Option<&CancelToken>) -> NextItem<Result<T, E>> {
        if self.next >= self.end || self.queues.is_empty() {
            return NextItem::End;
        }
        let worker = usize::try_from(self.next % self.queues.len() as u64).expect("below the number of workers");
        match self.queues[worker].receive(&self.stats.reader, token) {
            Received::Cancelled => NextItem::Cancelled,
            // A worker ends after its last item or after an error; a gap must not look like the end.
            Received::End => panic!("worker {worker} ended before item {} of {}", self.next, self.end),
            Received::Item((index, item)) => {
                assert_eq!(index, self.next, "worker {worker} returned the wrong item");
                self.next += 1;
                self.stats.reader.finish_item();
                self.items.taken(index);
                if item.is_err() {
                    self.close();
                }
                NextItem::Item(item)
            }
        }
    }
}

impl<T, E> OrderedPool<T, E> {
    fn close(&mut self) {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            // A panic was already returned as an item.
            let _ = thread.join();
        }
        self.stats.reader.end();
    }
}

impl<T: Send + 'static, E: From<Error> + Send + 'static> Iterator for OrderedPool<T, E> {
    type Item = Result<T, E>;

    fn next(&mut self) -> Option<Result<T, E>> {
        match self.advance(None) {
            NextItem::Item(item) => Some(item),
            NextItem::End | NextItem::Cancelled => None,
        }
    }
}

impl<T, E> Drop for OrderedPool<T, E> {
    fn drop(&mut self) {
        self.close();
    }
}

/// First index at or after `start` that belongs to `worker`.
fn first_of(worker: u64, workers: u64, start: u64) -> u64 {
    start.saturating_add((worker + workers - start % workers) % workers)
}

fn run<T, E: From<Error>>(
    name: &str,
    indices: impl Iterator<Item = u64>,
    sender: &TimedSender<(u64, Result<T, E>)>,
    make: &(impl Fn(u64) -> Result<T, E> + ?Sized),
    items: ItemStream,
) {
    for index in indices {
        let span = items.begin(index);
        let item = guard_item(name, index, || make(index));
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
    use crate::cancel::cancel_pair;
    use crate::testing::TestError;

    type Pool<T> = OrderedPool<T, TestError>;

    fn options(workers: usize, queue_depth: usize) -> PoolOptions {
        PoolOptions { name: "test", item: "item", workers, queue_depth }
    }

    /// Deterministic pseudo-random delay of 0 to 1.5 ms.
    fn jitter(index: u64) {
        sleep(Duration::from_micros(index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48 & 0x5FF));
    }

    #[test]
    fn order_is_independent_of_worker_count() {
        for count in [1, 2, 3, 7] {
            for start in [0, 1, 5, 1_000_003] {
                let pool = Pool::new(start..start + 40, options(count, 2), |index| {
                    jitter(index);
                    Ok(index)
                });
                let seen: Vec<u64> = pool.map(|item| item.expect("no item fails")).collect();
                assert_eq!(seen, (start..start + 40).collect::<Vec<_>>(), "{count} workers from {start}");
            }
        }
    }

    #[test]
    fn the_earliest_failing_index_wins_and_panics_are_errors() {
        for count in [1, 2, 3, 7] {
            let mut pool = Pool::new(0..100, options(count, 2), |index| {
                // The later failure happens first.
                if index == 11 {
                    sleep(Duration::from_millis(20));
                    panic!("item {index} is bad");
                }
                if index == 13 { Err(TestError::Item("later")) } else { Ok(index) }
            });
            let seen: Vec<u64> = pool.by_ref().take(11).map(|item| item.expect("before the failure")).collect();
            assert_eq!(seen, (0..11).collect::<Vec<_>>());
            let error = pool.next().expect("an item").expect_err("a failure").to_string();
            assert_eq!(error, format!("worker `test-{}` failed at item 11: item 11 is bad", 11 % count));
            assert!(pool.next().is_none(), "no item after a failure");
        }
    }

    struct ItemCounter(Arc<AtomicUsize>);

    impl Drop for ItemCounter {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn items_alive_are_workers_times_depth_plus_one_plus_one() {
        for (count, depth) in [(1, 1), (3, 2), (4, 1), (2, 5)] {
            let alive = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&alive);
            let mut pool = Pool::new(0..u64::MAX, options(count, depth), move |_| {
                counter.fetch_add(1, Ordering::SeqCst);
                Ok(ItemCounter(Arc::clone(&counter)))
            });
            let held = pool.next().expect("endless").expect("no item fails");
            let began = Instant::now();
            let bound = options(count, depth).max_items_alive();
            while alive.load(Ordering::SeqCst) < bound && began.elapsed() < Duration::from_secs(5) {
                sleep(Duration::from_millis(1));
            }
            sleep(Duration::from_millis(20));
            assert_eq!(alive.load(Ordering::SeqCst), bound, "{count} workers, depth {depth}");
            let fill: usize = pool.stats().workers().iter().map(|worker| worker.queued).sum();
            assert_eq!(fill, count * depth);
            drop((held, pool));
            assert_eq!(alive.load(Ordering::SeqCst), 0, "dropping the reader joins every worker");
        }
    }

    #[test]
    fn a_cancellation_ends_a_wait() {
        let (source, token) = cancel_pair();
        let mut pool = Pool::new(0..4, options(1, 1), |index| {
            sleep(Duration::from_millis(if index == 1 { 300 } else { 0 }));
            Ok(index)
        });
        assert!(matches!(pool.next_or_cancelled(&token), NextItem::Item(Ok(0))));
        let began = Instant::now();
        let signal = spawn("signal", move || {
            sleep(Duration::from_millis(30));
            source.cancel();
        });
        assert!(matches!(pool.next_or_cancelled(&token), NextItem::Cancelled));
        assert!(began.elapsed() < Duration::from_millis(250), "the wait was interrupted");
        assert_eq!(pool.next().expect("not lost").expect("no item fails"), 1);
        signal.and_then(NamedThread::join).expect("no panic");
    }

    #[test]
    fn the_clocks_identify_the_slow_side() {
        let slow_workers = Pool::new(0..10, options(2, 1), |index| {
            sleep(Duration::from_millis(10));
            Ok(index)
        });
        let stats = slow_workers.stats();
        slow_workers.for_each(drop);
        let reader = stats.reader();
        assert!(reader.starved > reader.wall / 2, "{reader:?}");

        let fast_workers = Pool::new(0..10, options(2, 1), Ok);
        let stats = fast_workers.stats();
        fast_workers.for_each(|_| sleep(Duration::from_millis(10)));
        for worker in stats.workers() {
            assert_eq!(worker.busy + worker.starved + worker.blocked, worker.wall);
            assert!(worker.blocked > worker.wall / 2 && worker.items == 5, "{worker:?}");
        }
    }
}
