//! Chaos at work.

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

/// The object that remembers kills.
const NAME: &str = "fault_injection.json";

/// Kills that have come.
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

/// Faults that come when their time has come.
#[derive(Debug, Default)]
pub struct FaultInjector {
    chaos: FaultPlan,
    /// Where kills are remembered, and those that have come.
    kept: Mutex<(Option<Store>, Killed)>,
}

impl FaultInjector {
    /// The faults of that description.
    pub fn of(chaos: FaultPlan) -> Self {
        Self { chaos, kept: Mutex::default() }
    }

    /// The same store, with the weather that was asked for.
    pub fn over(&self, store: &Store) -> Store {
        let FaultPlan { seed, eio, lost, .. } = self.chaos;
        if eio == 0.0 && lost == 0.0 {
            return store.clone();
        }
        store.in_weather(FaultConfig { seed, failures: eio, lost, ..FaultConfig::calm() })
    }

    /// Remembers kills there, those among them that have come.
    pub fn keep_in(&self, store: Store) -> io::Result<()> {
        if self.chaos.kills.is_empty() {
            return Ok(());
        }
        let killed = match store.read_with_stat(NAME)? {
            None => Killed::default(),
            Some((bytes, _)) => Killed::unseal(&bytes).map_err(|error| {
                let way_on = "it says which kills have come: remove it, and they come again";
                io::Error::other(format!("{}: {error}; {way_on}", store.place(NAME)))
            })?,
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = (Some(store), killed);
        Ok(())
    }

    /// A run or a preparation has come so far. Does not return where it is to be killed.
    pub fn reach(&self, place: Kill) -> io::Result<()> {
        if !self.chaos.kills.contains(&place) {
            return Ok(());
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (store, killed) = &mut *kept;
        if !killed.kills.insert(place) {
            return Ok(());
        }
        // Written first: whoever is killed cannot remember.
        if let Some(store) = store {
            store.put(NAME, &killed.seal())?;
        }
        warn!(%place, "killed, as `--inject-faults` asked");
        Err(kill())
    }

    /// Whether a fault of that share strikes there.
    fn strikes(&self, share: f64, actor: &str, item: u64, attempt: u32) -> bool {
        if share == 0.0 {
            return false;
        }
        let [drawn, _] = store::draws(&format!("{} {actor} {item} {attempt}", self.chaos.seed));
        drawn <= share
    }
}

impl RowFaults for FaultInjector {
    fn strike(&self, row: RowIndex, attempt: u32) {
        let FaultPlan { panics, bad_rows, slow: (slow, longer), .. } = &self.chaos;
        if self.strikes(*slow, "slow worker", row.0, attempt) {
            thread::sleep(*longer);
        }
        let is_last = attempt + 1 == ROW_ATTEMPTS;
        if bad_rows.contains(&row.0) || (!is_last && self.strikes(*panics, "panic worker", row.0, attempt)) {
            // No defect of ours, so nobody prints where in the program it was.
            resume_unwind(Box::new("a panic that `--inject-faults` asked for".to_owned()));
        }
    }
}

/// Kills this process with SIGKILL, which it cannot handle: as if the machine went down. Returns only if that failed.
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

    fn storm(text: &str) -> FaultInjector {
        FaultInjector::of(FaultPlan::parse(text).expect("good"))
    }

    /// Which of a thousand rows panic at their first attempt.
    fn forecast(storm: &FaultInjector, attempt: u32) -> Vec<u64> {
        (0..1000).filter(|&row| catch_unwind(|| storm.strike(RowIndex(row), attempt)).is_err()).collect()
    }

    #[test]
    fn a_storm_is_its_seed_and_spares_the_last_attempt() {
        let panics = "panic=worker:0.1,panic=row:500";
        let found = forecast(&storm(&format!("seed=7,{panics}")), 0);
        assert_eq!(found, forecast(&storm(&format!("seed=7,{panics}")), 0));
        assert_ne!(found, forecast(&storm(&format!("seed=8,{panics}")), 0));
        // A hundred, within four standard errors.
        assert!((62..=139).contains(&found.len()), "{}", found.len());
        assert_eq!(forecast(&storm(&format!("seed=7,{panics}")), ROW_ATTEMPTS - 1), [500], "only what cannot be made");
    }

    #[test]
    fn a_kill_that_has_come_does_not_come_again() {
        let store = Store::memory(FaultConfig::calm());
        let storm = storm("kill=step:40");
        storm.reach(Kill::Step(39)).expect("not yet");
        store.put(NAME, &Killed { kills: [Kill::Step(40)].into() }.seal()).expect("put");
        storm.keep_in(store.clone()).expect("read");
        // Whoever is killed here does not come to the next line.
        storm.reach(Kill::Step(40)).expect("it has come before");
        store.put(NAME, b"nonsense").expect("put");
        assert!(storm.keep_in(store).expect_err("damaged").to_string().contains("fault_injection.json"));
    }
}
