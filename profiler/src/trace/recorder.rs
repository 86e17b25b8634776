//! Begins a trace and ends it.

use std::sync::Arc;
use std::time::Instant;

use runtime::spans::nanoseconds;
use tracing::callsite::rebuild_interest_cache;

use super::recorded::Recorded;
use super::samples::Sampler;
use super::shared::{Shared, begin, end, lock};

/// How much a trace may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slices, states, numbers of counters and arrivals, together. 0 records none: for who wants stacks alone.
    pub entries: u64,
    /// Whether stacks are looked at.
    pub stacks: bool,
}

impl Default for Limits {
    /// A million, of some 60 bytes each in memory, and as many in a file.
    fn default() -> Self {
        Self { entries: 1_000_000, stacks: true }
    }
}

/// A trace that is being recorded. Dropping it ends it.
pub struct Trace {
    shared: Arc<Shared>,
    limits: Limits,
    sampler: Option<Sampler>,
    begun: u64,
}

impl Trace {
    /// Records from now on what all threads of this process say of themselves. States that actors are in already are known
    /// from their next item on.
    ///
    /// # Errors
    /// Where a trace is being recorded already, or no thread can be had.
    pub fn begin(limits: Limits) -> anyhow::Result<Self> {
        let begun = nanoseconds(Instant::now());
        let Some(shared) = begin(limits.entries) else {
            anyhow::bail!("a trace is being recorded already; end that one first");
        };
        // From here on a trace that cannot begin is ended by being dropped.
        let mut trace = Self { shared, limits, sampler: None, begun };
        rebuild_interest_cache();
        if limits.stacks {
            trace.sampler = Some(Sampler::over(Arc::clone(&trace.shared))?);
        }
        Ok(trace)
    }

    /// Ends it: what was recorded.
    pub fn end(mut self) -> Recorded {
        let stacks = self.sampler.take().map(Sampler::end).unwrap_or_default();
        stop();
        let ended = nanoseconds(Instant::now());
        let threads = self.shared.buffers().iter().map(|buffer| lock(buffer).take(ended)).collect();
        let spent_at = self.shared.room.spent_at().filter(|_| self.limits.entries > 0);
        Recorded::new(threads, self.shared.texts.all(), (self.begun, ended, spent_at), stacks)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // After `end` another may have begun; that one is none of ours.
        if self.shared.is_current() {
            stop();
        }
    }
}

fn stop() {
    end();
    rebuild_interest_cache();
}
