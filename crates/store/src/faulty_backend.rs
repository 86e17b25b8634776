//! Storage backend with injected faults.
//!
//! # What
//! Wraps a backend whose calls then fail at random: with EIO before they have their effect, or with a timeout after it.
//!
//! # Why
//! A run over a failing disk must give the same result as a run without faults. Tests check that on a store in memory.
//! This backend allows the same check on real disks and runs.
//!
//! # Definition
//! [`FaultConfig`] selects the failing calls. While an object is streamed, a failure before the effect is a timeout
//! instead of EIO: after a flush that ends with EIO a disk may drop the data, so the store does not retry such a flush.
//! An injected EIO would therefore end every run.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::backend::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};
use crate::fault_config::{FaultConfig, InjectedFault};

/// Fault state of a store, shared with its uploads.
#[derive(Debug)]
struct FaultState {
    config: FaultConfig,
    /// Number of calls for each operation and name.
    calls: Mutex<BTreeMap<(&'static str, String), u64>>,
}

impl FaultState {
    fn call<T>(
        &self,
        operation: &'static str,
        name: &str,
        failure: fn() -> io::Error,
        effect: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if !self.config.latency.is_zero() {
            thread::sleep(self.config.latency);
        }
        let attempt = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let attempt = calls.entry((operation, name.to_owned())).or_default();
            *attempt += 1;
            *attempt
        };
        match self.config.fault_for(operation, name, attempt) {
            InjectedFault::Never => effect(),
            InjectedFault::Before => Err(failure()),
            // An error of the backend keeps its own reason.
            InjectedFault::After => effect().and_then(|_| Err(timeout())),
        }
    }
}

fn timeout() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "injected timeout")
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

/// Storage backend with injected faults.
#[derive(Debug)]
pub(crate) struct FaultyBackend {
    kind: Arc<dyn StoreBackend>,
    faults: Arc<FaultState>,
}

impl FaultyBackend {
    /// Wraps `kind` with these faults.
    pub(crate) fn new(kind: Arc<dyn StoreBackend>, config: FaultConfig) -> Self {
        Self { kind, faults: Arc::new(FaultState { config, calls: Mutex::default() }) }
    }
}

impl StoreBackend for FaultyBackend {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.faults.call("read", name, eio, || self.kind.get(name))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.faults.call("read range", name, eio, || self.kind.get_range(name, range))
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        self.faults.call("stat", name, eio, || self.kind.head(name))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.faults.call("list", folder, eio, || self.kind.list(folder))
    }

    fn begin_upload(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        let upload = self.faults.call("begin", name, eio, || self.kind.begin_upload(name))?;
        Ok(Box::new(FaultyUpload { upload, name: name.to_owned(), faults: Arc::clone(&self.faults) }))
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        self.faults.call("create", name, eio, || self.kind.put_if_absent(name, bytes))
    }

    fn put_if_version(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        self.faults.call("replace", name, eio, || self.kind.put_if_version(name, bytes, expected))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.faults.call("remove", name, eio, || self.kind.delete(name))
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        // No lost acknowledgement here: a second sweep would report that it removed nothing.
        self.kind.sweep(folder)
    }

    fn display_path(&self, name: &str) -> String {
        self.kind.display_path(name)
    }

    fn local(&self, folder: &str) -> Option<PathBuf> {
        self.kind.local(folder)
    }
}

/// Unfinished upload with injected faults.
#[derive(Debug)]
struct FaultyUpload {
    upload: Box<dyn Upload>,
    name: String,
    faults: Arc<FaultState>,
}

impl Upload for FaultyUpload {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Self { upload, name, faults } = self;
        faults.call("write", name, timeout, || upload.write_at(offset, bytes))
    }

    fn commit(&mut self) -> io::Result<Stat> {
        let Self { upload, name, faults } = self;
        faults.call("commit", name, timeout, || upload.commit())
    }
}
