//! A store in memory, with weather: latency, failures and lost acknowledgements, all by seed.
//!
//! # What
//! Objects in a map. Before and after each call the weather may let it fail, as if a network had lost the question or
//! the answer.
//!
//! # Why
//! What runs over this store, and ends as it ends in calm, runs over a network too. Failures that depend on nothing but
//! a seed can be met again.
//!
//! # Definition
//! The n-th call of an operation on a name draws two numbers from (seed, operation, name, n): below `failures`, it ends
//! with `TimedOut` and has no effect; else, below `lost`, it has its effect and ends with `TimedOut`. So the weather
//! does not depend on how threads interleave, as long as each name has one caller.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::kind::{Created, Entry, Kind, Replaced, Stat, Upload, Version};

/// How unfriendly a store in memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// What its draws begin with.
    pub seed: u64,
    /// Time that each call takes.
    pub latency: Duration,
    /// Share of calls that fail before they have their effect.
    pub failures: f64,
    /// Share of the others that have their effect, and fail nevertheless: lost acknowledgements.
    pub lost: f64,
}

impl Weather {
    /// No wind at all.
    pub fn calm() -> Self {
        Self::default()
    }

    /// The weather of one call.
    fn strikes(&self, operation: &str, name: &str, attempt: u64) -> Strike {
        let address = format!("{} {operation} {attempt} {name}", self.seed);
        let mut draws = [0_u64; 2];
        for (draw, bytes) in draws.iter_mut().zip(blake3::hash(address.as_bytes()).as_bytes().chunks_exact(8)) {
            *draw = u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes"));
        }
        // The upper 53 bits are a uniform number of [0, 1), exactly.
        let [failure, loss] = draws.map(|draw| (draw >> 11) as f64 / (1_u64 << 53) as f64);
        match () {
            () if failure < self.failures => Strike::Before,
            () if loss < self.lost => Strike::After,
            () => Strike::Never,
        }
    }
}

enum Strike {
    Before,
    After,
    Never,
}

/// What a store in memory went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls of any operation.
    pub calls: u64,
    /// Those that failed without an effect.
    pub failed: u64,
    /// Those that had their effect and whose acknowledgement was lost.
    pub lost: u64,
}

/// A store in memory. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Memory {
    weather: Weather,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, (Arc<[u8]>, Stat)>,
    writings: u64,
    attempts: BTreeMap<(&'static str, String), u64>,
    tally: Calls,
}

impl Memory {
    /// An empty store.
    pub fn new(weather: Weather) -> Self {
        Self { weather, state: Arc::default() }
    }

    /// The same store, in other weather from now on.
    #[must_use]
    pub fn under(&self, weather: Weather) -> Self {
        Self { weather, ..self.clone() }
    }

    /// What it went through so far.
    pub fn tally(&self) -> Calls {
        self.state().tally
    }

