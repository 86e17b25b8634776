//! Files that a command writes for people: whole or absent.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use store::{ObjectWriter, Store};

use crate::exit::Usage;

/// Writes a file; makes its folder where there is none.
pub(super) fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    let target = target(path)?;
    let (folder, name) = place(&target)?;
    let store = Store::folder(folder).with_context(|| folder.display().to_string())?;
    store.put(&name, text.as_bytes()).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Writes a file piece by piece, for what is too long to be held in one.
pub(super) fn stream(path: &Path, write: impl FnOnce(&mut ObjectWriter) -> io::Result<()>) -> anyhow::Result<()> {
    let target = target(path)?;
    let (folder, name) = place(&target)?;
    let store = Store::folder(folder).with_context(|| folder.display().to_string())?;
    let mut put = store.begin(&name).with_context(|| path.display().to_string())?;
    write(&mut put).and_then(|()| put.commit()).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Refuses what cannot be written by trying it: a folder is made where there is none, and an object begun that stays away.
pub(super) fn try_out(path: &Path) -> anyhow::Result<()> {
    check(path)?;
    let target = target(path)?;
    let (folder, name) = place(&target)?;
    let begun = Store::folder(folder).and_then(|store| store.begin(&name));
    begun.map(drop).with_context(|| Usage(format!("{}: cannot be written; name another place", path.display())))
}

/// Refuses files that cannot be written, that are one another, or that are what is read; and a folder that is none.
pub(super) fn outputs(read: &Path, files: &[Option<&Path>], folder: Option<&Path>) -> anyhow::Result<()> {
    let same = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut known = vec![same(read)];
    for path in files.iter().flatten() {
        if path.to_str().is_none() {
            return Err(Usage(format!("{}: a name in UTF-8 is needed", path.display())).into());
        }
        try_out(path)?;
        if known.contains(&same(path)) {
            return Err(Usage(format!("{}: it is read, or written twice; name another", path.display())).into());
        }
        known.push(same(path));
    }
    let is_none = |folder: &&Path| folder.exists() && !folder.is_dir();
    match folder.filter(is_none) {
        Some(folder) => Err(Usage(format!("{}: it is no folder", folder.display())).into()),
        None => Ok(()),
    }
}

/// Refuses what cannot be written, for those who write only after hours of work. Makes nothing.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    let target = target(path)?;
    let (folder, _) = place(&target)?;
    let nearest = folder.ancestors().find(|folder| folder.exists());
    match nearest.filter(|nearest| !nearest.is_dir()) {
        Some(file) => Err(Usage(format!("{}: {} is no folder", path.display(), file.display())).into()),
        None => Ok(()),
    }
}

/// Where a file is to be, behind links; what is there and is no plain file would be lost.
fn target(path: &Path) -> Result<PathBuf, Usage> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match target.metadata() {
        Ok(found) if !found.is_file() => Err(Usage(format!("{}: no plain file is here; name another", path.display()))),
        _ => Ok(target),
    }
}

/// The folder of a file, and its name there.
fn place(path: &Path) -> Result<(&Path, String), Usage> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| Usage(format!("{}: a file has a name", path.display())))?;
    Ok((folder, name.to_string_lossy().into_owned()))
}
