//! What larger micro-batches would bring: predicted from two sizes that are measured.
//!
//! # Definition
//! A step of `R` rows in micro-batches of `m` takes `c + a · R / m`: what its rows cost, and what each micro-batch costs
//! whatever is in it. Steps of `m` and of `m / 2` give both, on made batches, as `profile step` times them.

use cloze::cli::ConfigArgs;
use cloze::plan::dry_run::DryRun;
use profiler::statistics::quartiles;
use profiler::what_if::{GAIN_MIN, Proposal};
use trainer::training::time_steps;
use trainer_plan::TrainPlan;
use trainer_plan::objectives::Normalize;

use super::step::made_steps;

/// Steps that are timed of each size, behind those that warm up.
const STEPS: usize = 6;
const WARM_UP: usize = 2;

/// A gain that cannot be: then the two times were not of one machine.
const GAIN_MAX: f64 = 0.9;

/// Times of one size.
struct Times {
    median: f64,
    /// Half of the range in which half of them lie, as a share.
    within: f64,
}

/// Micro-batches of twice the rows, if a step has so many, and if that is predicted to bring anything.
pub(super) fn proposal(args: &ConfigArgs) -> anyhow::Result<Option<Proposal>> {
    let outlook = DryRun::of(args)?;
    let train = &outlook.train().train;
    let (rows, now) = (train.global_batch_size, train.micro_batch_size);
    if !rows.is_multiple_of(2 * now) || !now.is_multiple_of(2) || is_recipe(outlook.train()) {
        return Ok(None);
    }
    let (half, whole) = (times(args, now / 2)?, times(args, now)?);
    let gain = gain(half.median, whole.median);
    let within = 0.5 * half.within.hypot(whole.within).max(0.01);
    let size = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    Ok((gain >= GAIN_MIN.max(within) && gain < GAIN_MAX).then(|| Proposal {
        key: "train.micro_batch_size",
        from: size(now),
        to: size(2 * now),
        gain,
        within,
        then: "the trainer binds",
    }))
}

/// Whether what is learned depends on how many rows a micro-batch has: where rows are contrasted with each other, or each
/// micro-batch is weighed by itself. Then its size is not for speed to choose.
pub(crate) fn is_recipe(plan: &TrainPlan) -> bool {
    plan.train.normalize == Normalize::MicroBatch
        || plan.active().any(|active| active.weight != 0.0 && active.objective.batch_coupled())
}

/// How much faster a step of micro-batches of twice the rows is than one of `whole` seconds, where one of half the rows takes
/// `half`; as a share.
fn gain(half: f64, whole: f64) -> f64 {
    let each = (half - whole).max(0.0);
    whole / (whole - each / 2.0).max(whole / 2.0) - 1.0
}

fn times(args: &ConfigArgs, rows: u64) -> anyhow::Result<Times> {
    let mut sized = args.clone();
    sized.set.push(format!("train.micro_batch_size={rows}"));
    let outlook = DryRun::of(&sized)?;
    let steps = made_steps(outlook.train(), &outlook.views(), outlook.fills_rows(), STEPS);
    let timing = time_steps(outlook.train(), &steps, WARM_UP, STEPS)?;
    let [low, median, high] = quartiles(&timing.seconds);
    Ok(Times { median, within: (high - low) / 2.0 / median.max(1e-9) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_micro_batch_costs_is_saved_by_half_of_them() {
        // 100 ms for rows, 10 ms for each of 4, 2, 1 micro-batches: 140, 120, 110 ms.
        assert!((gain(0.140, 0.120) - (120.0 / 110.0 - 1.0)).abs() < 1e-9);
        assert!(gain(0.1, 0.1).abs() < 1e-12 && gain(0.09, 0.1).abs() < 1e-12, "nothing to save");
        assert!(gain(10.0, 0.1) <= 1.0, "never more than twice as fast");
    }
}
