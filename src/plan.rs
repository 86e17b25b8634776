//! A configuration checked against its data: the only thing that can start a run.
//!
//! A [`Plan`] has a private constructor and every derived number. What is wrong with a configuration is found here, all
//! of it at once, before anything is written or computed.

mod assumed_data;
mod check;
mod core_split;
pub mod describe;
pub mod dry_run;
pub(crate) mod identity;
mod mixture;
mod preparing;
mod stream;
pub mod training;
mod vocabulary;
pub mod warnings;

use std::path::Path;
use std::sync::Arc;

use pipeline::load::{self, LoadPlan, Rows};
use pipeline::views::ORIGINAL;
use schemas::columns::INPUT_IDS;
use schemas::{Problem, Vocab};
use store::Store;
use telemetry::otlp;

pub use self::core_split::Halves;
use self::stream::{Wanted, checked, columns, request, wanted};
use crate::cli::ConfigArgs;
use crate::config::{Config, Parsed};
use crate::run::bad_rows::RunLeftOut;
use crate::run::data::{PreparedData, Purpose, Troubles};

/// A run that can start.
pub struct Plan {
    config: Config,
    data: Arc<PreparedData>,
    load: Arc<LoadPlan>,
    valid: Option<Arc<LoadPlan>>,
    train: trainer_plan::TrainPlan,
}

impl Plan {
    /// Parses and checks a configuration of a run that is to start.
    ///
    /// # Errors
    /// All that is wrong with it, as [`Mistakes`](crate::config::Mistakes).
    pub(crate) fn of(args: &ConfigArgs) -> anyhow::Result<Self> {
        Self::over(args, load::find, Purpose::Run)
    }

