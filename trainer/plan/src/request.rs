//! Training request: all parts of a run before they are checked.

use std::collections::BTreeMap;

use super::config::{CheckpointConfig, ReportConfig, SpikeGuardConfig, TrainConfig, ValidationConfig};
use super::identity::Identity;
use super::requirements::used_networks;
use crate::encoder::{EncoderConfig, VocabFacts};
use crate::networks::{AnyNetwork, MAIN};
use crate::objectives::AnyObjective;
use crate::optimizer::OptimizerConfig;
use crate::pass::Pass;
use crate::schedule::{ScheduleConfig, Span};

/// All parts of a run. [`TrainPlan::new`](super::TrainPlan::new) checks them.
#[derive(Clone, Debug)]
pub struct TrainRequest {
    /// Seed of weights, dropout and device-side draws.
    pub seed: u64,
    /// Tokens per row of the encoded views.
    pub width: u32,
    /// Tokens per row of each encoded view that has another width.
    pub view_widths: BTreeMap<String, u32>,
    /// Main network.
    pub encoder: EncoderConfig,
    /// Additional networks. A network that no objective of the loss reads is not built.
    pub networks: BTreeMap<String, AnyNetwork>,
    /// Vocabulary.
    pub vocab: VocabFacts,
    /// Objectives by name. An objective that `loss` does not list is not built.
    pub objectives: BTreeMap<String, AnyObjective>,
    /// Weight of each objective. An objective with weight 0 is reported and not trained.
    pub loss: BTreeMap<String, f64>,
    /// Steps, rows, device.
    pub train: TrainConfig,
    /// Optimizer.
    pub optimizer: OptimizerConfig,
    /// Learning-rate schedule.
    pub schedule: ScheduleConfig,
    /// Validation interval and rows.
    pub validation: ValidationConfig,
    /// Checkpoint interval and retention.
    pub checkpoints: CheckpointConfig,
    /// Report interval.
    pub report: ReportConfig,
    /// Detection of loss spikes and the reaction to them.
    pub guard: SpikeGuardConfig,
    /// Identity of the run: the keys that must not change when it resumes.
    pub identity: Identity,
    /// Content hash of the data, from the manifest.
    pub data_content: String,
    /// Changes that users have requested since the run started.
    pub amended: AmendedRequest,
}

impl TrainRequest {
    /// Returns a request of one network with rows of `width` tokens. It has no objectives, and defaults elsewhere.
    #[must_use]
    pub fn new(encoder: EncoderConfig, vocab: VocabFacts, width: u32) -> Self {
        Self {
            seed: 0,
            width,
            view_widths: BTreeMap::new(),
            encoder,
            networks: BTreeMap::new(),
            vocab,
            objectives: BTreeMap::new(),
            loss: BTreeMap::new(),
            train: TrainConfig::default(),
            optimizer: OptimizerConfig::default(),
            schedule: ScheduleConfig::default(),
            validation: ValidationConfig::default(),
            checkpoints: CheckpointConfig::default(),
            report: ReportConfig::default(),
            guard: SpikeGuardConfig::default(),
            identity: Identity::new(BTreeMap::new()),
            data_content: String::new(),
            amended: AmendedRequest::default(),
        }
    }
}

/// Changes that users request of a run that has started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AmendedRequest {
    /// Numbers of steps since each extension, the oldest first.
    pub spans: Vec<Span>,
    /// Keys of the identity that may differ from those of the newest checkpoint.
    pub allowed: Vec<String>,
}

/// Objective of the loss.
#[derive(Clone, Copy, Debug)]
pub struct ActiveObjective<'a> {
    /// Name in `[objectives]`.
    pub name: &'a str,
    /// Configuration.
    pub objective: &'a AnyObjective,
    /// Weight in `[loss]`.
    pub weight: f64,
}

