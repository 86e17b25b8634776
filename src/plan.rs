//! Plan of a run: a configuration that was checked against its data. Each run starts from a plan.
//!
//! A [`Plan`] has a private constructor and all derived numbers. The checks report all problems of a configuration at
//! once, before anything is written or computed.

mod assumed_data;
mod check;
mod core_split;
pub mod describe;
pub mod dry_run;
pub(crate) mod identity;
mod mixture;
pub(crate) mod preparing;
mod ranks;
mod run_cost;
mod run_progress;
mod run_time;
pub mod step_estimate;
pub mod step_time;
mod stream;
pub mod training;
mod vocabulary;
pub mod warnings;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pipeline::load::{self, LoadPlan, Rows};
use pipeline::tokenize::{self, HfTokenizer};
use pipeline::views::ORIGINAL;
use schemas::columns::INPUT_IDS;
use schemas::{Problem, Vocab, manifest};
use store::{Lines, Store};
use telemetry::{EventKind, jsonl, otlp};
use trainer_plan::checkpoint::{self, CheckpointForm, State};
use trainer_plan::init_weights::{self, Known};
use trainer_plan::machine::Machine;
use trainer_plan::run::resume_check::check_resumed;

pub use self::core_split::CoreSplit;
use self::stream::{WantedColumns, checked, columns, request, wanted};
use crate::cli::ConfigArgs;
use crate::config::{Config, Parsed, output_folder_problem};
use crate::run::bad_rows::RunBadRows;
use crate::run::data::{PreparedData, Purpose, SourceProblems};

/// Checked configuration of a run that can start.
pub struct Plan {
    config: Config,
    data: Arc<PreparedData>,
    load: Arc<LoadPlan>,
    valid: Option<Arc<LoadPlan>>,
    train: trainer_plan::TrainPlan,
    /// State that the run continues from, for a plan that is only printed.
    resumed: Option<State>,
}

impl Plan {
    /// Plans a branch of the run in `run.folder`.
    ///
    /// # Errors
    /// All problems of the configuration, as [`Mistakes`](crate::config::Mistakes).
    pub(crate) fn of_branch(args: &ConfigArgs) -> anyhow::Result<Self> {
        Self::new(args, load::find, Purpose::Branch)
    }

    /// Performs the checks that need no data.
    ///
    /// # Errors
    /// All problems of the configuration.
    pub fn check_without_data(args: &ConfigArgs) -> anyhow::Result<()> {
        let parsed = Parsed::read(&args.config, &args.set)?;
        let data = assumed_data::data(&parsed.config)?;
        Self::checked(parsed, data, Purpose::Run, SourceProblems::new()).map(drop)
    }

    /// Returns the plan of a run that may resume with changes of these keys.
    #[must_use]
    pub fn allowing(mut self, keys: &[String]) -> Self {
        self.train = self.train.allowing(keys);
        self
    }

    /// Plans a configuration for a view of its rows, which needs no run folder.
    pub(crate) fn load_read_only(args: &ConfigArgs) -> anyhow::Result<Self> {
        Self::new(args, load::find, Purpose::ReadOnly)
    }

    /// Plans a configuration over the data that `find` returns for `data.folder`.
    pub fn new(
        args: &ConfigArgs,
        find: impl Fn(&Path) -> pipeline::Result<Store>,
        purpose: Purpose,
    ) -> anyhow::Result<Self> {
        Self::opened(Parsed::read(&args.config, &args.set)?, find, purpose)
    }

    /// Plans a parsed configuration.
    fn opened(
        parsed: Parsed,
        find: impl Fn(&Path) -> pipeline::Result<Store>,
        purpose: Purpose,
    ) -> anyhow::Result<Self> {
        let config = &parsed.config;
        // A source with an invalid name has no list in the run folder.
        let are_named = config.source_problems().is_empty();
        let found = if are_named { PreparedData::open(config, find, purpose) } else { Err(SourceProblems::new()) };
        match found {
            Ok(data) => Self::checked(parsed, data, purpose, SourceProblems::new()),
            // Problems of the configuration are reported together with the errors of the data.
            Err(troubles) => {
                let data = assumed_data::data(config)?;
                Self::checked(parsed, data, purpose, troubles)
            }
        }
    }

