//! Observer that reports whether a lock is held, without taking it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::holder::Holder;
use super::lease::{Clock, Content, MonotonicClock};
use super::lease_config::LeaseConfig;
use crate::backend::Version;
use crate::store::Store;

/// Polls a lock by the same rules as a contender.
#[derive(Debug)]
pub struct LeaseWatch {
    store: Store,
    name: String,
    takeover_delay: Duration,
    observer: Holder,
    clock: Arc<dyn Clock>,
    /// Last observed version and the time of its first observation.
    observed: Option<(Version, Duration)>,
    /// Time since which no holder was observed.
    idle: Option<Duration>,
}

/// Observed state of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// Held by this holder (display text).
    Held(String),
    /// No holder observed, for less than the takeover delay.
    Idle,
    /// No holder observed for at least the takeover delay.
    Abandoned,
}

impl LeaseWatch {
    /// Creates an observer of the lock `name` of a store.
    pub fn new(store: &Store, name: &str, terms: LeaseConfig) -> Self {
        Self::with_clock(store, name, terms, Arc::new(MonotonicClock::default()))
    }

    pub(super) fn with_clock(store: &Store, name: &str, terms: LeaseConfig, clock: Arc<dyn Clock>) -> Self {
        let store = store.clone();
        let name = name.to_owned();
        let observer = Holder::this_process();
        Self { store, name, takeover_delay: terms.takeover_delay, observer, clock, observed: None, idle: None }
    }

    /// Resets the observation, after the work that the lock protects has progressed: a missing earlier holder says
    /// nothing about the next.
    pub fn restart(&mut self) {
        self.idle = None;
    }

    /// Reads the lock. A holder counts as gone if its counter does not advance for the longer of both patiences.
    pub fn observe(&mut self) -> io::Result<LeaseStatus> {
        let now = self.clock.now();
        let found = self.store.get_with_stat(&self.name)?.map(|(bytes, stat)| (Content::parse(&bytes), stat.version));
        let holder = found.and_then(|(content, version)| {
            if content.released || self.observer.sees_gone(&content.holder) {
                return None;
            }
            let takeover_delay = self.takeover_delay.max(content.takeover_delay());
            let since = match &self.observed {
                Some((seen, since)) if *seen == version => *since,
                _ => now,
            };
            self.observed = Some((version, since));
            (now.saturating_sub(since) < takeover_delay).then_some(content.holder)
        });
        if let Some(holder) = holder {
            self.idle = None;
            return Ok(LeaseStatus::Held(holder.to_string()));
        }
        let since = *self.idle.get_or_insert(now);
        Ok(if now.saturating_sub(since) < self.takeover_delay { LeaseStatus::Idle } else { LeaseStatus::Abandoned })
    }
}
