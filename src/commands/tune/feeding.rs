//! Tuning of `data.workers` and `data.prefetch_batches`: the fewest workers that keep a trainer with a given step time
//! from waiting, and the queue depth for them.
//!
//! The model of `cloze profile` selects the first candidates. Only measured gains are written.

use std::collections::BTreeMap;

use profiler::measure::Measured;
use profiler::neighbor;
pub(super) use profiler::statistics::{Estimate, batch_means, ratio_of};
use profiler::what_if::proposals;
use telemetry::quantities::bytes;
use telemetry::terminal::note;

use super::memory::available;
use super::tuning::{FEWER_MAX, GAIN_MIN, TuneSession, TunedKey, waits};
use crate::cli::{ConfigArgs, ProfileArgs, ProfileTarget, TraceArgs};
use crate::commands::profile::measured_online;
use crate::plan::Plan;

const WORKERS: &str = "data.workers";
const DEPTH: &str = "data.prefetch_batches";

/// Maximum fraction of time that a trainer may wait and still count as fed.
const WAITS_MAX: f64 = 0.01;

/// Minimum number of batches before a trainer counts as fed.
const ITEMS_MIN: u64 = 20;

/// Maximum number of worker counts, and of depths, that are measured in addition to the present ones.
const WORKERS_TRIED: usize = 6;
const DEPTHS_TRIED: usize = 3;

/// Upper limit of workers: this factor times the present number, or times the processors.
const TIMES_MAX: usize = 8;

/// Measurement of one number of workers and one depth.
#[derive(Clone, Debug)]
struct FeedingMeasurement {
    measured: Measured,
    /// Maximum bytes of batches in flight.
    in_flight: u64,
}

impl FeedingMeasurement {
    /// Batches per second. 0 if too little was measured.
    fn rate(&self) -> f64 {
        self.measured.rate.map_or(0.0, |rate| rate.mean)
    }

    fn waits(&self) -> f64 {
        self.measured.reader.starved
    }

    fn workers(&self) -> usize {
        self.measured.workers.len()
    }

    /// Relative speed against another measurement.
    fn ratio_to(&self, before: &Self) -> Option<Estimate> {
        ratio_of(&batch_means(&before.measured.windows), &batch_means(&self.measured.windows))
    }
}

/// Tunes both keys for a trainer with this step time.
pub(super) fn tune(tuning: &mut TuneSession<'_>, step_ms: f64) -> anyhow::Result<()> {
    let Some(present) = measure(tuning, &tuning.args, step_ms)? else {
        let why = "the batches in flight already exceed the memory limit";
        tuning.report(format!("`{WORKERS}` and `{DEPTH}` stay: {why}"));
        return Ok(());
    };
    if present.measured.rate.is_none() {
        tuning.report(format!("`{WORKERS}` and `{DEPTH}` stay: too little was measured; raise `--seconds`"));
        return Ok(());
    }
    print_measurement(&present);
    let with_workers = workers(tuning, &present, step_ms)?;
    let last = depth(tuning, with_workers, step_ms)?;
    tuning.notes.extend(neighbor::share(&last.measured));
    Ok(())
}

