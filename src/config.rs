//! Configuration of a run as one typed value.
//!
//! TOML → [`Config`] (typed, defaults filled, unknown keys refused) → [`Plan`](crate::plan::Plan) (checked against the
//! data). Parsing has two steps, so that one report lists every mistake. First the file is parsed to a table. Then each
//! section, view and objective is parsed to its own type, which the crate that uses it defines.

pub mod corpora;
pub(crate) mod corpus;
#[cfg(test)]
mod fuzz;
mod key_path;
mod mistake;
pub(crate) mod reference;
mod renamed;
mod section;
pub(crate) mod source;
pub(crate) mod sources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) use corpus::output_folder_problem;
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

use self::key_path::is_within;
use self::sources::SourceConfig;

/// Run folder, timeouts and exporters of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// The run folder: log, checkpoints, the resolved configuration. A path, or a URL such as
    /// `s3://BUCKET/PREFIX`. No default, so that no run writes to a folder by accident.
    pub folder: PathBuf,
    /// Maximum seconds of a stop, from the signal on. After them, the process exits with the last complete checkpoint,
    /// and later steps are lost. 0: no limit.
    pub shutdown_timeout_seconds: u64,
    /// Seconds without progress before a warning names the stalled worker. The interval doubles after each warning. 0
    /// disables the check.
    pub stall_timeout_seconds: u64,
    /// Write curves for TensorBoard into `tensorboard/` of the run folder: losses, metrics, learning rate, validations
    /// and time shares, over steps. The log has the same values in any case.
    pub tensorboard: bool,
    /// Send metrics and log records to an OpenTelemetry collector (OTLP over HTTP, protobuf). The environment variable
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` names the collector. Applies to `cloze prepare` too. Requires the feature `otlp`.
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

/// Assumptions of a recipe about the data. `cloze plan` warns if they do not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExpectedData {
    /// Number of ids in the vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vocab_size: Option<u32>,
    /// Whether the tokenizer keeps capitals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cased: Option<bool>,
}

/// All sections of a configuration file, defaults filled in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Config {
    /// Seed of weights, masks and the order of rows. Another seed is another run.
    pub(crate) seed: u64,
    /// Assumptions of a recipe about the data. `cloze plan` uses them if no data is prepared yet, and warns if the data
    /// differs.
    pub(crate) expects: ExpectedData,
    /// `cloze tokenizer train`: the tokenizer to train.
    pub(crate) tokenizer: TokenizerConfig,
    /// `cloze prepare`: conversion of a corpus to a prepared folder.
    pub(crate) prepare: PrepareConfig,
    /// Rows that a run reads from a prepared folder, and their order.
    pub data: DataConfig,
    /// Mixture of several prepared folders, by user-defined names. If set, `data.folder` is ignored.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) sources: BTreeMap<String, SourceConfig>,
    /// Views of the rows, by user-defined names. The view `original`, an unchanged row, always exists.
    pub(crate) views: BTreeMap<String, AnyView>,
    #[serde(flatten)]
    pub(crate) training: Training,
    /// Run folder, timeouts and exporters.
    pub run: RunConfig,
    /// HTTP server with the status of a run or a preparation under way.
    pub serve: ServeConfig,
    /// Recipients of alerts, and the events that raise them.
    pub alerts: AlertsConfig,
}

/// Sections that only the trainer reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Training {
    /// The shape of the main network. The default is BERT-base.
    pub(crate) encoder: trainer_plan::encoder::EncoderConfig,
    /// Further networks, by user-defined names. A network that no objective of the loss reads is not built.
    pub(crate) networks: BTreeMap<String, trainer_plan::networks::AnyNetwork>,
    /// Training objectives, by user-defined names. An objective that `[loss]` does not name is not built.
    pub(crate) objectives: BTreeMap<String, trainer_plan::objectives::AnyObjective>,
    /// Weight of each objective, by its name: `L = mlm + tc` is `mlm = 1.0` and `tc = 1.0`. An objective with weight 0
    /// is reported and has no effect on the weights. If a file extends another, its `[loss]` replaces the whole
    /// section.
    pub(crate) loss: BTreeMap<String, f64>,
    /// Length of the training, batch size and device.
    pub(crate) train: trainer_plan::config::TrainConfig,
    /// Parameters of AdamW.
    pub(crate) optimizer: trainer_plan::optimizer::OptimizerConfig,
    /// Schedule of the learning rate.
    pub(crate) schedule: trainer_plan::schedule::ScheduleConfig,
    /// Validation on rows that are not trained on.
    pub(crate) validation: trainer_plan::config::ValidationConfig,
    /// Interval and retention of checkpoints.
    pub(crate) checkpoints: trainer_plan::config::CheckpointConfig,
    /// Interval of reports.
    pub(crate) report: trainer_plan::config::ReportConfig,
    /// Reaction to loss or gradient spikes.
    pub(crate) spike_guard: trainer_plan::config::SpikeGuardConfig,
}

/// Configuration and the mistakes found in it so far.
pub struct Parsed {
    /// The configuration, which may be invalid.
    pub config: Config,
    pub(crate) source: ConfigSource,
    pub(crate) problems: Mistakes,
    /// Component names as written, including those of invalid components.
    names: BTreeMap<&'static str, Vec<String>>,
    /// Keys whose values are not as written, because of a mistake in them.
    broken: Vec<String>,
    /// Whether the format of `[prepare]` is written, or an extension tells it.
    has_known_format: bool,
}

impl Parsed {
    /// Reads a file. Fails at once only if no table can be parsed: the file is missing or has a syntax error.
    pub fn read(file: &Path, overrides: &[String]) -> Result<Self, Mistakes> {
        let (mut source, mistakes) = ConfigSource::read(file, overrides).map_err(|mistake| Mistakes(vec![mistake]))?;
        let mut sections = section::Sections::new(std::mem::take(&mut source.table), &source, mistakes);
        let mut config = read(&mut sections);
        let section::SectionsEnd { mistakes: problems, names, broken } = sections.finish();
        let has_known_format = corpus::follow(&mut config.prepare, &mut config.data, &source);
        corpus::follow_sources(&mut config.sources, &source);
        follow_budget(&mut config.training.train, &source);
        Ok(Self { config, source, problems, names, broken, has_known_format })
    }

    /// Returns the configuration for a command that reads a corpus: that of `[prepare]`, or those of all sources
    /// combined.
    pub(crate) fn into_corpus(mut self) -> Result<Config, Mistakes> {
        self.read_sources_together();
        let prepare = &self.config.prepare;
        let named = prepare.missing().into_iter().filter(|missing| missing.key == "prepare.inputs");
        let found = named.chain(prepare.problems()).chain(corpus::input_problems(prepare));
        let found = found.chain(corpus::folder_problems(prepare)).collect();
        self.report(found);
        self.into_config()
    }

    /// Whether a component exists but could not be parsed. A reference to it is then no further mistake.
    pub(crate) fn is_broken(&self, table: &str, name: &str) -> bool {
        let parsed = match table {
            "views" => self.config.views.contains_key(name),
            "objectives" => self.config.training.objectives.contains_key(name),
            "networks" => self.config.training.networks.contains_key(name),
            _ => false,
        };
        !parsed && self.names.get(table).into_iter().flatten().any(|known| known == name)
    }

    /// Adds problems found in planning. Skips problems that only follow from a key or a component that could not be
    /// parsed, since its own mistake is in the list already.
    pub(crate) fn report(&mut self, found: Vec<Problem>) {
        for problem in found {
            let holds = |broken: &String| is_within(&problem.key, broken) || is_within(broken, &problem.key);
            let follows =
                self.broken.iter().any(holds) || problem.about.iter().any(|it| self.is_broken(it.section, &it.name));
            if !follows {
                let mistake = self.source.locate(problem);
                self.add(mistake);
            }
        }
    }

    /// Adds a mistake, unless the same mistake is listed already. The hint of the first one is kept.
    pub(crate) fn add(&mut self, problem: Mistake) {
        let is_listed = |known: &Mistake| (&known.place, &known.message) == (&problem.place, &problem.message);
        if !self.problems.0.iter().any(is_listed) {
            self.problems.push(problem);
        }
    }

    /// Returns the names in a table of components.
    pub(crate) fn names(&self, table: &str) -> Vec<&str> {
        self.names.get(table).into_iter().flatten().map(String::as_str).collect()
    }

    /// Returns the configuration, if it has no mistakes.
    pub(crate) fn into_config(self) -> Result<Config, Mistakes> {
        self.problems.into_result().map(|()| self.config)
    }
}

/// Removes the default limit of steps if tokens or hours end the run and `train.steps` is not written.
fn follow_budget(train: &mut trainer_plan::config::TrainConfig, source: &ConfigSource) {
    if (train.max_tokens.is_some() || train.max_hours.is_some()) && !source.says("train.steps") {
        train.steps = trainer_plan::config::TrainConfig::STEPS_ENDLESS;
    }
}

/// Parses every section to its own type.
fn read(sections: &mut section::Sections<'_>) -> Config {
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
    /// Configuration of an empty file: the defaults of all keys.
    pub(crate) fn unwritten() -> Self {
        read(&mut section::Sections::new(toml::Table::new(), &ConfigSource::default(), Vec::new()))
    }

    /// Number of rows of a batch of the stream.
    pub(crate) fn micro_batch_size(&self) -> u64 {
        self.training.train.micro_batch_size
    }

    /// Number of micro-batches of the stream in a step.
    pub(crate) fn micro_batches_per_step(&self) -> u32 {
        let rows = self.training.train.global_batch_size;
        u32::try_from((rows / self.micro_batch_size().max(1)).max(1)).unwrap_or(u32::MAX)
    }

    /// Returns the configuration with all defaults written out, as it is saved with a run.
    pub fn resolved(&self) -> Table {
        match Value::try_from(self) {
            Ok(Value::Table(table)) => table,
            other => unreachable!("a configuration is a table of plain values: {other:?}"),
        }
    }
}
