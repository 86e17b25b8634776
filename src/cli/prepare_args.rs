//! Arguments of `cloze prepare` and its subcommands.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::number;
use super::subcommands::ConfigArgs;

/// Arguments of `cloze prepare`.
#[derive(Clone, Debug, Args)]
pub struct PrepareArgs {
    #[command(flatten)]
    pub(crate) config: Option<ConfigArgs>,
    /// Prepare only the corpus of this source (`[sources.NAME]` with `inputs`).
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Keep running, and prepare changes of the inputs every SECONDS (default 10).
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
    pub(crate) watch: Option<f64>,
    /// Write a report about the corpus into one HTML file: lengths, tokens per word, unknown words, rejects, padding,
    /// sources.
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub(crate) report: Option<PathBuf>,
    /// Write nothing: read, filter, compare and tokenize a sample of the documents, print what is removed, and estimate
    /// the whole. Ignores an existing prepared folder.
    #[arg(long, conflicts_with_all = ["watch", "report", "slow", "inject_faults"])]
    pub(crate) dry_run: bool,
    /// Share of the documents in the sample of `--dry-run`, chosen by `prepare.seed` and their places. All lines are
    /// read.
    #[arg(long, value_name = "SHARE", requires = "dry_run", default_value_t = 0.01, value_parser = number::positive_share)]
    pub(crate) sample: f64,
    /// Print the report of `--dry-run` as one JSON object.
    #[arg(long, requires = "dry_run")]
    pub(crate) json: bool,
    /// Delay the writer before each segment that it commits.
    #[arg(long, value_name = "writer=MS")]
    pub(crate) slow: Option<String>,
    /// Faults to inject: `seed=7,eio=store:0.01,lost=store:0.01,kill=part:3`, or a file.
    #[arg(long, value_name = "FILE|SPEC")]
    pub(crate) inject_faults: Option<String>,
    /// Other verb.
    #[command(subcommand)]
    pub(crate) verb: Option<PrepareVerb>,
}

/// Subcommands of `cloze prepare`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PrepareVerb {
    /// Write the part list, for processes that share the parts (`prepare run`).
    #[command(after_help = "Example: cloze prepare plan && sbatch --array=0-63 --wrap 'cloze prepare run'")]
    Plan(SharedPrepareArgs),
    /// Make parts of the plan. Any number of processes can run at once.
    ///
    /// Without a share, processes lease parts and wait for those of others. In a Slurm array, the share is that of the task.
    #[command(after_help = "Example: cloze prepare run --index 3 --count 8")]
    Run {
        #[command(flatten)]
        shared: SharedPrepareArgs,
        #[command(flatten)]
        share: ShareFlags,
        /// Delay the writer before each segment that it commits.
        #[arg(long, value_name = "writer=MS")]
        slow: Option<String>,
        /// Faults to inject, as for `cloze prepare`.
        #[arg(long, value_name = "FILE|SPEC")]
        inject_faults: Option<String>,
    },
    /// Compute signatures of a share of the parts, then compare all documents.
    ///
    /// Needs `[prepare.duplicates]`; run it before `prepare run`. The process that finds the last ones compares the
    /// documents.
    #[command(after_help = "Example: cloze prepare signatures --index 3 --count 8")]
    Signatures {
        #[command(flatten)]
        shared: SharedPrepareArgs,
        #[command(flatten)]
        share: ShareFlags,
    },
    /// Check that all parts of the plan exist, and write the manifest.
    Finalize {
        #[command(flatten)]
        shared: SharedPrepareArgs,
        /// Write a report about the corpus into one HTML file.
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
    },
    /// Remove a document permanently. The parts that contain it are rebuilt without it.
    Forget {
        #[command(flatten)]
        config: ConfigArgs,
        /// Document id: the value of `prepare.id_field`, or the BLAKE3 of the text (column `id` of `documents/`).
        #[arg(long, value_name = "ID")]
        document: String,
        /// Accept an id that no document has now: that of a removed duplicate, or of a document that arrives later.
        #[arg(long)]
        absent: bool,
        /// Source whose corpus contains the document. Required if there are several sources.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
    },
}

/// Share of the parts of a plan.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ShareFlags {
    /// Take every COUNT-th part, from part I on (from 0). Default: that of a Slurm array or a Kubernetes Indexed Job.
    #[arg(long, value_name = "I", requires = "count")]
    pub(crate) index: Option<u64>,
    /// Number of shares. Default: that of a Slurm array.
    #[arg(long, value_name = "COUNT")]
    pub(crate) count: Option<u64>,
    /// Lease parts, also in a Slurm array.
    #[arg(long, conflicts_with_all = ["index", "count"])]
    pub(crate) lease: bool,
    /// Time without a heartbeat after which the lease of another process expires.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = number::lease_seconds)]
    pub(crate) lease_timeout: f64,
}

/// Configuration and corpus of a phase of a preparation.
#[derive(Clone, Debug, Args)]
pub(crate) struct SharedPrepareArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Prepare only the corpus of this source (`[sources.NAME]` with `inputs`).
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
}
