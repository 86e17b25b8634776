//! Compare-and-swap on a folder, with links and renames only.
//!
//! # What
//! [`replace`] puts new content under a name if what is there still has an expected version; of several at once, one
//! succeeds. No process waits for another, and one that is stopped between any two system calls and woken an hour later
//! does no harm.
//!
//! # Why
//! Locks are not held between machines, or are held by who is stopped; a rename alone overwrites whatever is there.
//!
//! # Definition
//! To follow version `v` of `NAME`:
//! 1. write the content to its own file, `T`, whose name says `v`, and flush it;
//! 2. *decide*: make the link `G(v)`, named by `v`, to `T`. Links exclude: if there is one, read whose file it names;
//! 3. *look*: is the version of `NAME` still `v`?
//! 4. if so, rename the file that `G(v)` names to `NAME`: one's own or the other's, since what follows `v` is decided.
//!    If it is gone, somebody was faster;
//! 5. once `v` is over, and only then, remove `G(v)`.
//!
//! *Why one succeeds.* Versions never come back. While `v` lasts, nobody removes `G(v)`, so that one link at most is
//! made in that time, to one file `T`. A link that is made later, by who woke late, is made when `v` is over; whoever
//! acts on it looks after that, and so renames nothing. Hence all that is ever renamed over `v` is `T`, and its name
//! exists once: the rename happens once, and it is what ends `v`.
//!
//! *Who succeeded.* The one whose `T` was renamed. Who made `G(v)` and looked while `v` lasted is sure of it. Who
//! looked later tries to remove `T`: what is still there was not published. Only a [`sweep`] removes other writers'
//! files, only those of versions that are over, and marks them before, for the writer to see through its open file.
//!
//! An object that is replaced must not also be put or removed by others: a decision that was made before may be carried
//! out after.
//!
//! # Reference
//! Maurice Herlihy, "Wait-Free Synchronization" (1991): the link is the consensus object of its version; that anybody
//! may finish what was decided is his helping.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::SystemTime;

use super::files::{is_absent, stat_of, sync_parent, version_at};
use super::steps::Steps;
use super::temporary::{Temporary, digest, file_name, following_prefix, guard_path, parse_following};
use crate::backend::{Replaced, Version};
use crate::name::{GUARD, PUTTING, REPLACING};

/// See the [module](self).
pub(super) fn replace(target: &Path, bytes: &[u8], expected: &Version, steps: &Steps) -> io::Result<Replaced> {
    steps.before("begin");
    if version_at(target)?.as_ref() != Some(expected) {
        return Ok(Replaced::Changed);
    }
    steps.before("write");
    let mut next = Temporary::following(target, expected)?;
    next.write_at(0, bytes)?;
    next.sync()?;
    let stat = stat_of(&next.file)?;
    steps.before("decide");
    let guard = guard_path(target, expected);
    // From here on it may be published by others, whatever happens to us.
    next.kept = true;
    let won = match symlink(file_name(&next.path), &guard) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            steps.before("read");
            match fs::read_link(&guard) {
                // An answer that got lost on the way comes back as "exists".
                Ok(decided) if decided.as_os_str() == file_name(&next.path) => true,
                Ok(decided) => {
                    next.kept = false;
                    publish(target, expected, &guard, &decided, steps)?;
                    false
                }
                // It is removed when the version is over.
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
    steps.before("clean");
    if won {
        remove_if_there(&guard)?;
    }
    if !published {
        return Ok(Replaced::Changed);
    }
    sync_parent(target)?;
    Ok(Replaced::Made(stat))
}

/// Publishes what this process decided. Returns whether it was ever published.
fn publish_own(target: &Path, expected: &Version, next: &Temporary, steps: &Steps) -> io::Result<bool> {
    steps.before("look");
    if version_at(target)?.as_ref() == Some(expected) {
        steps.before("rename");
        return match fs::rename(&next.path, target) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(true),
            Err(error) => Err(error),
        };
    }
    steps.before("withdraw");
    match fs::remove_file(&next.path) {
        Ok(()) => Ok(false),
        Err(error) if is_absent(&error) => Ok(next.file.metadata()?.modified()? != SystemTime::UNIX_EPOCH),
        Err(error) => Err(error),
    }
}

/// Publishes what somebody decided, and ends its version.
fn publish(target: &Path, expected: &Version, guard: &Path, decided: &Path, steps: &Steps) -> io::Result<()> {
    // A link that somebody else planted leads nowhere.
    let ours = |name: &str| name.starts_with(&following_prefix(target, expected)) && name.ends_with(REPLACING);
    let decided = decided.to_str().filter(|name| ours(name) && !name.contains('/')).ok_or_else(|| stuck(guard))?;
    steps.before("look for another");
    if version_at(target)?.as_ref() == Some(expected) {
        steps.before("rename for another");
        match fs::rename(target.with_file_name(decided), target) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => {
                if version_at(target)?.as_ref() == Some(expected) {
                    return Err(stuck(guard));
                }
            }
            Err(error) => return Err(error),
        }
    }
    steps.before("clean for another");
    remove_if_there(guard)
}

/// Removes a temporary file that no living writer needs. Returns whether it did: what would follow a version that
/// is not over is left to whoever decides.
pub(super) fn sweep(path: &Path, steps: &Steps) -> io::Result<bool> {
    let Some((object, follows, ending)) = parse_following(file_name(path)) else {
        // What looks like one of ours by half is not ours.
        return if file_name(path).ends_with(PUTTING) { remove_if_there(path).map(|()| true) } else { Ok(false) };
    };
    let target = path.with_file_name(object);
    steps.before("sweep");
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
            steps.before("mark");
            // Its writer may be stopped, and has to know that this was not published. A link was planted.
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

/// No writer leaves a link to what is not there while its version lasts.
fn stuck(guard: &Path) -> io::Error {
    io::Error::other(format!(
        "{} names no file that may follow: somebody removed or planted temporary files by hand; if no process works in \
         this folder, remove it too",
        guard.display()
    ))
}
