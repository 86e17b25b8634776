//! Compare-and-swap on a folder, with links and renames only.
//!
//! # What
//! [`replace`] writes new content under a name if the name still has an expected version. Of several concurrent calls,
//! one succeeds. No process waits for another. A process that stops between any two system calls and continues an hour
//! later does no harm.
//!
//! # Why
//! Machines do not share file locks, and a stopped process keeps its lock. A rename alone overwrites any version.
//!
//! # Definition
//! To follow version `v` of `NAME`:
//! 1. write the content to a separate file, `T`, whose name contains `v`, and flush it;
//! 2. *decide*: make the link `G(v)`, named by `v`, to `T`. Links exclude: if the link exists, read the file it names;
//! 3. *look*: is the version of `NAME` still `v`?
//! 4. if so, rename the file that `G(v)` names to `NAME`, whichever process wrote it, since the successor of `v` is
//!    decided. If the file is gone, another process has renamed it;
//! 5. after `v` has ended, and only then, remove `G(v)`.
//!
//! *Why one succeeds.* Versions are never reused. While `v` lasts, no process removes `G(v)`. So at most one link is
//! made in that time, to one file `T`. A delayed process can make another link only after `v` has ended. Every process
//! that acts on that link checks the version afterwards, and so renames nothing. Therefore `T` is the only file that
//! is ever renamed over `v`. Its name exists once, so the rename happens once, and the rename ends `v`.
//!
//! *Which process succeeded.* The process whose `T` was renamed. A process that made `G(v)` and checked while `v`
//! lasted knows that it succeeded. A process that checked later tries to remove `T`: a file that still exists was not
//! published. Only a [`sweep`] removes other writers' files, and only those of versions that have ended. It marks them
//! first, so that the writer sees the mark through its open file.
//!
//! Other processes must not put or remove an object that is replaced: a decision made before may be carried out after.
//!
//! # Reference
//! Maurice Herlihy, "Wait-Free Synchronization" (1991): the link is the consensus object of its version. Completing the
//! decision of another process is its helping mechanism.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::SystemTime;

use super::files::{is_absent, rename_over, stat_of, symlink_new, sync_parent, version_at};
use super::steps::Steps;
use super::temporary::{FollowingName, Temporary, digest, file_name, following_prefix, guard_path, parse_following};
use crate::backend::{Replaced, Version};
use crate::name::{GUARD, PUTTING, REPLACING};

/// Replaces the content of `target`; see the [module](self).
pub(super) fn replace(target: &Path, bytes: &[u8], expected: &Version, steps: &Steps) -> io::Result<Replaced> {
    steps.reach("begin");
    if version_at(target)?.as_ref() != Some(expected) {
        return Ok(Replaced::Changed);
    }
    steps.reach("write");
    let mut next = Temporary::following(target, expected)?;
    next.write_at(0, bytes)?;
    next.sync()?;
    let stat = stat_of(&next.file)?;
    steps.reach("decide");
    let guard = guard_path(target, expected);
    // From here on, other processes may publish the file, whatever happens to this process.
    next.kept = true;
    let won = match symlink_new(file_name(&next.path), &guard) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            steps.reach("read");
            match fs::read_link(&guard) {
                // A retry after a lost answer fails with "exists".
                Ok(decided) if decided.as_os_str() == file_name(&next.path) => true,
                Ok(decided) => {
                    next.kept = false;
                    publish(target, expected, &guard, &decided, steps)?;
                    false
                }
                // The link is removed after the version has ended.
                Err(error) if is_absent(&error) => {
                    next.kept = false;
                    false
                }
                Err(error) => return Err(error),
            }
        }
        Err(error) => return Err(error),
    };
    let published = won && publish_own(target, expected, &next, steps)?;
    steps.reach("clean");
    if won {
        remove_if_there(&guard)?;
    }
    if !published {
        return Ok(Replaced::Changed);
    }
    sync_parent(target)?;
    Ok(Replaced::Made(stat))
}

/// Publishes the decision of this process. Returns whether it was ever published.
fn publish_own(target: &Path, expected: &Version, next: &Temporary, steps: &Steps) -> io::Result<bool> {
    steps.reach("look");
    if version_at(target)?.as_ref() == Some(expected) {
        steps.reach("rename");
        return match rename_over(&next.path, target) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(true),
            Err(error) => Err(error),
        };
    }
    steps.reach("withdraw");
    match fs::remove_file(&next.path) {
        Ok(()) => Ok(false),
        Err(error) if is_absent(&error) => Ok(next.file.metadata()?.modified()? != SystemTime::UNIX_EPOCH),
        Err(error) => Err(error),
    }
}

/// Publishes the decided file, whichever process decided it, and ends its version.
fn publish(target: &Path, expected: &Version, guard: &Path, decided: &Path, steps: &Steps) -> io::Result<()> {
    // A link that this module did not create is an error.
    let ours = |name: &str| name.starts_with(&following_prefix(target, expected)) && name.ends_with(REPLACING);
    let decided = decided.to_str().filter(|name| ours(name) && !name.contains('/')).ok_or_else(|| stuck(guard))?;
    steps.reach("look for another");
    if version_at(target)?.as_ref() == Some(expected) {
        steps.reach("rename for another");
        match rename_over(&target.with_file_name(decided), target) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => {
                if version_at(target)?.as_ref() == Some(expected) {
                    return Err(stuck(guard));
                }
            }
            Err(error) => return Err(error),
        }
    }
    steps.reach("clean for another");
    remove_if_there(guard)
}

/// Removes a temporary file that no living writer needs. Returns whether it did. A successor of a current version
/// stays, because its writer may still decide.
pub(super) fn sweep(path: &Path, steps: &Steps) -> io::Result<bool> {
    let Some(FollowingName { object, follows, ending }) = parse_following(file_name(path)) else {
        // Names that match only in part belong to other programs.
        return if file_name(path).ends_with(PUTTING) { remove_if_there(path).map(|()| true) } else { Ok(false) };
    };
    let target = path.with_file_name(object);
    steps.reach("sweep");
    let current = version_at(&target)?.filter(|version| digest(version) == follows);
    match (ending, current) {
        (GUARD, Some(version)) => match fs::read_link(path) {
            Ok(decided) => publish(&target, &version, path, &decided, steps)?,
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        },
        (GUARD, None) => remove_if_there(path)?,
        (_, Some(_)) => return Ok(false),
        (_, None) => {
            steps.reach("mark");
            // The writer may be stopped, and must learn that the file was not published. A link is not of this module.
            if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
                match fs::File::options().write(true).open(path) {
                    Ok(file) => file.set_modified(SystemTime::UNIX_EPOCH)?,
                    Err(error) if is_absent(&error) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            remove_if_there(path)?;
        }
    }
    Ok(true)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Error for a link whose target is missing while its version lasts; no writer leaves such a link.
fn stuck(guard: &Path) -> io::Error {
    io::Error::other(format!(
        "{} names no valid successor: temporary files were removed or added by hand; if no process uses this folder, \
         remove this link too",
        guard.display()
    ))
}
