//! What verbs have in common, and what those can do that have several things to do.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::choice::ProfileTarget;
use super::number;
use super::profile_args::ProfileArgs;

/// A configuration file with overrides.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// The run's configuration; `cloze config` lists its keys.
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Override one key, as often as needed: `--set train.steps=100`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// What to do about the keys of a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print a JSON schema, with which editors complete and check configurations.
    #[command(after_help = "Example: cloze config schema > cloze.schema.json, and in the first line of a file \
                            `#:schema cloze.schema.json`")]
    Schema,
}

/// What to do about a tokenizer.
#[derive(Debug, Subcommand)]
pub enum TokenizerVerb {
    /// Train one on the training split of `[prepare] inputs`, as `[tokenizer]` says; the same bytes every time.
    Train(ConfigArgs),
}

/// What to do with a prepared corpus.
#[derive(Debug, Subcommand)]
pub enum PrepareVerb {
    /// Leave a document out forever: the parts that hold it are rebuilt without it.
    Forget {
        #[command(flatten)]
        config: ConfigArgs,
        /// Its id: what `prepare.id_field` holds, or the BLAKE3 of its text (column `id` of `documents/`).
        #[arg(long, value_name = "ID")]
        document: String,
        /// The source whose corpus holds it, where there are several.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
    },
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
    /// Measure the loader (index to batch) against no trainer, or one that takes `--step-ms`.
    #[command(after_help = "Example: cloze profile loader -c run.toml --step-ms 60 --check")]
    Loader(MeasureArgs),
    /// Measure a preparation (part to shards) against a writer that keeps nothing.
    Prepare(MeasureArgs),
    /// Measure training as configured. Nothing is saved.
    Train(MeasureArgs),
    /// Time training steps on made batches: what the device can do, before there is a corpus.
    Step(MeasureArgs),
    /// Measure loader, preparation and training each by itself, and name the slowest.
    All(MeasureArgs),
    /// Hold two profiles (`--json`) next to one another; ends with 3 where the second is surely slower by more than the limit.
    #[command(after_help = "Example: cloze profile compare before.json after.json --limit 0.05")]
    Compare {
        /// The first.
        before: PathBuf,
        /// The second.
        after: PathBuf,
        /// The share of its speed that it may lose.
        #[arg(long, default_value_t = 0.05, value_parser = number::share)]
        limit: f64,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
    },
    /// Ask a run that continues to measure its next steps, and print where their time went. The run is not stopped, and learns
    /// what it would have learned.
    #[command(after_help = "Example: cloze profile live runs/a --steps 50")]
    Live {
        /// The run folder.
        run: PathBuf,
        /// Steps to measure.
        #[arg(long, default_value_t = 20)]
        steps: u64,
        /// Measure for so many seconds instead.
        #[arg(long, conflicts_with = "steps", value_parser = number::seconds)]
        seconds: Option<f64>,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
    },
    /// Make the page of a profile that was kept (`--json`).
    #[command(after_help = "Example: cloze profile report before.json --out before.html")]
    Report {
        /// The profile.
        profile: PathBuf,
        /// The file of HTML, which needs nothing else.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Write each plot into this folder too, as SVG.
        #[arg(long, value_name = "FOLDER")]
        svg: Option<PathBuf>,
    },
}

impl ProfileVerb {
    /// Returns the configuration and the options of a measurement, or the verb if it measures nothing itself.
    ///
    /// # Errors
    /// The verb.
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

    /// Returns whether only the second program runs it.
    pub fn computes_tensors(&self) -> bool {
        matches!(self, Self::Train(_) | Self::Step(_) | Self::All(_))
    }
}

/// What to do with the checkpoints of a run.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum CheckpointVerb {
    /// Read every byte of one, or of all, and say whether it is as it was written.
    Verify {
        /// The step; all if left out.
        step: Option<u64>,
    },
    /// Make one stay, whatever `[checkpoints]` says.
    Pin {
        /// The step.
        step: u64,
    },
    /// Let `[checkpoints]` decide about one again.
    Unpin {
        /// The step.
        step: u64,
    },
    /// Remove one for good.
    Remove {
        /// The step.
        step: u64,
    },
}

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum InspectVerb {
    /// The rows of a micro-batch: masked, replaced and kept tokens, positives, source documents.
    Batch {
        /// Its number in the stream.
        index: u64,
        #[command(flatten)]
        config: ConfigArgs,
        /// Rows to show.
        #[arg(long, default_value_t = 4)]
        rows: usize,
    },
    /// The samples of a shard, decoded.
    Shard {
        /// A shard of a prepared folder.
        file: PathBuf,
        /// Samples to show.
        #[arg(long, default_value_t = 4)]
        rows: usize,
    },
}
