//! Everything a run needs, already checked. The command line makes it; nothing here is checked twice.

mod encoder;
mod reads;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemas::SpecialIds;
use serde::{Deserialize, Serialize};

use crate::device::DeviceChoice;
use crate::identity::Identity;
use crate::networks::{AnyNetwork, MAIN};
use crate::objectives::{AnyObjective, Pass};
use crate::optimizer::OptimizerConfig;
use crate::parameters::Parameters;
use crate::precision::Precision;
use crate::relative_positions::Buckets;
use crate::schedule::ScheduleConfig;

pub use self::encoder::{EncoderConfig, Frozen, Gelu, RelativeForm, RelativePositions};
pub use self::reads::{ColumnsRead, columns_read, used_networks};

/// What training knows of the vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct VocabFacts {
    /// Number of ids.
    pub size: u32,
    /// The ids of frames and masks.
    pub special: SpecialIds,
    /// ln of each id's share of the training split, smoothed so that none is −∞.
    pub unigram_log_probabilities: Vec<f64>,
}

/// `[train]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Optimizer steps of the whole run.
    pub steps: u64,
    /// Rows that one step learns from.
    pub rows_per_step: u64,
    /// Rows that are on the device at once; divides `rows_per_step`.
    pub rows_per_micro_batch: u64,
    /// What a sum over positions is divided by.
    pub normalize: Normalize,
    /// The type of matrix products.
    pub precision: Precision,
    /// Where to compute.
    pub device: DeviceChoice,
    /// Threads of libtorch on the CPU; 0 for one per core. Equal numbers give equal bits.
    pub threads: usize,
    /// Reproducible kernels on CUDA, at a price; the CPU's always are.
    pub deterministic: bool,
    /// A folder to take the first weights from: a checkpoint of another run, or a model that `transformers` saved.
    pub init: Option<PathBuf>,
    /// Steps with a non-finite gradient that a run may skip before it fails.
    pub skipped_steps_max: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: 100_000,
            rows_per_step: 256,
            rows_per_micro_batch: 32,
            normalize: Normalize::Step,
            precision: Precision::F32,
            device: DeviceChoice::Auto,
            threads: 0,
            deterministic: false,
            init: None,
            skipped_steps_max: 0,
        }
    }
}

/// The denominators of a step's loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalize {
    /// One count over the whole step: every position weighs the same.
    #[default]
    Step,
    /// Each micro-batch by its own count, then the mean over micro-batches, as the released codes do.
    MicroBatch,
}

/// `[validation]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// Steps between validations; 0 for none.
    pub every_steps: u64,
    /// Rows of the valid split, from its beginning.
    pub rows: u64,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self { every_steps: 1000, rows: 1024 }
    }
}

/// `[checkpoints]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Steps between checkpoints; the end of a run and a stop make one too.
    pub every_steps: u64,
    /// How many of the newest stay; at least 1.
    pub keep: usize,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every_steps: 1000, keep: 3 }
    }
}

/// `[report]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReportConfig {
    /// Steps between reports.
    pub every_steps: u64,
}

impl Default for ReportConfig {
    fn default() -> Self {
        Self { every_steps: 50 }
    }
}

/// A run, whole.
#[derive(Clone, Debug)]
pub struct TrainPlan {
    /// Seed of weights, dropout and device-side draws.
    pub seed: u64,
    /// Tokens of a row of the views that are encoded.
    pub width: u32,
    /// Tokens of a row of each view that is encoded, where it is not `width`.
    pub view_widths: BTreeMap<String, u32>,
    /// The main network.
    pub encoder: EncoderConfig,
    /// The networks beside it; one that no objective of the loss reads is not built.
    pub networks: BTreeMap<String, AnyNetwork>,
    /// The vocabulary.
    pub vocab: VocabFacts,
    /// Objectives by name; one that `loss` does not list is not built.
    pub objectives: BTreeMap<String, AnyObjective>,
    /// Weight of each objective; with 0 it is reported and teaches nothing.
    pub loss: BTreeMap<String, f64>,
    /// Steps, rows, device.
    pub train: TrainConfig,
    /// The optimizer.
    pub optimizer: OptimizerConfig,
    /// The learning rate's course.
    pub schedule: ScheduleConfig,
    /// When to validate.
    pub validation: ValidationConfig,
    /// When to save.
    pub checkpoints: CheckpointConfig,
    /// When to report.
    pub report: ReportConfig,
    /// What makes it this run and no other.
    pub identity: Identity,
    /// Content hash of the data, from the manifest.
    pub data_content: String,
    /// The run folder.
    pub folder: PathBuf,
}

/// One thing wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key in the config, such as `encoder.heads`.
    pub key: String,
    /// What is wrong, with the values.
    pub message: String,
}

