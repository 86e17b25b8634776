//! Parallel map that returns items in order of completion.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::cancel::{CancelSource, CancelToken, cancel_pair};
use crate::channel::send_timed;
use crate::error::{Error, Result};
use crate::ordered_pool::{PoolOptions, PoolStats};
use crate::panic_guard::guard_item;
use crate::spans::ItemStream;
use crate::supervisor::{NamedThread, spawn};
use crate::time_account::{Activity, TimeAccount, adopt};

/// Finished item with its index and its worker.
#[derive(Debug)]
struct Finished<T, E> {
    index: u64,
    worker: usize,
    value: Result<T, E>,
}

/// Values of `make(0), make(1), …, make(count - 1)` in order of completion.
///
/// In an [`OrderedPool`](crate::OrderedPool), a slow item delays the items after it. Here it delays no other item: a
/// free worker takes the lowest remaining index, and the reader gets finished items. Their order depends on timing, so
/// a fold over them must be commutative. The first error is reported when it arrives. If several errors are known, that
/// of the lowest index is reported. After an error, or when the reader is dropped, all workers are cancelled in the
/// middle of their items and joined.
#[derive(Debug)]
pub struct WorkPool<T, E> {
    results: Option<Receiver<Finished<T, E>>>,
    threads: Vec<NamedThread<()>>,
    cancel: CancelSource,
    stats: PoolStats,
    items: ItemStream,
    left: u64,
    /// Error of a thread that could not be started.
    spawn_error: Option<Error>,
}

/// Outcome of [`WorkPool::next_timeout`].
#[derive(Debug)]
pub enum Poll<T> {
    /// Item of any index.
    Item(T),
    /// No item finished within the timeout.
    Pending,
    /// No items remain.
    End,
}

impl<T: Send + 'static, E: From<Error> + Send + 'static> WorkPool<T, E> {
    /// Starts `options.workers` threads over `count` items. At most `options.queue_depth` finished items wait for the
    /// reader. `make` returns `None` only if it was cancelled.
    ///
    /// # Panics
    /// If `workers` or `queue_depth` is 0.
    pub fn new(
        count: u64,
        options: PoolOptions,
        make: impl Fn(u64, &CancelToken) -> Result<Option<T>, E> + Send + Sync + 'static,
    ) -> Self {
        assert!(options.workers > 0 && options.queue_depth > 0, "`workers` and `queue_depth` must be at least 1");
        let (sender, results) = bounded(options.queue_depth);
        let (mut pool, token) = Self::without_threads(count, options, results);
        pool.start_workers(options, &token, &sender, make);
        pool
    }