impl TrainRequest {
    /// Returns the objectives of the loss, by name.
    pub fn active(&self) -> impl Iterator<Item = ActiveObjective<'_>> {
        self.loss
            .iter()
            .filter_map(|(name, &weight)| Some(ActiveObjective { name, objective: self.objectives.get(name)?, weight }))
    }

    /// Whether a weight belongs to a head that predicts the targets of labelled examples.
    #[must_use]
    pub fn is_label_head(&self, weight: &str) -> bool {
        let objective = weight.strip_prefix("heads.").and_then(|rest| self.objectives.get(rest.split('.').next()?));
        objective.is_some_and(|objective| objective.label_outputs().is_some())
    }

    /// Returns the name in `train.init_from` of a weight of a head that continues one which predicts tokens. `None` for other
    /// weights.
    #[must_use]
    pub fn continued_weight(&self, weight: &str) -> Option<String> {
        let (name, rest) = weight.strip_prefix("heads.")?.split_once('.')?;
        let objective = self.objectives.get(name).filter(|objective| objective.continues_token_head())?;
        Some(format!("heads.{}.{rest}", objective.init_head().unwrap_or(name)))
    }

    /// Returns every pass that the objectives of the loss read, and whether one of them is trained on it.
    pub fn passes(&self) -> BTreeMap<Pass, bool> {
        let mut passes = BTreeMap::new();
        for ActiveObjective { objective, weight, .. } in self.active() {
            for pass in objective.reads().passes {
                *passes.entry(pass).or_default() |= weight != 0.0;
            }
        }
        passes
    }

    /// Number of layers that a pass runs.
    #[must_use]
    pub fn depth(&self, pass: &Pass) -> u32 {
        let shape = if pass.network == MAIN { None } else { self.networks.get(&pass.network) };
        let layers = shape.and_then(|network| network.shape(&self.encoder)).map_or(self.encoder.layers, |it| it.layers);
        pass.layers.unwrap_or(layers)
    }

    /// Number of layers, counted from the last one of a pass, whose weights are trained through it.
    #[must_use]
    pub fn trained_depth(&self, pass: &Pass) -> u32 {
        let is_frozen = self.networks.get(&pass.network).is_some_and(|network| !network.is_trained());
        match self.encoder.frozen_layers().filter(|_| pass.network == MAIN) {
            _ if is_frozen => 0,
            Some(frozen) => self.depth(pass).saturating_sub(frozen),
            None => self.depth(pass),
        }
    }

    /// Whether weights of its network are trained through a pass.
    #[must_use]
    pub fn trains_through(&self, pass: &Pass) -> bool {
        // The pass of no layer trains the embeddings.
        let is_input = self.depth(pass) == 0 && (pass.network != MAIN || self.encoder.frozen_layers().is_none());
        self.trained_depth(pass) > 0 || is_input
    }

    /// Returns the additional networks that are built: an objective of the loss reads each of them or its view.
    #[must_use]
    pub fn used_networks(&self) -> BTreeMap<String, AnyNetwork> {
        used_networks(&self.networks, self.active().map(|active| active.objective))
    }

    /// Returns the steps of the whole run if all rows are full. `None` if only `max_hours` ends the run.
    #[must_use]
    pub fn steps_expected(&self) -> Option<u64> {
        let tokens = self.train.global_batch_size.saturating_mul(u64::from(self.width)).max(1);
        let by_tokens = self.train.max_tokens.map(|budget| budget.div_ceil(tokens));
        let by_steps = self.train.ends_by_steps().then_some(self.train.steps);
        by_tokens.into_iter().chain(by_steps).min()
    }

    /// Returns the number of micro-batches per step.
    #[must_use]
    pub fn micro_batches(&self) -> u64 {
        self.train.global_batch_size / self.train.micro_batch_size
    }

    /// Returns the reason why that many ranks cannot share a step, if any: each takes the same number of micro-batches.
    #[must_use]
    pub fn ranks_problem(&self, ranks: u32) -> Option<String> {
        let micro_batches = self.micro_batches();
        let rows = self.train.global_batch_size;
        let ranks = u64::from(ranks);
        let way = if ranks == 0 || micro_batches.is_multiple_of(ranks) {
            return None;
        } else if rows.is_multiple_of(ranks) {
            let of_rank = rows / ranks;
            let largest = (1..=of_rank.min(self.train.micro_batch_size)).rev().find(|it| of_rank.is_multiple_of(*it));
            let largest = largest.unwrap_or(1);
            format!("set it to {largest} or another divisor of {of_rank}, or change `train.global_batch_size`")
        } else {
            format!("set `train.global_batch_size` to a multiple of {ranks}")
        };
        Some(format!(
            "`train.micro_batch_size`: a step of {rows} rows has {micro_batches} micro-batches of {} rows, which {ranks} ranks \
             cannot share; {way}",
            self.train.micro_batch_size
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[test]
    fn ranks_must_share_the_micro_batches() {
        let mut request = testing::request();
        request.train.global_batch_size = 24;
        request.train.micro_batch_size = 4;
        for ranks in [1, 2, 3, 6] {
            assert_eq!(request.ranks_problem(ranks), None);
        }
        let problem = request.ranks_problem(4).expect("6 micro-batches for 4 ranks");
        assert_eq!(
            problem,
            "`train.micro_batch_size`: a step of 24 rows has 6 micro-batches of 4 rows, which 4 ranks cannot share; set it \
             to 3 or another divisor of 6, or change `train.global_batch_size`"
        );
        // The way out leads out.
        request.train.micro_batch_size = 3;
        assert_eq!(request.ranks_problem(4), None);
        request.train.micro_batch_size = 4;
        let problem = request.ranks_problem(5).expect("24 rows for 5 ranks");
        assert!(problem.ends_with("cannot share; set `train.global_batch_size` to a multiple of 5"), "{problem}");
    }
}
