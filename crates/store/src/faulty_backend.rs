//! Any kind of store, in weather.
//!
//! # What
//! The store below, whose calls fail now and then: with EIO before they have their effect, or as if they had timed out
//! after it.
//!
//! # Why
//! A run over a disk that fails must end as in calm. On a store in memory a test can see that; here anybody can, with
//! the disk and the run that they have.
//!
//! # Definition
//! A call is struck as [`FaultConfig`] says. While an object is streamed, what fails before its effect times out instead: after
//! a flush that ended with EIO a disk may forget what it was given, so nobody asks for such a flush again, and a rehearsal
//! would end every run.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::backend::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};
use crate::fault_config::{FaultConfig, Strike};

/// The sky over a store, shared with its uploads.
#[derive(Debug)]
struct Sky {
    weather: FaultConfig,
    /// Calls of each operation on each name: a number for each name that was asked for.
    calls: Mutex<BTreeMap<(&'static str, String), u64>>,
}

impl Sky {
    fn call<T>(
        &self,
        (operation, name): (&'static str, &str),
        failure: fn() -> io::Error,
        effect: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if !self.weather.latency.is_zero() {
            thread::sleep(self.weather.latency);
        }
        let attempt = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let attempt = calls.entry((operation, name.to_owned())).or_default();
            *attempt += 1;
            *attempt
        };
        match self.weather.strikes(operation, name, attempt) {
            Strike::Never => effect(),
            Strike::Before => Err(failure()),
            // What fails by itself says why.
            Strike::After => effect().and_then(|_| Err(timeout())),
        }
    }
}

fn timeout() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "timed out, as it was asked to")
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

/// A kind of store in weather.
#[derive(Debug)]
pub(crate) struct FaultyBackend {
    kind: Arc<dyn StoreBackend>,
    sky: Arc<Sky>,
}

impl FaultyBackend {
    /// That weather over that kind.
    pub(crate) fn over(kind: Arc<dyn StoreBackend>, weather: FaultConfig) -> Self {
        Self { kind, sky: Arc::new(Sky { weather, calls: Mutex::default() }) }
    }
}

impl StoreBackend for FaultyBackend {
    fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.sky.call(("read", name), eio, || self.kind.read(name))
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.sky.call(("read range", name), eio, || self.kind.read_range(name, range))
    }

    fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        self.sky.call(("stat", name), eio, || self.kind.stat(name))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.sky.call(("list", folder), eio, || self.kind.list(folder))
    }

    fn begin(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        let upload = self.sky.call(("begin", name), eio, || self.kind.begin(name))?;
        Ok(Box::new(StormyUpload { upload, name: name.to_owned(), sky: Arc::clone(&self.sky) }))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        self.sky.call(("create", name), eio, || self.kind.create(name, bytes))
    }

    fn replace(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        self.sky.call(("replace", name), eio, || self.kind.replace(name, bytes, expected))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.sky.call(("remove", name), eio, || self.kind.remove(name))
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        // Its answer is what it did: asked again, it would say that it did nothing.
        self.kind.sweep(folder)
    }

    fn place(&self, name: &str) -> String {
        self.kind.place(name)
    }

    fn local(&self, folder: &str) -> Option<PathBuf> {
        self.kind.local(folder)
    }
}

/// An object on its way through weather.
#[derive(Debug)]
struct StormyUpload {
    upload: Box<dyn Upload>,
    name: String,
    sky: Arc<Sky>,
}

impl Upload for StormyUpload {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Self { upload, name, sky } = self;
        sky.call(("write", name), timeout, || upload.write_at(offset, bytes))
    }

    fn commit(&mut self) -> io::Result<Stat> {
        let Self { upload, name, sky } = self;
        sky.call(("commit", name), timeout, || upload.commit())
    }
}
