//! A plan's networks and objectives, made.

use trainer_plan::TrainPlan;
use trainer_plan::pass::Pass;
use trainer_plan::request::ActiveObjective;

use crate::model::networks::built::Networks;
use crate::model::parameters::Parameters;
use crate::objectives::{Loss, builder};

/// An objective of the loss, built.
pub(crate) struct Member {
    /// Its key in the config.
    pub name: String,
    /// Its weight in the loss.
    pub weight: f64,
    /// What it computes.
    pub loss: Box<dyn Loss>,
    /// What it has to be given.
    pub passes: Vec<Pass>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("weight", &self.weight).finish_non_exhaustive()
    }
}

/// Builds the networks and heads of a run over the weights that it declares.
#[must_use]
pub(crate) fn build(plan: &TrainPlan, parameters: &Parameters) -> (Networks, Vec<Member>) {
    let others = plan.used_networks();
    let networks = Networks::build(&plan.encoder, &others, &plan.vocab, plan.train.precision, parameters)
        .recomputing(plan.train.activation_checkpointing);
    let members = plan.active().map(|ActiveObjective { name, objective, weight }| Member {
        name: name.to_owned(),
        weight,
        loss: builder(objective).build(name, &parameters.path(&format!("heads.{name}")), &networks),
        passes: objective.reads().passes,
    });
    let members = members.collect();
    (networks, members)
}
