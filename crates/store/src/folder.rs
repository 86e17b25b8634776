//! A folder of this machine, or of a network file system, as a store.
//!
//! # What
//! An object is a file. What is not yet an object is a file whose name begins with a dot and says who writes it.
//!
//! # Why
//! A kill or a power cut at any instant leaves the old file, the new one or none; next to it at most a temporary one,
//! which nobody lists and [`sweep`](StoreBackend::sweep) removes.
//!
//! # Definition
//! *Put*: write a temporary file, flush it, rename it, flush its folder. *Create*: the same with a hard link, which
//! fails where there is a file. *Replace*: see `replace.rs`. The *version* of a file is its inode, modification time
//! in nanoseconds (set by its writer, since the kernel's own moves only every few milliseconds) and length, and up to
//! 64 KiB the BLAKE3 of its content: what is replaced by version is small, and so no coarse clock can hide a change.
//! Links to files are objects, links to folders and names that no object may have are skipped.
//!
//! Files are opened before they are asked what they are, because that is when a network file system asks its server.
//!
//! # Reference
//! Linux `open(2)`, on `O_EXCL`: hard links exclude on network file systems too, and how to tell success after an
//! answer got lost.

pub mod faults;
mod files;
mod replace;
mod steps;
mod temporary;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use self::files::{MAKES_MAX, is_absent, make_folder, open, stat_at, stat_of, swept, sync_parent};
use self::steps::Steps;
use self::temporary::Temporary;
use crate::backend::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};
use crate::error::at;
use crate::name;
use crate::name::LOCK;

/// A folder.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    steps: Steps,
}

impl Folder {
    /// The folder at `path`, made with its parents if it is missing.
    pub(crate) fn make(path: PathBuf) -> io::Result<Self> {
        make_folder(&path).map_err(|error| at(path.display(), &error))?;
        Ok(Self::at(path))
    }

    /// The folder at `path`, which has to be there.
    pub(crate) fn find(path: PathBuf) -> io::Result<Self> {
        let metadata = fs::metadata(&path).map_err(|error| at(path.display(), &error))?;
        if metadata.is_dir() { Ok(Self::at(path)) } else { Err(at(path.display(), &ErrorKind::NotADirectory.into())) }
    }

