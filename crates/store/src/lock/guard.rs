//! A store that only the holder of a lock changes.
//!
//! # What
//! The same store, whose lock is [checked](super::Lock::check) before each change: when a put is begun and again before
//! it becomes visible, before a create, a replacement, a removal and a sweep. Reading needs no lock.
//!
//! # Why
//! Who has to remember the check forgets it once. A process that was stopped, and is woken when somebody else has taken
//! its lock over, is told by the first thing that it tries to write.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::lease::LeaseClaim;
use crate::backend::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};

/// A kind of store below a lock.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) kind: Arc<dyn StoreBackend>,
    pub(super) claim: Arc<LeaseClaim>,
}

impl StoreBackend for Guarded {
    fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.kind.read(name)
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.kind.read_range(name, range)
    }

    fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        self.kind.stat(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.kind.list(folder)
    }

    fn begin(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        self.claim.check()?;
        let upload = self.kind.begin(name)?;
        Ok(Box::new(GuardedUpload { upload, claim: Arc::clone(&self.claim) }))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        self.claim.check()?;
        self.kind.create(name, bytes)
    }

    fn replace(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        self.claim.check()?;
        self.kind.replace(name, bytes, expected)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.claim.check()?;
        self.kind.remove(name)
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        self.claim.check()?;
        self.kind.sweep(folder)
    }

    fn place(&self, name: &str) -> String {
        self.kind.place(name)
    }

    fn local(&self, folder: &str) -> Option<PathBuf> {
        self.kind.local(folder)
    }
}

/// An object on its way, which may take longer than a lock lasts.
#[derive(Debug)]
struct GuardedUpload {
    upload: Box<dyn Upload>,
    claim: Arc<LeaseClaim>,
}

impl Upload for GuardedUpload {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.upload.write_at(offset, bytes)
    }

    fn commit(&mut self) -> io::Result<Stat> {
        self.claim.check()?;
        self.upload.commit()
    }
}
