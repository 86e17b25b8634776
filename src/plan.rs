//! A configuration checked against its data: the only thing that can start a run.
//!
//! A [`Plan`] has a private constructor and every derived number. What is wrong with a configuration is found here, all
//! of it at once, before anything is written or computed.

#[cfg(feature = "train")]
mod check;
mod describe;
#[cfg(feature = "train")]
mod identity;
#[cfg(feature = "train")]
mod training;
#[cfg(feature = "train")]
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pipeline::load::{self, LoadPlan, LoadRequest, Rows};
use pipeline::views::{AnyView, ORIGINAL};
use schemas::columns::{ATTENTION_MASK, INPUT_IDS};
use schemas::{ColumnSpec, Problem, Vocab};
use store::Store;

use crate::cli::ConfigArgs;
use crate::config::{Config, Mistake, Parsed};
use crate::data::PreparedData;

/// Columns of views.
type Wanted = BTreeSet<(String, ColumnSpec)>;

/// A run that can start.
pub(crate) struct Plan {
    config: Config,
    data: PreparedData,
    load: Arc<LoadPlan>,
    #[cfg(feature = "train")]
    valid: Option<Arc<LoadPlan>>,
    #[cfg(feature = "train")]
    train: trainer::plan::TrainPlan,
    warnings: Vec<String>,
}

impl Plan {
    /// Parses and checks a configuration.
    ///
    /// # Errors
    /// All that is wrong with it, as [`Mistakes`](crate::config::Mistakes).
    pub(crate) fn of(args: &ConfigArgs) -> anyhow::Result<Self> {
        Self::over(args, load::find)
    }

    /// The same over data that `find` finds for `data.folder`.
    pub(crate) fn over(args: &ConfigArgs, find: impl Fn(&Path) -> pipeline::Result<Store>) -> anyhow::Result<Self> {
        let mut parsed = Parsed::read(&args.config, &args.set)?;
        #[cfg(feature = "train")]
        check::training(&mut parsed);
        let Some(data) = data(&mut parsed, find)? else {
            return Err(parsed.problems.into_result().expect_err("opening the data left a problem").into());
        };
        let wanted = wanted(&parsed.config);
        let views = parsed.config.views.clone();
        let load = checked(&mut parsed, &data, Rows::Train, &views, &wanted);
        #[cfg(feature = "train")]
        let valid = training::validation(&mut parsed, &data, &wanted);
        #[cfg(feature = "train")]
        let train = training::plan(&mut parsed, &data, load.as_ref());
        let Parsed { config, problems, .. } = parsed;
        problems.into_result()?;
        let load = Arc::new(load.expect("a plan without problems loads"));
        let mut plan = Self {
            config,
            data,
            load,
            #[cfg(feature = "train")]
            valid: valid.map(Arc::new),
            #[cfg(feature = "train")]
            train: train.expect("a plan without problems trains"),
            warnings: Vec::new(),
        };
        plan.warnings = describe::warnings(&plan);
        Ok(plan)
    }

    /// The plan of a run that exists, from the configuration that was saved with it.
    #[cfg(feature = "train")]
    pub(crate) fn of_run(run: &Path) -> anyhow::Result<Self> {
        let config = run.join("config.toml");
        if !config.exists() {
            let message =
                format!("{}: no run is here (no `config.toml`); name the folder of `run.folder`", run.display());
            return Err(crate::exit::Usage(message).into());
        }
        // The folder may have been moved or named another way since.
        Self::of(&ConfigArgs { config, set: vec![format!("run.folder=\"{}\"", run.display())] })
    }

    /// The same data with every column of every view, for looking at.
    pub(crate) fn everything(&self) -> Arc<LoadPlan> {
        let names = self.config.views.iter();
        let mut wanted: Wanted = names.flat_map(|(name, view)| columns(name, view)).collect();
        if self.config.views.is_empty() {
            wanted.insert((ORIGINAL.to_owned(), INPUT_IDS.spec()));
        }
        let request = request(&self.config, &self.data, Rows::Train, &self.config.views, &wanted);
        Arc::new(LoadPlan::new(&request).expect("more columns of a good plan are a good plan"))
    }

    /// The training stream.
    pub(crate) fn load(&self) -> &Arc<LoadPlan> {
        &self.load
    }

    /// The validation stream, where there is one.
    #[cfg(feature = "train")]
    pub(crate) fn valid(&self) -> Option<&Arc<LoadPlan>> {
        self.valid.as_ref()
    }

