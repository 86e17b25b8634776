//! `cloze profile`: finds the bottleneck, its confidence, and the predicted gain of a change. Also times single
//! training steps.

pub(super) mod live;
mod object;
pub mod scale;
pub mod shown;
pub mod slow;
#[cfg(test)]
mod tests;
pub mod traces;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pipeline::load::{BatchStream, StreamOptions};
use pipeline::prepare::{Preparation, PrepareOptions};
use profiler::compare;
use profiler::measure::{MeasureWatch, Measured};
use profiler::neighbor;
use profiler::report::ProfilePage;
use profiler::stages;
use profiler::verdict::find_bottleneck;
use profiler::what_if::proposals;
use schemas::{RankShard, RowIndex};
use telemetry::terminal::{json_document, line, note};
use telemetry::{Clock, Fanout};

use self::scale::Subject;
use self::shown::Profile;
use self::slow::InjectedDelays;
use self::traces::Recording;
use super::output_file::{self, put};
use crate::cli::{ConfigArgs, ProfileArgs, ProfileTarget};
use crate::config::Parsed;
use crate::exit::{SLOWER, Usage};
use crate::plan::{Plan, step_time};
use crate::run::data::Purpose;

/// Measures a target without tensors against a consumer that takes no time or a set time, and prints its bottleneck.
pub(crate) fn run(args: &ConfigArgs, options: &ProfileArgs) -> anyhow::Result<()> {
    let measure = |args: &ConfigArgs| match options.target {
        ProfileTarget::Prepare => offline(args, options, &mut Recording::none()),
        _ => measured_online(args, options),
    };
    let checked = |args: &ConfigArgs, recording: &mut Recording| match options.target {
        ProfileTarget::Prepare => offline(args, options, recording),
        _ => online(args, options, recording),
    };
    self::measure(args, options, &measure, &checked)
}

/// Profiles one target: with `measure` for each number of workers of `--scale`, or once with `checked`.
pub fn measure(
    args: &ConfigArgs,
    options: &ProfileArgs,
    measure: &dyn Fn(&ConfigArgs) -> anyhow::Result<Profile>,
    checked: &dyn Fn(&ConfigArgs, &mut Recording) -> anyhow::Result<Profile>,
) -> anyhow::Result<()> {
    check(options)?;
    output_file::outputs(
        &args.config,
        &[&options.report, &options.traced.trace, &options.traced.folded].map(Option::as_deref),
        options.svg.as_deref(),
    )?;
    if !options.scale.is_empty() {
        let subject = Subject { target: options.target, seconds: options.max_seconds(), measure };
        return scale::run(args, &subject, &options.scale, options.json);
    }
    let mut recording = Recording::begin(&options.traced, options.target)?;
    let profile = checked(args, &mut recording)?;
    let object = profile.object(&args.config);
    if options.json {
        line(format_args!("{object:#}"));
    } else {
        profile.lines().into_iter().for_each(line);
    }
    // The result is printed before any write can fail, and a failed file does not prevent the others.
    let traced = recording.write();
    if options.report.is_some() || options.svg.is_some() {
        put_page(&ProfilePage::parse(&object)?, options.report.as_deref(), options.svg.as_deref())?;
    }
    traced
}

