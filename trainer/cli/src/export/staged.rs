//! A model on its way: a folder next to the one that it will be, which it becomes whole or not at all.
//!
//! Files that are put one by one into a folder where another export writes too are the config of one next to the weights
//! of the other. So each export fills its own folder, and the last to be done is what stays.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cloze::exit::Usage;
use schemas::manifest;

/// What an export consists of. A folder with anything else in it is somebody's, and stays.
const FILES: [&str; 4] = ["config.json", "model.safetensors", manifest::TOKENIZER, TOKENIZER_CONFIG];
/// What `AutoTokenizer` needs next to the tokenizer.
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// Times that a folder is moved into place: another export may be faster, but not forever.
const MOVES_MAX: usize = 16;

/// A folder that is being filled. Dropped before it is published, it goes.
pub(super) struct Staged {
    folder: PathBuf,
    target: PathBuf,
}

impl Staged {
    /// Next to `target`, whose parents are made if they are missing.
    pub(super) fn beside(target: &Path) -> anyhow::Result<Self> {
        refuse_others(target)?;
        // A link is followed once, here: what it leads to is replaced, not the link.
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let folder = sibling(&target, "exporting")?;
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { folder, target })
    }

    /// Where to write.
    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Moves it to its place, and then removes the older exports that were there.
    pub(super) fn publish(self) -> anyhow::Result<Published> {
        let mut replaced = Vec::new();
        for _ in 0..MOVES_MAX {
            // Replaces what is not there, or empty.
            match fs::rename(&self.folder, &self.target) {
                Ok(()) => return Ok(Published::over(&replaced)),
                Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {}
                Err(error) => {
                    if let Some(old) = replaced.last() {
                        // The one before is better than none; if it cannot be moved back, it stays next to the folder.
                        let _ = fs::rename(old, &self.target);
                    }
                    return Err(misplaced(&self.target, error));
                }
            }
            refuse_others(&self.target)?;
            let old = sibling(&self.target, "replaced")?;
            match fs::rename(&self.target, &old) {
                Ok(()) => replaced.push(old),
                // Another export took it away.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(misplaced(&self.target, error)),
            }
        }
        Err(Usage(format!("{}: other exports write here all the time; let one of them end", self.target.display()))
            .into())
    }
}

/// What became of the exports that were there before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Published {
    /// Whether there was any.
    pub(super) replaced: bool,
    /// Those that could not be removed, with the reason.
    pub(super) left: Vec<String>,
}

impl Published {
    fn over(older: &[PathBuf]) -> Self {
        let removed = older.iter().map(|old| (old, fs::remove_dir_all(old)));
        let left = removed.filter_map(|(old, removed)| Some(format!("{}: {}", old.display(), removed.err()?)));
        Self { replaced: !older.is_empty(), left: left.collect() }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // It is gone where it was published; else a failure is on its way up.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Refuses a target that is there and is no export.
fn refuse_others(target: &Path) -> anyhow::Result<()> {
    let refuse = |message: &str| Err(Usage(format!("{}: {message}; name another `--out`", target.display())).into());
    for taken in ["checkpoints", manifest::NAME] {
        if target.join(taken).exists() {
            return refuse(&format!("a run or a prepared folder is here (`{taken}`)"));
        }
    }
    let entries = match fs::read_dir(target) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return refuse("a file is here"),
        Err(error) => return Err(error).with_context(|| target.display().to_string()),
    };
    for entry in entries {
        let name = entry.with_context(|| target.display().to_string())?.file_name();
        if !FILES.iter().any(|file| name == **file) {
            let name = name.to_string_lossy().escape_debug().to_string();
            return refuse(&format!("`{name}` is here, which no export writes, and an export takes the whole folder"));
        }
    }
    Ok(())
}

/// A name next to `target` that nobody else has.
fn sibling(target: &Path, what: &str) -> anyhow::Result<PathBuf> {
    let name = target.file_name().with_context(|| Usage(format!("{}: name a folder in it", target.display())))?;
    // Each `RandomState` has its own key, drawn from the operating system's randomness.
    let nonce = RandomState::new().build_hasher().finish();
    let name = format!(".{}.{what}.{}-{nonce:016x}", name.to_string_lossy(), std::process::id());
    Ok(target.with_file_name(name))
}

/// What cannot be moved into place.
fn misplaced(target: &Path, error: io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::ResourceBusy | ErrorKind::CrossesDevices => ": something is mounted here; name a folder in it",
        _ => "",
    };
    anyhow::Error::new(error).context(format!("{}: the model cannot be moved here{hint}", target.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use store::Store;

    use super::*;

    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
    }

    fn fill(staged: &Staged, what: &str) {
        let store = Store::folder(staged.path()).expect("there");
        for file in FILES {
            store.put(file, what.as_bytes()).expect("put");
        }
    }

    #[test]
    fn of_several_exports_into_one_folder_one_stays_whole() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let target = home.path().join("models/a");
        let export = |who: usize| {
            for time in 0..20 {
                let staged = Staged::beside(&target).expect("nobody else's");
                fill(&staged, &format!("{who} {time}"));
                staged.publish().expect("moved");
            }
        };
        std::thread::scope(|scope| {
            for who in 0..3 {
                scope.spawn(move || export(who));
            }
        });
        let contents: BTreeSet<_> = FILES.iter().map(|file| fs::read(target.join(file)).expect("there")).collect();
        assert_eq!(contents.len(), 1, "the files of one export");
        assert_eq!(names(&home.path().join("models")), ["a".to_owned()].into(), "and nothing next to it");
    }

    #[test]
    fn an_export_that_fails_leaves_what_was_there() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let target = home.path().join("a");
        let staged = Staged::beside(&target).expect("free");
        fill(&staged, "old");
        assert!(!staged.publish().expect("moved").replaced);
        let staged = Staged::beside(&target).expect("an export");
        Store::folder(staged.path()).and_then(|store| store.put("config.json", b"new")).expect("put");
        drop(staged);
        assert_eq!(fs::read(target.join("config.json")).expect("there"), b"old");
        assert_eq!(names(home.path()), ["a".to_owned()].into());
        let staged = Staged::beside(&target).expect("an export");
        fill(&staged, "new");
        let published = staged.publish().expect("moved");
        assert_eq!(published, Published { replaced: true, left: Vec::new() }, "it says that it replaced one");
        assert_eq!(fs::read(target.join("config.json")).expect("there"), b"new");
    }

    #[test]
    fn what_somebody_else_keeps_in_a_folder_stays() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("there");
        store.put("a/notes.md", b"mine").expect("put");
        store.put("b", b"a file").expect("put");
        for (name, words) in [("a", "`notes.md` is here"), ("b", "a file is here")] {
            let error = Staged::beside(&home.path().join(name)).map(|_| ()).expect_err("somebody's").to_string();
            assert!(error.contains(words) && error.contains("--out"), "{error}");
        }
        assert_eq!(names(home.path()), ["a".to_owned(), "b".to_owned()].into());
    }
}
