//! Local cache of the shards of remote folders.
//!
//! # What
//! A shard is downloaded once, as a whole, and verified on the way. Its file is named after the BLAKE3 of its content,
//! so that runs and processes of a machine share it. Files that were used least recently make room for others.
//!
//! # Why
//! Rows of a window come from many shards, and a request to an object store takes tens of milliseconds. A shard has to
//! be read as a whole anyway, to verify it.
//!
//! # Definition
//! A file appears under its name when it is complete: a kill leaves no half file. A process that downloads a shard
//! locks a file, so that the ranks of a host, which read the same shards at the same time, download each once. A
//! process hashes a file that it did not download before its first use; a damaged one is removed and downloaded again.
//! The bound holds for all files of the folder; other processes may exceed it by 1/16 each, until the next download. If
//! the folder cannot be written, or if a shard exceeds the bound, shards are read from the store directly.

mod download_lock;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use runtime::CancelToken;
use schemas::Shard;
use store::Store;
use tracing::{debug, warn};

use self::download_lock::DownloadLock;

/// Bytes of one request of a download.
const BLOCK_BYTES: u64 = 8 << 20;

/// Ending of the files.
const ENDING: &str = "parquet";

/// Age of an unfinished file whose writer is dead.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Attempts to download a shard whose bytes do not match its hash.
const DOWNLOADS_MAX: u32 = 2;

/// Local cache of the shards of remote folders. Clones share it.
#[derive(Clone, Debug)]
pub struct ShardCache(Arc<CacheState>);

#[derive(Debug)]
struct CacheState {
    folder: PathBuf,
    max_bytes: u64,
    /// Hashes of the shards whose files this process has verified.
    verified: Mutex<BTreeSet<String>>,
    /// One lock for each shard that is looked up, so that one thread downloads it.
    in_use: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    usage: Mutex<Usage>,
    has_warned: AtomicBool,
}

/// Bytes of the files, as far as this process knows.
#[derive(Debug, Default)]
struct Usage {
    /// Bytes at the last listing, and of the downloads since then. `None` before the first listing.
    known: Option<u64>,
    /// Bytes of the downloads since the last listing.
    since: u64,
    /// Bytes of the downloads in progress.
    pending: u64,
}

/// File of the cache.
#[derive(Debug)]
struct CachedFile {
    used: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl ShardCache {
    /// Creates the handle of a cache of at most `max_bytes` bytes. The folder is created by the first download.
    #[must_use]
    pub fn new(folder: PathBuf, max_bytes: u64) -> Self {
        Self(Arc::new(CacheState {
            folder,
            max_bytes,
            verified: Mutex::default(),
            in_use: Mutex::default(),
            usage: Mutex::default(),
            has_warned: AtomicBool::new(false),
        }))
    }

    /// Returns the cache of this process in that folder, so that a file is hashed once per process.
    #[must_use]
    pub fn shared(folder: &Path, max_bytes: u64) -> Self {
        static SHARED: LazyLock<Mutex<BTreeMap<(PathBuf, u64), ShardCache>>> = LazyLock::new(Mutex::default);
        let mut shared = lock(&SHARED);
        let new = || Self::new(folder.to_owned(), max_bytes);
        shared.entry((folder.to_owned(), max_bytes)).or_insert_with(new).clone()
    }

    /// Returns the default folder (XDG base directory specification, version 0.8); `None` without a home.
    #[must_use]
    pub fn default_folder() -> Option<PathBuf> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
        Some(cache.join("cloze").join("shards"))
    }