/// Refuses options that the target does not use.
pub fn check(options: &ProfileArgs) -> Result<(), Usage> {
    use ProfileTarget::{All, Loader, Prepare, Step, Train};
    let ProfileArgs { target, seconds, batches, steps, step_ms, slow, check, scale, report, svg, traced, .. } = options;
    // With `--scale`, preparations repeat for `--seconds`.
    let has_limit = seconds.is_some() && (*target != Prepare || scale.is_empty());
    let uses: [OptionUse; 11] = [
        OptionUse { flag: "--seconds", is_given: has_limit, targets: &[Loader, Train, All] },
        OptionUse { flag: "--batches", is_given: batches.is_some(), targets: &[Loader, Train, All] },
        OptionUse { flag: "--steps", is_given: steps.is_some(), targets: &[Step] },
        OptionUse { flag: "--step-ms", is_given: step_ms.is_some(), targets: &[Loader, All] },
        OptionUse { flag: "--slow", is_given: slow.is_some(), targets: &[Loader, Prepare, Train] },
        OptionUse { flag: "--check", is_given: *check, targets: &[Loader, Train, All] },
        OptionUse { flag: "--scale", is_given: !scale.is_empty(), targets: &[Loader, Prepare, Train] },
        OptionUse { flag: "--report", is_given: report.is_some(), targets: &[Loader, Prepare, Train] },
        OptionUse { flag: "--svg", is_given: svg.is_some(), targets: &[Loader, Prepare, Train] },
        OptionUse { flag: "--trace", is_given: traced.trace.is_some(), targets: &[Loader, Prepare, Train] },
        OptionUse { flag: "--folded", is_given: traced.folded.is_some(), targets: &[Loader, Prepare, Train] },
    ];
    let Some(unused) = uses.iter().find(|it| it.is_given && !it.targets.contains(target)) else { return Ok(()) };
    let targets: Vec<String> = unused.targets.iter().map(|target| format!("`{}`", target.name())).collect();
    let name = target.name();
    Err(Usage(format!("{}: `cloze profile {name}` does not use it, only {}", unused.flag, targets.join(", "))))
}

/// Option of a measurement, with the targets that use it.
struct OptionUse {
    flag: &'static str,
    is_given: bool,
    targets: &'static [ProfileTarget],
}

/// Compares two profiles. The exit code tells whether the second is slower by more than `limit` with certainty.
pub(crate) fn compared((before, after): (&Path, &Path), limit: f64, is_json: bool) -> anyhow::Result<ExitCode> {
    let comparison = compare::compare(before, after, limit)?;
    if is_json {
        json_document(&comparison.json);
    } else {
        comparison.lines.iter().for_each(line);
    }
    Ok(if comparison.is_worse { ExitCode::from(SLOWER) } else { ExitCode::SUCCESS })
}

/// Writes the report of a saved profile.
pub(crate) fn report(profile: &Path, out: &Path, svg: Option<&Path>) -> anyhow::Result<()> {
    output_file::outputs(profile, &[Some(out)], svg)?;
    let object = compare::read(profile)?;
    let page = ProfilePage::parse(&object)
        .with_context(|| Usage(format!("{}: not a profile of this program", profile.display())))?;
    put_page(&page, Some(out), svg)
}

/// Writes the report, and each of its plots into a folder. Messages go to stderr, because stdout may be JSON.
fn put_page(page: &ProfilePage, out: Option<&Path>, svg: Option<&Path>) -> anyhow::Result<()> {
    if let Some(out) = out {
        put(out, &page.html())?;
        note(format_args!("{}: report written", out.display()));
    }
    let Some(svg) = svg else { return Ok(()) };
    std::fs::create_dir_all(svg).with_context(|| svg.display().to_string())?;
    let plots = page.plots();
    for (name, plot) in &plots {
        put(&svg.join(format!("{name}.svg")), plot)?;
    }
    note(format_args!("{}: {} plots", svg.display(), plots.len()));
    Ok(())
}

/// Measures the loader against a simulated trainer; with `--check` once more with the proposal.
pub fn online(args: &ConfigArgs, options: &ProfileArgs, recording: &mut Recording) -> anyhow::Result<Profile> {
    let mut profile = measured_online(args, options)?;
    recording.end(&profile.measured, ("batch-reader", profile.reader));
    if options.check {
        profile.check(args, |changed| measured_online(changed, options))?;
    }
    Ok(profile)
}

