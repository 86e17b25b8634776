//! Predicted gain of larger micro-batches, from measurements of two sizes.
//!
//! # Definition
//! A step of `R` rows in micro-batches of `m` takes `c + a · R / m`: the cost of its rows, and a constant cost of each
//! micro-batch. Timing steps of `m` and of `m / 2` gives both, on synthetic batches, as in `profile step`.

use cloze::cli::ConfigArgs;
use cloze::plan::dry_run::DryRun;
use profiler::statistics::quartiles;
use profiler::what_if::{GAIN_MIN, WhatIfChange};
use trainer::training::time_steps;
use trainer_plan::TrainPlan;
use trainer_plan::objectives::Normalize;

use super::step::made_steps;

/// Timed steps of each size, after the warm-up steps.
const STEPS: usize = 6;
const WARM_UP: usize = 2;

/// Gain that is implausible: the load of the machine changed between the two timings.
const GAIN_MAX: f64 = 0.9;

/// Timing of one size.
struct Times {
    median: f64,
    /// Half of the interquartile range, relative to the median.
    within: f64,
}

/// Proposes micro-batches of twice the rows, if the step size allows it and the prediction is a gain.
pub(super) fn proposal(args: &ConfigArgs) -> anyhow::Result<Option<WhatIfChange>> {
    let planned = DryRun::for_timing(args)?;
    let train = &planned.train().train;
    let rows = train.global_batch_size;
    let now = train.micro_batch_size;
    if !rows.is_multiple_of(2 * now) || !now.is_multiple_of(2) || is_recipe(planned.train()) {
        return Ok(None);
    }
    let half = times(args, now / 2)?;
    let whole = times(args, now)?;
    let gain = gain(half.median, whole.median);
    let within = 0.5 * half.within.hypot(whole.within).max(0.01);
    let size = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    Ok((gain >= GAIN_MIN.max(within) && gain < GAIN_MAX).then(|| WhatIfChange {
        key: "train.micro_batch_size",
        from: size(now),
        to: size(2 * now),
        gain,
        within,
        then: "the trainer is the bottleneck",
    }))
}

/// Whether the training result depends on the micro-batch size, so that it must not be tuned for speed.
///
/// It does if rows are contrasted with each other, or if each micro-batch is normalized separately.
pub(crate) fn is_recipe(plan: &TrainPlan) -> bool {
    plan.train.normalize == Normalize::MicroBatch
        || plan.active().any(|active| active.weight != 0.0 && active.objective.contrasted_rows().is_some())
}

/// Returns the predicted relative speed-up of micro-batches of twice the rows.
///
/// A step takes `whole` seconds with the present size and `half` seconds with half of it.
fn gain(half: f64, whole: f64) -> f64 {
    let saving = (half - whole).max(0.0);
    whole / (whole - saving / 2.0).max(whole / 2.0) - 1.0
}

fn times(args: &ConfigArgs, rows: u64) -> anyhow::Result<Times> {
    let mut sized = args.clone();
    sized.set.push(format!("train.micro_batch_size={rows}"));
    let planned = DryRun::for_timing(&sized)?;
    let steps = made_steps(planned.train(), &planned.views(), planned.fills_rows(), STEPS);
    let timing = time_steps(planned.train(), &steps, WARM_UP, STEPS)?;
    let [low, median, high] = quartiles(&timing.seconds);
    Ok(Times { median, within: (high - low) / 2.0 / median.max(1e-9) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_the_micro_batches_saves_half_of_their_cost() {
        // 100 ms for rows, 10 ms for each of 4, 2, 1 micro-batches: 140, 120, 110 ms.
        assert!((gain(0.140, 0.120) - (120.0 / 110.0 - 1.0)).abs() < 1e-9);
        assert!(gain(0.1, 0.1).abs() < 1e-12 && gain(0.09, 0.1).abs() < 1e-12, "nothing to save");
        assert!(gain(10.0, 0.1) <= 1.0, "never more than twice as fast");
    }
}