/// Fewest workers that feed the trainer, and their measurement.
fn workers(
    tuning: &mut TuneSession<'_>,
    present: &FeedingMeasurement,
    step_ms: f64,
) -> anyhow::Result<FeedingMeasurement> {
    if tuning.is_given(WORKERS) {
        tuning.report(format!("`{WORKERS}` stays {}: `--set` sets it", present.workers()));
        return Ok(present.clone());
    }
    let predicted = proposals(&present.measured).unwrap_or_default();
    let mut wanted = predicted.iter().find(|proposal| proposal.key == WORKERS).map(|proposal| proposal.to);
    let most = TIMES_MAX * present.workers().max(present.measured.cores);
    let mut looks = BTreeMap::from([(present.workers(), present.clone())]);
    for _ in 0..WORKERS_TRIED {
        let known: Vec<FeedingRate> = looks.iter().map(|(workers, look)| FeedingRate::new(*workers, look)).collect();
        let Some(next) = wanted.take().or_else(|| next_workers(&known, most)) else { break };
        let Some(look) = measure(tuning, &tuning.with(WORKERS, next as u64), step_ms)? else { break };
        print_measurement(&look);
        // The row windows do not have space for more workers.
        let is_narrowed = look.workers() != next;
        looks.insert(look.workers(), look);
        if is_narrowed {
            break;
        }
    }
    let known: Vec<FeedingRate> = looks.iter().map(|(workers, look)| FeedingRate::new(*workers, look)).collect();
    let best = looks.remove(&fewest(&known)).expect("it was measured");
    let ratio = best.ratio_to(present).filter(|_| best.workers() != present.workers());
    let is_worth = |ratio: &Estimate| {
        if best.workers() > present.workers() {
            ratio.mean >= 1.0 + GAIN_MIN && ratio.low > 1.0
        } else {
            // Fewer workers with the same rate leave processors and memory to others.
            let has_all =
                |look: &FeedingMeasurement| look.waits() < WAITS_MAX && look.measured.reader.items >= ITEMS_MIN;
            ratio.low >= 1.0 - FEWER_MAX || (has_all(&best) && has_all(present))
        }
    };
    let Some(ratio) = ratio.filter(is_worth) else {
        tuning.report(format!("`{WORKERS}` stays {}: no other number gains", present.workers()));
        return Ok(present.clone());
    };
    let less = if best.in_flight < present.in_flight {
        format!("; {} less of batches in flight", bytes(present.in_flight - best.in_flight))
    } else {
        String::new()
    };
    let words = format!("{}{less}", waits(best.waits(), present.waits()));
    tuning.apply(TunedKey { key: WORKERS, from: present.workers() as u64, to: best.workers() as u64, ratio, words });
    Ok(best)
}

/// Deeper queue, if the trainer still waits and depth helps, and its measurement.
fn depth(
    tuning: &mut TuneSession<'_>,
    present: FeedingMeasurement,
    step_ms: f64,
) -> anyhow::Result<FeedingMeasurement> {
    let from = present.measured.depth;
    if tuning.is_given(DEPTH) {
        tuning.report(format!("`{DEPTH}` stays {from}: `--set` sets it"));
        return Ok(present);
    }
    if present.waits() < WAITS_MAX {
        tuning.report(format!("`{DEPTH}` stays {from}: the trainer does not wait"));
        return Ok(present);
    }
    let predicted = proposals(&present.measured).unwrap_or_default();
    let first = predicted.iter().find(|proposal| proposal.key == DEPTH).map_or(2 * from, |proposal| proposal.to);
    let mut best = present.clone();
    let mut gained = None;
    let mut next = first;
    for _ in 0..DEPTHS_TRIED {
        let Some(look) = measure(tuning, &tuning.with(DEPTH, next as u64), step_ms)? else { break };
        print_measurement(&look);
        let gain = look.ratio_to(&best).filter(|ratio| ratio.mean >= 1.0 + GAIN_MIN && ratio.low > 1.0);
        if gain.is_none() {
            break;
        }
        (gained, best) = (look.ratio_to(&present), look);
        if best.waits() < WAITS_MAX {
            break;
        }
        next *= 2;
    }
    let Some(ratio) = gained else {
        tuning.report(format!("`{DEPTH}` stays {from}: no other depth gains 2 %"));
        return Ok(present);
    };
    let words = waits(best.waits(), present.waits());
    tuning.apply(TunedKey { key: DEPTH, from: from as u64, to: best.measured.depth as u64, ratio, words });
    Ok(best)
}

/// Measures. None if the batches in flight exceed the memory limit.
fn measure(tuning: &TuneSession<'_>, args: &ConfigArgs, step_ms: f64) -> anyhow::Result<Option<FeedingMeasurement>> {
    let plan = Plan::load_read_only(args)?;
    let facts = plan.load().facts();
    let workers = facts.workers.workers;
    let in_flight = facts.batches_bytes;
    drop(plan);
    let room = tuning.options.memory.or_else(available);
    if let Some(room) = room.filter(|room| in_flight > *room) {
        note(format_args!(
            "{workers} workers: {} of batches in flight, of {}: too much",
            bytes(in_flight),
            bytes(room)
        ));
        return Ok(None);
    }
    let options = ProfileArgs {
        target: ProfileTarget::Loader,
        seconds: Some(tuning.options.seconds),
        batches: None,
        steps: None,
        step_ms: Some(step_ms),
        slow: tuning.options.slow.clone(),
        check: false,
        scale: Vec::new(),
        report: None,
        svg: None,
        json: false,
        traced: TraceArgs::default(),
    };
    Ok(Some(FeedingMeasurement { measured: measured_online(args, &options)?.measured, in_flight }))
}

