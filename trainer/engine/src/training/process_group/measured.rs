//! Time that a rank waits for slower ranks.
//!
//! # What
//! [`MeasuredGroup`] divides the time that this rank spends in operations: the wait until the last rank arrives, and the
//! cost of the operations themselves.
//!
//! # Why
//! The time in an operation alone does not show which rank the others wait for, and clocks of several hosts cannot be
//! compared.
//!
//! # Definition
//! Each rank measures how long its operations take, and appends the time since its last all-gather to the contents of the
//! next one. The last rank to arrive waits for no other, so the minimum over the ranks is the cost of the operations.
//! The excess over it is the wait of a rank. On a CUDA device, a gradient sum does not hold the host up, so its wait is not
//! included.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use schemas::RankShard;
use tch::{Device, Tensor};
use trainer_plan::Error;

use super::failure::error;
use super::{HostShare, PendingReduction, ProcessGroup};
use crate::device::step_timer::{self, EXCHANGE, timed};

/// Process group that measures its operations.
#[derive(Debug)]
pub(super) struct MeasuredGroup {
    group: Box<dyn ProcessGroup>,
    times: Arc<Mutex<OperationTimes>>,
}

/// Times of the operations of this rank.
#[derive(Debug, Default)]
struct OperationTimes {
    /// Time in the last all-gather and in the operations after it.
    recent: Duration,
    /// Wait for slower ranks in all operations before.
    waited: Duration,
}

impl MeasuredGroup {
    /// Measures the operations of `group`.
    pub(super) fn new(group: impl ProcessGroup + 'static) -> Self {
        Self { group: Box::new(group), times: Arc::default() }
    }
}

fn lock(times: &Mutex<OperationTimes>) -> MutexGuard<'_, OperationTimes> {
    times.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the time that a rank has appended to its contents, and returns it.
fn split_time(contents: &mut Vec<u8>) -> Option<Duration> {
    let (own, seconds) = contents.split_last_chunk()?;
    let time = Duration::try_from_secs_f64(f64::from_le_bytes(*seconds)).ok()?;
    let length = own.len();
    contents.truncate(length);
    Some(time)
}

impl ProcessGroup for MeasuredGroup {
    fn share(&self) -> RankShard {
        self.group.share()
    }

    fn host_share(&self) -> HostShare {
        self.group.host_share()
    }

    fn gather(&self, what: &'static str, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let own_time = lock(&self.times).recent;
        let sent = [own, &own_time.as_secs_f64().to_le_bytes()].concat();
        let begun = Instant::now();
        let mut all = timed(EXCHANGE, || self.group.gather(what, &sent))?;
        let times = all.iter_mut().map(split_time).collect::<Option<Vec<Duration>>>();
        let times =
            times.ok_or_else(|| error(format!("{what}: a rank sent no time; all ranks must run the same program")))?;
        let wait = own_time.saturating_sub(times.into_iter().min().unwrap_or_default());
        step_timer::add_rank_wait(wait);
        let mut times = lock(&self.times);
        times.waited += wait;
        times.recent = begun.elapsed();
        Ok(all)
    }

    fn broadcast(&self, what: &'static str, own: &[u8]) -> Result<Vec<u8>, Error> {
        let begun = Instant::now();
        let sent = timed(EXCHANGE, || self.group.broadcast(what, own))?;
        lock(&self.times).recent += begun.elapsed();
        Ok(sent)
    }

    fn all_reduce(&self, what: &'static str, tensor: &Tensor) -> Result<Box<dyn PendingReduction>, Error> {
        let reduction = self.group.all_reduce(what, tensor)?;
        Ok(Box::new(MeasuredReduction { reduction, times: Arc::clone(&self.times) }))
    }

    fn connect_device(&self, device: Device) -> Result<(), Error> {
        self.group.connect_device(device)
    }

    fn waited(&self) -> Duration {
        lock(&self.times).waited
    }

    fn abort(&self, reason: &str) {
        self.group.abort(reason);
    }

    fn finish(&self) -> Result<(), Error> {
        self.group.finish()
    }
}

/// All-reduce whose wait is measured.
#[derive(Debug)]
struct MeasuredReduction {
    reduction: Box<dyn PendingReduction>,
    times: Arc<Mutex<OperationTimes>>,
}

