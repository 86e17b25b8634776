//! Slowness on purpose: bottlenecks that are known, to see that a profile names and measures them.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use runtime::{CancelToken, ThreadSchedule};

/// Between two looks of a worker that waits for the others: whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Slowness on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyInjection {
    /// Who is slow.
    pub who: Who,
    /// For how long before each batch.
    pub time: Duration,
    /// Whether it computes for so long, instead of waiting.
    pub computes: bool,
}

/// Who is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// One worker.
    Worker(usize),
    /// Every worker.
    Workers,
    /// Whoever makes one of so many batches.
    OneIn(u64),
}

/// What this thread has had of processors; forever, where nobody counts.
fn processor_time() -> Duration {
    ThreadSchedule::current().map_or(Duration::MAX, |scheduled| scheduled.ran)
}

impl LatencyInjection {
    /// Takes its time, if it is this one's turn.
    pub(super) fn take(self, worker: usize, own: u64) {
        let is_slow = match self.who {
            Who::Worker(slow) => slow == worker,
            Who::Workers => true,
            Who::OneIn(many) => own.is_multiple_of(many.max(1)),
        };
        if !is_slow {
            return;
        }
        if !self.computes {
            return sleep(self.time);
        }
        // Of its own time on a processor: where others have it, this takes longer.
        let begun = processor_time();
        while processor_time().saturating_sub(begun) < self.time {
            std::hint::spin_loop();
        }
    }
}

/// How workers are in one another's way on purpose: what each batch does while it has the one lock of all workers. It waits, so
/// that a machine of few processors plays one of many.
///
/// # Definition
/// With `lock`, workers come to it when they come: `n` workers that wait `W` in addition make `min(n / (W + lock), 1 / lock)` batches
/// a second. With `turns` or `pairs`, none begins before all have come (as in a barrier): a round of `n` batches takes
/// `W + n · turns + n (n − 1) · pairs`, which is the law of Gunther with `σ = turns / (W + turns)` and
/// `κ = pairs / (W + turns)`. Its synchronous bound is that of a repairman to whom all machines come at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contention {
    /// Each batch has the lock for so long.
    pub lock: Duration,
    /// Workers meet, and then each batch has the lock for so long.
    pub turns: Duration,
    /// The same, for so long with every other worker.
    pub pairs: Duration,
}

impl Contention {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// The lock, and where workers meet before it.
#[derive(Debug, Default)]
pub(super) struct Contended {
    contention: Contention,
    workers: usize,
    /// Batches of the stream. Of the last round some workers may have none: nobody meets for it.
    batches: u64,
    lock: Mutex<()>,
    met: Mutex<Met>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Met {
    /// Workers that wait for the others.
    waiting: usize,
    rounds: u64,
    /// A worker has ended: nobody comes any more.
    is_over: bool,
}

impl Contended {
    /// Of `workers` workers that make so many batches; none where nothing is asked for.
    pub(super) fn of(contention: Contention, workers: usize, batches: u64) -> Option<Self> {
        (!contention.is_nothing()).then(|| Self { contention, workers, batches, ..Self::default() })
    }

    /// Runs `make` for batch `own` after it had the lock. Where that fails, those who wait for this worker go on.
    pub(super) fn before<T, E>(
        &self,
        own: u64,
        stop: &CancelToken,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut ends = Ends { contended: self, has_made: false };
        self.take(own, stop);
        let made = make();
        ends.has_made = made.is_ok();
        made
    }

    fn take(&self, own: u64, stop: &CancelToken) {
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

    /// Waits until every worker has come, or none does any more.
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

/// Tells those who wait for a worker when it ends without a batch, by an error or a panic.
struct Ends<'a> {
    contended: &'a Contended,
    has_made: bool,
}

impl Drop for Ends<'_> {
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

    /// Workers that make batches `worker, worker + workers, …` below `batches`; the one that fails makes none.
    fn ran(workers: usize, batches: u64, fails: Option<u64>) -> u64 {
        let contended = Contended::of(TURNS, workers, batches).expect("something is asked for");
        let ((_stopper, stop), made) = (cancel_pair(), AtomicU64::new(0));
        thread::scope(|scope| {
            for worker in 0..workers as u64 {
                let (contended, stop, made) = (&contended, stop.clone(), &made);
                scope.spawn(move || {
                    for own in (worker..batches).step_by(workers) {
                        let outcome =
                            contended.before(own, &stop, || if fails == Some(own) { Err(()) } else { Ok(()) });
                        if outcome.is_err() {
                            break;
                        }
                        // Nobody begins a round before all have ended the one before.
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
    fn nobody_waits_for_a_worker_that_has_failed() {
        assert!(ran(3, 30, Some(4)) < 30);
    }

    #[test]
    fn a_stop_ends_the_wait_for_others() {
        let contended = Contended::of(TURNS, 2, u64::MAX).expect("something is asked for");
        let (stopper, stop) = cancel_pair();
        thread::scope(|scope| {
            let waits = scope.spawn(|| contended.before(0, &stop, || Ok::<_, ()>(())));
            stopper.cancel();
            assert_eq!(waits.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    fn who_asks_for_nothing_gets_nothing() {
        assert!(Contended::of(Contention::default(), 4, 100).is_none());
    }
}
