//! Store of a process that crashes: after a number of changes, every further change fails.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::{Created, Entry, MemoryBackend, Replaced, Retries, Stat, Store, StoreBackend, Upload, Version};

/// Returns a handle to an in-memory store. After `changes` changes, every further change fails.
pub fn crash_after(memory: &MemoryBackend, changes: u64) -> Store {
    let pause = std::time::Duration::ZERO;
    let backend = CrashingBackend { memory: memory.clone(), left: Arc::new(AtomicU64::new(changes)) };
    Store::new(Arc::new(backend)).with_retries(Retries { pause, pause_max: pause, ..Retries::default() })
}

#[derive(Debug)]
struct CrashingBackend {
    memory: MemoryBackend,
    left: Arc<AtomicU64>,
}

/// Counts one change; fails if none is left.
fn count(left: &AtomicU64) -> io::Result<()> {
    let is_left = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
    if is_left { Ok(()) } else { Err(io::Error::from(io::ErrorKind::PermissionDenied)) }
}

impl StoreBackend for CrashingBackend {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.memory.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.memory.get_range(name, range)
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        self.memory.head(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.memory.list(folder)
    }

    fn begin_upload(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        Ok(Box::new(CrashingUpload { upload: self.memory.begin_upload(name)?, left: Arc::clone(&self.left) }))
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        count(&self.left)?;
        self.memory.put_if_absent(name, bytes)
    }

    fn put_if_version(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        count(&self.left)?;
        self.memory.put_if_version(name, bytes, expected)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        count(&self.left)?;
        self.memory.delete(name)
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        count(&self.left)?;
        self.memory.sweep(folder)
    }

    fn display_path(&self, name: &str) -> String {
        self.memory.display_path(name)
    }

    fn local(&self, folder: &str) -> Option<PathBuf> {
        self.memory.local(folder)
    }
}

#[derive(Debug)]
struct CrashingUpload {
    upload: Box<dyn Upload>,
    left: Arc<AtomicU64>,
}

impl Upload for CrashingUpload {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.upload.write_at(offset, bytes)
    }

    fn commit(&mut self) -> io::Result<Stat> {
        count(&self.left)?;
        self.upload.commit()
    }
}