    /// Checks a parsed configuration against data. `troubles` are the errors of the real data; `data` is then assumed.
    fn checked(
        mut parsed: Parsed,
        data: PreparedData,
        purpose: Purpose,
        troubles: SourceProblems,
    ) -> anyhow::Result<Self> {
        if purpose != Purpose::Model {
            parsed.report(parsed.config.corpus_problems());
        }
        parsed.report(parsed.config.source_problems());
        parsed.report(parsed.config.serve.problems());
        parsed.report(parsed.config.alerts.problems());
        check::training(&mut parsed);
        let wanted = wanted(&parsed.config);
        let views = parsed.config.views.clone();
        let load = checked(&mut parsed, &data, Rows::Train, &views, &wanted);
        let valid = training::validation(&mut parsed, &data, &wanted);
        let train = training::plan(&mut parsed, &data, load.as_ref(), purpose);
        let mut resumed = None;
        if purpose.is_of_run() {
            parsed.report(run_problems(&parsed.config, purpose));
            // A plan for another machine does not continue the run of this one.
            if purpose != Purpose::DryRunElsewhere {
                parsed.report(lost_checkpoints(&parsed.config).into_iter().collect());
            }
            // A run verifies its checkpoints when it loads them.
            if matches!(purpose, Purpose::DryRun | Purpose::DryRunElsewhere) {
                // Without prepared data, the identity is unknown.
                let known = train.as_ref().filter(|_| !data.is_expected() && purpose == Purpose::DryRun);
                match resumed_state(&parsed.config, known) {
                    Ok(state) => resumed = state,
                    Err(problem) if purpose == Purpose::DryRun => parsed.report(vec![problem]),
                    Err(_) => {}
                }
            }
            if let Some(train) = train.as_ref().filter(|_| !has_saved(&parsed.config.run.folder)) {
                let has_data = !data.is_expected();
                let is_begun = purpose == Purpose::Run;
                parsed.report(init_weights::problems(train, Known { vocab: has_data, folders: has_data || is_begun }));
            }
        }
        for (key, error) in troubles {
            // An error of a damaged folder may be transient. If it is the only problem, it is no mistake of the
            // configuration.
            if !matches!(error, pipeline::Error::Config(_)) && parsed.problems.0.is_empty() {
                return Err(error.into());
            }
            parsed.add(parsed.source.mistake(&key, error.to_string()));
        }
        let Parsed { config, problems, .. } = parsed;
        problems.into_result()?;
        let load = Arc::new(load.expect("a plan without problems loads"));
        Ok(Self {
            config,
            data: Arc::new(data),
            load,
            valid: valid.map(Arc::new),
            train: train.expect("a plan without problems trains"),
            resumed,
        })
    }

    /// Plans an existing run from the configuration that was saved with it, to load its model.
    pub fn of_run(run: &Path) -> anyhow::Result<Self> {
        Self::saved_with(run, &[], Purpose::Model)
    }

    /// Reads the tokenizer that the data of the run was made with.
    pub fn tokenizer(&self) -> anyhow::Result<HfTokenizer> {
        let data = self.data();
        let json = load::read_tokenizer(&data.store, &data.manifest)?;
        Ok(tokenize::of_json(&json, &data.store.place(manifest::TOKENIZER))?)
    }

    /// Plans an existing run for a view of its rows and a replay of its steps.
    pub fn from_run_read_only(run: &Path, set: &[String]) -> anyhow::Result<Self> {
        Self::saved_with(run, set, Purpose::ReadOnly)
    }

    fn saved_with(run: &Path, set: &[String], purpose: Purpose) -> anyhow::Result<Self> {
        let config = run.join("config.toml");
        // The configuration of a run in an object store is read from there, which reports one that is missing.
        if !config.exists() && !remote_store::is_url_path(run) {
            let inner = run.join("run");
            let hint = if inner.join("config.toml").is_file() {
                format!("name the run of this fine-tuning, {}", inner.display())
            } else {
                "name the folder of `run.folder`".to_owned()
            };
            let message = format!("{}: no run is here (no `config.toml`); {hint}", run.display());
            return Err(crate::exit::Usage(message).into());
        }
        // The folder may have been moved, or the path may be written differently.
        let folder = format!("run.folder={}", toml::Value::String(run.display().to_string()));
        let args = ConfigArgs { config, set: set.iter().cloned().chain([folder]).collect() };
        Self::new(&args, load::find, purpose)
    }

    /// Returns a load plan over the same data with every column of every view.
    pub fn everything(&self) -> Arc<LoadPlan> {
        let names = self.config.views.iter();
        let mut wanted: WantedColumns = names.flat_map(|(name, view)| columns(name, view)).collect();
        if self.config.views.is_empty() {
            wanted.insert((ORIGINAL.to_owned(), INPUT_IDS.spec()));
        }
        let sources = self.data.sources(Rows::Train);
        let request = request(&self.config, &self.data, &sources, Rows::Train, (&self.config.views, &wanted));
        Arc::new(LoadPlan::new(&request).expect("more columns of a good plan are a good plan"))
    }

    /// Rows that the run skips; empty if the run does not exist yet.
    pub fn left_out(&self) -> pipeline::Result<RunBadRows> {
        let folder = &self.config.run.folder;
        if folder.as_os_str().is_empty() || !remote_store::may_exist(folder) {
            return Ok(RunBadRows::default());
        }
        RunBadRows::open(&remote_store::existing_path(folder)?)
    }

    /// Training stream.
    pub fn load(&self) -> &Arc<LoadPlan> {
        &self.load
    }

    /// Validation stream, if configured.
    pub fn valid(&self) -> Option<&Arc<LoadPlan>> {
        self.valid.as_ref()
    }

