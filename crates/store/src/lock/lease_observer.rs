//! Whether anybody holds a lock, as seen by somebody who does not want it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::holder::Holder;
use super::lease::{Clock, Content, Monotonic};
use super::lease_config::LeaseConfig;
use crate::backend::Version;
use crate::store::Store;

/// Looks at a lock from time to time, by the rules by which it would be taken.
#[derive(Debug)]
pub struct LeaseWatch {
    store: Store,
    name: String,
    patience: Duration,
    observer: Holder,
    clock: Arc<dyn Clock>,
    /// As it was seen last, and since when.
    seen: Option<(Version, Duration)>,
    /// Since when nobody is seen to hold it.
    idle: Option<Duration>,
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// Somebody does, in words.
    Held(String),
    /// Nobody does, as far as could be seen, for less than the patience.
    Idle,
    /// Nobody did for as long.
    Deserted,
}

impl LeaseWatch {
    /// Of the lock `name` of a store.
    pub fn of(store: &Store, name: &str, terms: LeaseConfig) -> Self {
        Self::by(store, name, terms, Arc::new(Monotonic::default()))
    }

    pub(super) fn by(store: &Store, name: &str, terms: LeaseConfig, clock: Arc<dyn Clock>) -> Self {
        let (store, name, observer) = (store.clone(), name.to_owned(), Holder::this_process());
        Self { store, name, patience: terms.patience, observer, clock, seen: None, idle: None }
    }

    /// What the lock is for has moved on: that nobody was seen before says nothing of whoever comes.
    pub fn begin_anew(&mut self) {
        self.idle = None;
    }

    /// Looks. A holder that is alive moves its lock; one that does not for the longer of both patiences is none.
    pub fn look(&mut self) -> io::Result<LeaseStatus> {
        let now = self.clock.now();
        let found = self.store.read_with_stat(&self.name)?.map(|(bytes, stat)| (Content::parse(&bytes), stat.version));
        let holder = found.and_then(|(content, version)| {
            if content.released || self.observer.sees_gone(&content.holder) {
                return None;
            }
            let patience = self.patience.max(content.patience());
            let since = match &self.seen {
                Some((seen, since)) if *seen == version => *since,
                _ => now,
            };
            self.seen = Some((version, since));
            (now.saturating_sub(since) < patience).then_some(content.holder)
        });
        if let Some(holder) = holder {
            self.idle = None;
            return Ok(LeaseStatus::Held(holder.to_string()));
        }
        let since = *self.idle.get_or_insert(now);
        Ok(if now.saturating_sub(since) < self.patience { LeaseStatus::Idle } else { LeaseStatus::Deserted })
    }
}