    /// Checks what can be checked before the data are there.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn before_its_data(args: &ConfigArgs) -> anyhow::Result<()> {
        let parsed = Parsed::read(&args.config, &args.set)?;
        let data = assumed_data::data(&parsed.config)?;
        Self::checked(parsed, data, Purpose::Run, Troubles::new()).map(drop)
    }

    /// The same, of a run in whose middle these keys may change.
    #[must_use]
    pub fn allowing(mut self, keys: &[String]) -> Self {
        self.train = self.train.allowing(keys);
        self
    }

    /// The same to look at its rows: it needs no folder to run in.
    pub(crate) fn to_look_at(args: &ConfigArgs) -> anyhow::Result<Self> {
        Self::over(args, load::find, Purpose::Look)
    }

    /// The same over data that `find` finds for `data.folder`.
    pub fn over(
        args: &ConfigArgs,
        find: impl Fn(&Path) -> pipeline::Result<Store>,
        purpose: Purpose,
    ) -> anyhow::Result<Self> {
        Self::opened(Parsed::read(&args.config, &args.set)?, find, purpose)
    }

    /// The same of a configuration that is parsed already.
    fn opened(
        parsed: Parsed,
        find: impl Fn(&Path) -> pipeline::Result<Store>,
        purpose: Purpose,
    ) -> anyhow::Result<Self> {
        let config = &parsed.config;
        // A source without a proper name is a file nowhere.
        let are_named = config.source_problems().is_empty();
        let found = if are_named { PreparedData::open(config, find, purpose) } else { Err(Troubles::new()) };
        match found {
            Ok(data) => Self::checked(parsed, data, purpose, Troubles::new()),
            // What can be said without the data is said next to what is wrong with them.
            Err(troubles) => {
                let data = assumed_data::data(config)?;
                Self::checked(parsed, data, purpose, troubles)
            }
        }
    }

    /// Checks what was parsed against data; `troubles` are why they are not the run's own.
    fn checked(mut parsed: Parsed, data: PreparedData, purpose: Purpose, troubles: Troubles) -> anyhow::Result<Self> {
        if matches!(purpose, Purpose::Run | Purpose::Look) {
            parsed.report(parsed.config.prepare.problems());
        }
        parsed.report(parsed.config.source_problems());
        parsed.report(parsed.config.serve.problems());
        parsed.report(parsed.config.alerts.problems());
        check::training(&mut parsed);
        let wanted = wanted(&parsed.config);
        let views = parsed.config.views.clone();
        let load = checked(&mut parsed, &data, Rows::Train, &views, &wanted);
        let valid = training::validation(&mut parsed, &data, &wanted);
        let train = training::plan(&mut parsed, &data, load.as_ref());
        if purpose == Purpose::Run {
            // A run that exists can be looked at by any program.
            parsed.report(otlp::problem(parsed.config.run.otlp).into_iter().collect());
        }
        if purpose == Purpose::Run && parsed.config.run.folder.is_file() {
            let message = format!("{}: a file is here", parsed.config.run.folder.display());
            parsed.report(vec![Problem::new("run.folder", message).hint("name a folder, or a path that is free")]);
        }
        if purpose == Purpose::Run && parsed.config.run.folder.as_os_str().is_empty() {
            let hint = "set `run.folder`, or give `--set run.folder=runs/a`";
            parsed.report(vec![Problem::new("run.folder", "a run needs a folder").hint(hint)]);
        }
        for (key, error) in troubles {
            // A folder that is damaged may be whole at the next try: no mistake of the configuration, if there is no other.
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
        })
    }

    /// The plan of a run that exists, from the configuration that was saved with it: for its model, not to go on.
    pub fn of_run(run: &Path) -> anyhow::Result<Self> {
        Self::saved_with(run, &[], Purpose::Model)
    }

    /// The same to look at its rows and to do its steps once more.
    pub fn of_run_to_look_at(run: &Path, set: &[String]) -> anyhow::Result<Self> {
        Self::saved_with(run, set, Purpose::Look)
    }

    fn saved_with(run: &Path, set: &[String], purpose: Purpose) -> anyhow::Result<Self> {
        let config = run.join("config.toml");
        if !config.exists() {
            let message =
                format!("{}: no run is here (no `config.toml`); name the folder of `run.folder`", run.display());
            return Err(crate::exit::Usage(message).into());
        }
        // The folder may have been moved or named another way since.
        let folder = format!("run.folder={}", toml::Value::String(run.display().to_string()));
        let args = ConfigArgs { config, set: set.iter().cloned().chain([folder]).collect() };
        Self::over(&args, load::find, purpose)
    }

    /// The same data with every column of every view, for looking at.
    pub fn everything(&self) -> Arc<LoadPlan> {
        let names = self.config.views.iter();
        let mut wanted: Wanted = names.flat_map(|(name, view)| columns(name, view)).collect();
        if self.config.views.is_empty() {
            wanted.insert((ORIGINAL.to_owned(), INPUT_IDS.spec()));
        }
        let sources = self.data.sources(Rows::Train);
        let request = request(&self.config, &self.data, &sources, Rows::Train, (&self.config.views, &wanted));
        Arc::new(LoadPlan::new(&request).expect("more columns of a good plan are a good plan"))
    }

    /// Which rows the run leaves out, if there is one already.
    pub fn left_out(&self) -> pipeline::Result<RunLeftOut> {
        let folder = &self.config.run.folder;
        if folder.as_os_str().is_empty() || !folder.is_dir() {
            return Ok(RunLeftOut::default());
        }
        RunLeftOut::of(&Store::existing(folder)?)
    }

    /// The training stream.
    pub fn load(&self) -> &Arc<LoadPlan> {
        &self.load
    }

    /// The validation stream, where there is one.
    pub fn valid(&self) -> Option<&Arc<LoadPlan>> {
        self.valid.as_ref()
    }

    /// What the trainer does.
    pub fn train(&self) -> &trainer_plan::TrainPlan {
        &self.train
    }

    /// The configuration that was checked.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What it reads.
    pub fn data(&self) -> &Arc<PreparedData> {
        &self.data
    }

    /// The vocabulary of the data.
    pub fn vocab(&self) -> &Arc<Vocab> {
        &self.data.vocab
    }

    /// Every key with its value, defaults included.
    pub fn resolved_toml(&self) -> String {
        toml::to_string(&self.config.resolved()).expect("a configuration is plain values")
    }
}
