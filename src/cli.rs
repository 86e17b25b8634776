//! The verbs. A run is configured by its file (`--config`, `--set`), never by flags; flags say what to do with a run.

#![expect(missing_docs, reason = "arguments that are flattened or shared have their help where they are defined")]

mod choice;
mod number;
mod output_args;
mod profile_args;
mod subcommands;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use telemetry::terminal::{OutputFormat, OutputMode, note};

pub use self::choice::{ExportFamily, ParityDtype, ProfileTarget};
use self::output_args::Said;
pub use self::profile_args::{ProfileArgs, TraceArgs, TuneArgs};
pub use self::subcommands::CheckpointVerb;
pub use self::subcommands::{ConfigArgs, ConfigVerb, InspectVerb, PrepareVerb, ProfileVerb, TokenizerVerb};

/// Pretrains BERT-style encoders: corpus preparation, a resumable trainer, a throughput profiler.
#[derive(Debug, Parser)]
#[command(name = "cloze", version, about, propagate_version = true, max_term_width = 100, after_help = AFTER)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) said: Said,
}

impl Cli {
    /// The command line of this process; it ends where there is none to be made of it, or where help is asked for.
    pub(crate) fn parsed() -> Self {
        Self::try_parse().unwrap_or_else(|error| {
            let words: Vec<_> = std::env::args_os().collect();
            let asks =
                words.windows(2).any(|pair| pair == ["--log", "json"]) || words.iter().any(|it| it == "--log=json");
            if !error.use_stderr() || !(asks || output_args::of_environment() == OutputFormat::Json) {
                error.exit();
            }
            OutputMode { form: OutputFormat::Json, ..OutputMode::default() }.set();
            note(error.render());
            std::process::exit(error.exit_code());
        })
    }
}

/// What no verb says by itself.
const AFTER: &str = "\
From text to a model:
  cloze init corpus/                       look at a corpus, write run.toml
  cloze tokenizer train -c run.toml        a tokenizer of it
  cloze prepare -c run.toml                shards; again: continue
  cloze plan -c run.toml                   what a run comes to, before it costs anything
  cloze train -c run.toml                  again: resume
  cloze export --run runs/run --out model  a folder that `transformers` loads

Environment:
  RUST_LOG           what is logged on stderr: `warn`, `debug`, `pipeline=debug,warn` …; goes before -v and -q
  CLOZE_LOG_FORMAT   `json`: as `--log json`, where the command does not say it
  NO_COLOR, CLICOLOR_FORCE

Exit codes: 0 done, 1 failed (the same command continues), 2 configuration or usage, 42 unfit corpus,
43 diverged, 44 out of device memory, 45 paused by the guard,
129, 130, 138 and 143 stopped by SIGHUP, SIGINT, SIGUSR1, SIGTERM and saved.";

