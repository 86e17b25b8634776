//! Arguments of `cloze profile` and `cloze tune`.

use std::path::PathBuf;

use clap::Args;
use telemetry::quantities::parse_bytes;

use super::choice::ProfileTarget;
use super::number;

/// Target, limits and output of a profile.
#[derive(Clone, Debug, Args)]
pub struct ProfileArgs {
    /// Part of the pipeline to measure: the subcommand.
    #[arg(skip)]
    pub target: ProfileTarget,
    /// Measure for at most this long. A measurement ends earlier when its rate is known to 3 %. Default: 20.
    #[arg(long, value_parser = number::seconds)]
    pub seconds: Option<f64>,
    /// Measure this number of micro-batches instead.
    #[arg(long)]
    pub batches: Option<u64>,
    /// Training steps to time with `profile step`. A third as many warm-up steps run first. Default: 30.
    #[arg(long)]
    pub steps: Option<usize>,
    /// Simulate a training step of this duration; 0 takes batches as fast as they arrive. Default: the time that `cloze
    /// plan --measure` has measured for this run, or 0.
    #[arg(long, value_parser = number::milliseconds)]
    pub step_ms: Option<f64>,
    /// Inject a delay in ms: `worker` (each batch of the first worker), `workers` (each batch), `work` (each batch, on
    /// a processor), `burst` (one batch of eight), `disk` (each read of a shard); for a preparation: `writer`. After a
    /// comma: `lock` (each batch, under one lock of all workers), `turns` (the same, once all workers have met),
    /// `pairs` (as `turns`, for every other worker).
    #[arg(long, value_name = "ACTOR=MS")]
    pub slow: Option<String>,
    /// Measure the proposed change too, and print predicted and measured gain.
    #[arg(long)]
    pub check: bool,
    /// Measure each of these numbers of workers for `--seconds` and fit a scaling law. The law tells from which number
    /// on more workers do not help.
    #[arg(long, value_name = "WORKERS", value_delimiter = ',', conflicts_with_all = ["check", "batches", "report", "svg", "trace", "folded"],
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub scale: Vec<u16>,
    /// Write a self-contained HTML report to this file.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write each plot of the report to this folder too, as SVG.
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub traced: TraceArgs,
}

impl ProfileArgs {
    /// Returns the limit of a measurement in seconds.
    pub fn max_seconds(&self) -> f64 {
        self.seconds.unwrap_or(20.0)
    }

    /// Returns the number of steps that `profile step` times.
    pub fn timed_steps(&self) -> usize {
        self.steps.unwrap_or(30)
    }
}

/// Limits and output of tuning.
#[derive(Clone, Debug, Args)]
pub struct TuneArgs {
    /// Memory limit for a step as planned and for batches in flight: `8GiB`, `500MB`. Default: the memory of the
    /// device, or the available memory of the machine.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// Measure each candidate for at most this long.
    #[arg(long, default_value_t = 8.0, value_parser = number::seconds)]
    pub seconds: f64,
    /// Assume this duration of a training step. Steps are then not timed, and `train.micro_batch_size` stays. Without
    /// this flag, a build without the trainer takes batches as fast as they arrive.
    #[arg(long, value_parser = number::milliseconds)]
    pub step_ms: Option<f64>,
    /// Inject a delay, as `cloze profile --slow` does.
    #[arg(long, value_name = "ACTOR=MS")]
    pub(crate) slow: Option<String>,
    /// Measure, and print the changes without writing them.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Output files for traces of all actors.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceArgs {
    /// Write a trace of all actors, for <https://ui.perfetto.dev>.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Maximum number of slices, states, counter values and arrivals in a trace. Later entries are dropped and counted.
    #[arg(long, value_name = "ENTRIES", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) max_trace_events: u64,
    /// Write the time of each actor by state as folded stacks, for flame graphs.
    #[arg(long, value_name = "FILE")]
    pub(crate) folded: Option<PathBuf>,
}
