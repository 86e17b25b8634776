//! What a run is asked to be, not checked yet.

use std::collections::BTreeMap;

use super::config::{CheckpointConfig, ReportConfig, SpikeGuardConfig, TrainConfig, ValidationConfig};
use super::identity::Identity;
use super::requirements::used_networks;
use crate::encoder::{EncoderConfig, VocabFacts};
use crate::networks::AnyNetwork;
use crate::objectives::AnyObjective;
use crate::optimizer::OptimizerConfig;
use crate::pass::Pass;
use crate::schedule::{ScheduleConfig, Span};

/// All parts of a run. [`TrainPlan::new`](super::TrainPlan::new) says whether they make one.
#[derive(Clone, Debug)]
pub struct TrainRequest {
    /// Seed of weights, dropout and device-side draws.
    pub seed: u64,
    /// Tokens of a row of the views that are encoded.
    pub width: u32,
    /// Tokens of a row of each view that is encoded, where it is not `width`.
    pub view_widths: BTreeMap<String, u32>,
    /// The main network.
    pub encoder: EncoderConfig,
    /// The networks next to it; one that no objective of the loss reads is not built.
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
    /// What becomes of steps that leap.
    pub guard: SpikeGuardConfig,
    /// What makes it this run and no other.
    pub identity: Identity,
    /// Content hash of the data, from the manifest.
    pub data_content: String,
    /// What people have decided since it began.
    pub amended: Amended,
}

/// What people decide about a run that has begun.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amended {
    /// From which step on the run has had how many steps, where that was changed: the oldest first.
    pub spans: Vec<Span>,
    /// Keys of the identity that may be others than those of the newest checkpoint.
    pub allowed: Vec<String>,
}

/// An objective of the loss.
#[derive(Clone, Copy, Debug)]
pub struct ActiveObjective<'a> {
    /// Its name in `[objectives]`.
    pub name: &'a str,
    /// Its configuration.
    pub objective: &'a AnyObjective,
    /// Its weight in `[loss]`.
    pub weight: f64,
}

impl TrainRequest {
    /// The objectives of the loss, by name.
    pub fn active(&self) -> impl Iterator<Item = ActiveObjective<'_>> {
        self.loss
            .iter()
            .filter_map(|(name, &weight)| Some(ActiveObjective { name, objective: self.objectives.get(name)?, weight }))
    }

    /// Every pass that the objectives of the loss read, and whether one of them learns from it.
    pub fn passes(&self) -> BTreeMap<Pass, bool> {
        let mut passes = BTreeMap::new();
        for ActiveObjective { objective, weight, .. } in self.active() {
            for pass in objective.reads().passes {
                *passes.entry(pass).or_default() |= weight != 0.0;
            }
        }
        passes
    }

    /// The networks next to the main one that are built: those that an objective of the loss reads, or a view of theirs.
    #[must_use]
    pub fn used_networks(&self) -> BTreeMap<String, AnyNetwork> {
        used_networks(&self.networks, self.active().map(|active| active.objective))
    }

    /// Steps of the whole run, where rows are full; none where only hours end it.
    #[must_use]
    pub fn steps_expected(&self) -> Option<u64> {
        let tokens = self.train.global_batch_size.saturating_mul(u64::from(self.width)).max(1);
        let by_tokens = self.train.max_tokens.map(|budget| budget.div_ceil(tokens));
        let by_steps = self.train.ends_by_steps().then_some(self.train.steps);
        by_tokens.into_iter().chain(by_steps).min()
    }

    /// Micro-batches of one step.
    #[must_use]
    pub fn micro_batches(&self) -> u64 {
        self.train.global_batch_size / self.train.micro_batch_size
    }
}