fn print_measurement(look: &FeedingMeasurement) {
    let workers = look.workers();
    let depth = look.measured.depth;
    let many = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
    let waits = profiler::statistics::percent(look.waits());
    note(format_args!("{many} of depth {depth}: {:.1} batches a second, the trainer waits {waits}", look.rate()));
}

/// Values that decide about a number of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FeedingRate {
    workers: usize,
    rate: f64,
    is_fed: bool,
}

impl FeedingRate {
    fn new(workers: usize, look: &FeedingMeasurement) -> Self {
        Self { workers, rate: look.rate(), is_fed: look.waits() < WAITS_MAX }
    }
}

/// Next number of workers to measure, from the sorted known ones. None if the answer is known.
fn next_workers(known: &[FeedingRate], most: usize) -> Option<usize> {
    if let Some(fed) = known.iter().find(|it| it.is_fed) {
        // Between the most workers that do not feed the trainer and the fewest that do.
        let below = known.iter().filter(|it| it.workers < fed.workers).map(|it| it.workers).max().unwrap_or(0);
        return (fed.workers - below > 1).then_some(below + (fed.workers - below) / 2);
    }
    let last = known.last()?;
    let before = known[..known.len() - 1].iter().map(|it| it.rate).fold(0.0, f64::max);
    // If more workers brought no gain, even more will not either.
    let is_up = last.rate > before * (1.0 + GAIN_MIN);
    let more = (2 * last.workers).min(most);
    if is_up && more > last.workers {
        return Some(more);
    }
    // No number feeds the trainer: try whether fewer workers are as fast as the best.
    let best = fewest(known);
    let below = known.iter().filter(|it| it.workers < best).map(|it| it.workers).max().unwrap_or(0);
    (best - below > 1).then_some(below + (best - below) / 2)
}

/// Fewest workers that feed the trainer. If none does, the fewest that are nearly as fast as the best.
fn fewest(known: &[FeedingRate]) -> usize {
    let best = known.iter().map(|it| it.rate).fold(0.0, f64::max);
    let fed = known.iter().find(|it| it.is_fed);
    let nearly = known.iter().find(|it| it.rate >= (1.0 - GAIN_MIN) * best);
    fed.or(nearly).map_or(1, |it| it.workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a trainer with a demand in batches per second, and workers that make one each, up to `most`.
    fn found(start: usize, wants: f64, most: f64, first: Option<usize>) -> (usize, usize) {
        let of = |workers: usize| {
            let could = (workers as f64).min(most);
            FeedingRate { workers, rate: could.min(wants), is_fed: could >= wants }
        };
        let mut known = vec![of(start)];
        let mut first = first;
        let mut tried = 0;
        while let Some(next) = first.take().or_else(|| next_workers(&known, 64)) {
            assert!(known.iter().all(|it| it.workers != next), "{next} twice: {known:?}");
            known.push(of(next));
            known.sort_by_key(|it| it.workers);
            tried += 1;
            assert!(tried < 20, "{known:?}");
        }
        (fewest(&known), tried)
    }

    #[test]
    fn the_fewest_workers_that_feed_a_trainer_are_found() {
        for wants in 1..=20_u8 {
            for start in [1, 2, 7, 20] {
                let (workers, tried) = found(start, wants.into(), 64.0, None);
                assert!(workers == usize::from(wants) && tried <= 10, "{wants} from {start}: {workers} after {tried}");
            }
        }
        assert_eq!(found(2, 5.0, 64.0, Some(5)), (5, 3), "the prediction is tried first, then lower numbers");
    }

    #[test]
    fn without_enough_workers_the_fewest_of_the_fastest_are_chosen() {
        assert_eq!(found(1, 100.0, 4.0, None).0, 4);
        assert_eq!(found(8, 100.0, 1.0, None).0, 1, "seven of eight bring nothing");
        assert_eq!(found(1, f64::INFINITY, 64.0, None).0, 63, "the last one brings less than 2 %");
    }
}
