//! Staging folder of an export: it is next to the target folder and replaces it atomically.
//!
//! If two exports wrote single files into one folder, it could have the config of one and the weights of the other.
//! Therefore each export fills a separate folder, and the last one to finish replaces the others.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cloze::exit::Usage;
use pipeline::tokenize::TOKENIZER_CONFIG;
use schemas::manifest;
use store::Store;
use trainer_plan::hf::{CONFIG, OWN_CODE, WEIGHTS};

use super::model_card::is_unchanged;

/// Files of an export. A folder with any other file is never replaced.
const FILES: [&str; 7] = [CONFIG, WEIGHTS, manifest::TOKENIZER, TOKENIZER_CONFIG, VOCAB, CARD, OWN_CODE];
/// Vocabulary of a WordPiece tokenizer, for programs that do not read `tokenizer.json`.
pub(super) const VOCAB: &str = "vocab.txt";
/// Model card.
pub(super) const CARD: &str = "README.md";

/// Maximum number of attempts to move a folder into place, because concurrent exports may be faster.
const MOVES_MAX: usize = 16;

/// Word in the name of a staging folder.
const STAGING: &str = "exporting";

/// Folder that is being filled. Dropping it before it is published removes it.
pub(super) struct Staged {
    folder: PathBuf,
    target: PathBuf,
    /// Open folder with a lock, which shows other exports that this process uses it. The system releases it after a kill.
    _lock: File,
}

impl Staged {
    /// Creates a staging folder next to `target`, and missing parents. Removes those of killed exports to the same target.
    pub(super) fn new(target: &Path) -> anyhow::Result<Self> {
        refuse_others(target)?;
        // Links are resolved once, here: the export replaces the folder, not the link.
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let (folder, lock) = create(&target)?;
        remove_abandoned(&target);
        Ok(Self { folder, target, _lock: lock })
    }

    /// Path of the staging folder.
    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Moves the folder to the target, then removes the exports that it replaced.
    pub(super) fn publish(self) -> anyhow::Result<Published> {
        let mut replaced = Vec::new();
        for _ in 0..MOVES_MAX {
            // `rename` succeeds if the target is missing or empty.
            match fs::rename(&self.folder, &self.target) {
                Ok(()) => return Ok(Published::replacing(&replaced)),
                Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {}
                Err(error) => {
                    if let Some(old) = replaced.last() {
                        // Restore the previous export. If that fails, it stays next to the target.
                        let _ = fs::rename(old, &self.target);
                    }
                    return Err(move_error(&self.target, error));
                }
            }
            refuse_others(&self.target)?;
            let old = sibling(&self.target, "replaced")?;
            match fs::rename(&self.target, &old) {
                Ok(()) => replaced.push(old),
                // Another export has moved it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(move_error(&self.target, error)),
            }
        }
        Err(Usage(format!(
            "{}: other exports keep replacing this folder; wait until they finish",
            self.target.display()
        ))
        .into())
    }
}

/// Outcome for the exports that were replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Published {
    /// Whether an export was replaced.
    pub(super) replaced: bool,
    /// Replaced exports that could not be removed, with the reason.
    pub(super) left: Vec<String>,
}

impl Published {
    fn replacing(older: &[PathBuf]) -> Self {
        let removed = older.iter().map(|old| (old, remove_export(old)));
        let left = removed.filter_map(|(old, removed)| Some(format!("{}: {}", old.display(), removed.err()?)));
        Self { replaced: !older.is_empty(), left: left.collect() }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After publishing, the folder does not exist. Otherwise an error is being returned.
        let _ = remove_export(&self.folder);
    }
}

/// Creates a locked staging folder.
fn create(target: &Path) -> anyhow::Result<(PathBuf, File)> {
    for _ in 0..MOVES_MAX {
        let folder = sibling(target, STAGING)?;
        let context = || folder.display().to_string();
        fs::create_dir_all(&folder).with_context(context)?;
        match File::open(&folder) {
            Ok(lock) => match lock.try_lock() {
                // A file system without locks: other exports cannot lock the folder either, and so leave it.
                Ok(()) | Err(TryLockError::Error(_)) if folder.is_dir() => return Ok((folder, lock)),
                // Another export took the new folder for an abandoned one.
                Ok(()) | Err(_) => {}
            },
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(context),
        }
    }
    Err(Usage(format!("{}: other exports keep removing the new folder; run the same command again", target.display()))
        .into())
}

/// Removes the staging folders of exports to `target` whose process was killed.
fn remove_abandoned(target: &Path) {
    let entries = target.parent().and_then(|parent| fs::read_dir(parent).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !is_staging(&entry.file_name().to_string_lossy(), target) {
            continue;
        }
        let path = entry.path();
        let is_abandoned = File::open(&path).is_ok_and(|lock| lock.try_lock().is_ok() && remove_export(&path).is_ok());
        if is_abandoned {
            tracing::info!(folder = %path.display(), "export: removed the remains of a killed export");
        }
    }
}