    /// Starts a pool whose items need a wait after the work, such as that for a disk: `make` runs in `options.workers`
    /// threads as in [`new`](Self::new), then `finish` in `finishers` threads, while the workers make the next items. At
    /// most `options.workers` items wait for `finish`. What `make` has returned is finished also after an error or a cancellation.
    ///
    /// # Panics
    /// If `workers`, `queue_depth` or `finishers` is 0.
    pub fn with_finishers<M: Send + 'static>(
        count: u64,
        options: PoolOptions,
        finishers: usize,
        make: impl Fn(u64, &CancelToken) -> Result<Option<M>, E> + Send + Sync + 'static,
        finish: impl Fn(M) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        assert!(options.workers > 0 && options.queue_depth > 0, "`workers` and `queue_depth` must be at least 1");
        assert!(finishers > 0, "`finishers` must be at least 1");
        let (sender, results) = bounded(options.queue_depth);
        let (made_sender, made) = bounded(options.workers);
        let (mut pool, token) = Self::without_threads(count, options, results);
        let finish = Arc::new(finish);
        for number in 0..finishers {
            let name = format!("{}-end-{number}", options.name);
            let finisher = Finisher { name: name.clone(), made: made.clone(), results: sender.clone() };
            let finish = Arc::clone(&finish);
            pool.start(name, move || finisher.run(&*finish));
        }
        pool.start_workers(options, &token, &made_sender, make);
        pool
    }

    fn without_threads(count: u64, options: PoolOptions, results: Receiver<Finished<T, E>>) -> (Self, CancelToken) {
        let (cancel, token) = cancel_pair();
        let reader = TimeAccount::new(format!("{}-reader", options.name), 0);
        let items = ItemStream { item: options.item, reader: reader.number() };
        let pool = Self {
            results: Some(results),
            threads: Vec::new(),
            cancel,
            stats: PoolStats { workers: Vec::new(), reader },
            items,
            left: count,
            spawn_error: None,
        };
        (pool, token)
    }

    /// Starts the threads that make the items and send them to `made`.
    fn start_workers<M: Send + 'static>(
        &mut self,
        options: PoolOptions,
        token: &CancelToken,
        made: &Sender<Finished<M, E>>,
        make: impl Fn(u64, &CancelToken) -> Result<Option<M>, E> + Send + Sync + 'static,
    ) {
        let work = Arc::new(Work { make, next: AtomicU64::new(0), count: self.left, items: self.items });
        for number in 0..options.workers {
            let name = format!("{}-{number}", options.name);
            let account = TimeAccount::new(name.clone(), options.queue_depth);
            self.stats.workers.push(Arc::clone(&account));
            let worker = Worker { name: name.clone(), number, account, results: made.clone(), token: token.clone() };
            let work = Arc::clone(&work);
            self.start(name, move || worker.run(&work));
        }
    }

    /// Starts a thread, unless an earlier one could not be started. The reader gets that error first.
    fn start(&mut self, name: String, run: impl FnOnce() + Send + 'static) {
        if self.spawn_error.is_none() {
            match spawn(name, run) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => self.spawn_error = Some(error),
            }
        }
    }

    /// Returns the time accounts; they outlive the pool.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.stats.clone()
    }

    /// Returns an item that finishes within `timeout`. After an error there are no more.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Poll<T>, E> {
        if let Some(error) = self.spawn_error.take() {
            self.close();
            return Err(error.into());
        }
        let left = self.left;
        let Some(results) = self.results.as_ref().filter(|_| left > 0) else { return Ok(Poll::End) };
        self.stats.reader.begin(Activity::Starved);
        let received = results.recv_timeout(timeout);
        self.stats.reader.begin(Activity::Busy);
        let finished = match received {
            Ok(finished) => finished,
            Err(RecvTimeoutError::Timeout) => return Ok(Poll::Pending),
            Err(RecvTimeoutError::Disconnected) => panic!("all workers ended while {} items remain", self.left),
        };
        self.count(&finished);
        match finished.value {
            Ok(item) => {
                self.left -= 1;
                Ok(Poll::Item(item))
            }
            Err(error) => Err(self.earliest(finished.index, error)),
        }
    }

    /// Closes the pool and returns the known error of the lowest index.
    fn earliest(&mut self, mut index: u64, mut error: E) -> E {
        self.cancel.cancel();
        for finished in self.results.iter().flat_map(Receiver::try_iter) {
            if let Err(other) = finished.value
                && finished.index < index
            {
                index = finished.index;
                error = other;
            }
        }
        self.close();
        error
    }

    fn count(&self, finished: &Finished<T, E>) {
        if let Some(account) = self.stats.workers.get(finished.worker) {
            account.item_taken();
        }
        self.stats.reader.finish_item();
        self.items.taken(finished.index);
    }
}

impl<T, E> WorkPool<T, E> {
    fn close(&mut self) {
        self.cancel.cancel();
        self.results = None;
        for thread in self.threads.drain(..) {
            // A panic was already returned as an item.
            let _ = thread.join();
        }
        self.stats.reader.end();
    }
}

impl<T, E> Drop for WorkPool<T, E> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Task shared by all workers.
struct Work<F> {
    make: F,
    next: AtomicU64,
    count: u64,
    items: ItemStream,
}

/// State of one worker thread.
struct Worker<T, E> {
    name: String,
    number: usize,
    account: Arc<TimeAccount>,
    results: Sender<Finished<T, E>>,
    token: CancelToken,
}

