//! Storage backend in memory, with injected faults: latency, failures and lost acknowledgements, determined by a seed.
//!
//! # What
//! Objects in a map. Before and after each call an injected fault may fail it, as if a network had lost the request or
//! the answer.
//!
//! # Why
//! Code that gives the same result over this store with and without faults also works over a network. Failures that
//! depend only on a seed are reproducible.
//!
//! # Definition
//! A call that the [fault configuration](crate::FaultConfig) selects fails with `TimedOut`, without its effect or with it.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::SystemTime;

use crate::backend::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};
use crate::fault_config::{Calls, FaultConfig, InjectedFault};

/// Storage backend in memory. Clones share their content.
#[derive(Clone, Debug)]
pub struct MemoryBackend {
    faults: FaultConfig,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, (Arc<[u8]>, Stat)>,
    writings: u64,
    attempts: BTreeMap<(&'static str, String), u64>,
    tally: Calls,
}

impl MemoryBackend {
    /// Creates an empty store.
    pub fn new(faults: FaultConfig) -> Self {
        Self { faults, state: Arc::default() }
    }

    /// Returns the same store with other fault rates from now on.
    #[must_use]
    pub fn with_faults(&self, faults: FaultConfig) -> Self {
        Self { faults, ..self.clone() }
    }

    /// Returns the call counts so far.
    pub fn tally(&self) -> Calls {
        self.state().tally
    }

    /// Executes one call: waits, then injects a fault, applies the effect, or both.
    fn call<T>(&self, operation: &'static str, name: &str, effect: impl FnOnce(&mut State) -> T) -> io::Result<T> {
        if !self.faults.latency.is_zero() {
            thread::sleep(self.faults.latency);
        }
        let mut state = self.state();
        let attempt = state.attempts.entry((operation, name.to_owned())).or_default();
        *attempt += 1;
        let strike = self.faults.fault_for(operation, name, *attempt);
        state.tally.count(strike);
        let lost = |why: &str| Err(io::Error::new(ErrorKind::TimedOut, format!("{operation} timed out{why}")));
        match strike {
            InjectedFault::Never => Ok(effect(&mut state)),
            InjectedFault::Before => lost(""),
            InjectedFault::After => {
                effect(&mut state);
                lost(", perhaps after it had its effect")
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

impl State {
    fn store(&mut self, name: &str, bytes: &[u8]) -> Stat {
        self.writings += 1;
        let version = Version::new(format!("writing {}", self.writings));
        let stat = Stat { bytes: bytes.len() as u64, version, modified: SystemTime::now() };
        self.objects.insert(name.to_owned(), (bytes.into(), stat.clone()));
        stat
    }
}

impl StoreBackend for MemoryBackend {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let found = self.call("read", name, |state| state.objects.get(name).cloned())?;
        Ok(found.map(|(bytes, stat)| (bytes.to_vec(), stat)))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let found = self.call("read range", name, |state| state.objects.get(name).cloned())?;
        let (bytes, _) = found.ok_or(ErrorKind::NotFound)?;
        let [start, end] =
            [range.start, range.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len()));
        Ok(bytes[start..end].to_vec())
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
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

    fn begin_upload(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        let upload = MemoryUpload { memory: self.clone(), name: name.to_owned(), bytes: Vec::new(), committed: None };
        self.call("begin", name, |_| ())?;
        Ok(Box::new(upload))
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        self.call("create", name, |state| {
            if state.objects.contains_key(name) { Created::Exists } else { Created::Made(state.store(name, bytes)) }
        })
    }

    fn put_if_version(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        self.call("replace", name, |state| match state.objects.get(name) {
            Some((_, stat)) if stat.version == *expected => Replaced::Made(state.store(name, bytes)),
            _ => Replaced::Changed,
        })
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.call("remove", name, |state| drop(state.objects.remove(name)))
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        // An uncommitted upload is only in its writer's memory.
        self.call("sweep", folder, |_| Vec::new())
    }

    fn display_path(&self, name: &str) -> String {
        format!("memory:{name}")
    }

    fn local(&self, _folder: &str) -> Option<PathBuf> {
        None
    }
}

/// Unfinished upload.
#[derive(Debug)]
struct MemoryUpload {
    memory: MemoryBackend,
    name: String,
    bytes: Vec<u8>,
    committed: Option<Stat>,
}

impl Upload for MemoryUpload {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Self { memory, name, bytes: kept, .. } = self;
        memory.call("write", name, |_| {
            // Bytes that are passed again go to the same offset.
            kept.truncate(usize::try_from(offset).expect("what is in memory has a length that fits"));
            kept.extend_from_slice(bytes);
        })
    }

    fn commit(&mut self) -> io::Result<Stat> {
        let Self { memory, name, bytes, committed } = self;
        memory.call("commit", name, |state| committed.get_or_insert_with(|| state.store(name, bytes)).clone())
    }
}
