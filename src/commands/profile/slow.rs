//! `--slow`: injected delays.

use std::path::Path;
use std::time::Duration;

use pipeline::load::{self, Contention, DelayedWorkers, LatencyInjection};
use store::{FaultConfig, Store};

use crate::cli::ProfileTarget;
use crate::exit::Usage;

/// One batch in this many is delayed by `burst`.
const BURST: u64 = 8;

/// Delays that each target supports.
const OFFLINE: &str = "`writer=MS`";
const ONLINE: &str = "`worker=MS`, `workers=MS`, `work=MS`, `burst=MS` or `disk=MS`, and in addition to one of them `lock=MS`, `turns=MS` \
                      and `pairs=MS`, separated by commas";

/// Injected delays.
#[derive(Clone, Copy, Debug, Default)]
pub struct InjectedDelays {
    /// Delay of the workers.
    pub workers: Option<LatencyInjection>,
    /// Contention among the workers.
    pub contention: Contention,
    pub(super) disk: Duration,
    pub(super) writer: Duration,
}

impl InjectedDelays {
    /// Parses `--slow`.
    ///
    /// # Errors
    /// [`Usage`] for a delay that the target does not support, with the supported ones.
    pub fn parse(text: Option<&str>, target: ProfileTarget) -> anyhow::Result<Self> {
        let mut slow = Self::default();
        let Some(text) = text else { return Ok(slow) };
        let known = if target == ProfileTarget::Prepare { OFFLINE } else { ONLINE };
        for part in text.split(',') {
            slow.add(part, target).ok_or_else(|| Usage(format!("--slow {text}: this target supports {known}")))?;
        }
        Ok(slow)
    }

    /// Opens a corpus, on a disk with the injected delay.
    pub fn find(self, folder: &Path) -> pipeline::Result<Store> {
        let store = load::find(folder)?;
        let faults = FaultConfig { latency: self.disk, ..FaultConfig::none() };
        Ok(if self.disk.is_zero() { store } else { store.with_faults(faults) })
    }

    /// Adds one delay of the list. None if it is unknown or a duplicate.
    fn add(&mut self, part: &str, target: ProfileTarget) -> Option<()> {
        let (actor, ms) = part.split_once('=')?;
        let ms: f64 = ms.parse().ok()?;
        if !(ms.is_finite() && (0.0..1e9).contains(&ms)) {
            return None;
        }
        let time = Duration::from_secs_f64(ms / 1e3);
        let injection = |who, computes| Some(LatencyInjection { who, time, computes });
        let workers = match (target == ProfileTarget::Prepare, actor) {
            (true, "writer") => return set_once(&mut self.writer, time),
            (false, "disk") => return set_once(&mut self.disk, time),
            (false, "lock") => return set_once(&mut self.contention.lock, time),
            (false, "turns") => return set_once(&mut self.contention.turns, time),
            (false, "pairs") => return set_once(&mut self.contention.pairs, time),
            (false, "worker") => injection(DelayedWorkers::Worker(0), false),
            (false, "workers") => injection(DelayedWorkers::Workers, false),
            (false, "work") => injection(DelayedWorkers::Workers, true),
            (false, "burst") => injection(DelayedWorkers::OneIn(BURST), false),
            _ => return None,
        };
        self.workers.is_none().then(|| self.workers = workers)
    }
}

fn set_once(place: &mut Duration, time: Duration) -> Option<()> {
    place.is_zero().then(|| *place = time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_delays_combine_and_duplicates_are_refused() {
        let parse = |text: &str| InjectedDelays::parse(Some(text), ProfileTarget::Loader);
        let slow = parse("workers=20,turns=5,pairs=0.5").expect("good");
        assert_eq!(slow.contention.turns, Duration::from_millis(5));
        assert_eq!(slow.contention.pairs, Duration::from_micros(500));
        assert_eq!(slow.workers.expect("workers").time, Duration::from_millis(20));
        for wrong in
            ["workers=5,burst=5", "lock=1,lock=2", "workers=1,", ",", "turns", "turns=x", "writer=5", "lock=-1"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(InjectedDelays::parse(Some("lock=5"), ProfileTarget::Prepare).is_err(), "a preparation has none");
    }
}
