//! How fast a run learns between two reports, and how long it will still take.

use std::time::{Duration, Instant};

use observe::training::Speed;

/// Wall time since the last report, and what was done in it.
#[derive(Debug)]
pub(crate) struct Pace {
    process: Process,
    begun: Instant,
    waited: Duration,
    // Of steps, for checkpoints.
    stalled: Duration,
    tokens: u64,
    // Tokens per second at the device's peak, where that is known.
    peak_rate: Option<f64>,
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
        Self {
            process: Process { begun, steps: 0 },
            begun,
            waited: Duration::ZERO,
            stalled: Duration::ZERO,
            tokens: 0,
            peak_rate,
        }
    }

    /// So long was waited for a batch.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.waited += time;
    }

    /// So long the next step waited for a checkpoint.
    pub(crate) fn stall(&mut self, time: Duration) {
        self.stalled += time;
    }

    /// A step learnt from so many tokens.
    pub(crate) fn step(&mut self, tokens: u64) {
        self.process.steps += 1;
        self.tokens += tokens;
    }

    /// So long nothing was learnt, for a good reason: the next report's speed is that of training.
    pub(crate) fn leave_out(&mut self, time: Duration) {
        self.begun += time;
    }

    /// The speed since the last report, with so many steps left. The next one begins.
    pub(crate) fn report(&mut self, left: u64) -> Speed {
        let seconds = self.begun.elapsed().as_secs_f64();
        let tokens_per_s = self.tokens as f64 / seconds;
        let mfu = self.peak_rate.map(|peak| tokens_per_s / peak);
        let [wait, stall] = [self.waited, self.stalled].map(|time| time.as_secs_f64() / seconds);
        let process = self.process;
        *self = Self { process, ..Self::start(self.peak_rate) };
        Speed { tokens_per_s, mfu, wait, stall, eta_s: process.eta_s(left) }
    }
}
