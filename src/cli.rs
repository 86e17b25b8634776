//! Arguments of the command line. Keys of the configuration file (`--config`, `--set`) configure a run; flags select what is
//! done with it.

#![expect(missing_docs, reason = "arguments that are flattened or shared have their help where they are defined")]

mod analyze_args;
mod choice;
mod finetune_args;
mod help;
mod number;
mod output_args;
mod prepare_args;
mod profile_args;
mod subcommands;
mod sweep_args;

use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use telemetry::terminal::{OutputFormat, OutputMode, note};
use trainer_plan::launch::MAX_WORLD_SIZE;
use trainer_plan::networks::MAIN;

pub use self::analyze_args::{AnalyzeArgs, CommonArgs, PairArgs, RowArgs, SentenceArgs, StepChoice};
pub use self::choice::{
    AverageConvention, ExportFamily, Gpu, Method, ModelSize, ParityDtype, PresetName, ProfileTarget, Statistic,
};
pub use self::finetune_args::{Hyperparameters, Warmup};
use self::output_args::OutputArgs;
pub use self::prepare_args::PrepareArgs;
pub(crate) use self::prepare_args::{PrepareVerb, ShareFlags, SharedPrepareArgs};
pub use self::profile_args::{ProfileArgs, TraceArgs, TuneArgs};
pub use self::subcommands::CheckpointVerb;
pub(crate) use self::subcommands::DEFAULT_CONFIG;
pub use self::subcommands::{ConfigArgs, ConfigVerb, InspectVerb, ProfileVerb, TokenizerVerb};
pub use self::sweep_args::{SweepArgs, SweepVerb};
pub(crate) use self::sweep_args::{SweepExecution, SweepRequest};

/// Pretrains BERT-style encoders: data preparation, training, profiling.
#[derive(Debug, Parser)]
#[command(name = "cloze", version, about, propagate_version = true, max_term_width = 100, after_help = help::AFTER)]
pub(crate) struct Cli {
    /// Verb and its arguments.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) said: OutputArgs,
}

