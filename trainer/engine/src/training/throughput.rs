//! How fast a run learns between two reports, and how long it will still take.

use std::time::{Duration, Instant};

use telemetry::training::{PhaseSeconds, Speed};

/// Wall time since the last report, and what was done in it.
#[derive(Debug)]
pub(crate) struct Pace {
    process: Process,
    // Later by what is not to be counted as training.
    begun: Instant,
    spent: Spent,
    steps: u64,
    tokens: u64,
    // Tokens per second at the device's peak, where that is known.
    peak_rate: Option<f64>,
}

/// What the time since the last report went for, as it is told to a [`Pace`].
#[derive(Clone, Copy, Debug)]
struct Spent {
    since: Instant,
    data: Duration,
    step: Duration,
    read: Duration,
    validation: Duration,
    // Of steps, for checkpoints.
    checkpoint: Duration,
}

impl Spent {
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

/// All that this process did, reports and validations included: what is left takes as long.
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

impl Pace {
    /// Begins now.
    pub(crate) fn start(peak_rate: Option<f64>) -> Self {
        let begun = Instant::now();
        Self { process: Process { begun, steps: 0 }, begun, spent: Spent::from_now(), steps: 0, tokens: 0, peak_rate }
    }

    /// So long was waited for a batch.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.spent.data += time;
    }

    /// So long the next step waited for a checkpoint.
    pub(crate) fn stall(&mut self, time: Duration) {
        self.spent.checkpoint += time;
    }

    /// A step learned from so many tokens, and kept the host so long.
    pub(crate) fn step(&mut self, tokens: u64, time: Duration) {
        self.process.steps += 1;
        self.steps += 1;
        self.tokens += tokens;
        self.spent.step += time;
    }

    /// So long it took the device to be done, and to be read.
    pub(crate) fn read(&mut self, time: Duration) {
        self.spent.read += time;
    }

    /// So long it was validated: nothing was learned, for a good reason, and the next report's speed is that of training.
    pub(crate) fn validation(&mut self, time: Duration) {
        self.begun += time;
        self.spent.validation += time;
    }

    /// The speed since the last report, with so many steps left, and where the time went. The next one begins.
    pub(crate) fn report(&mut self, left: u64) -> (Speed, PhaseSeconds) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let [steps_per_s, tokens_per_s] = [self.steps, self.tokens].map(|count| count as f64 / seconds);
        let mfu = self.peak_rate.map(|peak| tokens_per_s / peak);
        let (phases, process) = (self.spent.seconds(), self.process);
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
        let mut pace = Pace::start(None);
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
        let told = format!("{data} {step} {read} {validation} {checkpoint}");
        assert_eq!(told, "0.005 0.015 0.002 0.004 0.001");
        assert!(wall >= 0.03 && data + step + read + validation + checkpoint <= wall, "{phases:?}");
        let steps_per_s = speed.steps_per_s.expect("steps were done");
        assert!((speed.tokens_per_s / steps_per_s - 100.0).abs() < 1e-6, "{speed:?}");
        // A validation is not in the time that speed is counted by.
        assert!(steps_per_s > 2.0 / wall, "{speed:?}, {phases:?}");
        assert!(pace.report(1).1.step.abs() < 1e-12, "the next one starts over");
    }
}