/// Measures the loader once and determines the bottleneck.
pub(crate) fn measured_online(args: &ConfigArgs, options: &ProfileArgs) -> anyhow::Result<Profile> {
    let slow = InjectedDelays::parse(options.slow.as_deref(), options.target)?;
    let plan = Plan::new(args, |folder: &Path| slow.find(folder), Purpose::ReadOnly)?;
    let load = plan.load();
    // The duration of a step is divided among its micro-batches.
    let measured_step = step_time::find(plan.train()).map(|time| 1e3 * time.seconds);
    let step_ms = options.step_ms.or(measured_step).unwrap_or(0.0).max(0.0);
    let step = Duration::from_secs_f64(step_ms / 1e3);
    let pause = step / plan.config().micro_batches_per_step();
    // As in training, workers hash the rows too.
    let training = StreamOptions {
        digests: true,
        latency_injection: slow.workers,
        contention: slow.contention,
        ..StreamOptions::default()
    };
    let mut stream = BatchStream::new(load, RowIndex(0), RankShard::ALONE, training);
    let watch = MeasureWatch::from_stats(stream.worker_stats())?;
    let width = load.facts().views.iter().map(|view| view.width).max().unwrap_or(0) as u64;
    let mut tokens_per_batch = 0;
    let mut taken = 0;
    let begun = Instant::now();
    let is_over = |taken: u64| match options.batches {
        Some(batches) => taken >= batches,
        // The law is as uncertain as its points, so each point is measured for the full time.
        None => {
            (options.scale.is_empty() && watch.is_enough()) || begun.elapsed().as_secs_f64() >= options.max_seconds()
        }
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
    let verdict = find_bottleneck(&measured, "trainer");
    let what_if = proposals(&measured);
    let mut evidence = verdict.evidence;
    evidence.extend(what_if.as_ref().ok().and_then(|proposals| neighbor::advice(&measured, proposals)));
    Ok(Profile {
        target: ProfileTarget::Loader.name(),
        sentence: verdict.sentence,
        against: against(step_ms, options.step_ms.is_some()),
        bottleneck: Some(verdict.bottleneck),
        evidence,
        what_if: Some(what_if),
        checked: None,
        tokens_per_item: tokens_per_batch as f64,
        tokens_per_s: None,
        stages: None,
        reader: "trainer",
        training: None,
        held_back: None,
        measured,
    })
}

/// Says what consumed the batches of a measurement of the loader.
fn against(step_ms: f64, is_given: bool) -> String {
    if step_ms == 0.0 {
        "measured without a trainer: batches are taken as fast as the loader makes them, so the loader is the bottleneck \
         unless something else limits it; `--step-ms` simulates a trainer, `cloze profile train` uses the real one"
            .to_owned()
    } else if is_given {
        format!("measured against a simulated trainer of {step_ms} ms a step (`--step-ms`)")
    } else {
        format!(
            "measured against a simulated trainer of {step_ms:.1} ms a step, as `cloze plan --measure` timed it here"
        )
    }
}

/// Measures a preparation against a writer that discards samples or takes a set time.
pub fn offline(args: &ConfigArgs, options: &ProfileArgs, recording: &mut Recording) -> anyhow::Result<Profile> {
    // Of several corpora the first is measured; all use the same code.
    let config = Parsed::read(&args.config, &args.set)?.into_corpora(None)?.swap_remove(0).prepare;
    let write_delay = InjectedDelays::parse(options.slow.as_deref(), options.target)?.writer;
    let run = PrepareOptions { null_writer: true, write_delay, ..PrepareOptions::default() };
    let watch = Arc::<Mutex<Option<MeasureWatch>>>::default();
    let on_progress = {
        let watch = Arc::clone(&watch);
        move |worker_stats| {
            *watch.lock().unwrap_or_else(PoisonError::into_inner) = MeasureWatch::from_stats(worker_stats).ok();
        }
    };
    let preparation = Preparation::plan(&config)?.telling(Box::new(on_progress));
    let has_compressed = preparation.describe().largest_compressed.is_some();
    let summary = preparation.run(run, &Clock::system(), &mut Fanout::default())?;
    let watch = watch.lock().unwrap_or_else(PoisonError::into_inner).take();
    let measured = watch.map_or_else(Measured::default, |watch| watch.measured_to_the_end());
    recording.end(&measured, ("prepare-reader", "fold"));
    let (sentence, evidence) = stages::find_slowest(&measured, &summary.stages, summary.parts_made, has_compressed);
    Ok(Profile {
        target: ProfileTarget::Prepare.name(),
        sentence,
        against: String::new(),
        bottleneck: None,
        evidence,
        what_if: None,
        checked: None,
        tokens_per_item: 0.0,
        tokens_per_s: Some(summary.corpus.tokens as f64 / summary.elapsed.as_secs_f64().max(1e-9)),
        stages: Some(stages::costs(&summary)),
        reader: "fold",
        training: None,
        held_back: stages::held_back(&measured, summary.parts_made),
        measured,
    })
}
