//! Injection of the faults of a [`FaultPlan`].

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::{io, thread};

use pipeline::load::{ROW_ATTEMPTS, RowFaults};
use rustix::process::{Signal, getpid, kill_process};
use schemas::{RowIndex, Sealed};
use serde::{Deserialize, Serialize};
use store::{FaultConfig, Store};
use tracing::warn;

use super::{FaultPlan, Kill};

/// Name of the object that records kills.
const NAME: &str = "fault_injection.json";

/// Kills that have occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Killed {
    kills: BTreeSet<Kill>,
}

impl Sealed for Killed {
    const FORMAT: &'static str = "cloze injected kills";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// Injects faults at the points that a run or a preparation reaches.
#[derive(Debug, Default)]
pub struct FaultInjector {
    plan: FaultPlan,
    /// Store of the record, and the kills that have occurred.
    recorded: Mutex<(Option<Store>, Killed)>,
}

impl FaultInjector {
    /// Creates an injector of these faults.
    pub fn new(plan: FaultPlan) -> Self {
        Self { plan, recorded: Mutex::default() }
    }

    /// Returns the same store with the configured faults.
    pub fn wrap(&self, store: &Store) -> Store {
        let FaultPlan { seed, eio, lost, .. } = self.plan;
        if eio == 0.0 && lost == 0.0 {
            return store.clone();
        }
        store.with_faults(FaultConfig { seed, failures: eio, lost, ..FaultConfig::none() })
    }

    /// Opens the record of kills in this store.
    pub fn record_in(&self, store: Store) -> io::Result<()> {
        if self.plan.kills.is_empty() {
            return Ok(());
        }
        let killed = match store.get_with_stat(NAME)? {
            None => Killed::default(),
            Some((bytes, _)) => Killed::unseal(&bytes).map_err(|error| {
                let fix = "it records which kills have occurred; remove the file to repeat them";
                io::Error::other(format!("{}: {error}; {fix}", store.place(NAME)))
            })?,
        };
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = (Some(store), killed);
        Ok(())
    }

    /// Reports that a run or a preparation has reached a point. Does not return if the process is to be killed there.
    pub fn reach(&self, place: Kill) -> io::Result<()> {
        if !self.plan.kills.contains(&place) {
            return Ok(());
        }
        let mut kept = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let (store, killed) = &mut *kept;
        if !killed.kills.insert(place) {
            return Ok(());
        }
        // Written first: after the kill, this process can write nothing.
        if let Some(store) = store {
            store.put(NAME, &killed.seal())?;
        }
        warn!(%place, "killed, as `--inject-faults` asked");
        Err(kill())
    }

    /// Whether a fault of that share occurs at this address.
    fn is_struck(&self, share: f64, actor: &str, item: u64, attempt: u32) -> bool {
        if share == 0.0 {
            return false;
        }
        let [drawn, _] = store::draws(&format!("{} {actor} {item} {attempt}", self.plan.seed));
        drawn <= share
    }
}

impl RowFaults for FaultInjector {
    fn inject(&self, row: RowIndex, attempt: u32) {
        let FaultPlan { panics, bad_rows, slow: (slow, longer), .. } = &self.plan;
        if self.is_struck(*slow, "slow worker", row.0, attempt) {
            thread::sleep(*longer);
        }
        let is_last = attempt + 1 == ROW_ATTEMPTS;
        if bad_rows.contains(&row.0) || (!is_last && self.is_struck(*panics, "panic worker", row.0, attempt)) {
            // `resume_unwind` skips the panic hook: the location of an injected panic is of no interest.
            resume_unwind(Box::new("a panic that `--inject-faults` asked for".to_owned()));
        }
    }
}

/// Kills this process with SIGKILL, which cannot be handled. Simulates a machine failure. Returns only if the kill
/// failed.
fn kill() -> io::Error {
    match kill_process(getpid(), Signal::KILL) {
        Ok(()) => io::Error::other("`--inject-faults` asked for a kill, and SIGKILL did not end the process"),
        Err(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn injector(text: &str) -> FaultInjector {
        FaultInjector::new(FaultPlan::parse(text).expect("good"))
    }

    /// Returns the rows out of 1000 that panic at this attempt.
    fn panicking_rows(injector: &FaultInjector, attempt: u32) -> Vec<u64> {
        (0..1000).filter(|&row| catch_unwind(|| injector.inject(RowIndex(row), attempt)).is_err()).collect()
    }

    #[test]
    fn faults_follow_the_seed_and_spare_the_last_attempt() {
        let panics = "panic=worker:0.1,panic=row:500";
        let found = panicking_rows(&injector(&format!("seed=7,{panics}")), 0);
        assert_eq!(found, panicking_rows(&injector(&format!("seed=7,{panics}")), 0));
        assert_ne!(found, panicking_rows(&injector(&format!("seed=8,{panics}")), 0));
        // Expected are 100, within four standard errors.
        assert!((62..=139).contains(&found.len()), "{}", found.len());
        assert_eq!(
            panicking_rows(&injector(&format!("seed=7,{panics}")), ROW_ATTEMPTS - 1),
            [500],
            "only what cannot be made"
        );
    }

    #[test]
    fn a_kill_occurs_once() {
        let store = Store::in_memory(FaultConfig::none());
        let injector = injector("kill=step:40");
        injector.reach(Kill::Step(39)).expect("not yet");
        store.put(NAME, &Killed { kills: [Kill::Step(40)].into() }.seal()).expect("put");
        injector.record_in(store.clone()).expect("read");
        // A kill here would end the test.
        injector.reach(Kill::Step(40)).expect("it has come before");
        store.put(NAME, b"nonsense").expect("put");
        assert!(injector.record_in(store).expect_err("damaged").to_string().contains("fault_injection.json"));
    }
}