    fn at(root: PathBuf) -> Self {
        Self { root, steps: Steps::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    /// Removes folders that are empty, from `folder` up to the root.
    fn prune(&self, mut folder: &Path) {
        // A folder that is not empty refuses; one that is gone is what we want. Neither is worth a word.
        while folder != self.root && folder.starts_with(&self.root) && fs::remove_dir(folder).is_ok() {
            folder = folder.parent().expect("a folder below the root has a parent");
        }
    }
}

impl StoreBackend for Folder {
    fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let Some(mut file) = open(&self.path(name))? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some((bytes, stat_of(&file)?)))
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut file = open(&self.path(name))?.ok_or(ErrorKind::NotFound)?;
        let there = file.metadata()?.len();
        let length = range.end.min(there).saturating_sub(range.start);
        let mut bytes = Vec::with_capacity(usize::try_from(length).map_err(|_| ErrorKind::FileTooLarge)?);
        file.seek(SeekFrom::Start(range.start))?;
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        match fs::metadata(self.path(name)) {
            // A folder is not an object.
            Ok(metadata) if metadata.is_dir() => Ok(None),
            _ => stat_at(&self.path(name)),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        self.walk(folder, &mut |name, part| {
            if name::check(part).is_ok() && fs::metadata(self.path(&name)).is_ok_and(|metadata| metadata.is_file()) {
                let path = self.path(&name);
                let stat = stat_at(&path).map_err(|error| at(path.display(), &error))?;
                // What was removed since is not there.
                entries.extend(stat.map(|stat| Entry { name, stat }));
            }
            Ok(())
        })?;
        Ok(entries)
    }

    fn begin(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        let target = self.path(name);
        Ok(Box::new(Beside { temporary: Temporary::beside(&target)?, target, published: None }))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        let target = self.path(name);
        for _ in 0..MAKES_MAX {
            let mut temporary = Temporary::beside(&target)?;
            temporary.write_at(0, bytes)?;
            temporary.sync()?;
            let stat = stat_of(&temporary.file)?;
            match fs::hard_link(&temporary.path, &target) {
                Ok(()) => {}
                // An answer that got lost on the way comes back as "exists": the second name of our file is ours.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let found = fs::metadata(&target).ok().map(|found| (found.dev(), found.ino()));
                    let own = temporary.file.metadata()?;
                    if found != Some((own.dev(), own.ino())) {
                        return Ok(Created::Exists);
                    }
                }
                // Swept away by another process.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            sync_parent(&target)?;
            return Ok(Created::Made(stat));
        }
        Err(swept())
    }

    fn replace(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        replace::replace(&self.path(name), bytes, expected, &self.steps)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let target = self.path(name);
        match fs::remove_file(&target) {
            Ok(()) => sync_parent(&target)?,
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
        self.prune(target.parent().expect("an object lies in a folder"));
        Ok(())
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        self.walk_own(folder, &mut |name, part| {
            found.extend(name::is_temporary(part).then_some(name));
            Ok(())
        })?;
        let mut removed = Vec::new();
        for name in found {
            let path = self.path(&name);
            if replace::sweep(&path, &self.steps)? {
                self.prune(path.parent().expect("a file lies in a folder"));
                removed.push(name);
            }
        }
        Ok(removed)
    }

    fn place(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn local(&self, folder: &str) -> Option<PathBuf> {
        Some(self.path(folder))
    }
}

impl Folder {
    /// Visits all that is not a folder below `folder`: its name and the last part of it.
    fn walk(&self, folder: &str, visit: &mut impl FnMut(String, &str) -> io::Result<()>) -> io::Result<()> {
        self.walk_into(folder, visit, &|_| Ok(true))
    }

    /// The same without what lies below a folder that has its own lock: that is its holder's.
    fn walk_own(&self, folder: &str, visit: &mut impl FnMut(String, &str) -> io::Result<()>) -> io::Result<()> {
        self.walk_into(folder, visit, &|below| match fs::symlink_metadata(self.path(below).join(LOCK)) {
            Ok(_) => Ok(false),
            Err(error) if is_absent(&error) => Ok(true),
            Err(error) => Err(error),
        })
    }

    fn walk_into(
        &self,
        folder: &str,
        visit: &mut impl FnMut(String, &str) -> io::Result<()>,
        enters: &impl Fn(&str) -> io::Result<bool>,
    ) -> io::Result<()> {
        let entries = match fs::read_dir(self.path(folder)) {
            Ok(entries) => entries,
            // No object lies there; but without a root there is no store to say so.
            Err(error) if is_absent(&error) && fs::metadata(&self.root).is_ok_and(|root| root.is_dir()) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let file_name = entry.file_name();
            // A name that is not UTF-8 cannot be an object's.
            let Some(part) = file_name.to_str() else { continue };
            let name = if folder.is_empty() { part.to_owned() } else { format!("{folder}/{part}") };
            if !entry.file_type()?.is_dir() {
                visit(name, part)?;
            } else if enters(&name)? {
                self.walk_into(&name, visit, enters)?;
            }
        }
        Ok(())
    }
}

/// A streamed put.
#[derive(Debug)]
struct Beside {
    temporary: Temporary,
    target: PathBuf,
    published: Option<Stat>,
}

impl Upload for Beside {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.temporary.write_at(offset, bytes)
    }

    fn commit(&mut self) -> io::Result<Stat> {
        if self.published.is_none() {
            self.temporary.sync()?;
            let stat = stat_of(&self.temporary.file)?;
            let outcome = fs::rename(&self.temporary.path, &self.target);
            outcome.map_err(|error| if error.kind() == ErrorKind::NotFound { swept() } else { error })?;
            self.published = Some(stat);
        }
        sync_parent(&self.target)?;
        Ok(self.published.clone().expect("it was published above"))
    }
}
