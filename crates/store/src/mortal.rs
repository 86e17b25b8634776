//! A store whose process dies at a chosen change: after so many, nothing that it asks for happens any more.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::handle::Store;
use crate::kind::{Created, Entry, Kind, Replaced, Stat, Upload, Version};
use crate::memory::Memory;
use crate::retry::Retries;

/// The handle of a store in memory for somebody who dies after `changes` changes.
pub fn mortal(memory: &Memory, changes: u64) -> Store {
    let pause = std::time::Duration::ZERO;
    let mortal = Mortal { memory: memory.clone(), left: Arc::new(AtomicU64::new(changes)) };
    Store::of(Arc::new(mortal)).with_retries(Retries { pause, pause_max: pause, ..Retries::default() })
}

#[derive(Debug)]
struct Mortal {
    memory: Memory,
    left: Arc<AtomicU64>,
}

/// One change: it happens, or whoever asked for it is dead.
fn live(left: &AtomicU64) -> io::Result<()> {
    let alive = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
    if alive { Ok(()) } else { Err(io::Error::from(io::ErrorKind::PermissionDenied)) }
}

impl Kind for Mortal {
    fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.memory.read(name)
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.memory.read_range(name, range)
    }

    fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        self.memory.stat(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.memory.list(folder)
    }

    fn begin(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        Ok(Box::new(Dying { upload: self.memory.begin(name)?, left: Arc::clone(&self.left) }))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        live(&self.left)?;
        self.memory.create(name, bytes)
    }

    fn replace(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        live(&self.left)?;
        self.memory.replace(name, bytes, expected)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        live(&self.left)?;
        self.memory.remove(name)
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        live(&self.left)?;
        self.memory.sweep(folder)
    }

    fn place(&self, name: &str) -> String {
        self.memory.place(name)
    }

    fn local(&self, folder: &str) -> Option<PathBuf> {
        self.memory.local(folder)
    }
}

#[derive(Debug)]
struct Dying {
    upload: Box<dyn Upload>,
    left: Arc<AtomicU64>,
}

impl Upload for Dying {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.upload.write_at(offset, bytes)
    }

    fn commit(&mut self) -> io::Result<Stat> {
        live(&self.left)?;
        self.upload.commit()
    }
}
