//! Tuning of `train.micro_batch_size`: times steps on synthetic batches, of sizes that divide a step and fit in memory.

use cloze::commands::tune::memory::available;
use cloze::commands::tune::tuning::{GAIN_MIN, TuneSession, TunedKey, times};
use cloze::exit::Usage;
use cloze::plan::Plan;
use pipeline::load;
use profiler::statistics::{Estimate, ratio_of};
use schemas::Batch;
use telemetry::quantities::{bytes, estimate};
use telemetry::terminal::note;
use trainer::device::ResolveDevice as _;
use trainer::training::time_steps;
use trainer_plan::TrainPlan;

use crate::profile::micro_batch::is_recipe;
use crate::profile::step::made_steps;

pub(super) const KEY: &str = "train.micro_batch_size";

/// Minimum and maximum number of steps of one timing.
const STEPS_MIN: usize = 4;
const STEPS_MAX: usize = 200;

/// Number of alternating timings of two sizes. Alternating cancels changes of the machine's speed.
const ROUNDS: usize = 2;

/// Minimum gain over the best size so far. Below it, no further size is tried.
const STEP_UP: f64 = 0.01;

/// Minimum ratio of consecutive candidate sizes.
const APART: f64 = 1.4;

/// Finds the best size. Returns the time of a step with it, in ms.
pub(super) fn tune(tuning: &mut TuneSession<'_>, plan: &Plan) -> anyhow::Result<f64> {
    let timer = Timer::search_upwards(plan, tuning.options.seconds)?;
    let present = median(&timer.time(plan)?);
    if let Some(why) = why_fixed(tuning, plan) {
        tuning.report(format!("`{KEY}` is not tuned: {why}"));
        return Ok(present * 1e3);
    }
    let found = best(tuning, plan, &timer)?;
    let Some(Found { rows, ratio, seconds, before }) = found else {
        tuning.report(format!("`{KEY}` remains {}: no other size gains 2 %", present_rows(plan)));
        return Ok(present * 1e3);
    };
    let words = format!("{:.1} ms/step, before {:.1}", seconds * 1e3, before * 1e3);
    let from = present_rows(plan);
    tuning.apply(TunedKey { key: KEY, from, to: rows, ratio, words });
    Ok(seconds * 1e3)
}

/// Returns the reason why the size must not change.
fn why_fixed(tuning: &TuneSession<'_>, plan: &Plan) -> Option<String> {
    if tuning.is_given(KEY) {
        return Some("`--set` gives it".to_owned());
    }
    if is_recipe(plan.train()) {
        return Some(
            "the training result depends on it: rows of a micro-batch are contrasted with each other or normalized together"
                .to_owned(),
        );
    }
    let folder = &plan.config().run.folder;
    let checkpoints = folder.join("checkpoints");
    let has_begun =
        !folder.as_os_str().is_empty() && checkpoints.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    (has_begun && plan.train().identity.keys().contains_key(KEY)).then(|| {
        format!(
            "the run has checkpoints in {}, and the key is part of its identity (to change it: `cloze train --allow-change {KEY}`)",
            folder.display()
        )
    })
}

/// Size with a gain.
struct Found {
    rows: u64,
    ratio: Estimate,
    /// Seconds of a step with this size. `before` is for the present size.
    seconds: f64,
    before: f64,
}

