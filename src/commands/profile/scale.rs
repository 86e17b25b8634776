//! `--scale`: measures a target at several numbers of workers and fits a scaling law.

use std::collections::BTreeSet;
use std::time::Instant;

use profiler::VERSION;
use profiler::bottleneck::Bottleneck;
pub use profiler::measure::{MeanShares, Measured};
pub use profiler::scaling::{Limit, Point, ScalingLaw};
use profiler::stages;
use profiler::statistics::{Estimate, mean_of, percent};
pub use profiler::verdict::bottleneck;
use serde_json::{Value, json};
use telemetry::quantities::short;
use telemetry::terminal::{line, note};

use super::shown::Profile;
use crate::cli::{ConfigArgs, ProfileTarget};

/// Maximum number of preparations per number of workers.
const AGAIN_MAX: usize = 16;

/// Fractions of time. Workers count as waiting for the trainer if it works for the first and they wait for space for
/// the second.
const WORKS: f64 = 0.5;
const WAIT: f64 = 0.05;

/// Reason for excluding a run that was too short to find a bottleneck.
const TOO_SHORT: &str = "too short to say";

/// Result of one number of workers, and the reason if the law excludes it.
struct Run {
    point: Point,
    tokens_per_s: Estimate,
    held_back: Option<&'static str>,
}

/// Target to measure.
pub(super) struct Subject<'a> {
    pub(super) target: ProfileTarget,
    /// Duration per number of workers.
    pub(super) seconds: f64,
    pub(super) measure: &'a dyn Fn(&ConfigArgs) -> anyhow::Result<Profile>,
}

/// Measures a target at each number of workers and prints the fit of the law.
pub(super) fn run(args: &ConfigArgs, subject: &Subject<'_>, workers: &[u16], is_json: bool) -> anyhow::Result<()> {
    let key = match subject.target {
        ProfileTarget::Loader | ProfileTarget::Train => "data.workers",
        ProfileTarget::Prepare => "prepare.workers",
        ProfileTarget::Step | ProfileTarget::All => {
            return Err(
                crate::exit::Usage("--scale needs a target with workers: loader, prepare or train".to_owned()).into()
            );
        }
    };
    let mut runs: Vec<Run> = Vec::new();
    for workers in workers.iter().copied().map(usize::from).collect::<BTreeSet<_>>() {
        let mut changed = args.clone();
        changed.set.push(format!("{key}={workers}"));
        let run = match subject.target {
            ProfileTarget::Prepare => of_preparations(&changed, subject, workers)?,
            ProfileTarget::Loader | ProfileTarget::Train | ProfileTarget::Step | ProfileTarget::All => {
                of_stream(&(subject.measure)(&changed)?)
            }
        };
        if run.point.workers != workers {
            note(format_args!(
                "warning: {workers} workers are more than the windows of rows can supply: {}",
                run.point.workers
            ));
        }
        if runs.iter().all(|known| known.point.workers != run.point.workers) {
            runs.push(run);
        }
    }
    let fitted: Vec<Point> = runs.iter().filter(|run| run.held_back.is_none()).map(|run| run.point.clone()).collect();
    let law = ScalingLaw::fit(&fitted);
    if is_json {
        line(object(subject.target, &runs, &law));
    } else {
        lines(&runs, &law).into_iter().for_each(line);
    }
    Ok(())
}

/// Result of loader workers.
fn of_stream(profile: &Profile) -> Run {
    let measured = &profile.measured;
    let tokens = profile.tokens_per_item;
    let rate = measured.rate.unwrap_or_else(|| {
        let mean = measured.reader.items as f64 / measured.seconds.max(1e-9);
        Estimate { mean, low: mean, high: mean }
    });
    let point = Point {
        workers: measured.workers.len(),
        windows: measured.windows.iter().map(|rate| rate * tokens).collect(),
        rate: rate.mean * tokens,
        spread: measured.rate.map(Estimate::spread),
    };
    let tokens_per_s = Estimate { mean: rate.mean * tokens, low: rate.low * tokens, high: rate.high * tokens };
    Run { point, tokens_per_s, held_back: held_back(measured) }
}

/// Limit of the workers that is not contention among them.
fn held_back(measured: &Measured) -> Option<&'static str> {
    match bottleneck(measured) {
        Bottleneck::Unknown => Some(TOO_SHORT),
        Bottleneck::Reader => Some("the trainer is the bottleneck"),
        Bottleneck::Cores => Some("processors are the bottleneck"),
        _ if measured.reader.busy > WORKS && MeanShares::new(measured).blocked > WAIT => {
            Some("the trainer keeps them waiting")
        }
        _ => None,
    }
}

