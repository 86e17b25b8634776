//! Exclusive lock between processes and machines that share only a store.
//!
//! # What
//! A lock is an object that names its holder, with a counter that the holder increments every *heartbeat*. If the counter
//! advances, a contender is refused. If the counter does not advance for the holder's *takeover delay*, a contender takes the
//! lock over. Before the holder publishes anything, it [checks](Lock::check) that it still holds the lock.
//!
//! # Why
//! File system locks end at the machine, or stay with a stopped process; object stores have none. The time of day
//! differs between machines, so no process compares times. Each observer checks on its own monotonic clock whether the
//! counter advances.
//!
//! # Definition
//! *Take*: create the object, or replace one by version. An object may be replaced if it says `released`, if its holder
//! was a process of this same boot and pid namespace that is gone, or if its counter has not advanced for the longer of
//! both takeover delays, an hour at most. Of several contenders one succeeds. *Beat*: replace the object by version,
//! with the counter incremented. *Release*: replace the object by one that says `released`. An object with another
//! version and another holder is a lost lock, permanently.
//!
//! *Check*: read the object; if the newest heartbeat is older than a third of the takeover delay, renew it first. A publication
//! that begins after a check has two thirds of the takeover delay before any contender may take over. A process that is
//! stopped for longer than that, between a check and its publication, publishes late: one object, whole. Its next check
//! fails.
//!
//! *Probe*: directly after a take, the holder creates the object once more and replaces its previous version once more.
//! Both must fail. A store that ignores such conditions, or does not have the calls, is refused before anything is
//! written.
//!
//! # Reference
//! Gray and Cheriton, "Leases: An Efficient Fault-Tolerant Mechanism for Distributed File Cache Consistency" (1989).

mod guard;
mod holder;
mod lease;
mod lease_config;
mod lease_contender;
mod lease_observer;
#[cfg(test)]
mod tests;
mod work_progress;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::warn;

use self::guard::GuardedBackend;
pub use self::holder::Holder;
use self::lease::{LeaseClaim, MonotonicClock};
pub use self::lease_config::{LeaseConfig, LockError};
pub use self::lease_contender::LeaseContender;
pub use self::lease_observer::{LeaseStatus, LeaseWatch};
pub use self::work_progress::WorkProgress;
use crate::store::Store;

/// Lock that this process holds until it drops it or another process takes it over.
#[derive(Debug)]
pub struct Lock {
    claim: Arc<LeaseClaim>,
    /// Carries no messages: dropping it ends the thread.
    ended: Option<SyncSender<()>>,
    heartbeat: Option<JoinHandle<()>>,
}

impl Lock {
    /// Takes the lock `name` of a store. Waits only until it sees that another holder is alive: one or two heartbeats, or
    /// the takeover delay.
    pub fn acquire(store: &Store, name: &str, holder: Holder, terms: LeaseConfig) -> Result<Self, LockError> {
        let claim = LeaseClaim::acquire(store, name, holder, terms, Arc::new(MonotonicClock::default()))?;
        let lock = Self::keep(claim, terms, None)?;
        lock.claim.check_exclusion()?;
        Ok(lock)
    }

    /// Starts the heartbeat of a claim, which pauses while the work makes no progress.
    fn keep(claim: LeaseClaim, terms: LeaseConfig, progress: Option<WorkProgress>) -> Result<Self, LockError> {
        let claim = Arc::new(claim);
        let (ended, end) = sync_channel(0);
        let beating = Arc::clone(&claim);
        // If the thread cannot start, dropping `lock` releases the claim.
        let mut lock = Self { claim, ended: Some(ended), heartbeat: None };
        let heartbeat = thread::Builder::new().name("heartbeat".to_owned());
        let pause = terms.heartbeat_interval;
        lock.heartbeat = Some(heartbeat.spawn(move || renew_until(&beating, pause, progress, &end))?);
        Ok(lock)
    }

    /// Returns the apparent holder of that lock, for display. Returns `None` if the lock was released, if its holder is
    /// seen to be gone, or if the counter has not advanced for the takeover delay by the clock of the storage. Changes
    /// nothing and does not wait.
    pub fn seen(store: &Store, name: &str) -> io::Result<Option<Holder>> {
        lease::seen(store, name)
    }

    /// Returns whether an object is a lock, held or released. A file of another program is none.
    pub fn is_lock(store: &Store, name: &str) -> io::Result<bool> {
        lease::is_lock(store, name)
    }

    /// Checks that this process still holds the lock. Call it before publishing. A lost lock is an error of kind
    /// `ResourceBusy` that names the new holder.
    pub fn check(&self) -> io::Result<()> {
        self.claim.check()
    }

    /// Returns a store that changes only while this process holds the lock: the lock's own store or another. The lock
    /// is [checked](Self::check) directly before every change: for a put, before the object becomes visible.
    #[must_use]
    pub fn guard(&self, store: &Store) -> Store {
        store.wrap(|kind| Arc::new(GuardedBackend { kind, claim: Arc::clone(&self.claim) }))
    }

    /// Returns the holder: this process.
    pub fn holder(&self) -> &Holder {
        self.claim.holder()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        drop(self.ended.take());
        // A heartbeat in progress ends first. A panic in it must not prevent the release.
        let _ = self.heartbeat.take().map(JoinHandle::join);
        if let Err(error) = self.claim.release() {
            warn!(%error, "cannot release the lock; other processes wait until it expires");
        }
    }
}

/// Sends heartbeats until the lock is dropped or lost, but none while the work makes no progress. After a store error it
/// retries at the next heartbeat.
fn renew_until(claim: &LeaseClaim, pause: Duration, mut progress: Option<WorkProgress>, end: &Receiver<()>) {
    while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        if progress.as_mut().is_some_and(WorkProgress::is_idle) {
            continue;
        }
        if let Err(error) = claim.renew() {
            warn!(%error, "the heartbeat of a lock failed");
            if claim.is_lost() {
                return;
            }
        }
    }
}
