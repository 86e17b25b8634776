//! `cloze profile`: what binds, how sure that is, and what a change would bring. And what is a training step by itself?

#[cfg(feature = "train")]
mod made;
mod scale;
mod shown;
mod slow;
#[cfg(feature = "train")]
mod step;

#[cfg(feature = "train")]
pub(super) use self::step::made_steps;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use observe::{Clock, Many};
use pipeline::load::{self, BatchStream, StreamOptions};
use pipeline::prepare::{Preparation, PrepareOptions};
use schemas::{RowIndex, Share};
use store::Weather;

use self::scale::Subject;
use self::shown::Profile;
use self::slow::Slow;
use crate::cli::{ConfigArgs, Half};
use crate::config::Parsed;
use crate::data::Purpose;
use crate::exit::WORSE;
use crate::plan::Plan;
use crate::profile::compare;
use crate::profile::judge::judge;
use crate::profile::measure::{Measured, Watch};
use crate::profile::neighbor;
use crate::profile::stages;
use crate::profile::whatif::{Proposal, proposals};
use crate::terminal::line;

/// What to do with which half.
pub(crate) struct Options {
    pub(crate) half: Half,
    pub(crate) seconds: f64,
    pub(crate) batches: Option<u64>,
    #[cfg_attr(not(feature = "train"), expect(dead_code, reason = "there is no trainer to time"))]
    pub(crate) steps: usize,
    pub(crate) step_ms: f64,
    pub(crate) slow: Option<String>,
    pub(crate) check: bool,
    pub(crate) scale: Vec<usize>,
    pub(crate) json: bool,
}

/// Runs a half against a consumer that costs nothing, or as much as was asked for, and says what binds it.
pub(crate) fn run(args: &ConfigArgs, options: &Options) -> anyhow::Result<()> {
    if !options.scale.is_empty() {
        let measure = |args: &ConfigArgs| match options.half {
            Half::Prepare => offline(args, options),
            Half::Online => measured_online(args, options),
            #[cfg(feature = "train")]
            Half::Step => unreachable!("a step has no lanes, which is said before anything is measured"),
        };
        let subject = Subject { half: options.half, seconds: options.seconds, measure: &measure };
        return scale::run(args, &subject, &options.scale, options.json);
    }
    let profile = match options.half {
        Half::Online => online(args, options)?,
        Half::Prepare => offline(args, options)?,
        #[cfg(feature = "train")]
        Half::Step => return step::run(args, options.steps, options.json),
    };
    if options.json {
        line(profile.json());
    } else {
        profile.lines().into_iter().for_each(line);
    }
    Ok(())
}

/// Holds two profiles beside one another. The code says whether the second is surely worse by more than `limit`.
pub(crate) fn compared(before: &Path, after: &Path, limit: f64) -> anyhow::Result<ExitCode> {
    let comparison = compare::compare(before, after, limit)?;
    comparison.lines.iter().for_each(line);
    Ok(if comparison.is_worse { ExitCode::from(WORSE) } else { ExitCode::SUCCESS })
}

/// The online half against a trainer that only takes time; with `--check` once more with what is proposed.
fn online(args: &ConfigArgs, options: &Options) -> anyhow::Result<Profile> {
    let mut profile = measured_online(args, options)?;
    if let (true, Some(proposal)) = (options.check, profile.proposed()) {
        let Proposal { key, to, .. } = proposal;
        let mut changed = args.clone();
        changed.set.push(format!("{key}={to}"));
        let checked = measured_online(&changed, options)?;
        profile.checked = profile.gain_of(&checked);
    }
    Ok(profile)
}

/// The online half, measured once and judged.
pub(super) fn measured_online(args: &ConfigArgs, options: &Options) -> anyhow::Result<Profile> {
    let slow = Slow::parse(options.slow.as_deref(), options.half)?;
    let weather = Weather { latency: slow.disk, ..Weather::calm() };
    let find = |folder: &Path| {
        let store = load::find(folder)?;
        Ok(if slow.disk.is_zero() { store } else { store.in_weather(weather) })
    };
    let plan = Plan::over(args, find, Purpose::Look)?;
    let load = plan.load();
    // A step takes its time over all of its micro-batches.
    let step = Duration::from_secs_f64(options.step_ms.max(0.0) / 1e3);
    let pause = step / plan.config().micro_batches_per_step();
    // As in training, where lanes digest the rows as well.
    let training =
        StreamOptions { digests: true, hindrance: slow.lanes, contention: slow.contention, ..StreamOptions::default() };
    let mut stream = BatchStream::new(load, RowIndex(0), Share::ALONE, training);
    let watch = Watch::over(stream.gauges())?;
    let width = load.facts().views.iter().map(|view| view.width).max().unwrap_or(0) as u64;
    let (mut tokens_per_batch, mut taken, begun) = (0, 0, Instant::now());
    let is_over = |taken: u64| match options.batches {
        Some(batches) => taken >= batches,
        // A law is no better known than its points: those are measured for all of the time.
        None => (options.scale.is_empty() && watch.is_enough()) || begun.elapsed().as_secs_f64() >= options.seconds,
    };
    while !is_over(taken) {
        let Some(batch) = stream.next() else { break };
        tokens_per_batch = batch?.rows() as u64 * width;
        taken += 1;
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    let measured = watch.measured();
    let verdict = judge(&measured, "trainer");
    let what_if = proposals(&measured);
    let mut evidence = verdict.evidence;
    evidence.extend(what_if.as_ref().ok().and_then(|proposals| neighbor::advice(&measured, proposals)));
    Ok(Profile {
        half: "online",
        sentence: verdict.sentence,
        binding: format!("{:?}", verdict.binding),
        evidence,
        what_if: Some(what_if),
        checked: None,
        tokens_per_item: tokens_per_batch as f64,
        tokens_per_s: None,
        stages: None,
        reader: "trainer",
        held_back: None,
        measured,
    })
}

/// The offline half against a writer that throws samples away, or takes time.
fn offline(args: &ConfigArgs, options: &Options) -> anyhow::Result<Profile> {
    // Of several corpora the first: each goes the same way.
    let config = Parsed::read(&args.config, &args.set)?.into_corpora(None)?.swap_remove(0).prepare;
    let write_delay = Slow::parse(options.slow.as_deref(), options.half)?.writer;
    let run = PrepareOptions { null_writer: true, write_delay, ..PrepareOptions::default() };
    let watch = Arc::<Mutex<Option<Watch>>>::default();
    let hears = {
        let watch = Arc::clone(&watch);
        move |gauges| *watch.lock().unwrap_or_else(PoisonError::into_inner) = Watch::over(gauges).ok()
    };
    let preparation = Preparation::plan(&config)?.telling(Box::new(hears));
    let summary = preparation.run(run, &Clock::system(), &mut Many::default())?;
    let watch = watch.lock().unwrap_or_else(PoisonError::into_inner).take();
    let measured = watch.map_or_else(Measured::default, |watch| watch.measured());
    let (sentence, evidence) = stages::judge(&measured, &summary.stages, summary.parts_made);
    Ok(Profile {
        half: "prepare",
        sentence,
        binding: String::new(),
        evidence,
        what_if: None,
        checked: None,
        tokens_per_item: 0.0,
        tokens_per_s: Some(summary.corpus.tokens as f64 / summary.elapsed.as_secs_f64().max(1e-9)),
        stages: Some(stages::shares(&summary.stages).map(|(_, share)| share)),
        reader: "fold",
        held_back: stages::held_back(&measured, summary.parts_made),
        measured,
    })
}
