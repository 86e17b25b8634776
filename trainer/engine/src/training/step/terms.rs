//! Terms of an objective: its arrays on the device, its sums, and their additions to a report.

use trainer_plan::metric_name::MetricName;

use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::model::staging_buffer::Staging;
use crate::objective_instances::Member;
use crate::objectives::{ObjectiveOutput, Term};
use crate::training::metric_accumulator::{MetricAccumulator, PendingAdditions};

/// Computes the sums and metrics of an objective, without gradient if it has no weight.
pub(super) fn compute(member: &Member, forward: &Forward<'_>) -> ObjectiveOutput {
    if member.weight == 0.0 {
        let _guard = tch::no_grad_guard();
        member.loss.compute(forward)
    } else {
        member.loss.compute(forward)
    }
}

/// Collects the arrays that objectives need on the device.
pub(super) fn staging<'a>(members: impl IntoIterator<Item = &'a Member>, batch: &HostBatch<'_>) -> Staging {
    let mut staging = Staging::default();
    members.into_iter().for_each(|member| member.loss.send(batch, &mut staging));
    staging
}

/// Adds the sums and metrics of an objective to the next report.
pub(super) fn tally(
    into: &mut MetricAccumulator,
    member: &Member,
    terms: &[Term],
    computed: &ObjectiveOutput,
    sums: &mut PendingAdditions,
) {
    for (term, sum) in terms.iter().zip(&computed.sums) {
        into.add_term(MetricName::new(&member.name, term.name), member.weight * term.weight, sum, term.count, sums);
    }
    for metric in &computed.metrics {
        into.add_metric(&member.name, metric, sums);
    }
}