    /// Plan of the trainer.
    pub fn train(&self) -> &trainer_plan::TrainPlan {
        &self.train
    }

    /// Configuration that was checked.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Prepared data of the run.
    pub fn data(&self) -> &Arc<PreparedData> {
        &self.data
    }

    /// Number of tokens of the training split.
    pub fn train_tokens(&self) -> u64 {
        self.data.all().map(|data| data.effective.train.tokens()).sum()
    }

    /// Vocabulary of the data.
    pub fn vocab(&self) -> &Arc<Vocab> {
        &self.data.vocab
    }

    /// Returns the keys that all ranks of a run must have in common, with their values.
    pub fn keys_of_all_ranks(&self) -> BTreeMap<String, String> {
        identity::keys_of_all_ranks(&self.config)
    }

    /// Returns every key with its value as TOML, including defaults.
    pub fn resolved_toml(&self) -> String {
        toml::to_string(&self.config.resolved()).expect("a configuration is plain values")
    }
}

/// Returns the problems of `run` that matter only to a run: an existing run can be viewed by any build of the program.
/// The plan of a template names no folder.
fn run_problems(config: &Config, purpose: Purpose) -> Vec<Problem> {
    let folder = &config.run.folder;
    let mut problems: Vec<Problem> = otlp::problem(config.run.otlp).into_iter().collect();
    problems.extend(output_folder_problem("run.folder", folder));
    if config.run.tensorboard && remote_store::is_url_path(folder) {
        let message = "the files of TensorBoard are appended to, which an object store does not support";
        let hint = "remove it, or set `run.folder` to a local folder; `cloze report` reads the log of the run";
        problems.push(Problem::new("run.tensorboard", message).hint(hint));
    }
    if purpose == Purpose::DryRun {
        problems.extend(Machine::detect().problem(&config.training.train));
    }
    if purpose == Purpose::Run && folder.as_os_str().is_empty() {
        let hint = "set `run.folder`, or give `--set run.folder=runs/a`";
        problems.push(Problem::new("run.folder", "a run needs a folder").hint(hint));
    }
    problems
}

/// Returns the state that the run in the folder continues from, after all bytes of its checkpoint are verified; `None` if
/// it has no checkpoint. `train` is `None` if the identity of the plan does not matter or is unknown.
///
/// # Errors
/// The reason why the run cannot continue: all checkpoints are damaged, or the configuration is another one.
fn resumed_state(config: &Config, train: Option<&trainer_plan::TrainPlan>) -> Result<Option<State>, Problem> {
    let Ok(folder) = remote_store::existing_path(&config.run.folder) else { return Ok(None) };
    let Ok(steps) = checkpoint::steps(&folder) else { return Ok(None) };
    let problem = |error: trainer_plan::Error| Problem::new("run.folder", error.to_string());
    let newest = steps.first().copied();
    checkpoint::refuse_newer_links(&folder.prefixed(checkpoint::FOLDER), newest).map_err(problem)?;
    let Some(newest) = newest else { return Ok(None) };
    let Ok(state) = checkpoint::newest_complete_state(&folder) else {
        // A run sets damaged checkpoints aside, and ends with an error if none is left.
        let hint = "restore a checkpoint from a copy, or set another `run.folder`";
        return checkpoint::verify(&folder, newest).map(|_| None).map_err(|error| problem(error).hint(hint));
    };
    if let Some(train) = train {
        let place = checkpoint::checkpoint_store(&folder, state.step).place("");
        check_resumed(train, &place, &state).map_err(problem)?;
    }
    Ok(Some(state))
}

/// Returns a problem if the log of the run names a checkpoint and no state of one exists: a disk that is not mounted, for
/// example. Such a run would start again and delete its log.
fn lost_checkpoints(config: &Config) -> Option<Problem> {
    let run = &config.run.folder;
    let folder = remote_store::existing_path(run).ok()?;
    let found = checkpoint::list(&folder.prefixed(checkpoint::FOLDER)).ok()?;
    if found.into_values().any(|form| form != CheckpointForm::Unfinished) {
        return None;
    }
    let events = Lines::new(&folder, jsonl::LOG).ok()?.filter_map(|line| jsonl::parse(&line.ok()?).ok());
    let saved = events.filter(|event| matches!(event.what, EventKind::Checkpoint(_))).last()?.at.step?;
    let message = format!(
        "{}: the run has saved a checkpoint after step {saved}, but `{}` has none",
        run.display(),
        checkpoint::FOLDER
    );
    let hint = "mount or restore the folder of the checkpoints, or set another `run.folder`";
    Some(Problem::new("run.folder", message).hint(hint))
}

/// Whether a run folder has a complete checkpoint. A folder that cannot be read is reported when the run starts.
fn has_saved(run: &Path) -> bool {
    remote_store::existing_path(run).and_then(|run| checkpoint::steps(&run)).is_ok_and(|steps| !steps.is_empty())
}
