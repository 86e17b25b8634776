//! The configuration as one typed value.
//!
//! TOML → [`Config`] (typed, defaults filled, unknown keys refused) → [`Plan`](crate::plan::Plan) (checked against the
//! data). Parsing goes in two steps, so that one report lists every mistake: the file as a table, then each section,
//! view and objective into its own type, which its owner defines in the crate that uses it.

pub mod corpora;
pub(crate) mod corpus;
#[cfg(test)]
mod fuzz;
mod mistake;
pub(crate) mod reference;
mod renamed;
mod section;
mod source;
pub(crate) mod sources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) use mistake::did_you_mean;
pub(crate) use mistake::{Mistake, Mistakes};
use pipeline::load::DataConfig;
use pipeline::prepare::PrepareConfig;
use pipeline::tokenizer_training::TokenizerConfig;
use pipeline::views::AnyView;
use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};
use server::ServeConfig;
pub use source::ConfigSource;
pub use source::merge;
pub use telemetry::alerts::AlertsConfig;
use toml::{Table, Value};

use self::sources::SourceConfig;

/// Where a run lives, and how patient it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// The run folder: log, checkpoints, the resolved configuration. No default: a run must not land by accident.
    pub folder: PathBuf,
    /// Seconds that a stop may take from the signal on. What is not saved by then is lost; the process exits with the
    /// last checkpoint as it is. 0: no limit.
    pub shutdown_timeout_seconds: u64,
    /// Seconds without progress before a warning names the stalled worker. The interval doubles after each warning. 0
    /// disables the check.
    pub stall_timeout_seconds: u64,
    /// Write curves for TensorBoard into the run's folder, `tensorboard/`: losses, metrics, learning rate, validations and
    /// where the time goes, over steps. The log has all of it in any case.
    pub tensorboard: bool,
    /// Send metrics and log records to an OpenTelemetry collector (OTLP over HTTP, in protobuf), which the environment names
    /// (`OTEL_EXPORTER_OTLP_ENDPOINT`); `cloze prepare` does too. Needs a program that was built with the feature `otlp`.
    pub otlp: bool,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            folder: PathBuf::new(),
            shutdown_timeout_seconds: 0,
            stall_timeout_seconds: 300,
            tensorboard: false,
            otlp: false,
        }
    }
}

/// What a preset takes for granted about the data; `plan` warns where it does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Expects {
    /// Number of ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vocab_size: Option<u32>,
    /// Whether the tokenizer keeps capitals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cased: Option<bool>,
}

/// All sections of a configuration file, defaults filled in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Config {
    /// Draws weights, masks and the order of rows. Another seed, another run.
    pub(crate) seed: u64,
    /// What a recipe takes for granted about the data. `cloze plan` goes by it before there is any, and warns where the
    /// data is otherwise.
    pub(crate) expects: Expects,
    /// `cloze tokenizer train`: the tokenizer that it makes.
    pub(crate) tokenizer: TokenizerConfig,
    /// `cloze prepare`: from a corpus to a prepared folder.
    pub(crate) prepare: PrepareConfig,
    /// Which rows a run reads of a prepared folder, and in which order.
    pub data: DataConfig,
    /// Several prepared folders in one stream, by names of your own; `data.folder` is then not read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) sources: BTreeMap<String, SourceConfig>,
    /// How rows are seen, by names of your own. A plain `original` is there without being written.
    pub(crate) views: BTreeMap<String, AnyView>,
    #[serde(flatten)]
    pub(crate) training: Training,
    /// Where a run lives.
    pub run: RunConfig,
    /// Where a run, or a preparation, can be seen while it is under way.
    pub serve: ServeConfig,
    /// Who is alerted, and to which events.
    pub alerts: AlertsConfig,
}

/// The sections that only the trainer reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Training {
    /// The shape of the main network. The default is BERT-base.
    pub(crate) encoder: trainer_plan::encoder::EncoderConfig,
    /// Networks next to the main one, by names of your own; one that no objective of the loss reads is not built.
    pub(crate) networks: BTreeMap<String, trainer_plan::networks::AnyNetwork>,
    /// What can be learned, by names of your own; one that `[loss]` does not name is not built.
    pub(crate) objectives: BTreeMap<String, trainer_plan::objectives::AnyObjective>,
    /// The weight of each objective, by its name: `L = mlm + tc` is `mlm = 1.0` and `tc = 1.0`. With 0 one is reported and
    /// teaches nothing. A file that extends another replaces this section whole.
    pub(crate) loss: BTreeMap<String, f64>,
    /// How long to train, with how many rows at a time, and where.
    pub(crate) train: trainer_plan::config::TrainConfig,
    /// AdamW.
    pub(crate) optimizer: trainer_plan::optimizer::OptimizerConfig,
    /// The course of the learning rate.
    pub(crate) schedule: trainer_plan::schedule::ScheduleConfig,
    /// When a run is looked at on rows that it does not learn from.
    pub(crate) validation: trainer_plan::config::ValidationConfig,
    /// When a run is kept, and for how long.
    pub(crate) checkpoints: trainer_plan::config::CheckpointConfig,
    /// When a run says how it is.
    pub(crate) report: trainer_plan::config::ReportConfig,
    /// What becomes of a step whose loss or gradient leaps out of those before it.
    pub(crate) spike_guard: trainer_plan::config::SpikeGuardConfig,
}

