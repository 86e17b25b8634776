//! Contender for many locks, which never waits for one of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Lock;
use super::holder::Holder;
use super::lease::{Clock, LeaseClaim, MonotonicClock, ObservedLease};
use super::lease_config::{LeaseConfig, LockError};
use super::work_progress::WorkProgress;
use crate::store::Store;

/// Takes locks of a store that are free, and remembers since when the others were not renewed.
///
/// A lock is taken over by the rules of [`Lock::acquire`]. Instead of waiting for one lock, the caller tries all of
/// them again, each at most once per heartbeat.
#[derive(Debug)]
pub struct LeaseContender {
    pub(super) store: Store,
    terms: LeaseConfig,
    clock: Arc<dyn Clock>,
    observed: Mutex<BTreeMap<String, ObservedLease>>,
}

impl LeaseContender {
    /// Creates a contender without observations.
    pub fn new(store: &Store, terms: LeaseConfig) -> Self {
        Self::with_clock(store, terms, Arc::new(MonotonicClock::default()))
    }

    pub(super) fn with_clock(store: &Store, terms: LeaseConfig, clock: Arc<dyn Clock>) -> Self {
        Self { store: store.clone(), terms, clock, observed: Mutex::default() }
    }

    /// Returns the terms of the locks.
    pub fn terms(&self) -> LeaseConfig {
        self.terms
    }

    /// Takes the lock `name` if it is free now; `None` if another holder has it, as far as is known.
    pub fn try_acquire(&self, name: &str) -> Result<Option<Lock>, LockError> {
        self.try_acquire_for(name, None)
    }

    /// Takes the lock `name` as [`try_acquire`](Self::try_acquire) does. Work that makes no progress loses it.
    pub fn try_acquire_while(&self, name: &str, progress: WorkProgress) -> Result<Option<Lock>, LockError> {
        self.try_acquire_for(name, Some(progress))
    }

    fn try_acquire_for(&self, name: &str, progress: Option<WorkProgress>) -> Result<Option<Lock>, LockError> {
        // The store is asked without the mutex: another thread asks for another lock meanwhile.
        let mut observed = self.observed().remove(name);
        let holder = Holder::this_process();
        let claim =
            LeaseClaim::try_acquire(&self.store, name, &holder, self.terms, Arc::clone(&self.clock), &mut observed);
        // After an error of the store the observation continues.
        if let Some(observed) = observed.filter(|_| !matches!(claim, Ok(Some(_)))) {
            self.observed().insert(name.to_owned(), observed);
        }
        let claim = claim?;
        claim.map(|claim| Lock::keep(claim, self.terms, progress)).transpose()
    }

    /// Forgets what is known of the lock `name`, which will not be tried again.
    pub fn forget(&self, name: &str) {
        self.observed().remove(name);
    }

    fn observed(&self) -> MutexGuard<'_, BTreeMap<String, ObservedLease>> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