/// Returns the best larger size, or the best smaller size if no larger one gains.
fn best(tuning: &mut TuneSession<'_>, plan: &Plan, timer: &Timer) -> anyhow::Result<Option<Found>> {
    let train = &plan.train().train;
    let present = train.micro_batch_size;
    let of_step = train.global_batch_size;
    let (larger, mut smaller): (Vec<u64>, Vec<u64>) =
        divisors(of_step).into_iter().filter(|rows| *rows != present).partition(|rows| *rows > present);
    smaller.reverse();
    let budget = budget(tuning, plan);
    for candidates in [larger, smaller] {
        let found = climb(tuning, plan, timer, &candidates, budget)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn present_rows(plan: &Plan) -> u64 {
    plan.train().train.micro_batch_size
}

/// Tries sizes in order until one gains less than [`STEP_UP`] over the best so far.
fn climb(
    tuning: &mut TuneSession<'_>,
    plan: &Plan,
    timer: &Timer,
    candidates: &[u64],
    budget: Option<u64>,
) -> anyhow::Result<Option<Found>> {
    let mut best: Option<Found> = None;
    let mut most = 1.0;
    let mut last = present_rows(plan) as f64;
    for &rows in candidates {
        // A similar size has a similar time.
        let apart = (rows as f64 / last).max(last / rows as f64);
        if apart < APART {
            continue;
        }
        last = rows as f64;
        // A size that planning refuses is no candidate, such as a single row for an objective that contrasts rows.
        let Ok(candidate) = Plan::new(&tuning.with(KEY, rows), load::find, cloze::run::data::Purpose::ReadOnly) else {
            continue;
        };
        let planned = candidate.train().memory().total();
        if let Some(budget) = budget.filter(|budget| planned > *budget as f64) {
            let words = format!("{rows} rows: planned memory {} exceeds {}", estimate(planned), bytes(budget));
            tuning.report(words);
            break;
        }
        let Some(found) = compared(plan, &candidate, rows, timer)? else {
            tuning.report(format!("{rows} rows: out of device memory"));
            break;
        };
        note(format_args!("{rows} rows: {:.1} ms/step, {}", found.seconds * 1e3, times(found.ratio)));
        let step_gain = found.ratio.mean / most - 1.0;
        most = f64::max(most, found.ratio.mean);
        let gains = found.ratio.mean >= 1.0 + GAIN_MIN && found.ratio.low > 1.0;
        if gains && best.as_ref().is_none_or(|best| found.ratio.mean > best.ratio.mean) {
            best = Some(found);
        }
        if step_gain < STEP_UP {
            break;
        }
    }
    Ok(best)
}

/// Times both sizes alternately. `None` if the other one does not fit in the device's memory.
fn compared(present: &Plan, candidate: &Plan, rows: u64, timer: &Timer) -> anyhow::Result<Option<Found>> {
    let mut before = Vec::new();
    let mut after = Vec::new();
    for _ in 0..ROUNDS {
        match timer.time(candidate) {
            Ok(seconds) => after.extend(seconds),
            Err(trainer_plan::Error::Memory { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        before.extend(timer.time(present)?);
    }
    let ratio =
        ratio_of(&after, &before).ok_or_else(|| Usage("too few steps were timed; give more `--seconds`".into()))?;
    Ok(Some(Found { rows, ratio, seconds: median(&after), before: median(&before) }))
}

/// Number of steps per timing.
struct Timer {
    steps: usize,
}

impl Timer {
    /// Chooses as many steps as fit in the seconds of one of the two rounds.
    fn search_upwards(plan: &Plan, seconds: f64) -> Result<Self, trainer_plan::Error> {
        let first = time_steps(plan.train(), &steps_of(plan, 2), 1, 2)?;
        let of_one = median(&first.seconds).max(1e-6);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a small number")]
        let steps = (seconds / ROUNDS as f64 / of_one).clamp(STEPS_MIN as f64, STEPS_MAX as f64) as usize;
        Ok(Self { steps })
    }

    /// Returns the seconds of each step after warm-up.
    fn time(&self, plan: &Plan) -> Result<Vec<f64>, trainer_plan::Error> {
        let timing = time_steps(plan.train(), &steps_of(plan, self.steps), self.steps.div_ceil(4), self.steps)?;
        Ok(timing.seconds)
    }
}

fn steps_of(plan: &Plan, steps: usize) -> Vec<Vec<Batch>> {
    made_steps(plan.train(), &plan.load().facts().views, plan.data().manifest.pack.cuts, steps)
}

/// Returns the memory limit of a plan: the requested one, else the device's memory, else the available host memory.
fn budget(tuning: &TuneSession<'_>, plan: &Plan) -> Option<u64> {
    let asked = tuning.options.memory;
    asked.or_else(|| of_device(plan.train())).or_else(available)
}

/// Returns five sixths of the device's memory. Plans do not include contexts, workspaces and fragmentation.
fn of_device(plan: &TrainPlan) -> Option<u64> {
    plan.train.device.bytes().map(|bytes| bytes / 6 * 5)
}

/// Returns all divisors in ascending order. For numbers above 2⁴⁰ some are missing.
fn divisors(of: u64) -> Vec<u64> {
    let small: Vec<u64> = (1..=1 << 20).take_while(|at| at * at <= of).filter(|at| of.is_multiple_of(*at)).collect();
    let large = small.iter().rev().map(|at| of / at).filter(|at| at * at > of);
    small.iter().copied().chain(large).collect()
}

fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_are_complete_and_sorted() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(16), [1, 2, 4, 8, 16]);
        assert_eq!(divisors(30), [1, 2, 3, 5, 6, 10, 15, 30]);
        assert_eq!(divisors(97), [1, 97]);
    }
}
