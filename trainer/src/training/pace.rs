//! How fast a run learns, between two reports.

use std::time::{Duration, Instant};

use observe::training::Speed;

/// Wall time since the last report, and what was done in it.
#[derive(Debug)]
pub(crate) struct Pace {
    begun: Instant,
    waited: Duration,
    tokens: u64,
    // Tokens per second at the device's peak, where that is known.
    peak_rate: Option<f64>,
}

impl Pace {
    /// Begins now.
    pub(crate) fn start(peak_rate: Option<f64>) -> Self {
        Self { begun: Instant::now(), waited: Duration::ZERO, tokens: 0, peak_rate }
    }

    /// So long was waited for a batch.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.waited += time;
    }

    /// So many tokens were learnt from.
    pub(crate) fn learn(&mut self, tokens: u64) {
        self.tokens += tokens;
    }

    /// So long nothing was learnt, for a good reason: the next report's speed is that of training.
    pub(crate) fn leave_out(&mut self, time: Duration) {
        self.begun += time;
    }

    /// The speed since the last report. The next one begins.
    pub(crate) fn report(&mut self) -> Speed {
        let seconds = self.begun.elapsed().as_secs_f64();
        let tokens_per_s = self.tokens as f64 / seconds;
        let mfu = self.peak_rate.map(|peak| tokens_per_s / peak);
        let wait = self.waited.as_secs_f64() / seconds;
        *self = Self::start(self.peak_rate);
        Speed { tokens_per_s, mfu, wait }
    }
}