    /// One call: waits, then strikes, has its effect, or both.
    fn call<T>(&self, operation: &'static str, name: &str, effect: impl FnOnce(&mut State) -> T) -> io::Result<T> {
        if !self.weather.latency.is_zero() {
            thread::sleep(self.weather.latency);
        }
        let mut state = self.state();
        let attempt = state.attempts.entry((operation, name.to_owned())).or_default();
        *attempt += 1;
        let strike = self.weather.strikes(operation, name, *attempt);
        state.tally.calls += 1;
        let lost = |why: &str| Err(io::Error::new(ErrorKind::TimedOut, format!("{operation} timed out{why}")));
        match strike {
            Strike::Never => Ok(effect(&mut state)),
            Strike::Before => {
                state.tally.failed += 1;
                lost("")
            }
            Strike::After => {
                effect(&mut state);
                state.tally.lost += 1;
                lost(", perhaps after it had its effect")
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

impl State {
    fn keep(&mut self, name: &str, bytes: &[u8]) -> Stat {
        self.writings += 1;
        let version = Version::new(format!("writing {}", self.writings));
        let stat = Stat { bytes: bytes.len() as u64, version, modified: SystemTime::now() };
        self.objects.insert(name.to_owned(), (bytes.into(), stat.clone()));
        stat
    }
}

impl Kind for Memory {
    fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let found = self.call("read", name, |state| state.objects.get(name).cloned())?;
        Ok(found.map(|(bytes, stat)| (bytes.to_vec(), stat)))
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let found = self.call("read range", name, |state| state.objects.get(name).cloned())?;
        let (bytes, _) = found.ok_or(ErrorKind::NotFound)?;
        let [start, end] =
            [range.start, range.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len()));
        Ok(bytes[start..end].to_vec())
    }

    fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        self.call("stat", name, |state| state.objects.get(name).map(|(_, stat)| stat.clone()))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let below =
            |name: &str| folder.is_empty() || name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        self.call("list", folder, |state| {
            let found = state.objects.iter().filter(|(name, _)| below(name));
            found.map(|(name, (_, stat))| Entry { name: name.clone(), stat: stat.clone() }).collect()
        })
    }

    fn begin(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        let upload = Streamed { memory: self.clone(), name: name.to_owned(), bytes: Vec::new(), committed: None };
        self.call("begin", name, |_| ())?;
        Ok(Box::new(upload))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        self.call("create", name, |state| {
            if state.objects.contains_key(name) { Created::Exists } else { Created::Made(state.keep(name, bytes)) }
        })
    }

    fn replace(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        self.call("replace", name, |state| match state.objects.get(name) {
            Some((_, stat)) if stat.version == *expected => Replaced::Made(state.keep(name, bytes)),
            _ => Replaced::Changed,
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call("remove", name, |state| drop(state.objects.remove(name)))
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        // What was not committed lies nowhere but with its writer.
        self.call("sweep", folder, |_| Vec::new())
    }

    fn place(&self, name: &str) -> String {
        format!("memory:{name}")
    }

    fn local(&self, _folder: &str) -> Option<PathBuf> {
        None
    }
}

/// An object that is being streamed.
#[derive(Debug)]
struct Streamed {
    memory: Memory,
    name: String,
    bytes: Vec<u8>,
    committed: Option<Stat>,
}

impl Upload for Streamed {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Self { memory, name, bytes: kept, .. } = self;
        memory.call("write", name, |_| {
            // Bytes that come a second time come to the same place.
            kept.truncate(usize::try_from(offset).expect("what is in memory has a length that fits"));
            kept.extend_from_slice(bytes);
        })
    }

    fn commit(&mut self) -> io::Result<Stat> {
        let Self { memory, name, bytes, committed } = self;
        memory.call("commit", name, |state| committed.get_or_insert_with(|| state.keep(name, bytes)).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of a hundred calls strike, and how.
    fn forecast(weather: Weather, name: &str) -> String {
        (0..100)
            .map(|attempt| match weather.strikes("put", name, attempt) {
                Strike::Never => '.',
                Strike::Before => 'x',
                Strike::After => '?',
            })
            .collect()
    }

    #[test]
    fn the_weather_is_its_seed() {
        let weather = Weather { seed: 7, failures: 0.3, lost: 0.3, ..Weather::calm() };
        let found = forecast(weather, "a");
        assert_eq!(found, forecast(weather, "a"));
        assert_ne!(found, forecast(weather, "b"));
        assert_ne!(found, forecast(Weather { seed: 8, ..weather }, "a"));
        // Of a hundred, 30 fail before and 21 after: within four standard errors.
        let count = |sign| found.matches(sign).count();
        assert!((12..=48).contains(&count('x')) && (5..=37).contains(&count('?')), "{found}");
        assert_eq!(forecast(Weather { lost: 1.0, ..Weather::calm() }, "a"), "?".repeat(100));
        assert_eq!(forecast(Weather::calm(), "a"), ".".repeat(100));
    }
}
