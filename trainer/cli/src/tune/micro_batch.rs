//! `train.micro_batch_size`: steps on made batches, of each size that divides a step and has room.

use cloze::commands::tune::memory::available;
use cloze::commands::tune::tuning::{GAIN_MIN, TunedKey, Tuning, times};
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

/// Steps of one timing.
const STEPS_MIN: usize = 4;
const STEPS_MAX: usize = 200;

/// Two sizes are timed in turn so often: a machine that gets slower is slower for both.
const ROUNDS: usize = 2;

/// What a larger size has to bring next to the best one so far for a still larger one to be tried.
const STEP_UP: f64 = 0.01;

/// How many times as large as one size the next one is at the least.
const APART: f64 = 1.4;

/// Finds the size, and says how many ms a step takes with it.
pub(super) fn tune(tuning: &mut Tuning<'_>, plan: &Plan) -> anyhow::Result<f64> {
    let pace = Pace::of(plan, tuning.options.seconds)?;
    let present = median(&pace.time(plan)?);
    if let Some(why) = why_fixed(tuning, plan) {
        tuning.say(format!("`{KEY}` stays: {why}"));
        return Ok(present * 1e3);
    }
    let found = best(tuning, plan, &pace)?;
    let Some(Found { rows, ratio, seconds, before }) = found else {
        tuning.say(format!("`{KEY}` stays {}: no other size gains 2 %", present_rows(plan)));
        return Ok(present * 1e3);
    };
    let words = format!("a step takes {:.1} ms, before {:.1}", seconds * 1e3, before * 1e3);
    let from = present_rows(plan);
    tuning.take(TunedKey { key: KEY, from, to: rows, ratio, words });
    Ok(seconds * 1e3)
}

/// Why it may not change.
fn why_fixed(tuning: &Tuning<'_>, plan: &Plan) -> Option<String> {
    if tuning.is_given(KEY) {
        return Some("`--set` says it".to_owned());
    }
    if is_recipe(plan.train()) {
        return Some(
            "what is learned depends on it: rows of a micro-batch are contrasted, or weighed, with each other"
                .to_owned(),
        );
    }
    let folder = &plan.config().run.folder;
    let checkpoints = folder.join("checkpoints");
    let has_begun =
        !folder.as_os_str().is_empty() && checkpoints.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    (has_begun && plan.train().identity.keys().contains_key(KEY)).then(|| {
        format!(
            "{} has checkpoints, and it is of that run's identity (`cloze train --allow-change {KEY}` changes it nevertheless)",
            folder.display()
        )
    })
}

/// A size that gains.
struct Found {
    rows: u64,
    ratio: Estimate,
    /// Of a step, with it and with the present one.
    seconds: f64,
    before: f64,
}