impl Cli {
    /// Parses the arguments of this process. Ends the process with a message if they are invalid, or if help is requested.
    pub(crate) fn parsed() -> Self {
        let words: Vec<_> = std::env::args_os().collect();
        if words.len() == 1 {
            note(help::FIRST_SCREEN);
            std::process::exit(2);
        }
        let matches = help::grouped(Self::command()).try_get_matches();
        matches.and_then(|matches| Self::from_arg_matches(&matches)).unwrap_or_else(|error| {
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

/// One verb per file of `commands/`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a configuration for a corpus, with a comment on each choice.
    #[command(after_help = "Example: cloze init corpus/*.jsonl.zst --method taco --size base --out runs/news.toml")]
    Init {
        /// Files, folders and globs, as `prepare.inputs` takes them.
        #[arg(required = true, value_name = "INPUT")]
        inputs: Vec<String>,
        /// Method of pretraining.
        #[arg(long, value_enum, default_value_t = Method::Mlm)]
        method: Method,
        /// Size of the model. Default: one that suits the corpus.
        #[arg(long, value_enum, conflicts_with = "from")]
        size: Option<ModelSize>,
        /// Folder of a `transformers` model to continue: its shape, tokenizer and weights.
        #[arg(long, value_name = "FOLDER")]
        from: Option<PathBuf>,
        /// Field or column with the text. Default: a usual name, or the longest text of all records.
        #[arg(long, value_name = "FIELD")]
        text_field: Option<String>,
        /// Prepared folder to read, with its tokenizer, packing and row length. Several methods can share one.
        #[arg(long, value_name = "FOLDER")]
        data: Option<PathBuf>,
        /// File to write. An existing file is not overwritten.
        #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        out: PathBuf,
    },
    /// List the configuration keys with their defaults and meanings.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Example: cloze config prepare views.mask train.steps"
    )]
    Config {
        /// Only these sections, kinds of components, or keys: `train`, `views.mask`, `prepare.workers`.
        #[arg(value_name = "NAME")]
        only: Vec<String>,
        /// Other verb.
        #[command(subcommand)]
        verb: Option<ConfigVerb>,
    },
    /// Train a tokenizer on the corpus of `[prepare]`.
    #[command(subcommand)]
    Tokenizer(TokenizerVerb),
    /// Tokenize the corpus into shards; rerun to continue or update.
    ///
    /// Writes shards and a manifest. After an interruption or a change of the corpus, the same command continues.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Example: cloze prepare -c run.toml --set prepare.workers=8"
    )]
    Prepare(PrepareArgs),
    /// Check a prepared folder, and make damaged parts again.
    ///
    /// Hashes and decodes all shards and tables. Exits with 1 if anything is damaged.
    #[command(after_help = "Example: cloze verify data --repair -c run.toml")]
    Verify {
        /// Prepared folder.
        folder: PathBuf,
        /// Make damaged parts again, from the corpus of the configuration.
        #[arg(long)]
        repair: bool,
        #[command(flatten)]
        config: ConfigArgs,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Check a configuration and print the run before it costs anything.
    ///
    /// Refuses what `cloze train` would refuse on this machine, with the prepared data if they exist.
    #[command(after_help = "Example: cloze plan -c configs/coco-lm-base.toml --on h100 --watts 700")]
    Plan {
        #[command(flatten)]
        config: ConfigArgs,
        /// Plan for another machine with this GPU, and compute how long the run takes there.
        #[arg(long, value_name = "GPU", ignore_case = true, conflicts_with = "measure")]
        on: Option<Gpu>,
        /// Time some steps on this machine, and remember the time for later plans of the same shape.
        #[arg(long)]
        measure: bool,
        /// Power in watts of all machines of the run together, for its energy.
        #[arg(long, value_name = "W", value_parser = number::watts)]
        watts: Option<f64>,
        /// Price of an hour of a device, for the price of the run.
        #[arg(long, value_name = "PRICE", value_parser = number::positive)]
        price: Option<f64>,
        /// Ranks that share each step: plan the run on all of them. Default: those of the launcher, if there are several.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_WORLD_SIZE)))]
        ranks: Option<u32>,
        /// GB/s of the network of a rank. Default: 46 for H100 and H200, 23 for A100, and that of one host for CPUs.
        #[arg(long, value_name = "GB/s", value_parser = number::gigabytes)]
        bandwidth: Option<f64>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Train as planned; the same command resumes.
    #[command(after_help = "Example: cloze train -c run.toml --set run.folder=runs/second --set seed=2")]
    Train {
        #[command(flatten)]
        config: ConfigArgs,
        /// Repeat the first N micro-batches, to measure training without the loader. Nothing is saved.
        #[arg(long, value_name = "N", conflicts_with = "prepare")]
        replay: Option<u64>,
        /// Prepare the corpus too: concurrently with `data.order = "streamed"`, otherwise before training.
        #[arg(long)]
        prepare: bool,
        /// Allow resuming although this key has changed. Can be repeated. The change is logged.
        #[arg(long, value_name = "KEY")]
        allow_change: Vec<String>,
        /// Delay a phase: `start`, `data`, `step`, `validation` or `checkpoint`. `PHASE@N` holds the Nth one until a stop is
        /// requested.
        #[arg(long, value_name = "PHASE=MS")]
        slow: Option<String>,
        /// Faults to inject: `seed=7,panic=worker:0.01,slow=worker:0.01:5ms,eio=store:0.01,lost=store:0.01,kill=step:40`, or a
        /// file. The result of the run is the same as without faults.
        #[arg(long, value_name = "FILE|SPEC")]
        inject_faults: Option<String>,
        /// Profile these steps into `profiles/` of the run folder. `cloze profile live` does the same for a running process.
        #[arg(long, value_name = "FROM..TO", conflicts_with = "replay")]
        profile: Option<String>,
    },
    /// Fine-tune a model on a labelled task; the same command continues.
    ///
    /// Prepares the examples, writes a configuration, trains with it and evaluates the result.
    #[command(after_help = "Example: cloze finetune glue/CoLA --task cola --from runs/a --out runs/cola")]
    Finetune {
        /// Folder with the files of the task.
        data: PathBuf,
        /// Task by its name, or a TOML file with `kind` and the keys of a task.
        #[arg(long, value_name = "TASK|FILE.toml")]
        task: String,
        /// Run to start from, or the folder of a `transformers` model.
        #[arg(long, value_name = "RUN|MODEL")]
        from: PathBuf,
        /// Step of the checkpoint of the run. Default: the newest, or the best of a fine-tuning that keeps the best.
        #[arg(long, value_name = "STEP")]
        from_step: Option<u64>,
        /// Folder to write: the prepared examples, the configuration, the run and its results.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        #[command(flatten)]
        hyper: Hyperparameters,
        /// Override one key of the configuration. Can be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Compute metrics and predictions of a fine-tuned run.
    ///
    /// Writes `results.json` and the files of `predictions/` into the run folder. Those of another step, of a run that has
    /// not ended, or of another task are written into its folder `evaluations/`.
    #[command(after_help = "Example: cloze evaluate runs/mnli/run --task ax --data glue/diagnostic")]
    Evaluate {
        /// Run folder.
        run: PathBuf,
        /// Step whose checkpoint is loaded. Default: the newest, or the best if the run keeps the best.
        #[arg(long)]
        step: Option<u64>,
        /// Other task with the same outputs, by its name or a TOML file.
        #[arg(long, value_name = "TASK|FILE.toml", requires = "data")]
        task: Option<String>,
        /// Folder with the files of the other task.
        #[arg(long, value_name = "FOLDER", requires = "task")]
        data: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Analyze hidden states and gradients of checkpoints.
    ///
    /// Prints a table. With several runs or steps, `--plot` and `--html` show curves over steps.
    #[command(
        subcommand,
        after_help = "Example: cloze analyze context-score runs/a runs/b --step all --text valid.txt --html scores.html"
    )]
    Analyze(Box<AnalyzeArgs>),
    /// Fine-tune with lists of values and several seeds.
    ///
    /// The same command continues. Each combination is a run of `cloze finetune` below `runs/` of the folder. Several processes may work on one folder.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Example: cloze sweep glue/CoLA --task cola --from runs/a --out sweeps/cola --seeds 5 --lr 1e-5,3e-5"
    )]
    Sweep {
        #[command(flatten)]
        args: Box<SweepArgs>,
        /// Other verb.
        #[command(subcommand)]
        verb: Option<SweepVerb>,
    },
    /// Measure where the time goes and name the bottleneck.
    #[command(subcommand, after_help = "Example: cloze profile loader -c run.toml --step-ms 60 --check")]
    Profile(ProfileVerb),
    /// Find the fastest micro-batch size, workers and prefetch.
    ///
    /// Writes the keys that gain into the configuration file.
    #[command(after_help = "Example: cloze tune -c run.toml --memory 8GiB --dry-run")]
    Tune {
        #[command(flatten)]
        config: ConfigArgs,
        #[command(flatten)]
        options: TuneArgs,
    },
    /// Show batches and shards.
    #[command(subcommand)]
    Inspect(InspectVerb),
    /// List the runs below a folder with progress, loss, speed and state.
    #[command(after_help = "Example: cloze runs runs")]
    Runs {
        /// Folder to search.
        #[arg(default_value = ".")]
        folder: PathBuf,
        /// Print one JSON array.
        #[arg(long)]
        json: bool,
    },
    /// List, verify, pin or remove the checkpoints of a run.
    #[command(after_help = "Example: cloze checkpoints runs/a pin 120000")]
    Checkpoints {
        /// Run folder.
        run: PathBuf,
        /// Other verb.
        #[command(subcommand)]
        verb: Option<CheckpointVerb>,
        /// Print JSON.
        #[arg(long, global = true)]
        json: bool,
    },
    /// Go back to an older checkpoint; later ones move to `rolled_back/`.
    #[command(after_help = "Example: cloze rollback runs/a --step 120000 --reason 'the loss jumped'")]
    Rollback {
        /// Run folder.
        run: PathBuf,
        /// Step to go back to. It needs a checkpoint.
        #[arg(long)]
        step: u64,
        /// Reason, for the log.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Start a new run from a checkpoint of another, with changed keys.
    #[command(after_help = "Example: cloze branch runs/a --step 120000 --out runs/b --set optimizer.lr=5e-5")]
    Branch {
        /// Run folder to start from.
        run: PathBuf,
        /// Step to start after. It needs a checkpoint.
        #[arg(long)]
        step: u64,
        /// Folder of the new run.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        /// Change one key. Can be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Change the number of steps of a run.
    ///
    /// Prints how the learning-rate schedule changes from the newest checkpoint on.
    #[command(after_help = "Example: cloze extend runs/a --steps 2000000")]
    Extend {
        /// Run folder.
        run: PathBuf,
        /// Steps of the whole run.
        #[arg(long)]
        steps: u64,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Compare two runs: keys, data, program, first different step.
    #[command(after_help = "Example: cloze diff runs/a runs/b")]
    Diff {
        /// First run folder.
        one: PathBuf,
        /// Second run folder.
        other: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write a checkpoint as a folder that `transformers` loads.
    #[command(after_help = "Example: cloze export runs/a --out model --as roberta")]
    Export {
        /// Run folder.
        run: PathBuf,
        /// Folder to write.
        #[arg(long)]
        out: PathBuf,
        /// Step to export. Default: the newest checkpoint, or the best one of a fine-tuning that keeps the best.
        #[arg(long)]
        step: Option<u64>,
        /// Model family. Default: the first that has the heads and the positions of the run; `cloze plan` prints it.
        #[arg(long = "as", value_enum)]
        family: Option<ExportFamily>,
        /// Network to export: `main`, or a generator of the run.
        #[arg(long, default_value = MAIN)]
        network: String,
    },
    /// Show the rows of a step with documents, masks and losses.
    ///
    /// Rows are sorted by their loss, the highest first.
    #[command(after_help = "Example: cloze explain runs/a --step 412337 --rows 2")]
    Explain {
        /// Run folder.
        run: PathBuf,
        /// Step, counted from 1.
        #[arg(long)]
        step: u64,
        /// Show only this row, by its number in the stream.
        #[arg(long)]
        row: Option<u64>,
        /// Rows to show.
        #[arg(long, default_value_t = 4)]
        rows: usize,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Change a key that does not change results: `--set train.device=cpu`. Can be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Count how often a run has trained on each document.
    #[command(after_help = "Example: cloze exposure runs/a --document 7f3a0c")]
    Exposure {
        /// Run folder.
        run: PathBuf,
        /// Show only this document: its id (column `id` of `documents/`), a unique prefix of at least 6 characters, or the
        /// `document` of `explain --json`.
        #[arg(long, value_name = "ID")]
        document: Option<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Repeat a step from its checkpoint and compare with the log.
    ///
    /// Nothing is saved.
    #[command(after_help = "Example: cloze replay runs/a --step 412337 --without 3298690")]
    Replay {
        /// Run folder.
        run: PathBuf,
        /// Step, counted from 1.
        #[arg(long)]
        step: u64,
        /// Repeat it without these rows too, by their numbers in the stream: `12,40-43`.
        #[arg(long, value_name = "ROWS")]
        without: Option<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Change a key that does not change results: `--set train.device=cpu`. Can be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Fill in the `[MASK]`s of a sentence.
    #[command(after_help = "Example: cloze fill runs/a 'the [MASK] sat on the mat'")]
    Fill {
        /// Run folder, or the folder of a `transformers` model.
        #[arg(value_name = "RUN|MODEL")]
        model: PathBuf,
        /// Step whose checkpoint of a run is loaded. Default: the newest checkpoint.
        #[arg(long)]
        step: Option<u64>,
        /// Words to show for each mask.
        #[arg(long, default_value = "5", value_parser = number::at_least_one)]
        top: usize,
        /// Sentences with `[MASK]` in them.
        #[arg(required = true)]
        texts: Vec<String>,
    },
    /// Compute losses and gradients of given tensors, for comparison.
    ///
    /// The functions are those of training.
    Parity {
        /// File with the cases.
        #[arg(long = "in", value_name = "FILE")]
        input: PathBuf,
        /// File to write the results to.
        #[arg(long = "out", value_name = "FILE")]
        output: PathBuf,
        /// Precision of the computation.
        #[arg(long, value_enum, default_value_t = ParityDtype::F64)]
        dtype: ParityDtype,
    },
    /// Write curves, events and configurations of runs into one HTML file.
    ///
    /// Sweeps are compared by model, with error bars.
    #[command(after_help = "Example: cloze report runs/a runs/b --out report.html --svg plots")]
    Report {
        /// Run folders, or folders of sweeps.
        #[arg(required = true, value_name = "RUN|SWEEP")]
        runs: Vec<PathBuf>,
        /// File to write.
        #[arg(long, value_name = "FILE", default_value = "report.html")]
        out: PathBuf,
        /// Write each metric as an SVG plot into this folder too.
        #[arg(long, value_name = "FOLDER")]
        svg: Option<PathBuf>,
    },
    /// Watch a run on the terminal.
    ///
    /// Keys: q quits, arrows select the metric, c saves a checkpoint, s stops the run.
    #[command(after_help = "Example: cloze top runs/a")]
    Top {
        /// Run folder, or the address or socket of `[serve]`.
        #[arg(value_name = "RUN|ADDRESS")]
        run: String,
    },
    /// Print shell completions.
    #[command(after_help = "Example: cloze completions bash > ~/.local/share/bash-completion/completions/cloze")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a manual page.
    #[command(after_help = "Example: cloze man prepare | man -l -")]
    Man {
        /// Verb. Default: the page of `cloze` itself.
        verb: Vec<String>,
    },
}
