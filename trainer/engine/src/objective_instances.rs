//! Construction of a plan's networks and objectives.

use trainer_plan::TrainPlan;
use trainer_plan::pass::Pass;
use trainer_plan::request::ActiveObjective;

use crate::model::networks::built::Networks;
use crate::model::parameters::Parameters;
use crate::objectives::{Loss, builder};

/// Built objective of the loss.
pub(crate) struct Member {
    /// Key in the configuration.
    pub name: String,
    /// Weight in the loss.
    pub weight: f64,
    /// Computation of its terms.
    pub loss: Box<dyn Loss>,
    /// Encoder passes that it reads.
    pub passes: Vec<Pass>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("weight", &self.weight).finish_non_exhaustive()
    }
}

/// Builds the networks and heads of a run over its declared weights.
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
