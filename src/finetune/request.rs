//! Request for a fine-tuning, and the files that it makes.

use std::path::{Path, PathBuf};

use schemas::manifest;
use store::Store;
use tasks::AnyTask;

use super::few_shot::FewShot;
use super::subset::TrainSubset;
use crate::cli::Hyperparameters;

/// Arguments of `cloze finetune`.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Task.
    pub task: AnyTask,
    /// Folder with the files of the task.
    pub data: &'a Path,
    /// Run of `cloze`, or folder of a `transformers` model.
    pub from: &'a Path,
    /// Step of the checkpoint of the run.
    pub from_step: Option<u64>,
    /// Folder to write.
    pub out: &'a Path,
    /// Hyperparameters.
    pub hyper: Hyperparameters,
}

/// Files of a fine-tuning below the folder that is written.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Configuration of the run.
    pub config: PathBuf,
    /// Run folder.
    pub run: PathBuf,
}

impl Prepared {
    /// Returns the files below `out`.
    #[must_use]
    pub fn below(out: &Path) -> Self {
        Self { config: out.join("run.toml"), run: out.join("run") }
    }
}

/// Part of the training set that a fine-tuning is prepared with. At most one of the two is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DrawnExamples {
    pub(super) subset: Option<TrainSubset>,
    pub(super) few_shot: Option<FewShot>,
}

impl DrawnExamples {
    /// Returns the part that the flags request.
    pub(super) fn new(hyper: &Hyperparameters) -> Self {
        Self {
            subset: TrainSubset::new(hyper.train_fraction, hyper.seed),
            few_shot: hyper.shots.map(|shots| FewShot { shots, seed: hyper.seed }),
        }
    }
}

/// Rows of the two splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SplitRows {
    pub(super) train: u64,
    pub(super) valid: u64,
}

impl SplitRows {
    /// Reads the rows of a prepared folder.
    pub(super) fn of_folder(store: &Store) -> anyhow::Result<Option<Self>> {
        if store.head(manifest::NAME)?.is_none() {
            return Ok(None);
        }
        let now = pipeline::load::open(store)?.now();
        Ok(Some(Self { train: now.train.rows(), valid: now.valid.rows() }))
    }
}
