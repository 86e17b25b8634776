//! The offline half: part ↦ shards, then a fold into the manifest.
//!
//! [`Preparation::plan`] reads and checks everything without writing; [`Preparation::run`] makes the parts that are not
//! there yet, each by one lane, and folds their commit records, in order, into the manifest. A part's record is
//! written after its shards and the manifest after all records, so that a kill at any instant costs at most the parts
//! in the lanes' hands. Nothing in the folder depends on the number of lanes, on time or on the machine.
//!
//! The folder itself carries the lock (`flock` on its handle): no lock file ever lies among the data.

mod config;
mod fold;
mod part;
mod progress;
mod record;
mod vocab;

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemas::atomic::Folder;
use schemas::manifest;
use tracing::info;

pub use self::config::{Format, PrepareConfig};
pub use self::fold::Summary;
pub(crate) use self::part::is_valid;
pub use self::part::{Stage, Stages};
pub use self::progress::{Observer, Progress, Silent};
pub use self::record::{CommitRecord, Example, Settings};
use crate::actor::{LaneOptions, Lanes};
use crate::corpus::{Corpus, Part};
use crate::tokenize::{self, Tokenizer};
use crate::{Error, Result};

/// Finished parts that wait for the fold, per lane: small reports, so that one slow part holds nobody up.
const DEPTH: usize = 4;

/// How a run differs from the plain one. Not part of any configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrepareOptions {
    /// Throws samples away instead of writing them: shows what the other stages can do.
    pub null_writer: bool,
    /// Makes the writer sleep this long for each part: shows that a slow writer is found out.
    pub write_delay: Duration,
}

/// What `plan` prints about a preparation.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparePlan {
    /// Files.
    pub files: usize,
    /// Bytes on disk.
    pub bytes: u64,
    /// Parts, and the bytes on disk of the largest.
    pub parts: usize,
    /// Bytes on disk of the largest part.
    pub largest_part_bytes: u64,
    /// Threads.
    pub lanes: usize,
    /// Longest document that is accepted, in bytes of text.
    pub document_bytes_max: u64,
    /// Bound of all text in flight: lanes times the longest document.
    pub text_bytes_max: u64,
    /// The largest compressed file, by name and bytes: nobody can cut it, so it is the critical path.
    pub largest_compressed: Option<(String, u64)>,
    /// The tokenizer.
    pub tokenizer: manifest::Tokenizer,
}

/// A preparation that can be started: configuration, corpus and tokenizer read and checked.
pub struct Preparation {
    config: PrepareConfig,
    corpus: Corpus,
    parts: Vec<Part>,
    tokenizer: Box<dyn Tokenizer>,
    settings: Settings,
}

impl std::fmt::Debug for Preparation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Preparation").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Plans and runs in one step.
pub fn run(config: &PrepareConfig, options: PrepareOptions, observer: &mut dyn Observer) -> Result<Summary> {
    Preparation::plan(config)?.run(options, observer)
}

impl Preparation {
    /// Reads the corpus' outline and the tokenizer, and refuses what cannot work. Writes nothing.
    pub fn plan(config: &PrepareConfig) -> Result<Self> {
        config.check()?;
        let tokenizer = Box::new(tokenize::load(&config.tokenizer, config.lowercase)?);
        let corpus = Corpus::open(&config.corpus())?;
        let parts = corpus.parts()?;
        let settings = Settings::of(config, &corpus, &tokenizer.facts().manifest);
        Ok(Self { config: config.clone(), corpus, parts, tokenizer, settings })
    }

    /// The numbers of the plan.
    #[must_use]
    pub fn describe(&self) -> PreparePlan {
        let lanes = self.config.lanes();
        let document_bytes_max = self.config.document_bytes_max();
        PreparePlan {
            files: self.corpus.sources().len(),
            bytes: self.corpus.bytes(),
            parts: self.parts.len(),
            largest_part_bytes: self.parts.iter().map(|part| part.bytes).max().unwrap_or(0),
            lanes,
            document_bytes_max,
            text_bytes_max: document_bytes_max * lanes as u64,
            largest_compressed: self.corpus.largest_compressed().map(|file| (file.name.clone(), file.bytes)),
            tokenizer: self.tokenizer.facts().manifest.clone(),
        }
    }

    /// Makes what is missing. Returns what was found and done.
    pub fn run(self, options: PrepareOptions, observer: &mut dyn Observer) -> Result<Summary> {
        let began = Instant::now();
        let locked = if options.null_writer { None } else { Some(self.enter_folder()?) };
        let folder = locked.as_ref().map(|(folder, _lock)| folder.clone());
        let preparation = Arc::new(self);
        let progress = Arc::new(Progress::new(&preparation.parts));

        let lanes = {
            let (preparation, progress, folder) = (preparation.clone(), progress.clone(), folder.clone());
            let options_of_lanes = LaneOptions { name: "prepare", count: preparation.config.lanes(), depth: DEPTH };
            Lanes::over(0..preparation.parts.len() as u64, options_of_lanes, move |index| {
                let part = &preparation.parts[usize::try_from(index).expect("parts are in memory")];
                part::make(&preparation, part, folder.as_ref(), options, &progress)
            })
        };
        observer.began(&preparation.describe(), &progress, lanes.gauges());
        let mut fold = fold::Fold::new(&preparation);
        for outcome in lanes {
            fold.add(outcome?)?;
            observer.part_done(&progress);
        }
        let summary = fold.finish(folder.as_ref(), began)?;
        info!(
            documents = summary.corpus.documents,
            made = summary.parts_made,
            skipped = summary.parts_skipped,
            "prepared"
        );
        Ok(summary)
    }

    /// Makes and locks the folder, removes what a kill left, and refuses a folder that was prepared otherwise.
    fn enter_folder(&self) -> Result<(Folder, File)> {
        if self.config.folder.is_dir() {
            record::refuse_others(&self.config.folder, &self.settings, &self.parts)?;
        }
        let folder = Folder::create(&self.config.folder)?;
        let lock = lock(folder.path())?;
        for name in folder.sweep()? {
            info!(name, "removed the remains of an interrupted run");
        }
        Ok((folder, lock))
    }
}

/// Takes the folder for this process; released when the handle is dropped or the process ends, however it ends.
fn lock(path: &Path) -> Result<File> {
    let handle = File::open(path)?;
    match handle.try_lock() {
        Ok(()) => Ok(handle),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