/// Whether a name is that of a staging folder for `target`: `.NAME.exporting.PROCESS-RANDOM`.
fn is_staging(name: &str, target: &Path) -> bool {
    let target = target.file_name().unwrap_or_default().to_string_lossy();
    let own = name.strip_prefix('.').and_then(|name| name.strip_prefix(&*target));
    let own = own.and_then(|rest| rest.strip_prefix('.')).and_then(|rest| rest.strip_prefix(STAGING));
    let Some((process, nonce)) = own.and_then(|rest| rest.strip_prefix('.')?.split_once('-')) else { return false };
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    is_number && nonce.len() == 16 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes the files of an export, unfinished ones too, and its folder. A folder with other files stays.
fn remove_export(folder: &Path) -> io::Result<()> {
    for file in FILES {
        match fs::remove_file(folder.join(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Store::existing(folder)?.sweep()?;
    match fs::remove_dir(folder) {
        // The store removes folders that it has emptied.
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns an error if the target exists and is not an export.
///
/// A concurrent export may replace the folder between two reads. Then the new folder is checked.
fn refuse_others(target: &Path) -> anyhow::Result<()> {
    // A rename changes the time, a new folder the inode.
    let version = || fs::metadata(target).ok().map(|folder| (folder.ino(), folder.ctime(), folder.ctime_nsec()));
    let mut attempts = 0..MOVES_MAX;
    loop {
        let checked = version();
        let outcome = refuse_other_files(target);
        if outcome.is_ok() || version() == checked || attempts.next().is_none() {
            return outcome;
        }
    }
}

/// Returns an error if the folder, as it is now, is not an export.
fn refuse_other_files(target: &Path) -> anyhow::Result<()> {
    let refuse = |message: &str| Err(Usage(format!("{}: {message}; name another `--out`", target.display())).into());
    if let Some(url) = schemas::url_refusal(target) {
        return Err(Usage(format!("{url}; name a local folder, and copy it after the export")).into());
    }
    for taken in ["checkpoints", manifest::NAME] {
        if target.join(taken).exists() {
            return refuse(&format!("this is a run or a prepared folder (it has `{taken}`)"));
        }
    }
    let entries = match fs::read_dir(target) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return refuse("this is a file"),
        Err(error) => return Err(error).with_context(|| target.display().to_string()),
    };
    let mut is_empty = true;
    for entry in entries {
        let entry = entry.with_context(|| target.display().to_string())?;
        is_empty = false;
        let name = entry.file_name();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !FILES.iter().any(|file| name == **file) {
            let name = name.to_string_lossy().escape_debug().to_string();
            return refuse(&format!(
                "the folder has `{name}`, which no export writes; an export replaces the whole folder"
            ));
        }
    }
    // These two are in every export.
    if !is_empty && ![CONFIG, WEIGHTS].iter().all(|file| target.join(file).exists()) {
        return refuse("the folder has files and is no export");
    }
    match fs::read(target.join(CARD)) {
        Ok(card) if !is_unchanged(&card) => {
            refuse(&format!("`{CARD}` was edited; an export replaces the whole folder"))
        }
        _ => Ok(()),
    }
}

/// Returns a unique name next to `target`.
fn sibling(target: &Path, what: &str) -> anyhow::Result<PathBuf> {
    let name = target.file_name().with_context(|| Usage(format!("{}: name a folder inside it", target.display())))?;
    // Each `RandomState` has a different key, derived from the randomness of the operating system.
    let nonce = RandomState::new().build_hasher().finish();
    let name = format!(".{}.{what}.{}-{nonce:016x}", name.to_string_lossy(), std::process::id());
    Ok(target.with_file_name(name))
}

/// Returns the error of a folder that cannot be moved to the target.
fn move_error(target: &Path, error: io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::ResourceBusy | ErrorKind::CrossesDevices => ": it is a mount point; name a folder inside it",
        _ => "",
    };
    anyhow::Error::new(error).context(format!("{}: cannot move the model here{hint}", target.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
    }

    fn fill(staged: &Staged, what: &str) {
        let store = Store::folder(staged.path()).expect("there");
        // The card has a seal.
        for file in FILES.iter().filter(|file| **file != CARD) {
            store.put(file, what.as_bytes()).expect("put");
        }
    }

    #[test]
    fn concurrent_exports_leave_one_complete_model() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let target = home.path().join("models/a");
        let export = |exporter: usize| {
            for time in 0..20 {
                let staged = Staged::new(&target).expect("an export");
                fill(&staged, &format!("{exporter} {time}"));
                staged.publish().expect("moved");
            }
        };
        std::thread::scope(|scope| {
            for exporter in 0..3 {
                scope.spawn(move || export(exporter));
            }
        });
        let files = FILES.iter().filter(|file| **file != CARD);
        let contents: BTreeSet<_> = files.map(|file| fs::read(target.join(file)).expect("there")).collect();
        assert_eq!(contents.len(), 1, "the files of one export");
        assert_eq!(names(&home.path().join("models")), ["a".to_owned()].into(), "and nothing next to it");
    }

    #[test]
    fn a_failed_export_keeps_the_previous_one() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let target = home.path().join("a");
        let staged = Staged::new(&target).expect("free");
        fill(&staged, "old");
        assert!(!staged.publish().expect("moved").replaced);
        let staged = Staged::new(&target).expect("an export");
        Store::folder(staged.path()).and_then(|store| store.put("config.json", b"new")).expect("put");
        drop(staged);
        assert_eq!(fs::read(target.join("config.json")).expect("there"), b"old");
        assert_eq!(names(home.path()), ["a".to_owned()].into());
        let staged = Staged::new(&target).expect("an export");
        fill(&staged, "new");
        let published = staged.publish().expect("moved");
        assert_eq!(published, Published { replaced: true, left: Vec::new() }, "one export is replaced");
        assert_eq!(fs::read(target.join("config.json")).expect("there"), b"new");
    }

    #[test]
    fn remains_of_a_killed_export_are_removed_and_nothing_else() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let target = home.path().join("a");
        let nonce = "0123456789abcdef";
        let store = Store::folder(home.path()).expect("there");
        let killed = format!(".a.exporting.12-{nonce}");
        store.put(&format!("{killed}/config.json"), b"half").expect("put");
        // A store accepts no name of a temporary file.
        let half = home.path().join(format!("{killed}/.model.safetensors.host-12-{nonce}.tmp"));
        fs::copy(home.path().join(format!("{killed}/config.json")), half).expect("written");
        // In use; with a file that no export writes; of another target; of another grammar; of a user.
        let in_use = Staged::new(&target).expect("free");
        let others = [
            format!(".a.exporting.13-{nonce}/notes.md"),
            format!(".b.exporting.12-{nonce}/config.json"),
            format!(".a.exporting.12-{nonce}.old/config.json"),
            ".a.exporting.mine/config.json".to_owned(),
            format!(".a.replaced.12-{nonce}/config.json"),
        ];
        for name in &others {
            store.put(name, b"mine").expect("put");
        }
        store.put(&format!("{killed}/config.json"), b"half").expect("put");
        let staged = Staged::new(&target).expect("free");
        fill(&staged, "new");
        staged.publish().expect("moved");
        assert!(in_use.path().is_dir(), "another process uses it");
        drop(in_use);
        let mut expected: BTreeSet<String> =
            others.iter().filter_map(|name| name.split('/').next()).map(str::to_owned).collect();
        expected.insert("a".to_owned());
        assert_eq!(names(home.path()), expected);
        assert!(others.iter().all(|name| store.get(name).is_ok_and(|bytes| bytes == b"mine")));
    }

    /// A file that appears next to a model while it is replaced is not removed with it.
    #[test]
    fn a_file_that_was_added_to_a_replaced_export_stays() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = home.path().join("old");
        let store = Store::folder(&folder).expect("there");
        store.put("config.json", b"old").expect("put");
        store.put("notes.md", b"mine").expect("put");
        let published = Published::replacing(std::slice::from_ref(&folder));
        assert!(published.left.len() == 1 && published.left[0].contains("old"), "{published:?}");
        assert_eq!(names(&folder), ["notes.md".to_owned()].into());
    }

    #[test]
    fn folders_with_other_files_are_not_replaced() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("there");
        store.put("a/notes.md", b"mine").expect("put");
        store.put("b", b"a file").expect("put");
        store.put("readme/README.md", b"mine").expect("put");
        store.put("vocabulary/vocab.txt", b"mine").expect("put");
        fs::create_dir_all(home.path().join("folder/README.md")).expect("created");
        for file in ["config.json", "model.safetensors", CARD] {
            store.put(&format!("edited/{file}"), b"mine").expect("put");
        }
        for (name, words) in [
            ("a", "the folder has `notes.md`"),
            ("b", "this is a file"),
            ("readme", "the folder has files and is no export"),
            ("vocabulary", "the folder has files and is no export"),
            ("folder", "the folder has `README.md`"),
            ("edited", "`README.md` was edited"),
        ] {
            let error = Staged::new(&home.path().join(name)).map(|_| ()).expect_err("other files").to_string();
            assert!(error.contains(words) && error.contains("--out"), "{error}");
        }
        let left = ["a", "b", "edited", "folder", "readme", "vocabulary"].map(str::to_owned);
        assert_eq!(names(home.path()), left.into());
    }
}