impl<T, E: From<Error>> Worker<T, E> {
    fn run<F: Fn(u64, &CancelToken) -> Result<Option<T>, E>>(&self, work: &Work<F>) {
        adopt(&self.account);
        loop {
            let index = work.next.fetch_add(1, Ordering::Relaxed);
            if index >= work.count || self.token.is_cancelled() {
                break;
            }
            let value = {
                let _span = work.items.begin(index);
                guard_item(&self.name, index, || (work.make)(index, &self.token)).transpose()
            };
            let Some(value) = value else { break };
            let failed = value.is_err();
            let finished = Finished { index, worker: self.number, value };
            if !send_timed(&self.results, &self.account, finished) || failed {
                break;
            }
        }
        self.account.end();
    }
}

/// State of one thread that finishes items.
struct Finisher<M, T, E> {
    name: String,
    made: Receiver<Finished<M, E>>,
    results: Sender<Finished<T, E>>,
}

impl<M, T, E: From<Error>> Finisher<M, T, E> {
    fn run(&self, finish: &impl Fn(M) -> Result<T, E>) {
        for Finished { index, worker, value } in &self.made {
            let value = value.and_then(|made| guard_item(&self.name, index, || finish(made)));
            // Without a reader, the remaining items are finished too.
            let _ = self.results.send(Finished { index, worker, value });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::testing::TestError;

    type Pool<T> = WorkPool<T, TestError>;

    const LONG: Duration = Duration::from_secs(60);

    fn options(workers: usize, queue_depth: usize) -> PoolOptions {
        PoolOptions { name: "test", item: "item", workers, queue_depth }
    }

    fn all<T: Send + 'static>(pool: &mut Pool<T>) -> Result<Vec<T>, TestError> {
        let mut found = Vec::new();
        loop {
            match pool.next_timeout(LONG)? {
                Poll::Item(item) => found.push(item),
                Poll::Pending => panic!("no item within a minute"),
                Poll::End => return Ok(found),
            }
        }
    }

    #[test]
    fn every_item_is_made_once_for_any_number_of_workers() {
        for count in [1, 2, 5] {
            for depth in [1, 7] {
                let mut pool = Pool::new(40, options(count, depth), |index, _| Ok(Some(index)));
                let found = all(&mut pool).expect("no item fails");
                let indices: BTreeSet<u64> = found.iter().copied().collect();
                assert_eq!((indices, found.len()), ((0..40).collect(), 40), "{count} workers, depth {depth}");
            }
        }
    }

    /// Item 0 waits until all the others are read; an ordered pool would deadlock.
    #[test]
    fn a_slow_item_delays_no_other() {
        let (open, gate) = bounded::<()>(1);
        let mut pool = Pool::new(30, options(2, 1), move |index, _| {
            if index == 0 {
                gate.recv().expect("opened at the end");
            }
            Ok(Some(index))
        });
        let before: Vec<u64> = (0..29)
            .map(|_| match pool.next_timeout(LONG).expect("no item fails") {
                Poll::Item(index) => index,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(!before.contains(&0), "{before:?}");
        assert!(matches!(pool.next_timeout(Duration::ZERO).expect("no item fails"), Poll::Pending));
        open.send(()).expect("the worker waits");
        assert_eq!(all(&mut pool).expect("no item fails"), [0]);
    }

    /// Item 1 is made while item 0 waits in `finish`: with one thread for both, the gate would stay closed.
    #[test]
    fn the_next_item_is_made_while_an_item_is_finished() {
        let (open, gate) = bounded::<()>(1);
        let make = move |index, _: &CancelToken| {
            if index == 1 {
                open.send(()).expect("a free slot");
            }
            Ok(Some(index))
        };
        let finish = move |index| {
            if index == 0 {
                gate.recv().expect("opened by the next item");
            }
            Ok(index * 10)
        };
        let mut pool = Pool::with_finishers(3, options(1, 1), 1, make, finish);
        assert_eq!(all(&mut pool).expect("no item fails"), [0, 10, 20]);
    }

    #[test]
    fn made_items_are_finished_also_without_a_reader() {
        let finished = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&finished);
        let (made, makes) = bounded::<()>(3);
        let (open, gate) = bounded::<()>(0);
        let make = move |index, token: &CancelToken| {
            if index == 2 {
                made.send(()).expect("a free slot");
                while !token.is_cancelled() {
                    std::thread::yield_now();
                }
                return Ok(None);
            }
            Ok(Some(index))
        };
        let finish = move |index| {
            // Disconnected when the test drops the gate.
            let _ = gate.recv();
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(index)
        };
        let pool: Pool<u64> = Pool::with_finishers(3, options(1, 1), 2, make, finish);
        makes.recv().expect("items 0 and 1 are made");
        drop(open);
        drop(pool);
        assert_eq!(finished.load(Ordering::SeqCst), 2);
    }

    /// The work of an item that was complete when the reader went is not lost.
    #[test]
    fn an_item_that_is_complete_after_a_cancellation_is_finished() {
        let finished = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&finished);
        let (started, starts) = bounded::<()>(1);
        let make = move |index, token: &CancelToken| {
            started.send(()).expect("a free slot");
            while !token.is_cancelled() {
                std::thread::yield_now();
            }
            Ok(Some(index))
        };
        let finish = move |index| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(index)
        };
        let pool: Pool<u64> = Pool::with_finishers(9, options(1, 1), 1, make, finish);
        starts.recv().expect("item 0 is in progress");
        drop(pool);
        assert_eq!(finished.load(Ordering::SeqCst), 1, "and no other item is begun");
    }

