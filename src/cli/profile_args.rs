//! How to measure: what `cloze profile` and `cloze tune` are told.

use std::path::PathBuf;

use clap::Args;
use telemetry::quantities::parse_bytes;

use super::choice::ProfileTarget;
use super::number;

/// What to profile, and how it is told.
#[derive(Clone, Debug, Args)]
pub struct ProfileArgs {
    /// Part of the pipeline that is measured: the subcommand.
    #[arg(skip)]
    pub target: ProfileTarget,
    /// Measure for at most this long. A measurement ends earlier when its rate is known to 3 %.
    #[arg(long, default_value_t = 20.0, value_parser = number::seconds)]
    pub seconds: f64,
    /// Measure so many micro-batches instead.
    #[arg(long)]
    pub batches: Option<u64>,
    /// Training steps to time with `profile step`, after a third as many that warm up.
    #[arg(long, default_value_t = 30)]
    pub steps: usize,
    /// Pretend that a training step takes this long; 0 takes batches as fast as they come.
    #[arg(long, default_value_t = 0.0, value_parser = number::milliseconds)]
    pub step_ms: f64,
    /// Slow something on purpose, by so many ms: `worker` (each batch of the first), `workers` (each batch), `work` (each
    /// batch, on a processor), `burst` (one batch of eight), `disk` (each read of a shard); `writer` of a preparation.
    /// After a comma: `lock` (each batch, with one lock of all workers), `turns` (the same, when all workers have met), `pairs`
    /// (as `turns`, for each other worker).
    #[arg(long, value_name = "ACTOR=MS")]
    pub slow: Option<String>,
    /// Run what is proposed too, and say what it brought.
    #[arg(long)]
    pub check: bool,
    /// Run at each of these numbers of workers, for all of `--seconds`, and say by the law that fits them where more stop to
    /// pay.
    #[arg(long, value_name = "WORKERS", value_delimiter = ',', conflicts_with_all = ["check", "batches", "report", "svg", "trace", "folded"],
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub scale: Vec<u16>,
    /// Write a page with everything into this file of HTML, which needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write each plot of that page into this folder too, as SVG.
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub traced: TraceArgs,
}

/// What tuning goes by.
#[derive(Clone, Debug, Args)]
pub struct TuneArgs {
    /// Memory to stay within, for a step by plan and for batches in flight: `8GiB`, `500MB`. If not said, the device's, or
    /// what the machine has to give.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// Measure each candidate for so long at the most.
    #[arg(long, default_value_t = 8.0, value_parser = number::seconds)]
    pub seconds: f64,
    /// A training step takes this long: it is then not timed, and `train.micro_batch_size` stays. A build without the
    /// trainer takes batches as fast as they come if it is not said.
    #[arg(long, value_parser = number::milliseconds)]
    pub step_ms: Option<f64>,
    /// Slow something on purpose, as `cloze profile --slow` does.
    #[arg(long, value_name = "ACTOR=MS")]
    pub(crate) slow: Option<String>,
    /// Measure, and say what would be written.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where what every actor did goes.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceArgs {
    /// Write what every actor did at each moment, for <https://ui.perfetto.dev>.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Slices, states, numbers of counters and arrivals that a trace has at the most; what comes after is left out, and counted.
    #[arg(long, value_name = "ENTRIES", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) max_trace_events: u64,
    /// Write how often each actor was seen doing what, as folded stacks: for flame graphs.
    #[arg(long, value_name = "FILE")]
    pub(crate) folded: Option<PathBuf>,
}