/// Preparations of the whole corpus, repeated for the requested time. Each is one window.
fn of_preparations(args: &ConfigArgs, subject: &Subject<'_>, workers: usize) -> anyhow::Result<Run> {
    let begun = Instant::now();
    let mut speeds = Vec::new();
    let mut last = None;
    while speeds.is_empty() || (speeds.len() < AGAIN_MAX && begun.elapsed().as_secs_f64() < subject.seconds) {
        let profile = (subject.measure)(args)?;
        speeds.push(profile.tokens_per_s.unwrap_or(0.0));
        last = Some(profile.held_back);
    }
    let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
    let known = mean_of(&speeds);
    let tokens_per_s = known.unwrap_or(Estimate { mean, low: mean, high: mean });
    let point = Point { workers, windows: speeds, rate: mean, spread: known.map(Estimate::spread) };
    Ok(Run { point, tokens_per_s, held_back: last.flatten().map(stages::StageLimit::describe) })
}

fn lines(runs: &[Run], law: &Result<ScalingLaw, String>) -> Vec<String> {
    let mut lines = match law {
        Ok(law) => vec![law.sentence()],
        Err(why) => vec![why.clone()],
    };
    lines.extend(caps(runs));
    lines.extend(law.iter().flat_map(ScalingLaw::evidence).map(|line| format!("  {line}")));
    lines.push(String::new());
    lines.push(format!("{:>5} {:>22} {:>10} {:>10}", "workers", "tokens/s", "per worker", "by the law"));
    lines.extend(runs.iter().map(|run| row(run, law.as_ref().ok())));
    lines
}

/// Number of workers from which on another limit applies.
fn caps(runs: &[Run]) -> Option<String> {
    let held = runs.iter().rev().take_while(|run| run.held_back.is_some());
    let known = |run: &Run| Some((run.point.workers, run.held_back.filter(|why| *why != TOO_SHORT)?));
    let (workers, why) = held.filter_map(known).last()?;
    Some(format!("from {workers} workers on, {why}: the law does not apply there, and more workers do not help"))
}

fn row(run: &Run, law: Option<&ScalingLaw>) -> String {
    let Run { point, tokens_per_s, held_back } = run;
    let speed = match point.spread {
        Some(spread) => format!("{} (± {})", short(tokens_per_s.mean), percent(spread)),
        None => short(tokens_per_s.mean),
    };
    let predicted = law.map_or("–".to_owned(), |law| short(law.throughput(point.workers)));
    let why = held_back.map(|why| format!("  not fitted: {why}")).unwrap_or_default();
    format!("{:>5} {speed:>22} {:>10} {predicted:>10}{why}", point.workers, short(point.rate / point.workers as f64))
}

fn object(target: ProfileTarget, runs: &[Run], law: &Result<ScalingLaw, String>) -> String {
    let points: Vec<Value> = runs
        .iter()
        .map(|run| {
            let Estimate { mean, low, high } = run.tokens_per_s;
            let by_law = law.as_ref().ok().map(|law| law.throughput(run.point.workers));
            json!({ "workers": run.point.workers, "tokens_per_s": { "mean": mean, "low": low, "high": high },
                    "by_law": by_law, "not_fitted": run.held_back })
        })
        .collect();
    let law = match law {
        Ok(law) => fitted(law),
        Err(why) => json!({ "none": why }),
    };
    let target = target.name();
    let object = json!({ "version": VERSION, "target": target, "scale": { "points": points, "law": law } });
    format!("{object:#}")
}

fn fitted(law: &ScalingLaw) -> Value {
    let known = |of: Estimate| {
        let bound = |at: f64| law.is_known.then_some(at);
        json!({ "mean": of.mean, "low": bound(of.low), "high": bound(of.high) })
    };
    let stops_after = match law.limit() {
        Limit::Nothing(_) => Some(1),
        Limit::After(workers) | Limit::Beyond(workers) => Some(workers),
        Limit::Unseen => None,
    };
    json!({ "tokens_per_s_of_one": known(law.lambda), "sigma": known(law.sigma), "kappa": known(law.kappa),
            "misfit": law.misfit, "fits": !law.is_far(), "stops_after": stops_after, "peak": law.peak(),
            "sentence": law.sentence() })
}