    #[test]
    fn errors_and_panics_of_finishers_are_errors_of_the_item() {
        let mut pool = Pool::<u64>::with_finishers(
            1,
            options(1, 1),
            1,
            |index, _| Ok(Some(index)),
            |_| Err(TestError::Item("the disk is full")),
        );
        assert_eq!(pool.next_timeout(LONG).expect_err("a failure").to_string(), "the disk is full");
        let mut pool = Pool::<u64>::with_finishers(
            1,
            options(1, 1),
            1,
            |index, _| Ok(Some(index)),
            |index| {
                assert!(index != 0, "item {index} is bad");
                Ok(index)
            },
        );
        let error = pool.next_timeout(LONG).expect_err("a failure").to_string();
        assert!(error.ends_with("failed at item 0: item 0 is bad"), "{error}");
    }

    #[test]
    fn an_error_is_reported_at_once_and_cancels_the_other_workers() {
        let stopped = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&stopped);
        let all_began = Barrier::new(3);
        let mut pool = Pool::<u64>::new(10, options(3, 2), move |index, token| {
            all_began.wait();
            if index == 1 {
                return Err(TestError::Item("one"));
            }
            // Only the cancellation ends the other workers.
            while !token.is_cancelled() {
                std::thread::yield_now();
            }
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(None)
        });
        assert_eq!(pool.next_timeout(LONG).expect_err("a failure").to_string(), "one");
        assert!(matches!(pool.next_timeout(LONG).expect("the pool has ended"), Poll::End));
        assert_eq!(stopped.load(Ordering::SeqCst), 2, "both workers were joined");
    }

    #[test]
    fn the_known_error_of_the_lowest_index_is_returned_and_panics_are_errors() {
        let (started, starts) = bounded::<()>(2);
        let mut pool = Pool::<u64>::new(2, options(2, 2), move |index, _| {
            started.send(()).expect("a free slot");
            assert!(index != 0, "item {index} is bad");
            Err(TestError::Item("later"))
        });
        (0..2).for_each(|_| starts.recv().expect("both workers started"));
        while pool.results.as_ref().is_some_and(|results| results.len() < 2) {
            std::thread::yield_now();
        }
        let error = pool.next_timeout(LONG).expect_err("a failure").to_string();
        assert!(error.ends_with("failed at item 0: item 0 is bad"), "{error}");
    }
}