/// One verb per file of `commands/`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Look at a corpus and write a configuration for it, with a comment on each choice.
    #[command(after_help = "Example: cloze init corpus/*.jsonl.zst --out runs/news.toml")]
    Init {
        /// Files, folders and globs, as `prepare.inputs` takes them.
        #[arg(required = true, value_name = "INPUT")]
        inputs: Vec<String>,
        /// The file to write. One that is there is left alone.
        #[arg(short, long, value_name = "FILE", default_value = "run.toml")]
        out: PathBuf,
    },
    /// List the keys of a configuration: what each is if it is not written, and what it means.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Example: cloze config prepare views.mask train.steps"
    )]
    Config {
        /// Only these sections, kinds of components, or keys: `train`, `views.mask`, `prepare.workers`.
        #[arg(value_name = "NAME")]
        only: Vec<String>,
        /// What to do instead.
        #[command(subcommand)]
        verb: Option<ConfigVerb>,
    },
    /// Train a tokenizer on the corpus of `[prepare]`.
    #[command(subcommand)]
    Tokenizer(TokenizerVerb),
    /// Turn the corpus of `[prepare]` into shards and a manifest. Run it again to continue, or when files have changed.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Example: cloze prepare -c run.toml --set prepare.workers=8"
    )]
    Prepare {
        #[command(flatten)]
        config: Option<ConfigArgs>,
        /// The corpus of this source alone (`[sources.NAME]` with `inputs`), not of all.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// Go on for ever: look for changes of the inputs every so many seconds (10 if not said), and take them in.
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
        watch: Option<f64>,
        /// Then write what the corpus is like into one file of HTML: lengths, tokens per word, unknown words, rejects,
        /// padding, sources. Of a corpus that is prepared, at once.
        #[arg(long, value_name = "FILE", conflicts_with = "watch")]
        report: Option<PathBuf>,
        /// Slow the writer on purpose, before each segment that it commits.
        #[arg(long, value_name = "writer=MS")]
        slow: Option<String>,
        /// Faults to live with, by seed: `seed=7,eio=store:0.01,lost=store:0.01,kill=part:3`, or a file of them.
        #[arg(long, value_name = "FILE|SPEC")]
        inject_faults: Option<String>,
        /// What to do instead.
        #[command(subcommand)]
        verb: Option<PrepareVerb>,
    },
    /// Check a configuration against its data, if they are prepared, and print the run before it costs anything.
    #[command(after_help = "Example: cloze plan -c configs/coco-lm-base.toml --set train.global_batch_size=1024")]
    Plan {
        #[command(flatten)]
        config: ConfigArgs,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
    },
    /// Check the plan and train by it. The same command resumes.
    #[command(after_help = "Example: cloze train -c run.toml --set run.folder=runs/second --set seed=2")]
    Train {
        #[command(flatten)]
        config: ConfigArgs,
        /// Repeat the first N micro-batches for ever: the speed of a loader that costs nothing. Saves nothing.
        #[arg(long, value_name = "N", conflicts_with = "prepare")]
        replay: Option<u64>,
        /// Prepare the corpus too: beside the training with `data.order = "streamed"`, else before it.
        #[arg(long)]
        prepare: bool,
        /// Allow resuming although this key has changed. Can be repeated. The change is logged.
        #[arg(long, value_name = "KEY")]
        allow_change: Vec<String>,
        /// Slow one phase on purpose, to rehearse a preemption: `start`, `data`, `step`, `validation` or `checkpoint`.
        /// `PHASE@N` holds it the Nth time, until a stop is requested.
        #[arg(long, value_name = "PHASE=MS")]
        slow: Option<String>,
        /// Faults to live with, by seed: `seed=7,panic=worker:0.01,slow=worker:0.01:5ms,eio=store:0.01,lost=store:0.01,
        /// kill=step:40`, or a file of them. The run ends as it would in calm.
        #[arg(long, value_name = "FILE|SPEC")]
        inject_faults: Option<String>,
        /// Measure these steps, and write where their time went to `profiles/` of the run's folder; `cloze profile live` asks
        /// a run that goes on for the same.
        #[arg(long, value_name = "FROM..TO", conflicts_with = "replay")]
        profile: Option<String>,
    },
    /// Measure where the time goes and name the bottleneck.
    #[command(subcommand, after_help = "Example: cloze profile loader -c run.toml --step-ms 60 --check")]
    Profile(ProfileVerb),
    /// Find the micro-batch, workers and depth that are fastest here by measuring them, and write them into the file.
    #[command(after_help = "Example: cloze tune -c run.toml --memory 8GiB --dry-run")]
    Tune {
        #[command(flatten)]
        config: ConfigArgs,
        #[command(flatten)]
        options: TuneArgs,
    },
    /// Look at data.
    #[command(subcommand)]
    Inspect(InspectVerb),
    /// List all runs below a folder: how far they are, their loss and speed, and whether they train.
    #[command(after_help = "Example: cloze runs runs")]
    Runs {
        /// Where to look.
        #[arg(default_value = ".")]
        folder: PathBuf,
        /// Print one JSON array instead.
        #[arg(long)]
        json: bool,
    },
    /// List the checkpoints of a run with their figures and why each stays; verify, pin, unpin, remove one.
    #[command(after_help = "Example: cloze checkpoints runs/a pin 120000")]
    Checkpoints {
        /// The run folder.
        run: PathBuf,
        /// What to do instead.
        #[command(subcommand)]
        verb: Option<CheckpointVerb>,
        /// Print JSON instead.
        #[arg(long, global = true)]
        json: bool,
    },
    /// Go back to an older checkpoint; what came after is kept by name, in `rolled_back/` of the run.
    #[command(after_help = "Example: cloze rollback runs/a --step 120000 --reason 'the loss jumped'")]
    Rollback {
        /// The run folder.
        run: PathBuf,
        /// The step to go back to: one that has a checkpoint.
        #[arg(long)]
        step: u64,
        /// The reason, for whoever asks later.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
    },
    /// Begin a run of its own where another stood after a step, with some keys of its configuration set anew.
    #[command(after_help = "Example: cloze branch runs/a --step 120000 --out runs/b --set optimizer.lr=5e-5")]
    Branch {
        /// The run folder to begin from.
        run: PathBuf,
        /// The step to begin after: one that has a checkpoint.
        #[arg(long)]
        step: u64,
        /// The folder of the new run.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        /// Set one key anew, as often as needed.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
    },
    /// Give a run more steps, or fewer, from its newest checkpoint on, and say what that does to the learning rate.
    #[command(after_help = "Example: cloze extend runs/a --steps 2000000")]
    Extend {
        /// The run folder.
        run: PathBuf,
        /// Steps of the whole run.
        #[arg(long)]
        steps: u64,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
    },
    /// Say in what two runs differ: configuration, data, program, and the first step at which they part.
    #[command(after_help = "Example: cloze diff runs/a runs/b")]
    Diff {
        /// A run folder.
        one: PathBuf,
        /// Another.
        other: PathBuf,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
    },
    /// Write a checkpoint as a folder that `transformers` loads.
    #[command(after_help = "Example: cloze export --run runs/a --out model --as roberta")]
    Export {
        /// The run folder.
        #[arg(long)]
        run: PathBuf,
        /// The folder to write.
        #[arg(long)]
        out: PathBuf,
        /// The step to export; the newest checkpoint if left out.
        #[arg(long)]
        step: Option<u64>,
        /// The architecture to write it as.
        #[arg(long = "as", value_enum, default_value_t = ExportFamily::Bert)]
        family: ExportFamily,
    },
    /// Show what a step of a run learnt from: rows, hardest first, with their documents, masks and losses.
    #[command(after_help = "Example: cloze explain runs/a --step 412337 --rows 2")]
    Explain {
        /// The run folder.
        run: PathBuf,
        /// The step, counted from 1 as reports count them.
        #[arg(long)]
        step: u64,
        /// Only this row, by its number in the stream.
        #[arg(long)]
        row: Option<u64>,
        /// Rows to show.
        #[arg(long, default_value_t = 4)]
        rows: usize,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
        /// Change a key that changes no number, as often as needed: `--set train.device=cpu`.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Count how often a run has learnt each document.
    #[command(after_help = "Example: cloze exposure runs/a --document 7f3a0c")]
    Exposure {
        /// The run folder.
        run: PathBuf,
        /// Only this document: its id (column `id` of `documents/`), what only its id begins with (6 letters or more), or the name
        /// that `explain --json` has as `document`.
        #[arg(long, value_name = "ID")]
        document: Option<String>,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
    },
    /// Do a step of a run once more, from the checkpoint before it, and compare it with the log; nothing is kept.
    #[command(after_help = "Example: cloze replay runs/a --step 412337 --without 3298690")]
    Replay {
        /// The run folder.
        run: PathBuf,
        /// The step, counted from 1 as reports count them.
        #[arg(long)]
        step: u64,
        /// Do it without these rows too, by their numbers in the stream: `12,40-43`.
        #[arg(long, value_name = "ROWS")]
        without: Option<String>,
        /// Print one JSON object instead.
        #[arg(long)]
        json: bool,
        /// Change a key that changes no number, as often as needed: `--set train.device=cpu`.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Fill in the `[MASK]`s of a sentence.
    #[command(after_help = "Example: cloze fill --run runs/a 'the [MASK] sat on the mat'")]
    Fill {
        /// The run folder.
        #[arg(long)]
        run: PathBuf,
        /// Words to show for each mask.
        #[arg(long, default_value_t = 5)]
        top: usize,
        /// Sentences with `[MASK]` in them.
        #[arg(required = true)]
        texts: Vec<String>,
    },
    /// Compute losses and gradients of given tensors with the functions that training uses.
    Parity {
        /// The cases.
        #[arg(long = "in", value_name = "FILE")]
        input: PathBuf,
        /// Where the results go.
        #[arg(long = "out", value_name = "FILE")]
        output: PathBuf,
        /// Precision of the computation.
        #[arg(long, value_enum, default_value_t = ParityDtype::F64)]
        dtype: ParityDtype,
    },
    /// Put runs into one file of HTML that opens anywhere: curves over one another, events, configurations.
    #[command(after_help = "Example: cloze report runs/a runs/b --out report.html --svg plots")]
    Report {
        /// Folders of runs.
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<PathBuf>,
        /// The file to write.
        #[arg(long, value_name = "FILE", default_value = "report.html")]
        out: PathBuf,
        /// Write each figure as a plot into this folder too.
        #[arg(long, value_name = "FOLDER")]
        svg: Option<PathBuf>,
    },
    /// Look at a run on the terminal as it goes on. Keys: q leaves, arrows choose the figure, c saves, s stops.
    #[command(after_help = "Example: cloze top runs/a")]
    Top {
        /// Its folder, or the address or socket of `[serve]`.
        #[arg(value_name = "RUN|ADDRESS")]
        run: String,
    },
    /// Print what a shell completes the commands of `cloze` with.
    #[command(after_help = "Example: cloze completions bash > ~/.local/share/bash-completion/completions/cloze")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a page of the manual.
    #[command(after_help = "Example: cloze man prepare | man -l -")]
    Man {
        /// The verb it is about; none for `cloze` itself.
        verb: Vec<String>,
    },
}
