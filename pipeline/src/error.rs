//! What can go wrong between text and batches, shaped by what the operator can do about it.

use std::io;
use std::path::PathBuf;

use schemas::{BatchIndex, ManifestError};

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every variant says where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request makes no sense as it stands; change the configuration. Exit code 2.
    #[error("{0}")]
    Config(String),

    /// The corpus cannot be read; nothing of it was written. Exit code 1.
    #[error("{}{}: {message}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Corpus {
        /// The input file.
        path: PathBuf,
        /// 1-based line, where there is one.
        line: Option<u64>,
        /// What is wrong and what to do.
        message: String,
    },

    /// A file of the corpus cannot be used as it is; nothing of it was written. Exit code 42.
    #[error("{}{}: {message}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Unfit {
        /// The input file.
        path: PathBuf,
        /// 1-based line, where there is one.
        line: Option<u64>,
        /// What is wrong and what to do.
        message: String,
    },

    /// The corpus can be read but is not fit to be used; trying again will not help. Exit code 42.
    #[error("{0}")]
    Poison(String),

    /// The tokenizer cannot be used. Exit code 2.
    #[error("tokenizer {}: {message}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        message: String,
    },

    /// A shard is not what the manifest promises. Exit code 1.
    #[error("shard {place}{}: {message}", group.map(|group| format!(", row group {group}")).unwrap_or_default())]
    Shard {
        /// The shard.
        place: String,
        /// 0-based row group, where there is one.
        group: Option<usize>,
        /// What is wrong and what to do.
        message: String,
    },

    /// A row cannot be made, and must not be left out. Exit code 1.
    #[error("{row} cannot be made: {why}; {way_on}")]
    Row {
        /// Which, and where it comes from.
        row: String,
        /// What went wrong, each time.
        why: String,
        /// What is allowed, and what to do.
        way_on: String,
    },

    /// The manifest, or a file that it names, is missing or damaged. Exit code 1.
    #[error("{place}: {why}")]
    Manifest {
        /// The manifest, or the file.
        place: String,
        /// Why.
        why: ManifestError,
    },

    /// A view does not do what it promises: a defect of ours, found before it is trained on for long. Exit code 1.
    #[error(
        "view `{view}` does not do what it promises, in {batches} batches: {drifts}; look at `cloze inspect batch \
         {batch}`, go on with the release that began the run, and report it"
    )]
    Drift {
        /// The view's name.
        view: String,
        /// What was counted.
        drifts: String,
        /// A batch that shows it.
        batch: BatchIndex,
        /// Batches counted.
        batches: u64,
    },

    /// A folder is not prepared as far as was asked for. Exit code 1.
    #[error("{place}: {message}")]
    Unfinished {
        /// The prepared folder.
        place: String,
        /// What is missing, and what to do.
        message: String,
    },

    /// A stop was asked for, and came before the end. Exit code 1, where whoever asked has none of its own.
    #[error("stopped before its end; what is finished is kept, and the same command continues")]
    Stopped,

    /// Another process works on the folder. Exit code 1.
    #[error("{}: locked by {holder}; wait for it, or name another folder", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Who holds it.
        holder: String,
    },

    /// The operating system refused; the message names the path. Exit code 1.
    #[error(transparent)]
    Io(#[from] io::Error),

    /// A thread could not start, or a worker panicked. Exit code 1.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}