/// A configuration and what was found wrong with it so far.
pub struct Parsed {
    /// The configuration, valid or not.
    pub config: Config,
    pub(crate) source: ConfigSource,
    pub(crate) problems: Mistakes,
    /// Component names as written, broken components included.
    names: BTreeMap<&'static str, Vec<String>>,
}

impl Parsed {
    /// Reads a file. Fails at once only where no table can be had: a missing file, a syntax error.
    pub fn read(file: &Path, overrides: &[String]) -> Result<Self, Mistakes> {
        let (mut source, mistakes) = ConfigSource::read(file, overrides).map_err(|mistake| Mistakes(vec![mistake]))?;
        let mut sections = section::Sections::new(std::mem::take(&mut source.table), &source, mistakes);
        let mut config = take(&mut sections);
        let names = sections.names();
        let problems = sections.finish();
        corpus::follow(&mut config.prepare, &mut config.data, &source);
        corpus::follow_sources(&mut config.sources, &source);
        follow_budget(&mut config.training.train, &source);
        Ok(Self { config, source, problems, names })
    }

    /// A configuration whose corpus is to be read, for whatever it is read: that of `[prepare]`, or of all sources together.
    pub(crate) fn into_corpus(mut self) -> Result<Config, Mistakes> {
        self.read_sources_together();
        let prepare = &self.config.prepare;
        let named = prepare.missing().into_iter().filter(|missing| missing.key == "prepare.inputs");
        let found = named.chain(prepare.problems()).chain(corpus::problems(prepare)).collect();
        self.report(found);
        self.into_config()
    }

    /// Whether a component is there but could not be parsed: a reference to it is no second mistake.
    pub(crate) fn is_broken(&self, table: &str, name: &str) -> bool {
        let parsed = match table {
            "views" => self.config.views.contains_key(name),
            "objectives" => self.config.training.objectives.contains_key(name),
            "networks" => self.config.training.networks.contains_key(name),
            _ => false,
        };
        !parsed && self.names.get(table).into_iter().flatten().any(|known| known == name)
    }

    /// Adds what planning found, but for what only follows from a component that could not be read: it is not missing,
    /// and its mistake is in the list already.
    pub(crate) fn report(&mut self, found: Vec<Problem>) {
        for problem in found {
            let follows = problem.about.iter().any(|it| self.is_broken(it.section, &it.name));
            if !follows {
                let mistake = self.source.locate(problem);
                self.add(mistake);
            }
        }
    }

    /// Adds a mistake once; of two hints the first stays.
    pub(crate) fn add(&mut self, problem: Mistake) {
        let is_said = |known: &Mistake| (&known.place, &known.message) == (&problem.place, &problem.message);
        if !self.problems.0.iter().any(is_said) {
            self.problems.push(problem);
        }
    }

    /// The names in a table of components.
    pub(crate) fn names(&self, table: &str) -> Vec<&str> {
        self.names.get(table).into_iter().flatten().map(String::as_str).collect()
    }

    /// The configuration, if nothing is wrong with it.
    pub(crate) fn into_config(self) -> Result<Config, Mistakes> {
        self.problems.into_result().map(|()| self.config)
    }
}

/// Where tokens or hours end a run, steps do only if they are written.
fn follow_budget(train: &mut trainer_plan::config::TrainConfig, source: &ConfigSource) {
    if (train.max_tokens.is_some() || train.max_hours.is_some()) && !source.says("train.steps") {
        train.steps = trainer_plan::config::TrainConfig::STEPS_ENDLESS;
    }
}

/// Every section into its own type.
fn take(sections: &mut section::Sections<'_>) -> Config {
    Config {
        seed: sections.value("seed", 1),
        expects: sections.section("expects"),
        tokenizer: sections.section("tokenizer"),
        prepare: sections.section("prepare"),
        data: sections.section("data"),
        sources: sections.named("sources"),
        views: sections.components("views", AnyView::KINDS),
        training: Training {
            encoder: sections.section("encoder"),
            networks: sections.components("networks", trainer_plan::networks::AnyNetwork::KINDS),
            objectives: sections.components("objectives", trainer_plan::objectives::AnyObjective::KINDS),
            loss: sections.value("loss", BTreeMap::new()),
            train: sections.section("train"),
            optimizer: sections.section("optimizer"),
            schedule: sections.section("schedule"),
            validation: sections.section("validation"),
            checkpoints: sections.section("checkpoints"),
            report: sections.section("report"),
            spike_guard: sections.section("spike_guard"),
        },
        run: sections.section("run"),
        serve: sections.section("serve"),
        alerts: sections.section("alerts"),
    }
}

impl Config {
    /// The configuration of an empty file: what every key is if nobody writes it.
    pub(crate) fn unwritten() -> Self {
        take(&mut section::Sections::new(toml::Table::new(), &ConfigSource::default(), Vec::new()))
    }

    /// Rows of a batch of the stream.
    pub(crate) fn micro_batch_size(&self) -> u64 {
        self.training.train.micro_batch_size
    }

    /// Micro-batches of the stream that a step takes.
    pub(crate) fn micro_batches_per_step(&self) -> u32 {
        let rows = self.training.train.global_batch_size;
        u32::try_from((rows / self.micro_batch_size().max(1)).max(1)).unwrap_or(u32::MAX)
    }

    /// The same configuration with every default written out: what is saved with a run.
    pub(crate) fn resolved(&self) -> Table {
        match Value::try_from(self) {
            Ok(Value::Table(table)) => table,
            other => unreachable!("a configuration is a table of plain values: {other:?}"),
        }
    }
}
