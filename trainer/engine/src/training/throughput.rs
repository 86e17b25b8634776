//! Throughput between two reports, and the estimated remaining time.

use std::time::{Duration, Instant};

use telemetry::training::{PhaseSeconds, RankReport, Speed};
use telemetry::{EarlyProgress, host};

/// Wall time since the last report, and the steps and tokens of that time.
#[derive(Debug)]
pub(crate) struct Throughput {
    process: Process,
    // Start of the interval, moved forward by the time that does not count as training.
    started: Instant,
    spent: SpentTime,
    steps: u64,
    tokens: u64,
    // Tokens per second at the peak of the device, if it is known.
    peak_rate: Option<f64>,
    // Wait of the process group for slower ranks until the start of the interval, and in its validations.
    rank_wait: Duration,
}

/// Time since the last report by phase.
#[derive(Clone, Copy, Debug)]
struct SpentTime {
    since: Instant,
    data: Duration,
    step: Duration,
    read: Duration,
    validation: Duration,
    // Time that steps waited for checkpoints.
    checkpoint: Duration,
}

impl SpentTime {
    fn from_now() -> Self {
        let zero = Duration::ZERO;
        Self { since: Instant::now(), data: zero, step: zero, read: zero, validation: zero, checkpoint: zero }
    }

    fn seconds(&self) -> PhaseSeconds {
        let Self { since, data, step, read, validation, checkpoint } = *self;
        let [wall, data, step, read, validation, checkpoint] =
            [since.elapsed(), data, step, read, validation, checkpoint].map(|time| time.as_secs_f64());
        PhaseSeconds { wall, data, step, read, validation, checkpoint }
    }
}

/// Steps and wall time of this process, including reports and validations, from which the remaining time is estimated.
#[derive(Clone, Copy, Debug)]
struct Process {
    begun: Instant,
    steps: u64,
}

impl Process {
    fn eta_s(self, left: u64) -> Option<f64> {
        let per_step = self.begun.elapsed().as_secs_f64() / self.steps as f64;
        (left > 0 && self.steps > 0).then_some(per_step * left as f64)
    }
}

impl Throughput {
    /// Starts an interval now. `rank_wait` is the wait for slower ranks so far.
    pub(crate) fn start(peak_rate: Option<f64>, rank_wait: Duration) -> Self {
        let begun = Instant::now();
        Self {
            process: Process { begun, steps: 0 },
            started: begun,
            spent: SpentTime::from_now(),
            steps: 0,
            tokens: 0,
            peak_rate,
            rank_wait,
        }
    }

    /// Adds time spent waiting for a batch.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.spent.data += time;
    }

    /// Adds time that the next step waited for a checkpoint.
    pub(crate) fn stall(&mut self, time: Duration) {
        self.spent.checkpoint += time;
    }

    /// Adds a step with its tokens and its time on the host.
    pub(crate) fn step(&mut self, tokens: u64, time: Duration) {
        self.process.steps += 1;
        self.steps += 1;
        self.tokens += tokens;
        self.spent.step += time;
    }

    /// Adds time spent waiting for the device and reading its numbers.
    pub(crate) fn read(&mut self, time: Duration) {
        self.spent.read += time;
    }

    /// Adds time of a validation, and its wait for slower ranks. The speed of the next report excludes them.
    pub(crate) fn validation(&mut self, time: Duration, rank_wait: Duration) {
        self.started += time;
        self.rank_wait += rank_wait;
        self.spent.validation += time;
    }

    /// Returns the progress since the last report, after `step` with its loss. `left` is the number of remaining steps.
    pub(crate) fn early_progress(&self, step: u64, loss: f64, left: u64) -> EarlyProgress {
        let tokens_per_s = self.tokens as f64 / self.started.elapsed().as_secs_f64();
        let mfu = self.peak_rate.map(|peak| tokens_per_s / peak);
        EarlyProgress { step, loss, tokens_per_s, mfu, eta_s: self.process.eta_s(left) }
    }

    /// Returns the time since the process began to train.
    pub(crate) fn trained(&self) -> Duration {
        self.process.begun.elapsed()
    }

    /// Returns the times since the last report of this rank. `rank_wait` is the wait for slower ranks so far.
    pub(crate) fn rank_report(&self, rank: u32, rank_wait: Duration) -> RankReport {
        let seconds = self.started.elapsed().as_secs_f64();
        let share = |time: Duration| time.as_secs_f64() / seconds;
        RankReport {
            rank,
            host: host::name(),
            step_s: seconds / self.steps as f64,
            data_wait: share(self.spent.data),
            checkpoint_stall: share(self.spent.checkpoint),
            rank_wait: share(rank_wait.saturating_sub(self.rank_wait)),
            host_bytes: host::resident_bytes(),
        }
    }

    /// Returns the speed since the last report and the time by phase, and starts the next interval. `left` is the
    /// number of remaining steps, and `rank_wait` the wait for slower ranks so far.
    pub(crate) fn report(&mut self, left: u64, rank_wait: Duration) -> (Speed, PhaseSeconds) {
        let seconds = self.started.elapsed().as_secs_f64();
        let [steps_per_s, tokens_per_s] = [self.steps, self.tokens].map(|count| count as f64 / seconds);
        let mfu = self.peak_rate.map(|peak| tokens_per_s / peak);
        let phases = self.spent.seconds();
        let process = self.process;
        let [wait, stall] = [phases.data, phases.checkpoint].map(|time| time / seconds);
        *self = Self { process, ..Self::start(self.peak_rate, rank_wait) };
        let eta_s = process.eta_s(left);
        (
            Speed {
                tokens_per_s,
                steps_per_s: Some(steps_per_s),
                mfu,
                data_wait: wait,
                checkpoint_stall: stall,
                eta_s,
            },
            phases,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_of_a_report_are_parts_of_its_wall_time() {
        let mut pace = Throughput::start(None, Duration::from_secs(7));
        let ms = Duration::from_millis;
        std::thread::sleep(ms(30));
        pace.wait(ms(5));
        pace.step(100, ms(10));
        pace.step(100, ms(5));
        pace.read(ms(2));
        pace.validation(ms(4), ms(3));
        pace.stall(ms(1));
        let rank = pace.rank_report(2, ms(7013));
        let (speed, phases) = pace.report(1, ms(7013));
        let PhaseSeconds { wall, data, step, read, validation, checkpoint } = phases;
        let found = format!("{data} {step} {read} {validation} {checkpoint}");
        assert_eq!(found, "0.005 0.015 0.002 0.004 0.001");
        assert!(wall >= 0.03 && data + step + read + validation + checkpoint <= wall, "{phases:?}");
        let steps_per_s = speed.steps_per_s.expect("steps were done");
        assert!((speed.tokens_per_s / steps_per_s - 100.0).abs() < 1e-6, "{speed:?}");
        assert_eq!((rank.rank, &rank.host), (2, &host::name()));
        // 5 ms for batches, 1 ms for a checkpoint, and 10 ms for slower ranks, of which 3 ms are not of steps.
        let seconds = 2.0 * rank.step_s;
        let found = [rank.data_wait, rank.checkpoint_stall, rank.rank_wait].map(|share| share * seconds);
        for (found, expected) in found.into_iter().zip([0.005, 0.001, 0.01]) {
            assert!((found - expected).abs() < 1e-9, "{rank:?}");
        }
        // The time of the speed excludes validation.
        assert!(steps_per_s > 2.0 / wall, "{speed:?}, {phases:?}");
        assert!(pace.report(1, ms(7013)).1.step.abs() < 1e-12, "the next interval starts at zero");
    }
}
