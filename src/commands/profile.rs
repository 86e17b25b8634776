//! `cloze profile`: what binds, how sure that is, and what a change would bring. And what is a training step by itself?

#[cfg(feature = "train")]
mod made;
mod object;
mod shown;
#[cfg(feature = "train")]
mod step;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use observe::{Clock, Many};
use pipeline::load::{self, BatchStream, Hindrance, StreamOptions, Who};
use pipeline::prepare::{Preparation, PrepareOptions};
use schemas::{RowIndex, Share};
use store::Weather;

use self::shown::Profile;
use super::written::{self, put};
use crate::cli::{ConfigArgs, Half};
use crate::config::Parsed;
use crate::data::Purpose;
use crate::exit::{Usage, WORSE};
use crate::plan::Plan;
use crate::profile::compare;
use crate::profile::judge::judge;
use crate::profile::measure::{Measured, Watch};
use crate::profile::stages;
use crate::profile::whatif::{Proposal, proposals};
use crate::profile_page::Page;
use crate::terminal::{line, note};

/// Batches between two slow ones, where bursts are asked for.
const BURST: u64 = 8;

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
    pub(crate) report: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) json: bool,
}

/// Runs a half against a consumer that costs nothing, or as much as was asked for, and says what binds it.
pub(crate) fn run(args: &ConfigArgs, options: &Options) -> anyhow::Result<()> {
    options.report.as_deref().map_or(Ok(()), written::check)?;
    let profile = match options.half {
        Half::Online => online(args, options)?,
        Half::Prepare => offline(args, options)?,
        #[cfg(feature = "train")]
        Half::Step if options.report.is_some() || options.svg.is_some() => {
            return Err(Usage("--report and --svg: `--half step` is one figure, and no page".to_owned()).into());
        }
        #[cfg(feature = "train")]
        Half::Step => return step::run(args, options.steps, options.json),
    };
    let object = profile.object(&args.config);
    let page = (options.report.is_some() || options.svg.is_some()).then(|| Page::of(&object)).transpose()?;
    page.map_or(Ok(()), |page| put_page(&page, options.report.as_deref(), options.svg.as_deref()))?;
    if options.json {
        line(format_args!("{object:#}"));
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

/// Makes the page of a profile that was kept.
pub(crate) fn report(profile: &Path, out: &Path, svg: Option<&Path>) -> anyhow::Result<()> {
    let object = compare::read(profile)?;
    let page =
        Page::of(&object).with_context(|| Usage(format!("{}: no profile of this program", profile.display())))?;
    put_page(&page, Some(out), svg)
}

/// Writes the page, and each of its plots into a folder. What is said of it goes to stderr: stdout may be for programs.
fn put_page(page: &Page, out: Option<&Path>, svg: Option<&Path>) -> anyhow::Result<()> {
    if let Some(out) = out {
        put(out, &page.html())?;
        note(format_args!("{}: the page of this profile", out.display()));
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

/// What is slow on purpose.
#[derive(Clone, Copy, Debug, Default)]
struct Slow {
    lanes: Option<Hindrance>,
    disk: Duration,
    writer: Duration,
}

impl Slow {
    fn parse(options: &Options) -> anyhow::Result<Self> {
        let Some(text) = &options.slow else { return Ok(Self::default()) };
        let parsed = text.split_once('=').and_then(|(actor, ms)| Some((actor, ms.parse::<f64>().ok()?)));
        let parsed = parsed.filter(|(_, ms)| ms.is_finite() && (0.0..1e9).contains(ms));
        let known = if options.half == Half::Prepare {
            "`writer=MS`"
        } else {
            "`lane=MS`, `lanes=MS`, `work=MS`, `burst=MS` or `disk=MS`"
        };
        let wrong = || Usage(format!("--slow {text}: this half can slow {known}"));
        let (actor, ms) = parsed.ok_or_else(wrong)?;
        let time = Duration::from_secs_f64(ms / 1e3);
        let lanes = |who, computes| Self { lanes: Some(Hindrance { who, time, computes }), ..Self::default() };
        Ok(match (options.half == Half::Prepare, actor) {
            (true, "writer") => Self { writer: time, ..Self::default() },
            (false, "lane") => lanes(Who::Lane(0), false),
            (false, "lanes") => lanes(Who::Lanes, false),
            (false, "work") => lanes(Who::Lanes, true),
            (false, "burst") => lanes(Who::OneIn(BURST), false),
            (false, "disk") => Self { disk: time, ..Self::default() },
            _ => return Err(wrong().into()),
        })
    }
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

fn measured_online(args: &ConfigArgs, options: &Options) -> anyhow::Result<Profile> {
    let slow = Slow::parse(options)?;
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
    let training = StreamOptions { digests: true, hindrance: slow.lanes, ..StreamOptions::default() };
    let mut stream = BatchStream::new(load, RowIndex(0), Share::ALONE, training);
    let watch = Watch::over(stream.gauges())?;
    let width = load.facts().views.iter().map(|view| view.width).max().unwrap_or(0) as u64;
    let (mut tokens_per_batch, mut taken, begun) = (0, 0, Instant::now());
    let is_over = |taken: u64| match options.batches {
        Some(batches) => taken >= batches,
        None => watch.is_enough() || begun.elapsed().as_secs_f64() >= options.seconds,
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
    Ok(Profile {
        half: "online",
        sentence: verdict.sentence,
        binding: format!("{:?}", verdict.binding),
        evidence: verdict.evidence,
        what_if: Some(what_if),
        checked: None,
        tokens_per_item: tokens_per_batch as f64,
        tokens_per_s: None,
        stages: None,
        reader: "trainer",
        measured,
    })
}

/// The offline half against a writer that throws samples away, or takes time.
fn offline(args: &ConfigArgs, options: &Options) -> anyhow::Result<Profile> {
    // Of several corpora the first: each goes the same way.
    let config = Parsed::read(&args.config, &args.set)?.into_corpora(None)?.swap_remove(0).prepare;
    let write_delay = Slow::parse(options)?.writer;
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
        stages: Some(stages::costs(&summary)),
        reader: "fold",
        measured,
    })
}
