//! Storage backend over a folder of this machine or of a network file system.
//!
//! # What
//! An object is a file. An unfinished object is a file whose name begins with a dot and identifies its writer.
//!
//! # Why
//! A kill or a power cut at any instant leaves the old file, the new one or none. In addition it leaves at most one
//! temporary file, which no listing contains and [`sweep`](StoreBackend::sweep) removes.
//!
//! # Definition
//! *Put*: write a temporary file, flush it, rename it, flush its folder. *Create*: the same with a hard link, which
//! fails if the name exists; where there are none, with a rename that does. *Replace*: see `replace.rs`. A file system
//! without such calls is an error of kind `Unsupported`; one that cannot flush folders is a warning. The *version* of a file is its inode, modification time
//! in nanoseconds and length. Up to 64 KiB it includes the BLAKE3 of the content: objects that are replaced by version
//! are small, so a coarse clock cannot hide a change. The writer sets the modification time, since the kernel's own
//! clock advances only every few milliseconds. Links to files are objects. Links to folders and names that no object
//! may have are skipped.
//!
//! Files are opened before their metadata is read, because a network file system queries its server on open.
//!
//! # Reference
//! Linux `open(2)`, on `O_EXCL`: hard links exclude on network file systems too, and the link count tells success after
//! a lost answer.

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
use std::path::{Path, PathBuf};

use self::files::{
    MAKES_MAX, is_absent, is_at, link_new, make_folder, open, rename_over, stat_at, stat_of, swept, sync_parent,
};
use self::steps::Steps;
use self::temporary::Temporary;
use crate::backend::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};
use crate::error::with_place;
use crate::name;
use crate::name::LOCK;

/// Storage backend over a folder.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    steps: Steps,
}

impl Folder {
    /// Opens the folder at `path`. Creates it with its parents if it is missing.
    pub(crate) fn make(path: PathBuf) -> io::Result<Self> {
        make_folder(&path).map_err(|error| with_place(path.display(), &error))?;
        Ok(Self::new(path))
    }

    /// Opens the folder at `path`, which must exist.
    pub(crate) fn find(path: PathBuf) -> io::Result<Self> {
        let metadata = fs::metadata(&path).map_err(|error| with_place(path.display(), &error))?;
        if metadata.is_dir() {
            Ok(Self::new(path))
        } else {
            Err(with_place(path.display(), &ErrorKind::NotADirectory.into()))
        }
    }

    fn new(root: PathBuf) -> Self {
        Self { root, steps: Steps::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    /// Removes folders that are empty, from `folder` up to the root.
    fn prune(&self, mut folder: &Path) {
        // A folder that is not empty fails; a missing one is already removed. Neither error needs a report.
        while folder != self.root && folder.starts_with(&self.root) && fs::remove_dir(folder).is_ok() {
            folder = folder.parent().expect("a folder below the root has a parent");
        }
    }
}

impl StoreBackend for Folder {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let Some(mut file) = open(&self.path(name))? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some((bytes, stat_of(&file)?)))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut file = open(&self.path(name))?.ok_or(ErrorKind::NotFound)?;
        let there = file.metadata()?.len();
        let length = range.end.min(there).saturating_sub(range.start);
        let mut bytes = Vec::with_capacity(usize::try_from(length).map_err(|_| ErrorKind::FileTooLarge)?);
        file.seek(SeekFrom::Start(range.start))?;
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
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
                let stat = stat_at(&path).map_err(|error| with_place(path.display(), &error))?;
                // A file removed since the listing is not listed.
                entries.extend(stat.map(|stat| Entry { name, stat }));
            }
            Ok(())
        })?;
        Ok(entries)
    }

    fn begin_upload(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        let target = self.path(name);
        Ok(Box::new(StreamedPut { temporary: Temporary::create_for(&target)?, target, published: None }))
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        let target = self.path(name);
        for _ in 0..MAKES_MAX {
            let mut temporary = Temporary::create_for(&target)?;
            temporary.write_at(0, bytes)?;
            temporary.sync()?;
            let stat = stat_of(&temporary.file)?;
            match link_new(&temporary.path, &target) {
                Ok(()) => {}
                // A retry after a lost answer fails, although the name is that of our own file.
                Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
                    match is_at(&target, &temporary.file)? {
                        true => {}
                        false if error.kind() == ErrorKind::AlreadyExists => return Ok(Created::Exists),
                        // Another process swept the temporary file.
                        false => continue,
                    }
                }
                Err(error) => return Err(error),
            }
            sync_parent(&target)?;
            return Ok(Created::Made(stat));
        }
        Err(swept())
    }

    fn put_if_version(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        replace::replace(&self.path(name), bytes, expected, &self.steps)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
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
            found.extend(temporary::is_ours(part).then_some(name));
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

    fn display_path(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn local(&self, folder: &str) -> Option<PathBuf> {
        Some(self.path(folder))
    }
}

impl Folder {
    /// Visits every non-folder below `folder` with its name and its last part.
    fn walk(&self, folder: &str, visit: &mut impl FnMut(String, &str) -> io::Result<()>) -> io::Result<()> {
        self.walk_into(folder, visit, &|_| Ok(true))
    }

    /// Visits the same files, except those below a folder with a separate lock: they belong to its holder.
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
            // A missing folder has no objects. A missing root is an error.
            Err(error) if is_absent(&error) && fs::metadata(&self.root).is_ok_and(|root| root.is_dir()) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let file_name = entry.file_name();
            // Names of objects are UTF-8.
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

/// Streamed put.
#[derive(Debug)]
struct StreamedPut {
    temporary: Temporary,
    target: PathBuf,
    published: Option<Stat>,
}

impl Upload for StreamedPut {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.temporary.write_at(offset, bytes)
    }

    fn commit(&mut self) -> io::Result<Stat> {
        if self.published.is_none() {
            self.temporary.sync()?;
            let stat = stat_of(&self.temporary.file)?;
            match rename_over(&self.temporary.path, &self.target) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    if !is_at(&self.target, &self.temporary.file)? {
                        return Err(swept());
                    }
                }
                Err(error) if error.kind() == ErrorKind::IsADirectory => {
                    return Err(io::Error::new(error.kind(), "a folder has the name of this file; move it elsewhere"));
                }
                Err(error) => return Err(error),
            }
            self.published = Some(stat);
        }
        sync_parent(&self.target)?;
        Ok(self.published.clone().expect("it was published above"))
    }
}
