//! A run's folder: who holds it, what it was started with, and its log.
//!
//! ```text
//! runs/<name>/
//!   config.toml     the resolved configuration
//!   plan.json       the plan that was printed
//!   generations.json which generations of the data it reads: see `generations`
//!   lock            held (flock) while a process trains here; names it
//!   log.jsonl       one JSON object per report
//!   checkpoints/    see `trainer::training::checkpoint`
//! ```

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use schemas::atomic::{self, Folder};
use serde_json::Value;

/// The folder of a run, held by this process.
pub(crate) struct RunFolder {
    pub(crate) folder: Folder,
    log: File,
    // Released when the process ends, however it ends.
    _lock: File,
}

impl RunFolder {
    /// Takes the folder, made if missing.
    pub(crate) fn hold(path: &Path) -> anyhow::Result<Self> {
        let folder = Folder::create(path)?;
        let lock = lock(&path.join("lock"))?;
        let log = atomic::append(&path.join("log.jsonl"))?;
        Ok(Self { folder, log, _lock: lock })
    }

    /// Forgets the log's lines beyond `step`: a run that was killed after its last checkpoint does those steps again.
    /// A line that the kill cut is forgotten too.
    pub(crate) fn rewind_log(&mut self, step: u64) -> anyhow::Result<()> {
        let path = self.folder.path().join("log.jsonl");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let at = |line: &str| serde_json::from_str::<Value>(line).ok().and_then(|value| value["step"].as_u64());
        let kept: String =
            text.split_inclusive('\n').filter(|line| at(line).is_some_and(|line_step| line_step <= step)).collect();
        if kept.len() < text.len() {
            self.folder.write("log.jsonl", kept.as_bytes())?;
            self.log = atomic::append(&path)?;
        }
        Ok(())
    }

    /// Adds one line to the log.
    pub(crate) fn log(&mut self, entry: &Value) -> anyhow::Result<()> {
        let mut line = entry.to_string();
        line.push('\n');
        // One write call per line: a kill cuts a line at most, and `rewind_log` forgets it.
        self.log.write_all(line.as_bytes()).with_context(|| self.folder.path().join("log.jsonl").display().to_string())
    }
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let mut file = atomic::lock_file(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder).context("cannot read who holds the lock")?;
            anyhow::bail!(
                "{}: another process trains in this folder ({}); wait for it, or set another `run.folder`",
                path.display(),
                holder.trim()
            );
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(|| path.display().to_string()),
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "pid {} on {}", std::process::id(), host.trim())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_folder_has_one_holder() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let held = RunFolder::hold(home.path()).expect("free");
        let Err(error) = RunFolder::hold(home.path()) else { panic!("it is held") };
        assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
        drop(held);
        RunFolder::hold(home.path()).expect("free again");
    }

    #[test]
    fn rewinding_forgets_later_and_cut_lines() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut run = RunFolder::hold(home.path()).expect("free");
        for step in [10, 20, 30] {
            run.log(&json!({ "step": step })).expect("written");
        }
        run.log.write_all(b"{\"step\": 3").expect("a cut line");
        run.rewind_log(20).expect("rewound");
        run.log(&json!({ "step": 30 })).expect("written");
        let text = std::fs::read_to_string(home.path().join("log.jsonl")).expect("there");
        assert_eq!(text, "{\"step\":10}\n{\"step\":20}\n{\"step\":30}\n");
    }
}
