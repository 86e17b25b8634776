//! Throughput between two reports, and the estimated remaining time.

use std::time::{Duration, Instant};

use telemetry::EarlyProgress;
use telemetry::training::{PhaseSeconds, Speed};

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
    /// Starts an interval now.
    pub(crate) fn start(peak_rate: Option<f64>) -> Self {
        let begun = Instant::now();
        Self {
            process: Process { begun, steps: 0 },
            started: begun,
            spent: SpentTime::from_now(),
            steps: 0,
            tokens: 0,
            peak_rate,
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

    /// Adds time of a validation. The speed of the next report excludes it.
    pub(crate) fn validation(&mut self, time: Duration) {
        self.started += time;
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

    /// Returns the speed since the last report and the time by phase, and starts the next interval. `left` is the
    /// number of remaining steps.
    pub(crate) fn report(&mut self, left: u64) -> (Speed, PhaseSeconds) {
        let seconds = self.started.elapsed().as_secs_f64();
        let [steps_per_s, tokens_per_s] = [self.steps, self.tokens].map(|count| count as f64 / seconds);
        let mfu = self.peak_rate.map(|peak| tokens_per_s / peak);
        let phases = self.spent.seconds();
        let process = self.process;
        let [wait, stall] = [phases.data, phases.checkpoint].map(|time| time / seconds);
        *self = Self { process, ..Self::start(self.peak_rate) };
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
        let mut pace = Throughput::start(None);
        let ms = Duration::from_millis;
        std::thread::sleep(ms(30));
        pace.wait(ms(5));
        pace.step(100, ms(10));
        pace.step(100, ms(5));
        pace.read(ms(2));
        pace.validation(ms(4));
        pace.stall(ms(1));
        let (speed, phases) = pace.report(1);
        let PhaseSeconds { wall, data, step, read, validation, checkpoint } = phases;
        let found = format!("{data} {step} {read} {validation} {checkpoint}");
        assert_eq!(found, "0.005 0.015 0.002 0.004 0.001");
        assert!(wall >= 0.03 && data + step + read + validation + checkpoint <= wall, "{phases:?}");
        let steps_per_s = speed.steps_per_s.expect("steps were done");
        assert!((speed.tokens_per_s / steps_per_s - 100.0).abs() < 1e-6, "{speed:?}");
        // The time of the speed excludes validation.
        assert!(steps_per_s > 2.0 / wall, "{speed:?}, {phases:?}");
        assert!(pace.report(1).1.step.abs() < 1e-12, "the next interval starts at zero");
    }
}