impl TrainPlan {
    /// Everything about this plan that the trainer cannot run; empty for a good one. Whether the views make what the
    /// objectives read is not known here: compare [`columns_read`] with them.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let (encoder, train, optimizer) = (&self.encoder, &self.train, &self.optimizer);
        let whole = |rows: u64, part: u64| part > 0 && rows > 0 && rows.is_multiple_of(part);
        let rules = [
            (encoder.layers > 0, "encoder.layers", "at least one layer is needed".to_owned()),
            (
                encoder.heads > 0 && encoder.hidden > 0 && encoder.hidden.is_multiple_of(encoder.heads),
                "encoder.hidden",
                format!("{} is not a multiple of `encoder.heads` = {}", encoder.hidden, encoder.heads),
            ),
            (encoder.feed_forward > 0, "encoder.feed_forward", "a width of at least 1 is needed".to_owned()),
            (
                (0.0..1.0).contains(&encoder.dropout),
                "encoder.dropout",
                format!("{} is not a probability below 1", encoder.dropout),
            ),
            (encoder.layer_norm_eps > 0.0, "encoder.layer_norm_eps", "it must be above 0".to_owned()),
            (
                self.width <= encoder.positions,
                "encoder.positions",
                format!("rows have {} tokens, the network {} positions", self.width, encoder.positions),
            ),
            (encoder.embedding != Some(0), "encoder.embedding", "a width of at least 1 is needed".to_owned()),
            (
                u16::try_from(encoder.positions).is_ok(),
                "encoder.positions",
                format!("{} is more than the 65,535 that a row can have", encoder.positions),
            ),
            (train.steps > 0, "train.steps", "at least one step is needed".to_owned()),
            (
                whole(train.rows_per_step, train.rows_per_micro_batch),
                "train.rows_per_step",
                format!(
                    "{} is not a multiple of `train.rows_per_micro_batch` = {}",
                    train.rows_per_step, train.rows_per_micro_batch
                ),
            ),
            (
                train.precision == Precision::F32 || train.device != DeviceChoice::Cpu,
                "train.precision",
                "`bf16` is for CUDA; the CPU computes in `f32`".to_owned(),
            ),
            (optimizer.lr > 0.0 && optimizer.lr.is_finite(), "optimizer.lr", "it must be above 0".to_owned()),
            (
                optimizer.betas.iter().all(|beta| (0.0..1.0).contains(beta)),
                "optimizer.betas",
                format!("{:?} are not two rates below 1", optimizer.betas),
            ),
            (optimizer.eps > 0.0, "optimizer.eps", "it must be above 0".to_owned()),
            (optimizer.weight_decay >= 0.0, "optimizer.weight_decay", "it must not be negative".to_owned()),
            (optimizer.clip_norm >= 0.0, "optimizer.clip_norm", "it must not be negative; 0 clips nothing".to_owned()),
            (self.checkpoints.every_steps > 0, "checkpoints.every_steps", "it must be above 0".to_owned()),
            (self.checkpoints.keep > 0, "checkpoints.keep", "at least one must stay".to_owned()),
            (self.report.every_steps > 0, "report.every_steps", "it must be above 0".to_owned()),
        ];
        let broken = rules.into_iter().filter(|(holds, ..)| !holds);
        let problems = broken.map(|(_, key, message)| Problem { key: key.to_owned(), message });
        problems.chain(self.network_problems()).chain(self.loss_problems()).collect()
    }

    fn network_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |key: String, message: String| problems.push(Problem { key, message });
        for message in self.encoder.relative_positions.buckets().map(Buckets::problems).unwrap_or_default() {
            add("encoder.relative_positions".to_owned(), message);
        }
        for (name, network) in &self.networks {
            if name == MAIN || name == "heads" || name == "encoder" {
                add(format!("networks.{name}"), format!("`{name}` is taken; give this network another name"));
            }
            let Some(generator) = network.generator() else { continue };
            let Some(shape) = generator.encoder(&self.encoder) else { continue };
            if generator.makes == generator.fills {
                add(format!("networks.{name}.makes"), format!("`{}` is what it fills; name another", generator.makes));
            }
            if generator.frozen && !generator.share.is_empty() {
                let message = "it is frozen, and the tables that it shares go on learning: set `share = []`".to_owned();
                add(format!("networks.{name}.share"), message);
            }
            if self.train.deterministic && self.train.device != DeviceChoice::Cpu && generator.reads_draws() {
                let message =
                    "CUDA adds up probabilities in no fixed order: with `train.deterministic` set `draw = \"gumbel\"`";
                add(format!("networks.{name}.draw"), message.to_owned());
            }
            if shape.layers == 0 {
                add(format!("networks.{name}.layers"), "at least one layer is needed".to_owned());
            }
            if shape.heads == 0 || shape.hidden == 0 || !shape.hidden.is_multiple_of(shape.heads) {
                let message = format!("{} is not a multiple of {} heads", shape.hidden, shape.heads);
                add(format!("networks.{name}.hidden"), message);
            }
        }
        let made: Vec<&str> =
            self.networks.values().filter_map(|network| Some(network.generator()?.makes.as_str())).collect();
        for (at, view) in made.iter().enumerate().filter(|(at, view)| made[..*at].contains(view)) {
            let name = self.networks.keys().nth(at).map_or("", String::as_str);
            add(format!("networks.{name}.makes"), format!("two networks make `{view}`"));
        }
        problems
    }

    fn loss_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |key: String, message: String| problems.push(Problem { key, message });
        if !self.loss.values().any(|&weight| weight != 0.0) {
            add("loss".to_owned(), "no objective has a weight: nothing would be learned".to_owned());
        }
        for (name, weight) in &self.loss {
            if !weight.is_finite() {
                add(format!("loss.{name}"), format!("{weight} is not a finite number"));
            }
            let Some(objective) = self.objectives.get(name) else {
                let known = self.objectives.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                add(format!("loss.{name}"), format!("there is no objective `{name}`; there are {known}"));
                continue;
            };
            for message in objective.problems() {
                add(format!("objectives.{name}"), message);
            }
            if self.encoder.embedding_width() != i64::from(self.encoder.hidden) && objective.meets_word_table() {
                let message =
                    format!("`{name}` holds hidden states against the word table: `encoder.embedding` must be as wide");
                add("encoder.embedding".to_owned(), message);
            }
            if objective.batch_coupled() && self.train.rows_per_micro_batch < 2 {
                let message =
                    format!("`{name}` contrasts rows of a micro-batch with each other: at least 2 are needed");
                add("train.rows_per_micro_batch".to_owned(), message);
            }
        }
        problems
    }

    /// The objectives of the loss with their weights, by name.
    pub fn active(&self) -> impl Iterator<Item = (&str, &AnyObjective, f64)> {
        self.loss
            .iter()
            .filter_map(|(name, &weight)| self.objectives.get(name).map(|objective| (name.as_str(), objective, weight)))
    }

    /// Every pass that the objectives of the loss read, and whether one of them learns from it.
    pub(crate) fn passes(&self) -> BTreeMap<Pass, bool> {
        let mut passes = BTreeMap::new();
        for (_, objective, weight) in self.active() {
            for pass in objective.reads().passes {
                *passes.entry(pass).or_default() |= weight != 0.0;
            }
        }
        passes
    }

    /// The networks beside the main one that are built: those that an objective of the loss reads, or a view of theirs.
    #[must_use]
    pub fn used_networks(&self) -> BTreeMap<String, AnyNetwork> {
        used_networks(&self.networks, self.active().map(|(_, objective, _)| objective))
    }

    /// Micro-batches of one step.
    #[must_use]
    pub fn micro_batches(&self) -> u64 {
        self.train.rows_per_step / self.train.rows_per_micro_batch
    }

    /// Numbers in all weights that learn, heads included, and in those that do not. Padding rows of the word table count,
    /// since they take memory.
    #[must_use]
    pub fn parameters(&self) -> (u64, u64) {
        let mut parameters = Parameters::outline();
        let _ = crate::step::build(self, &mut parameters);
        (parameters.count(), parameters.frozen_count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn bert_base_needs_588_million_operations_per_token() {
        let mut plan = testing::plan(std::path::Path::new("unused"));
        plan.loss.retain(|name, _| name == "masked_lm");
        (plan.encoder, plan.width, plan.vocab.size) = (EncoderConfig::default(), 512, 30_522);
        let millions = plan.flops_per_token() / 1e6;
        assert!((millions - 587.858_688).abs() < 1e-6, "{millions}");
    }

    #[test]
    fn a_good_plan_has_no_problems_and_a_bad_one_shows_all() {
        let mut plan = testing::plan(std::path::Path::new("unused"));
        assert_eq!(plan.problems(), []);
        (plan.encoder.heads, plan.encoder.dropout, plan.width) = (3, 1.0, 17);
        (plan.train.rows_per_step, plan.optimizer.lr, plan.checkpoints.keep) = (9, 0.0, 0);
        plan.loss.insert("nobody".to_owned(), 1.0);
        let keys: Vec<String> = plan.problems().into_iter().map(|problem| problem.key).collect();
        let expected = [
            "encoder.hidden",
            "encoder.dropout",
            "encoder.positions",
            "train.rows_per_step",
            "optimizer.lr",
            "checkpoints.keep",
            "loss.nobody",
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn weights_are_counted_with_heads_and_padding() {
        let _alone = testing::generator();
        let mut plan = testing::plan(std::path::Path::new("unused"));
        plan.loss.retain(|name, _| name == "masked_lm");
        let (d, f) = (16, 32);
        let embeddings = (64 + 16 + 2) * d + 2 * d;
        let layer = 4 * (d * d + d) + (d * f + f) + (f * d + d) + 4 * d;
        let head = d * d + d + 2 * d + 60;
        assert_eq!(plan.parameters(), (embeddings + 2 * layer + head, 0));
    }
}
