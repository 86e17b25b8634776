//! Arguments that verbs share, and the subcommands of verbs that have several.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::choice::ProfileTarget;
use super::number;
use super::profile_args::ProfileArgs;

/// Configuration file with overrides.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// Configuration file of the run. `cloze config` lists its keys.
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// Override one key. Can be repeated: `--set train.steps=100`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Configuration file that `cloze init` writes, and that other verbs read, unless told otherwise.
pub(crate) const DEFAULT_CONFIG: &str = "run.toml";

impl Default for ConfigArgs {
    fn default() -> Self {
        Self { config: DEFAULT_CONFIG.into(), set: Vec::new() }
    }
}

/// Subcommands of `cloze config`.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print a JSON schema for completion and checks in editors.
    #[command(after_help = "Example: cloze config schema > cloze.schema.json, and in the first line of a file \
                            `#:schema cloze.schema.json`")]
    Schema,
}

/// Subcommands of `cloze tokenizer`.
#[derive(Debug, Subcommand)]
pub enum TokenizerVerb {
    /// Train a tokenizer on the training split of `[prepare] inputs`, as `[tokenizer]` configures. The output is
    /// deterministic.
    Train(ConfigArgs),
}

/// Configuration and options of a measurement.
#[derive(Clone, Debug, Args)]
pub struct MeasureArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    options: ProfileArgs,
}

/// Verbs of `cloze profile`.
#[derive(Debug, Subcommand)]
pub enum ProfileVerb {
    /// Measure the loader (index to batch) without a trainer, or with one that takes `--step-ms`.
    #[command(after_help = "Example: cloze profile loader -c run.toml --step-ms 60 --check")]
    Loader(MeasureArgs),
    /// Measure a preparation (part to shards) against a null writer.
    Prepare(MeasureArgs),
    /// Measure training as configured. Nothing is saved.
    Train(MeasureArgs),
    /// Time training steps on synthetic batches: the limit of the device. Needs no corpus.
    Step(MeasureArgs),
    /// Measure loader, preparation and training separately, and name the slowest.
    All(MeasureArgs),
    /// Compare two profiles (`--json`). Exits with 3 if the second is slower by more than the limit with certainty.
    #[command(after_help = "Example: cloze profile compare before.json after.json --limit 0.05")]
    Compare {
        /// Profile before the change.
        before: PathBuf,
        /// Profile after the change.
        after: PathBuf,
        /// Fraction of the speed that the second profile may lose.
        #[arg(long, default_value_t = 0.05, value_parser = number::share)]
        limit: f64,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Measure the next steps of a running training and print where their time goes. The run continues, and its results
    /// do not change.
    #[command(after_help = "Example: cloze profile live runs/a --steps 50")]
    Live {
        /// Run folder.
        run: PathBuf,
        /// Steps to measure.
        #[arg(long, default_value_t = 20)]
        steps: u64,
        /// Measure for this many seconds instead.
        #[arg(long, conflicts_with = "steps", value_parser = number::seconds)]
        seconds: Option<f64>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write the HTML report of a saved profile (`--json`).
    #[command(after_help = "Example: cloze profile report before.json --out before.html")]
    Report {
        /// Profile to read.
        profile: PathBuf,
        /// HTML file to write. It is self-contained.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Write each plot to this folder too, as SVG.
        #[arg(long, value_name = "FOLDER")]
        svg: Option<PathBuf>,
    },
}

impl ProfileVerb {
    /// Returns the configuration and the options of a measurement.
    ///
    /// # Errors
    /// Returns the verb itself, boxed for its size, if it measures nothing.
    pub fn measurement(self) -> Result<(ConfigArgs, ProfileArgs), Box<Self>> {
        let (args, target) = match self {
            Self::Loader(args) => (args, ProfileTarget::Loader),
            Self::Prepare(args) => (args, ProfileTarget::Prepare),
            Self::Train(args) => (args, ProfileTarget::Train),
            Self::Step(args) => (args, ProfileTarget::Step),
            Self::All(args) => (args, ProfileTarget::All),
            Self::Compare { .. } | Self::Live { .. } | Self::Report { .. } => return Err(Box::new(self)),
        };
        Ok((args.config, ProfileArgs { target, ..args.options }))
    }

    /// Returns whether the verb needs `cloze-train`.
    pub fn computes_tensors(&self) -> bool {
        matches!(self, Self::Train(_) | Self::Step(_) | Self::All(_))
    }
}

/// Subcommands of `cloze checkpoints`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum CheckpointVerb {
    /// Read every byte of one checkpoint, or of all, and compare the hashes.
    Verify {
        /// Step. Default: all checkpoints.
        step: Option<u64>,
    },
    /// Keep a checkpoint, regardless of `[checkpoints]`.
    Pin {
        /// Step of the checkpoint.
        step: u64,
    },
    /// Apply `[checkpoints]` to a checkpoint again.
    Unpin {
        /// Step of the checkpoint.
        step: u64,
    },
    /// Remove a checkpoint permanently.
    Remove {
        /// Step of the checkpoint.
        step: u64,
    },
}

/// Subcommands of `cloze inspect`.
#[derive(Debug, Subcommand)]
pub enum InspectVerb {
    /// Show the rows of a micro-batch: masked, replaced and kept tokens, positives, source documents.
    Batch {
        /// Number of the micro-batch in the stream.
        index: u64,
        #[command(flatten)]
        config: ConfigArgs,
        /// Rows to show.
        #[arg(long, default_value_t = 4)]
        rows: usize,
    },
    /// Show the decoded samples of a shard.
    Shard {
        /// Shard of a prepared folder.
        file: PathBuf,
        /// Samples to show.
        #[arg(long, default_value_t = 4)]
        rows: usize,
    },
}
