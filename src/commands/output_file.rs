//! Files that a command writes for the user, atomically.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use store::{ObjectWriter, Store};

use crate::exit::Usage;

/// Writes a file. Creates its folder if needed.
pub(crate) fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    let target = target(path)?;
    let (folder, name) = split_path(&target)?;
    let store = Store::folder(folder).with_context(|| folder.display().to_string())?;
    store.put(&name, text.as_bytes()).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Writes a file piece by piece, for output that is too long for memory.
pub(super) fn stream(path: &Path, write: impl FnOnce(&mut ObjectWriter) -> io::Result<()>) -> anyhow::Result<()> {
    let target = target(path)?;
    let (folder, name) = split_path(&target)?;
    let store = Store::folder(folder).with_context(|| folder.display().to_string())?;
    let mut put = store.writer(&name).with_context(|| path.display().to_string())?;
    write(&mut put).and_then(|()| put.commit()).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Refuses a path that cannot be written, by trial: creates the folder and a temporary object.
pub(super) fn check_writable(path: &Path) -> anyhow::Result<()> {
    check(path)?;
    let target = target(path)?;
    let (folder, name) = split_path(&target)?;
    let begun = Store::folder(folder).and_then(|store| store.writer(&name));
    begun.map(drop).with_context(|| Usage(format!("{}: cannot be written; give another path", path.display())))
}

/// Refuses files that cannot be written, that are equal to one another, or that the command reads; and a folder that is
/// not a folder.
pub(crate) fn outputs(read: &Path, files: &[Option<&Path>], folder: Option<&Path>) -> anyhow::Result<()> {
    let same = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut known = vec![same(read)];
    for path in files.iter().flatten() {
        if path.to_str().is_none() {
            return Err(Usage(format!("{}: the name is not UTF-8; give another", path.display())).into());
        }
        check_writable(path)?;
        if known.contains(&same(path)) {
            return Err(
                Usage(format!("{}: the file is also read, or written twice; give another", path.display())).into()
            );
        }
        known.push(same(path));
    }
    let is_none = |folder: &&Path| folder.exists() && !folder.is_dir();
    match folder.filter(is_none) {
        Some(folder) => Err(Usage(format!("{}: not a folder", folder.display())).into()),
        None => Ok(()),
    }
}

/// Refuses a path that cannot be written, for commands that write after hours of work. Creates nothing.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    let target = target(path)?;
    let (folder, _) = split_path(&target)?;
    let nearest = folder.ancestors().find(|folder| folder.exists());
    match nearest.filter(|nearest| !nearest.is_dir()) {
        Some(file) => Err(Usage(format!("{}: {} is not a folder", path.display(), file.display())).into()),
        None => Ok(()),
    }
}

/// Path of a file behind links. Refuses an existing object that is not a plain file, because writing would destroy it.
fn target(path: &Path) -> Result<PathBuf, Usage> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match target.metadata() {
        Ok(found) if !found.is_file() => {
            Err(Usage(format!("{}: not a regular file; give another path", path.display())))
        }
        _ => Ok(target),
    }
}

/// Folder and name of a file.
fn split_path(path: &Path) -> Result<(&Path, String), Usage> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| Usage(format!("{}: the path has no file name", path.display())))?;
    Ok((folder, name.to_string_lossy().into_owned()))
}