impl PendingReduction for MeasuredReduction {
    fn wait(self: Box<Self>) -> Result<(), Error> {
        let begun = Instant::now();
        self.reduction.wait()?;
        lock(&self.times).recent += begun.elapsed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use tch::Kind;

    use super::super::test_ranks::{NO_LIMIT, on_ranks};
    use super::*;

    /// Delay of the slow rank before each operation.
    const DELAY: Duration = Duration::from_millis(50);

    /// Waits of three ranks, of which `slow` comes late to each `operation`.
    fn waits(slow: u64, operation: fn(&dyn ProcessGroup)) -> Vec<Duration> {
        on_ranks(3, NO_LIMIT, move |rank, group| {
            group.barrier("the start").expect("all ranks come");
            for _ in 0..5 {
                if rank == slow {
                    sleep(DELAY);
                }
                operation(group);
            }
            // It has the time of the last operation; the second one that of the first.
            group.barrier("the times").expect("all ranks come");
            group.finish().expect("all ranks end");
            group.waited()
        })
    }

    #[test]
    fn the_slow_rank_waits_least() {
        let operations: [fn(&dyn ProcessGroup); 3] = [
            |group| drop(group.gather("contents", &[1; 2000]).expect("gathered")),
            |group| drop(group.broadcast("contents", &[1]).expect("sent")),
            |group| {
                let tensor = Tensor::ones([100], (Kind::Float, Device::Cpu));
                group.all_reduce("contents", &tensor).expect("started").wait().expect("summed");
            },
        ];
        for (nth, operation) in operations.into_iter().enumerate() {
            for slow in [0, 2] {
                let waits = waits(slow, operation);
                let slowest = usize::try_from(slow).expect("few ranks");
                for (rank, wait) in waits.iter().enumerate().filter(|(rank, _)| *rank != slowest) {
                    assert!(*wait > 2 * waits[slowest], "operation {nth}, rank {rank}: {waits:?}");
                    assert!(*wait > 2 * DELAY, "five delays, operation {nth}, rank {rank}: {waits:?}");
                }
            }
        }
    }

    /// Two ranks, of which the other one sends `time`.
    #[derive(Debug)]
    struct OtherTime(Duration);

    impl ProcessGroup for OtherTime {
        fn share(&self) -> RankShard {
            RankShard::new(0, 2).expect("two ranks")
        }

        fn gather(&self, _: &'static str, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
            sleep(Duration::from_millis(1));
            Ok(vec![own.to_vec(), self.0.as_secs_f64().to_le_bytes().to_vec()])
        }

        fn broadcast(&self, _: &'static str, own: &[u8]) -> Result<Vec<u8>, Error> {
            Ok(own.to_vec())
        }

        fn all_reduce(&self, _: &'static str, _: &Tensor) -> Result<Box<dyn PendingReduction>, Error> {
            Err(error("no tensors"))
        }

        fn abort(&self, _: &str) {}

        fn finish(&self) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn the_excess_over_the_fastest_rank_is_the_wait() {
        let waited = |other: Duration| {
            let group = MeasuredGroup::new(OtherTime(other));
            for _ in 0..2 {
                assert_eq!(group.gather("contents", &[7]).expect("gathered"), [vec![7], Vec::new()]);
            }
            let recent = lock(&group.times).recent;
            group.barrier("the end").expect("gathered");
            (group.waited(), recent)
        };
        assert_eq!(waited(Duration::from_secs(3600)).0, Duration::ZERO, "this rank is the last to arrive");
        let (all, newest) = waited(Duration::ZERO);
        assert!(all > newest && newest > Duration::ZERO, "the other rank is the last to arrive: {all:?}, {newest:?}");
    }

    #[test]
    fn a_rank_without_a_time_is_refused() {
        let mut contents = [[7; 3].as_slice(), &1.5_f64.to_le_bytes()].concat();
        assert_eq!(split_time(&mut contents), Some(Duration::from_millis(1500)));
        assert_eq!(contents, [7; 3]);
        for wrong in [vec![0; 7], f64::NAN.to_le_bytes().to_vec(), (-1.0_f64).to_le_bytes().to_vec()] {
            assert_eq!(split_time(&mut wrong.clone()), None, "{wrong:?}");
        }
    }
}