    /// Folder of the files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Maximum bytes of the files.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.0.max_bytes
    }

    /// Returns the verified local copy of a shard, and the store that has it. Downloads it if it is missing. Returns
    /// `None` if it cannot be had, or after a cancellation; the shard is then read from its store, which reports
    /// errors.
    pub(super) fn fetch(&self, remote: &Store, shard: &Shard, stop: Option<&CancelToken>) -> Option<(Store, Shard)> {
        if !is_hash(&shard.blake3) {
            return None;
        }
        if shard.bytes > self.0.max_bytes {
            self.warn_once(&format!("`data.cache_bytes` is less than a shard of {} bytes", shard.bytes));
            return None;
        }
        let alone = Arc::clone(lock(&self.0.in_use).entry(shard.blake3.clone()).or_default());
        let result = {
            let _alone = lock(&alone);
            self.find_or_download(remote, shard, stop)
        };
        {
            let mut in_use = lock(&self.0.in_use);
            // The map and this thread have one each.
            if Arc::strong_count(&alone) <= 2 {
                in_use.remove(&shard.blake3);
            }
        }
        match result {
            Ok(found) => found.map(|local| (local, Shard { path: file_name(shard), ..shard.clone() })),
            Err(error) => {
                self.warn_once(&error.to_string());
                None
            }
        }
    }

    /// Makes the next [`fetch`](Self::fetch) verify the file again, because it could not be read.
    pub(super) fn distrust(&self, shard: &Shard) {
        lock(&self.0.verified).remove(&shard.blake3);
    }

    /// Returns the store of the cache if it has a good copy of the shard at the end.
    fn find_or_download(&self, remote: &Store, shard: &Shard, stop: Option<&CancelToken>) -> io::Result<Option<Store>> {
        let local = Store::folder(&self.0.folder)?;
        if self.has(&local, shard)? {
            return Ok(Some(local));
        }
        let mut held = DownloadLock::acquire(&self.0.folder, &shard.blake3, stop);
        if local.head(&file_name(shard))?.is_some() {
            // Others that have waited verify the file at the same time.
            held = None;
            if self.has(&local, shard)? {
                return Ok(Some(local));
            }
        }
        for _ in 0..DOWNLOADS_MAX {
            if !self.make_room(shard.bytes)? {
                return Ok(None);
            }
            let outcome = download(remote, &local, shard, held.as_ref(), stop);
            lock(&self.0.usage).pending -= shard.bytes;
            match outcome? {
                Download::Done => {
                    lock(&self.0.verified).insert(shard.blake3.clone());
                    return Ok(Some(local));
                }
                Download::Cancelled => return Ok(None),
                Download::Failed(why) => {
                    // The shard is read directly next, which reports a lasting failure.
                    debug!(shard = remote.place(&shard.path), why, "cache: download failed");
                }
            }
        }
        Ok(None)
    }

    /// Whether a good copy exists. Removes a damaged one. Records the use of a good one.
    fn has(&self, local: &Store, shard: &Shard) -> io::Result<bool> {
        let name = file_name(shard);
        let path = self.0.folder.join(&name);
        let Some(stat) = local.head(&name)? else {
            self.distrust(shard);
            return Ok(false);
        };
        let is_verified = lock(&self.0.verified).contains(&shard.blake3);
        let is_good = stat.bytes == shard.bytes
            && (is_verified || local.hash(&name, stat.bytes)?.to_hex().as_str() == shard.blake3);
        if is_good {
            lock(&self.0.verified).insert(shard.blake3.clone());
            // A file of another user keeps its time.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        } else {
            warn!(file = %path.display(), "cache: damaged file, downloading it again");
            self.distrust(shard);
            remove(&path)?;
        }
        Ok(is_good)
    }

    /// Removes the files used least recently until `bytes` bytes fit, and reserves them. Returns false if the downloads
    /// in progress need the room.
    fn make_room(&self, bytes: u64) -> io::Result<bool> {
        let most = self.0.max_bytes;
        let mut usage = lock(&self.0.usage);
        let is_listed = usage.known.is_some_and(|known| known + bytes <= most);
        if !is_listed || usage.since > most / 16 {
            let wanted = bytes + usage.pending;
            let left = self.evict(most.saturating_sub(wanted))?;
            usage.known = Some(left + usage.pending);
            usage.since = 0;
        }
        let known = usage.known.unwrap_or_default();
        if known + bytes > most {
            return Ok(false);
        }
        usage.known = Some(known + bytes);
        usage.since += bytes;
        usage.pending += bytes;
        Ok(true)
    }

    /// Removes the files used least recently until at most `most` bytes are left. Returns the bytes that are left.
    fn evict(&self, most: u64) -> io::Result<u64> {
        let mut files = self.files()?;
        files.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        let mut left: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if left <= most {
                break;
            }
            remove(&file.path)?;
            left -= file.bytes;
        }
        Ok(left)
    }

    /// Lists the files. Removes unfinished ones of dead writers.
    fn files(&self) -> io::Result<Vec<CachedFile>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0.folder)? {
            let entry = entry?;
            // Another process may have removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let path = entry.path();
            match FileUse::of(&entry.file_name().to_string_lossy()).filter(|_| metadata.is_file()) {
                Some(FileUse::Unfinished) if used.elapsed().is_ok_and(|age| age > ABANDONED) => remove(&path)?,
                Some(FileUse::Shard) => files.push(CachedFile { used, bytes: metadata.len(), path }),
                Some(FileUse::Unfinished) | None => {}
            }
        }
        Ok(files)
    }

    fn warn_once(&self, why: &str) {
        if !self.0.has_warned.swap(true, Ordering::Relaxed) {
            let folder = self.0.folder.display();
            warn!(
                "cache: {why}; shards are read from their store directly, which is slow; free space in {folder}, or set \
                 `data.cache_folder` and `data.cache_bytes`"
            );
        }
    }
}

