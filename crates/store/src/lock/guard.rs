//! Store that only the holder of a lock changes.
//!
//! # What
//! Wraps a store and [checks](super::Lock::check) its lock directly before each change: before a put becomes visible,
//! before a create, a replacement, a removal and a sweep. Reading needs no lock. A put begins without a request, because
//! it changes nothing before its commit; it fails at once if this process knows already that the lock is lost.
//!
//! # Why
//! A check that callers must remember is forgotten at some place. A process that was stopped, and continues after
//! another process has taken over its lock, changes no object.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::lease::LeaseClaim;
use crate::backend::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};

/// Storage backend below a lock.
#[derive(Debug)]
pub(super) struct GuardedBackend {
    pub(super) kind: Arc<dyn StoreBackend>,
    pub(super) claim: Arc<LeaseClaim>,
}

impl StoreBackend for GuardedBackend {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.kind.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.kind.get_range(name, range)
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        self.kind.head(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.kind.list(folder)
    }

    fn begin_upload(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        self.claim.refuse_known_loss()?;
        let upload = self.kind.begin_upload(name)?;
        Ok(Box::new(GuardedUpload { upload, claim: Arc::clone(&self.claim) }))
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        self.claim.check()?;
        self.kind.put_if_absent(name, bytes)
    }

    fn put_if_version(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        self.claim.check()?;
        self.kind.put_if_version(name, bytes, expected)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.claim.check()?;
        self.kind.delete(name)
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        self.claim.check()?;
        self.kind.sweep(folder)
    }

    fn display_path(&self, name: &str) -> String {
        self.kind.display_path(name)
    }

    fn local(&self, folder: &str) -> Option<PathBuf> {
        self.kind.local(folder)
    }
}

/// Unfinished upload, which may outlast the lock.
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