/// The best of the larger sizes; where none of them gains, of the smaller ones.
fn best(tuning: &mut Tuning<'_>, plan: &Plan, pace: &Pace) -> anyhow::Result<Option<Found>> {
    let train = &plan.train().train;
    let (present, of_step) = (train.micro_batch_size, train.global_batch_size);
    let (larger, mut smaller): (Vec<u64>, Vec<u64>) =
        divisors(of_step).into_iter().filter(|rows| *rows != present).partition(|rows| *rows > present);
    smaller.reverse();
    let budget = budget(tuning, plan);
    for candidates in [larger, smaller] {
        let found = climb(tuning, plan, pace, &candidates, budget)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn present_rows(plan: &Plan) -> u64 {
    plan.train().train.micro_batch_size
}

/// Tries sizes in turn until one brings no more than the one before.
fn climb(
    tuning: &mut Tuning<'_>,
    plan: &Plan,
    pace: &Pace,
    candidates: &[u64],
    budget: Option<u64>,
) -> anyhow::Result<Option<Found>> {
    let mut best: Option<Found> = None;
    let mut most = 1.0;
    let mut last = present_rows(plan) as f64;
    for &rows in candidates {
        // What is hardly another size brings hardly another time.
        let apart = (rows as f64 / last).max(last / rows as f64);
        if apart < APART {
            continue;
        }
        last = rows as f64;
        // What the plan refuses, such as a single row for who contrasts rows, is no candidate.
        let Ok(other) = Plan::over(&tuning.with(KEY, rows), load::find, cloze::run::data::Purpose::Look) else {
            continue;
        };
        let planned = other.train().memory().total();
        if let Some(budget) = budget.filter(|budget| planned > *budget as f64) {
            let words = format!("{rows} rows: {} by plan, of {}: too much", estimate(planned), bytes(budget));
            tuning.say(words);
            break;
        }
        let Some(found) = compared(plan, &other, rows, pace)? else {
            tuning.say(format!("{rows} rows: the device's memory does not suffice"));
            break;
        };
        note(format_args!("{rows} rows: {:.1} ms a step, {}", found.seconds * 1e3, times(found.ratio)));
        let brings = found.ratio.mean / most - 1.0;
        most = f64::max(most, found.ratio.mean);
        let gains = found.ratio.mean >= 1.0 + GAIN_MIN && found.ratio.low > 1.0;
        if gains && best.as_ref().is_none_or(|best| found.ratio.mean > best.ratio.mean) {
            best = Some(found);
        }
        if brings < STEP_UP {
            break;
        }
    }
    Ok(best)
}

/// Times both in turn; none where the other has no room on the device.
fn compared(present: &Plan, other: &Plan, rows: u64, pace: &Pace) -> anyhow::Result<Option<Found>> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        match pace.time(other) {
            Ok(seconds) => after.extend(seconds),
            Err(trainer_plan::Error::Memory { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        before.extend(pace.time(present)?);
    }
    let ratio =
        ratio_of(&after, &before).ok_or_else(|| Usage("too few steps were timed: give more `--seconds`".into()))?;
    Ok(Some(Found { rows, ratio, seconds: median(&after), before: median(&before) }))
}

/// How many steps are timed at once.
struct Pace {
    steps: usize,
}

impl Pace {
    /// As many as come to half of the seconds that a measurement has: it has two rounds.
    fn of(plan: &Plan, seconds: f64) -> Result<Self, trainer_plan::Error> {
        let first = time_steps(plan.train(), &steps_of(plan, 2), 1, 2)?;
        let of_one = median(&first.seconds).max(1e-6);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped to a few")]
        let steps = (seconds / ROUNDS as f64 / of_one).clamp(STEPS_MIN as f64, STEPS_MAX as f64) as usize;
        Ok(Self { steps })
    }

    /// Seconds of each step, after some that warm up.
    fn time(&self, plan: &Plan) -> Result<Vec<f64>, trainer_plan::Error> {
        let timing = time_steps(plan.train(), &steps_of(plan, self.steps), self.steps.div_ceil(4), self.steps)?;
        Ok(timing.seconds)
    }
}

fn steps_of(plan: &Plan, steps: usize) -> Vec<Vec<Batch>> {
    made_steps(plan.train(), &plan.load().facts().views, plan.data().manifest.pack.cuts, steps)
}

/// What a plan may come to: what was asked for, else the device's memory, else what the machine has to give.
fn budget(tuning: &Tuning<'_>, plan: &Plan) -> Option<u64> {
    let asked = tuning.options.memory;
    asked.or_else(|| of_device(plan.train())).or_else(available)
}

/// All but a sixth of the device's memory: contexts, workspaces and what the allocator cannot use are in no plan.
fn of_device(plan: &TrainPlan) -> Option<u64> {
    plan.train.device.bytes().map(|bytes| bytes / 6 * 5)
}

/// All numbers that divide this one, the smallest first; of one beyond a million times a million some of them.
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
    fn divisors_are_all_there_and_in_order() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(16), [1, 2, 4, 8, 16]);
        assert_eq!(divisors(30), [1, 2, 3, 5, 6, 10, 15, 30]);
        assert_eq!(divisors(97), [1, 97]);
    }
}
