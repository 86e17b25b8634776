//! Request for a fine-tuning, and the files that it makes.

use std::path::{Path, PathBuf};

use schemas::manifest;
use store::Store;
use tasks::AnyTask;

/// Arguments of `cloze finetune`.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Task.
    pub task: AnyTask,
    /// Folder with the files of the task.
    pub data: &'a Path,
    /// Run of `cloze`, or folder of a `transformers` model.
    pub from: &'a Path,
    /// Folder to write.
    pub out: &'a Path,
    /// Hyperparameters.
    pub hyper: Hyperparameters,
}

/// Hyperparameters of a fine-tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Hyperparameters {
    /// Passes over the training set.
    pub epochs: u64,
    /// Rows per step.
    pub batch_size: u64,
    /// Peak learning rate.
    pub lr: f64,
    /// Share of the steps for the warm-up.
    pub warmup: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Longest row, including the frame.
    pub max_seq_len: u32,
    /// Seed of the new head, the order of the examples and dropout.
    pub seed: u64,
}

impl Default for Hyperparameters {
    /// Returns the values of Devlin et al. 2019, appendix A.3.
    fn default() -> Self {
        Self { epochs: 3, batch_size: 32, lr: 5e-5, warmup: 0.1, weight_decay: 0.01, max_seq_len: 128, seed: 1 }
    }
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