    /// What the trainer does.
    #[cfg(feature = "train")]
    pub(crate) fn train(&self) -> &trainer::plan::TrainPlan {
        &self.train
    }

    #[cfg(feature = "train")]
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// What it reads.
    #[cfg(feature = "train")]
    pub(crate) fn data(&self) -> &PreparedData {
        &self.data
    }

    pub(crate) fn vocab(&self) -> &Arc<Vocab> {
        &self.data.vocab
    }

    /// What is worth knowing but need not be mended.
    #[cfg(all(test, feature = "train"))]
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Every key with its value, defaults included.
    #[cfg(feature = "train")]
    pub(crate) fn resolved_toml(&self) -> String {
        toml::to_string(&self.config.resolved()).expect("a configuration is plain values")
    }

    /// The plan as one JSON object.
    pub(crate) fn to_json(&self) -> String {
        describe::json(self)
    }

    /// The plan as lines for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        describe::lines(self)
    }
}

/// The data of a configuration; a folder that is not there is one more problem of the configuration.
fn data(parsed: &mut Parsed, find: impl Fn(&Path) -> pipeline::Result<Store>) -> anyhow::Result<Option<PreparedData>> {
    let config = &parsed.config;
    match find(&config.data.folder).and_then(|store| PreparedData::open(store, &config.data, &config.run.folder)) {
        Ok(data) => Ok(Some(data)),
        Err(pipeline::Error::Config(message)) => {
            let problem = parsed.source.mistake("data.folder", message);
            parsed.problems.push(problem);
            Ok(None)
        }
        Err(other) => Err(other.into()),
    }
}

/// All columns of a view that say something of their own.
fn columns(name: &str, view: &AnyView) -> Vec<(String, ColumnSpec)> {
    let mut columns = vec![ATTENTION_MASK.spec()];
    columns.extend(view.columns());
    if view.of().is_none() {
        columns.push(INPUT_IDS.spec());
    }
    columns.into_iter().map(|column| (name.to_owned(), column)).collect()
}

/// What the objectives of the loss read.
#[cfg(feature = "train")]
fn wanted(config: &Config) -> Wanted {
    let training = &config.training;
    let in_loss = training.objectives.iter().filter(|(name, _)| training.loss.contains_key(*name));
    let read = in_loss.map(|(_, objective)| trainer::plan::columns_read(&training.networks, objective));
    let mut wanted: Wanted = read.flat_map(|read| read.needed.into_iter().chain(read.taken)).collect();
    // A view or column that is needed and not there was reported with the objective that reads it.
    wanted.retain(|(view, column)| check::makes(&config.views, view, *column));
    wanted
}

/// Without a trainer, everything.
#[cfg(not(feature = "train"))]
fn wanted(config: &Config) -> Wanted {
    config.views.iter().flat_map(|(name, view)| columns(name, view)).collect()
}

fn request<'a>(
    config: &'a Config,
    data: &'a PreparedData,
    rows: Rows,
    views: &'a BTreeMap<String, AnyView>,
    wanted: &'a Wanted,
) -> LoadRequest<'a> {
    LoadRequest {
        store: &data.store,
        manifest: &data.manifest,
        generation: data.generation,
        // Validation stays with the generation that the run began with, so that its figures compare.
        follow: (rows == Rows::Train).then(|| data.follow()).flatten(),
        vocab: Arc::clone(&data.vocab),
        rows,
        data: &config.data,
        views,
        wanted,
        seed: config.seed,
        rows_per_batch: config.rows_per_micro_batch(),
    }
}

/// A load plan, or its problems among the others.
fn checked(
    parsed: &mut Parsed,
    data: &PreparedData,
    rows: Rows,
    views: &BTreeMap<String, AnyView>,
    wanted: &Wanted,
) -> Option<LoadPlan> {
    let found = match LoadPlan::new(&request(&parsed.config, data, rows, views, wanted)) {
        Ok(plan) => return Some(plan),
        Err(found) => found,
    };
    parsed.report(found);
    None
}

impl Parsed {
    /// Adds what planning found, but for what only follows from a component that could not be read: it is not missing,
    /// and its mistake is in the list already.
    fn report(&mut self, found: Vec<Problem>) {
        for problem in found {
            let follows = problem.about.iter().any(|it| self.is_broken(it.section, &it.name));
            if !follows {
                let mistake = self.source.locate(problem);
                self.add(mistake);
            }
        }
    }

    /// Adds a mistake once.
    fn add(&mut self, problem: Mistake) {
        if !self.problems.0.contains(&problem) {
            self.problems.push(problem);
        }
    }
}
