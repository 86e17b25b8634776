//! `--slow`: what is slow on purpose.

use std::path::Path;
use std::time::Duration;

use pipeline::load::{self, Contention, LatencyInjection, Who};
use store::{FaultConfig, Store};

use crate::cli::ProfileTarget;
use crate::exit::Usage;

/// Batches between two slow ones, where bursts are asked for.
const BURST: u64 = 8;

/// What each target can slow.
const OFFLINE: &str = "`writer=MS`";
const ONLINE: &str = "`worker=MS`, `workers=MS`, `work=MS`, `burst=MS` or `disk=MS`, and next to one of them `lock=MS`, `turns=MS` \
                      and `pairs=MS`, with commas between";

/// What is slow on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slow {
    /// A delay planted in the workers.
    pub workers: Option<LatencyInjection>,
    /// Contention planted between the workers.
    pub contention: Contention,
    pub(super) disk: Duration,
    pub(super) writer: Duration,
}

impl Slow {
    /// # Errors
    /// As [`Usage`]: what this target cannot slow, and what it can.
    pub fn parse(text: Option<&str>, target: ProfileTarget) -> anyhow::Result<Self> {
        let mut slow = Self::default();
        let Some(text) = text else { return Ok(slow) };
        let known = if target == ProfileTarget::Prepare { OFFLINE } else { ONLINE };
        for part in text.split(',') {
            slow.add(part, target).ok_or_else(|| Usage(format!("--slow {text}: this target can slow {known}")))?;
        }
        Ok(slow)
    }

    /// Finds a corpus, on a disk as slow as asked for.
    pub fn find(self, folder: &Path) -> pipeline::Result<Store> {
        let store = load::find(folder)?;
        let weather = FaultConfig { latency: self.disk, ..FaultConfig::calm() };
        Ok(if self.disk.is_zero() { store } else { store.in_weather(weather) })
    }

    /// Adds one of the list; none where there is no such thing, or it is there already.
    fn add(&mut self, part: &str, target: ProfileTarget) -> Option<()> {
        let (actor, ms) = part.split_once('=')?;
        let ms: f64 = ms.parse().ok()?;
        if !(ms.is_finite() && (0.0..1e9).contains(&ms)) {
            return None;
        }
        let time = Duration::from_secs_f64(ms / 1e3);
        let hindrance = |who, computes| Some(LatencyInjection { who, time, computes });
        let workers = match (target == ProfileTarget::Prepare, actor) {
            (true, "writer") => return once(&mut self.writer, time),
            (false, "disk") => return once(&mut self.disk, time),
            (false, "lock") => return once(&mut self.contention.lock, time),
            (false, "turns") => return once(&mut self.contention.turns, time),
            (false, "pairs") => return once(&mut self.contention.pairs, time),
            (false, "worker") => hindrance(Who::Worker(0), false),
            (false, "workers") => hindrance(Who::Workers, false),
            (false, "work") => hindrance(Who::Workers, true),
            (false, "burst") => hindrance(Who::OneIn(BURST), false),
            _ => return None,
        };
        self.workers.is_none().then(|| self.workers = workers)
    }
}

fn once(place: &mut Duration, time: Duration) -> Option<()> {
    place.is_zero().then(|| *place = time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_are_slowed_together_and_each_once() {
        let parse = |text: &str| Slow::parse(Some(text), ProfileTarget::Loader);
        let slow = parse("workers=20,turns=5,pairs=0.5").expect("good");
        assert_eq!(slow.contention.turns, Duration::from_millis(5));
        assert_eq!(slow.contention.pairs, Duration::from_micros(500));
        assert_eq!(slow.workers.expect("workers").time, Duration::from_millis(20));
        for wrong in
            ["workers=5,burst=5", "lock=1,lock=2", "workers=1,", ",", "turns", "turns=x", "writer=5", "lock=-1"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(Slow::parse(Some("lock=5"), ProfileTarget::Prepare).is_err(), "a preparation has none");
    }
}
