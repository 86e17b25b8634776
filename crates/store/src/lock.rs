//! One at a time: a lock between processes and machines that share nothing but a store.
//!
//! # What
//! A lock is an object that says who holds it, with a counter that its holder moves every *beat*. Who finds one that
//! moves is refused; who finds one that stands still for the holder's *patience* takes it over. Before anything is
//! published the holder [checks](Lock::check) that the lock is still its own.
//!
//! # Why
//! Locks of a file system end at the machine, or with who was stopped while it held them; object stores have none. Time
//! of day differs between machines. So nobody compares times: each observer watches, on its own monotonic clock, whether
//! the counter moves.
//!
//! # Definition
//! *Take*: create the object, or replace one that says `released`, or whose holder was a process of this same boot and
//! pid namespace that is gone, or that has stood still for the longer of both patiences; all by version, so that of
//! several one succeeds. *Beat*: replace it by version, with the counter one higher. *Release*: replace it by one that
//! says `released`. An object that no longer has our version and is not ours is a lost lock, for good.
//!
//! *Check*: the object is looked at; if the newest beat is older than a third of the patience, it is renewed first. A
//! publication that begins after a check has two thirds of the patience before anybody may take over. A process that is
//! stopped for longer than that, between a check and its publication, publishes late: one object, whole; its next check
//! tells it.
//!
//! # Reference
//! Gray and Cheriton, "Leases: An Efficient Fault-Tolerant Mechanism for Distributed File Cache Consistency" (1989).

mod guard;
mod holder;
mod lease;
mod lease_config;
mod lease_observer;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::warn;

use self::guard::Guarded;
pub use self::holder::Holder;
use self::lease::{LeaseClaim, Monotonic};
pub use self::lease_config::{LeaseConfig, LockError};
pub use self::lease_observer::{LeaseStatus, LeaseWatch};
use crate::store::Store;

/// A lock that this process holds, until it is dropped or somebody takes it over.
#[derive(Debug)]
pub struct Lock {
    claim: Arc<LeaseClaim>,
    /// Nothing is ever sent: the thread ends when this is dropped.
    ended: Option<SyncSender<()>>,
    heart: Option<JoinHandle<()>>,
}

impl Lock {
    /// Takes the lock `name` of a store. Waits no longer than it takes to see that another holder is alive: a beat or
    /// two, or the patience.
    pub fn take(store: &Store, name: &str, holder: Holder, terms: LeaseConfig) -> Result<Self, LockError> {
        let claim = Arc::new(LeaseClaim::take(store, name, holder, terms, Arc::new(Monotonic::default()))?);
        let (ended, end) = sync_channel(0);
        let beating = Arc::clone(&claim);
        // Should there be no thread, what was claimed is released on the way out.
        let mut lock = Self { claim, ended: Some(ended), heart: None };
        let heart = thread::Builder::new().name("heartbeat".to_owned());
        lock.heart = Some(heart.spawn(move || beat(&beating, terms.beat, &end))?);
        Ok(lock)
    }

    /// Who seems to hold that lock, for people: nobody where it was released, where its holder is seen to be gone, or where it
    /// has stood still for longer than its patience by the clock of whoever keeps it. Changes nothing and waits for nothing.
    pub fn seen(store: &Store, name: &str) -> io::Result<Option<Holder>> {
        lease::seen(store, name)
    }

    /// That the lock is still ours: to be asked before anything is published. A lost lock is an error, of kind
    /// `ResourceBusy`, that names who has it now.
    pub fn check(&self) -> io::Result<()> {
        self.claim.check()
    }

    /// A store, the one that the lock lies in or another, that is changed only as long as the lock is ours: every change
    /// is [checked](Self::check) before it is made, and a put again before it becomes visible.
    #[must_use]
    pub fn guard(&self, store: &Store) -> Store {
        store.beneath(|kind| Arc::new(Guarded { kind, claim: Arc::clone(&self.claim) }))
    }

    /// Who we are.
    pub fn holder(&self) -> &Holder {
        self.claim.holder()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        drop(self.ended.take());
        // A beat under way ends first. It does not panic; if it did, the lock would still have to go.
        let _ = self.heart.take().map(JoinHandle::join);
        if let Err(error) = self.claim.release() {
            warn!(%error, "could not release a lock: others wait for it until it has stood still for long enough");
        }
    }
}

/// Beats until the lock is dropped or lost. A store that does not answer for a while is asked again at the next beat.
fn beat(claim: &LeaseClaim, pause: Duration, end: &Receiver<()>) {
    while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        if let Err(error) = claim.beat() {
            warn!(%error, "the heartbeat of a lock failed");
            if claim.is_lost() {
                return;
            }
        }
    }
}
