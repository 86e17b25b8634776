//! Arguments of `cloze sweep`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::choice::{AverageConvention, PresetName, Statistic};
use super::number;

/// Sweep and its execution.
#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    #[command(flatten)]
    pub(crate) request: SweepRequest,
    #[command(flatten)]
    pub(crate) execution: SweepExecution,
}

/// Runs of a sweep: each combination of the lists, with each seed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SweepRequest {
    /// Folder with the files of the task, or a TOML file with the arguments of a sweep as keys.
    #[arg(value_name = "DATA|FILE.toml")]
    pub(crate) data: Option<PathBuf>,
    /// Task by its name, or a TOML file with `kind` and the keys of a task.
    #[arg(long, value_name = "TASK|FILE.toml")]
    pub(crate) task: Option<String>,
    /// Run to start from, or the folder of a `transformers` model. Can be repeated.
    #[arg(long, value_name = "RUN|MODEL")]
    pub(crate) from: Vec<PathBuf>,
    /// Folder to write: the runs, and a report about them.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Hyperparameters of a paper: its lists, seeds, draws and statistic. Flags override them.
    #[arg(long, value_enum)]
    pub(crate) preset: Option<PresetName>,
    /// Number of seeds of each combination. Default: 1, or that of the preset.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: Option<u64>,
    /// Peak learning rates.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) lr: Vec<String>,
    /// Examples per step.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) batch_size: Vec<String>,
    /// Passes over the training set.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) epochs: Vec<String>,
    /// Warm-ups: shares of the steps, or numbers of steps.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) warmup: Vec<String>,
    /// Weight decays.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) weight_decay: Vec<String>,
    /// Longest rows in tokens.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) max_seq_len: Vec<String>,
    /// Shares of the training examples, for a learning curve.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) train_fraction: Vec<String>,
    /// Predict label words in prompts, as `cloze finetune --prompt`.
    #[arg(long)]
    pub(crate) prompt: bool,
    /// Examples of each class to train on, as `cloze finetune --shots`. Each seed draws others.
    #[arg(
        long,
        value_name = "K",
        conflicts_with = "train_fraction",
        value_parser = clap::value_parser!(u64).range(1..=100_000)
    )]
    pub(crate) shots: Option<u64>,
    /// Sets of demonstrations, as `cloze finetune --demonstrations`.
    #[arg(
        long,
        value_name = "N",
        requires_all = ["prompt", "shots"],
        value_parser = clap::value_parser!(u32).range(0..=256)
    )]
    pub(crate) demonstrations: Option<u32>,
    /// Values of one key of the configuration. Can be repeated.
    #[arg(long, value_name = "KEY=LIST")]
    pub(crate) set: Vec<String>,
    /// Try only this many combinations, drawn at random.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) draws: Option<u64>,
    /// Seed of the draws. Default: 1.
    #[arg(long, value_name = "SEED")]
    pub(crate) draw_seed: Option<u64>,
    /// Statistic to report, and to choose the combination by. Default: `mean`, or that of the preset.
    #[arg(long, value_enum)]
    pub(crate) statistic: Option<Statistic>,
}

/// Execution of a sweep by this process.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SweepExecution {
    /// Runs at the same time. They share the cores.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::at_least_one)]
    pub(crate) jobs: usize,
    /// Take only the runs whose number modulo `--count` is this, counted from 0.
    #[arg(long, value_name = "I", requires = "count")]
    pub(crate) index: Option<usize>,
    /// Number of processes or machines that split the runs by `--index`.
    #[arg(long, value_name = "N", requires = "index", value_parser = number::at_least_one)]
    pub(crate) count: Option<usize>,
}

/// Subcommands of `cloze sweep`.
#[derive(Debug, Subcommand)]
pub enum SweepVerb {
    /// Report about sweeps, also while they run; with `--average`, over several tasks.
    #[command(after_help = "Example: cloze sweep report sweeps/* --average coco-lm")]
    Report {
        /// Folders of sweeps.
        #[arg(required = true, value_name = "SWEEP")]
        sweeps: Vec<PathBuf>,
        /// Statistic to report, and to choose the combination by. Default: that of each sweep.
        #[arg(long, value_enum)]
        statistic: Option<Statistic>,
        /// Average over GLUE by the convention of a paper. Each task needs a sweep.
        #[arg(long, value_enum)]
        average: Option<AverageConvention>,
    },
}