/// Use of a file of the cache, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileUse {
    Shard,
    /// Download in progress, or its lock.
    Unfinished,
}

impl FileUse {
    /// Returns the use of a file of that name; `None` for files of other programs.
    fn of(name: &str) -> Option<Self> {
        let (used_as, name) = name.strip_prefix('.').map_or((Self::Shard, name), |name| (Self::Unfinished, name));
        let (_, rest) = name.split_once('.').filter(|(hash, _)| is_hash(hash))?;
        let is_ours = match used_as {
            Self::Shard => rest == ENDING,
            Self::Unfinished => {
                rest == "lock" || rest.starts_with("parquet.") && rest.rsplit('.').next() == Some("tmp")
            }
        };
        is_ours.then_some(used_as)
    }
}

/// Result of one download.
enum Download {
    Done,
    Cancelled,
    /// The store failed, or the bytes do not match the hash.
    Failed(String),
}

/// Downloads a shard in blocks. The file appears when all of its bytes match the hash.
///
/// # Errors
/// If the cache cannot be written.
fn download(
    remote: &Store,
    local: &Store,
    shard: &Shard,
    held: Option<&DownloadLock>,
    stop: Option<&CancelToken>,
) -> io::Result<Download> {
    let mut writer = local.writer(&file_name(shard))?;
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < shard.bytes {
        if stop.is_some_and(CancelToken::is_cancelled) {
            return Ok(Download::Cancelled);
        }
        let end = shard.bytes.min(at + BLOCK_BYTES);
        let block = match remote.get_range(&shard.path, at..end) {
            Ok(block) => block,
            Err(error) => return Ok(Download::Failed(error.to_string())),
        };
        held.inspect(|lock| lock.touch());
        hasher.update(&block);
        writer.write_all(&block)?;
        at = end;
    }
    if hasher.finalize().to_hex().as_str() != shard.blake3 {
        return Ok(Download::Failed("its BLAKE3 differs from the manifest".to_owned()));
    }
    writer.commit()?;
    debug!(shard = remote.place(&shard.path), bytes = shard.bytes, "cache: shard downloaded");
    Ok(Download::Done)
}

fn file_name(shard: &Shard) -> String {
    format!("{}.{ENDING}", shard.blake3)
}

/// Whether the hash of a manifest can be a file name.
fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes a file, which another process may have removed.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
