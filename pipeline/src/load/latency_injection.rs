//! Latency injection: known bottlenecks that a profile must name and measure.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use runtime::{CancelToken, ThreadSchedule};

/// Interval at which a worker that waits for others checks whether it must end.
const LOOK: Duration = Duration::from_millis(20);

/// Artificial latency of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyInjection {
    /// Affected workers.
    pub who: DelayedWorkers,
    /// Latency before each batch.
    pub time: Duration,
    /// Whether the worker computes for this time instead of waiting.
    pub computes: bool,
}

/// Workers that an injection affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedWorkers {
    /// One worker.
    Worker(usize),
    /// Every worker.
    Workers,
    /// The worker that makes every n-th batch.
    OneIn(u64),
}

/// Processor time of this thread. `Duration::MAX` if the platform does not report it.
fn processor_time() -> Duration {
    ThreadSchedule::current().map_or(Duration::MAX, |scheduled| scheduled.ran)
}

impl LatencyInjection {
    /// Applies the latency if this worker and batch are affected.
    pub(super) fn inject(self, worker: usize, own: u64) {
        let is_slow = match self.who {
            DelayedWorkers::Worker(slow) => slow == worker,
            DelayedWorkers::Workers => true,
            DelayedWorkers::OneIn(many) => own.is_multiple_of(many.max(1)),
        };
        if !is_slow {
            return;
        }
        if !self.computes {
            return sleep(self.time);
        }
        // Uses the thread's processor time: if other threads occupy the processor, the wall-clock time is longer.
        let begun = processor_time();
        while processor_time().saturating_sub(begun) < self.time {
            std::hint::spin_loop();
        }
    }
}

/// Artificial contention: each batch holds one lock of all workers for a configured time. The holder waits instead of
/// computing, so a machine with few processors can simulate one with many.
///
/// # Definition
/// With `lock`, workers arrive independently: `n` workers that also wait `W` make `min(n / (W + lock), 1 / lock)`
/// batches a second. With `turns` or `pairs`, all workers meet at a barrier first: a round of `n` batches takes `W + n
/// · turns + n (n − 1) · pairs`. This is Gunther's law with `σ = turns / (W + turns)` and `κ = pairs / (W + turns)`.
/// Its synchronous bound is that of a machine repairman model in which all machines fail at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contention {
    /// Time for which each batch holds the lock.
    pub lock: Duration,
    /// Time for which each batch holds the lock after all workers have met.
    pub turns: Duration,
    /// Additional time per other worker, after all workers have met.
    pub pairs: Duration,
}

impl Contention {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// Lock, and the barrier before it.
#[derive(Debug, Default)]
pub(super) struct ContentionLock {
    contention: Contention,
    workers: usize,
    /// Number of batches of the stream. In the last round some workers have none, so that round has no barrier.
    batches: u64,
    lock: Mutex<()>,
    met: Mutex<MeetingPoint>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct MeetingPoint {
    /// Number of workers that wait for the others.
    waiting: usize,
    rounds: u64,
    /// Whether a worker has ended, so that no further worker arrives.
    is_over: bool,
}

impl ContentionLock {
    /// Creates the contention of `workers` workers that make `batches` batches. `None` if no contention is configured.
    pub(super) fn new(contention: Contention, workers: usize, batches: u64) -> Option<Self> {
        (!contention.is_nothing()).then(|| Self { contention, workers, batches, ..Self::default() })
    }

    /// Runs `make` for batch `own` after it had the lock. If `make` fails, workers that wait for this one continue.
    pub(super) fn run_after_delay<T, E>(
        &self,
        own: u64,
        stop: &CancelToken,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut ends = TurnGuard { contended: self, has_made: false };
        self.wait_turn(own, stop);
        let made = make();
        ends.has_made = made.is_ok();
        made
    }

    fn wait_turn(&self, own: u64, stop: &CancelToken) {
        let Contention { lock, turns, pairs } = self.contention;
        if !(turns.is_zero() && pairs.is_zero()) {
            self.meet(own, stop);
        }
        let others = u32::try_from(self.workers - 1).expect("workers are few");
        let _alone = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !stop.is_cancelled() {
            sleep(lock + turns + pairs * others);
        }
    }

    /// Waits until every worker has arrived, or until no further worker can arrive.
    fn meet(&self, own: u64, stop: &CancelToken) {
        let workers = self.workers as u64;
        let is_whole = (own / workers + 1).checked_mul(workers).is_some_and(|end| end <= self.batches);
        if !is_whole {
            return;
        }
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let round = met.rounds;
        met.waiting += 1;
        if met.waiting == self.workers {
            (met.waiting, met.rounds) = (0, round + 1);
            self.changed.notify_all();
            return;
        }
        while met.rounds == round && !met.is_over && !stop.is_cancelled() {
            met = self.changed.wait_timeout(met, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Guard that releases waiting workers if this worker ends without a batch, by an error or a panic.
struct TurnGuard<'a> {
    contended: &'a ContentionLock,
    has_made: bool,
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        if !self.has_made {
            self.contended.met.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
            self.contended.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;
    use runtime::cancel_pair;

    const TURNS: Contention =
        Contention { lock: Duration::ZERO, turns: Duration::from_millis(1), pairs: Duration::ZERO };

    /// Runs workers that make batches `worker, worker + workers, …` below `batches`. The worker `fails` makes none.
    fn ran(workers: usize, batches: u64, fails: Option<u64>) -> u64 {
        let contended = ContentionLock::new(TURNS, workers, batches).expect("something is asked for");
        let ((_stopper, stop), made) = (cancel_pair(), AtomicU64::new(0));
        thread::scope(|scope| {
            for worker in 0..workers as u64 {
                let contended = &contended;
                let stop = stop.clone();
                let made = &made;
                scope.spawn(move || {
                    for own in (worker..batches).step_by(workers) {
                        let outcome =
                            contended.run_after_delay(own, &stop, || if fails == Some(own) { Err(()) } else { Ok(()) });
                        if outcome.is_err() {
                            break;
                        }
                        // No round begins before the previous one has ended.
                        let before = made.fetch_add(1, Ordering::SeqCst);
                        assert!(fails.is_some() || before / workers as u64 <= own / workers as u64 + 1);
                    }
                });
            }
        });
        made.into_inner()
    }

    #[test]
    fn workers_meet_in_every_round_and_all_batches_are_made() {
        for (workers, batches) in [(1, 5), (2, 8), (3, 9), (4, 13), (5, 3)] {
            assert_eq!(ran(workers, batches, None), batches, "{workers} workers");
        }
    }

    #[test]
    fn no_worker_waits_for_one_that_has_failed() {
        assert!(ran(3, 30, Some(4)) < 30);
    }

    #[test]
    fn a_stop_ends_the_wait_for_others() {
        let contended = ContentionLock::new(TURNS, 2, u64::MAX).expect("something is asked for");
        let (cancel_source, stop) = cancel_pair();
        thread::scope(|scope| {
            let waits = scope.spawn(|| contended.run_after_delay(0, &stop, || Ok::<_, ()>(())));
            cancel_source.cancel();
            assert_eq!(waits.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    fn no_latency_is_injected_by_default() {
        assert!(ContentionLock::new(Contention::default(), 4, 100).is_none());
    }
}
