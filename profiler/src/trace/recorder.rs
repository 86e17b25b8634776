//! Start and end of a trace.

use std::sync::Arc;
use std::time::Instant;

use runtime::spans::nanoseconds;
use tracing::callsite::rebuild_interest_cache;

use super::recorded::{Recorded, TraceTimes};
use super::samples::Sampler;
use super::shared::{Shared, begin, end, lock};

/// Limits of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest total of slices, states, counter values and arrivals. 0 records none, for traces of stacks only.
    pub entries: u64,
    /// Whether stacks are sampled.
    pub stacks: bool,
}

impl Default for Limits {
    /// Returns a limit of 1,000,000 entries: about 60 bytes each in memory, and about as many in a file.
    fn default() -> Self {
        Self { entries: 1_000_000, stacks: true }
    }
}

/// Trace in progress. Dropping it ends it.
pub struct Trace {
    shared: Arc<Shared>,
    limits: Limits,
    sampler: Option<Sampler>,
    begun: u64,
}

impl Trace {
    /// Starts to record the spans of all threads of this process. States that began earlier are known from the
    /// actor's next item on.
    ///
    /// # Errors
    /// Returns an error if a trace is in progress, or if the sampling thread cannot start.
    pub fn begin(limits: Limits) -> anyhow::Result<Self> {
        let begun = nanoseconds(Instant::now());
        let Some(shared) = begin(limits.entries) else {
            anyhow::bail!("a trace is being recorded already; end that one first");
        };
        // From here on, an error drops the trace, which ends it.
        let mut trace = Self { shared, limits, sampler: None, begun };
        rebuild_interest_cache();
        if limits.stacks {
            trace.sampler = Some(Sampler::start(Arc::clone(&trace.shared))?);
        }
        Ok(trace)
    }

    /// Ends the trace and returns its data.
    pub fn end(mut self) -> Recorded {
        let stacks = self.sampler.take().map(Sampler::end).unwrap_or_default();
        stop();
        let ended = nanoseconds(Instant::now());
        let threads = self.shared.buffers().iter().map(|buffer| lock(buffer).split_off(ended)).collect();
        let spent_at = self.shared.room.spent_at().filter(|_| self.limits.entries > 0);
        Recorded::new(threads, self.shared.texts.all(), TraceTimes { begun: self.begun, ended, spent_at }, stacks)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // After `end`, another trace may be in progress. It must not be stopped here.
        if self.shared.is_current() {
            stop();
        }
    }
}

fn stop() {
    end();
    rebuild_interest_cache();
}
