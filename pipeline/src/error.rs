//! Errors of the pipeline from text to batches, classified by the action they require.

use std::io;
use std::path::{Path, PathBuf};

use schemas::{BatchIndex, ManifestError, printable};

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns a path on one line: line breaks and other control characters of a file name are escaped.
fn one_line(path: &Path) -> String {
    printable(&path.display().to_string()).replace('\n', "\\n")
}

/// Error of the pipeline. Every variant states the place and the fix.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid; change the configuration. Exit code 2.
    #[error("{0}")]
    Config(String),

    /// The corpus cannot be read; no output of it was written. Exit code 1.
    #[error("{}{}: {message}", one_line(path), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Corpus {
        /// The input file.
        path: PathBuf,
        /// 1-based line, if known.
        line: Option<u64>,
        /// Problem and fix.
        message: String,
    },

    /// A file of the corpus is unusable in its current form; no output of it was written. Exit code 42.
    #[error("{}{}: {message}", one_line(path), line.map(|line| format!(":{line}")).unwrap_or_default())]
    UnusableFile {
        /// The input file.
        path: PathBuf,
        /// 1-based line, if known.
        line: Option<u64>,
        /// Problem and fix.
        message: String,
    },

    /// The corpus can be read but its content is unusable; a retry does not help. Exit code 42.
    #[error("{0}")]
    UnusableCorpus(String),

    /// The tokenizer cannot be used. Exit code 2.
    #[error("tokenizer {}: {message}", one_line(path))]
    Tokenizer {
        /// Tokenizer file.
        path: PathBuf,
        /// Problem and fix.
        message: String,
    },

    /// A shard does not match the manifest. Exit code 1.
    #[error("shard {place}{}: {message}", group.map(|group| format!(", row group {group}")).unwrap_or_default())]
    Shard {
        /// Path of the shard.
        place: String,
        /// 0-based row group, if known.
        group: Option<usize>,
        /// Problem and fix.
        message: String,
    },

    /// A row cannot be made and must not be replaced by padding. Exit code 1.
    #[error("{row} cannot be rendered: {why}; {fix}")]
    Row {
        /// Row and its origin.
        row: String,
        /// Message of each failed attempt.
        why: String,
        /// Limit that applies, and fix.
        fix: String,
    },

    /// The manifest, or a file that it names, is missing or damaged. Exit code 1.
    #[error("{place}: {why}")]
    Manifest {
        /// Path of the manifest or the file.
        place: String,
        /// Reason.
        why: ManifestError,
    },

    /// A view breaks its rules or laws. This is a bug in cloze that the audit detects early in a run. Exit code 1.
    #[error(
        "view `{view}` breaks its rules, counted over {batches} batches: {drifts}; run `cloze inspect batch \
         {batch}`, continue with the release that began the run, and report the bug"
    )]
    Drift {
        /// Name of the view.
        view: String,
        /// Deviations of the counts.
        drifts: String,
        /// Number of a batch that shows the error.
        batch: BatchIndex,
        /// Number of counted batches.
        batches: u64,
    },

    /// A folder is not prepared as far as requested. Exit code 1.
    #[error("{place}: {message}")]
    Unfinished {
        /// Prepared folder.
        place: String,
        /// Missing data and fix.
        message: String,
    },

    /// A stop was requested and took effect before the end. Exit code 1, unless the caller defines another.
    #[error("stopped before the end; finished work is kept; run the same command to continue")]
    Stopped,

    /// Another process works on the folder. Exit code 1.
    #[error("{}: locked by {holder}; wait for it, or name another folder", one_line(path))]
    Locked {
        /// Path of the lock.
        path: PathBuf,
        /// Holder of the lock.
        holder: String,
    },

    /// The operating system returned an error; the message names the path. Exit code 1.
    #[error(transparent)]
    Io(#[from] io::Error),

    /// A thread could not start, or a worker panicked. Exit code 1.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

impl Error {
    /// Whether only other inputs or another configuration can avoid the error. Other errors may pass, like a full disk.
    #[must_use]
    pub fn is_about_inputs(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Corpus { .. } | Self::UnusableFile { .. } | Self::UnusableCorpus(_))
    }
}
