//! `cloze prepare`: the offline half, with its progress and its closing report.

mod interruption;
mod service;
mod watch;
mod watcher;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use interruption::Shared;
use pipeline::corpus_stats::CorpusStats;
use pipeline::load::RowOrder;
use pipeline::prepare::{Preparation, PrepareConfig, PrepareOptions};
use store::Store;
pub use telemetry::alerts::{Alerts, AlertsConfig};
use telemetry::dispatcher::Dispatcher;
pub use telemetry::otlp::{Otlp, RunResource};
use telemetry::terminal::told;
use telemetry::{Clock, Event, EventKind, Observer};

use super::output_file;
use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::config::corpora::NamedCorpus;
use crate::exit::Usage;
use crate::report::corpus_page;
use crate::run::fault_injection::{FaultInjector, FaultPlan, Kill};
use crate::run::monitoring::preparing::PrepareBackend;

/// How to go about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The corpus of this source alone.
    pub(crate) source: Option<&'a str>,
    /// Seconds between looks at the inputs, which are looked at forever.
    pub(crate) watch: Option<f64>,
    /// The file that says what the corpus is like.
    pub(crate) report: Option<&'a Path>,
    /// `writer=MS`.
    pub(crate) slow: Option<&'a str>,
    /// Faults to live with.
    pub(crate) faults: Option<&'a str>,
}

/// Prepares, or continues to; with `watch`, forever.
pub fn run(args: &ConfigArgs, options: Options<'_>) -> anyhow::Result<()> {
    let Options { source, watch, report, slow, faults } = options;
    report.map_or(Ok(()), output_file::check)?;
    let storm = faults.map(FaultPlan::parse).transpose()?.map(FaultInjector::of);
    let parsed = Parsed::read(&args.config, &args.set)?;
    let stall_timeout_seconds = parsed.config.run.stall_timeout_seconds;
    // Whoever reads the parts as they come waits for the first ones first.
    let in_order = parsed.config.data.order == RowOrder::Streamed;
    let config = parsed.config.clone();
    let corpora = parsed.into_corpora(source)?;
    let sight = PrepareBackend::open(&config)?;
    let write_delay = slow.map(delay).transpose()?.unwrap_or_default();
    let every = watch.map(watch::every).transpose()?;
    let options = PrepareOptions { in_order, write_delay, ..PrepareOptions::default() };
    let alerts = alerts(&config.alerts, &corpora)?;
    let otlp = otlp(config.run.otlp, &corpora);
    let watching =
        sight.as_ref().map(PrepareBackend::reader).into_iter().chain(alerts.as_ref().and_then(Alerts::reader));
    let watching = watching.chain(otlp.as_ref().map(Otlp::reader));
    let watchers = Dispatcher::start(watching.collect())?;
    let hang = (stall_timeout_seconds > 0).then(|| Duration::from_secs(stall_timeout_seconds));
    let mut watcher = Shared::listening(watchers, hang)?;
    if let Some(sight) = &sight {
        let service = Arc::clone(watcher.service());
        sight.watched(Box::new(move || service.goes_on()));
    }
    let beside = Beside { storm: storm.as_ref(), sight: sight.as_ref() };
    let is_watch = every.is_some();
    let done = all(&corpora, every, |prepare| {
        watcher.begin_anew();
        let done = once(prepare, options, &beside, &mut watcher);
        if is_watch {
            watcher.service().rests();
        }
        done
    });
    if done.is_ok() {
        watcher.service().stops();
    }
    if let (Some(alerts), Err(error)) = (&alerts, &done) {
        alerts.failed(error);
    }
    if let (Some(otlp), Err(error)) = (&otlp, &done) {
        otlp.failed(error);
    }
    // The readers are told all before what they have accepted is waited for.
    drop(watcher);
    drop((alerts, otlp));
    done?;
    report.map_or(Ok(()), |out| portray(&corpora, out))
}

/// Writes what these corpora are like.
fn portray(corpora: &[NamedCorpus], out: &Path) -> anyhow::Result<()> {
    let one = |corpus: &NamedCorpus| anyhow::Ok((corpus.source.clone(), CorpusStats::of(&corpus.prepare)?));
    let portraits: Vec<_> = corpora.iter().map(one).collect::<anyhow::Result<_>>()?;
    output_file::put(out, &corpus_page::page(&portraits))?;
    told(format_args!("{}: what the corpus is like", out.display()));
    Ok(())
}

/// Starts the OpenTelemetry exporter, if it is enabled. One preparation of several corpora is one resource.
fn otlp(is_enabled: bool, corpora: &[NamedCorpus]) -> Option<Otlp> {
    let name = corpora.first().map(|corpus| corpus.prepare.folder.display().to_string());
    Otlp::start(is_enabled, &RunResource { name: name.unwrap_or_default(), ..RunResource::default() })
}

/// Whom the configuration wants told, of the corpora together.
fn alerts(config: &AlertsConfig, corpora: &[NamedCorpus]) -> runtime::Result<Option<Alerts>> {
    let Some(first) = corpora.first().map(|corpus| &corpus.prepare.folder) else { return Ok(None) };
    Alerts::start(config, &first.display().to_string(), first)
}

/// Prepares each corpus; the only one forever, where it is looked at every so often.
fn all(
    corpora: &[NamedCorpus],
    every: Option<Duration>,
    mut once: impl FnMut(&PrepareConfig) -> pipeline::Result<()>,
) -> anyhow::Result<()> {
    if let Some(every) = every {
        let config = alone(corpora, "--watch")?;
        return watch::run(config, every, || once(config));
    }
    for NamedCorpus { source, prepare } in corpora {
        if let (Some(source), 2..) = (source, corpora.len()) {
            told(format_args!("source {source}"));
        }
        once(prepare)?;
    }
    Ok(())
}

/// The only corpus, for what is done to one.
fn alone<'a>(corpora: &'a [NamedCorpus], what: &str) -> Result<&'a PrepareConfig, Usage> {
    match corpora {
        [corpus] => Ok(&corpus.prepare),
        several => {
            let names: Vec<&str> = several.iter().filter_map(|corpus| corpus.source.as_deref()).collect();
            Err(Usage(format!("{what}: name the source with `--source` ({})", names.join(", "))))
        }
    }
}

/// `writer=ms`.
fn delay(text: &str) -> anyhow::Result<Duration> {
    let ms = text.strip_prefix("writer=").and_then(|ms| ms.parse().ok());
    let wrong = || Usage(format!("--slow {text}: a preparation can slow `writer=MILLISECONDS`"));
    Ok(Duration::from_millis(ms.ok_or_else(wrong)?))
}

/// What continues next to a preparation.
struct Beside<'a> {
    /// Faults.
    storm: Option<&'a FaultInjector>,
    /// Those who look at it.
    sight: Option<&'a PrepareBackend>,
}

/// Prepares what there is.
fn once(
    config: &PrepareConfig,
    options: PrepareOptions,
    beside: &Beside<'_>,
    watcher: &mut Shared,
) -> pipeline::Result<()> {
    let done = match beside.storm {
        None => told_of(Preparation::plan(config)?, beside).run(options, &Clock::system(), watcher),
        Some(storm) => {
            let calm = Store::folder(&config.folder)?;
            storm.keep_in(calm.clone())?;
            let preparation = told_of(Preparation::plan_in(config, &storm.over(&calm))?, beside);
            preparation.run(options, &Clock::system(), &mut Killed { storm, watcher })
        }
    };
    watcher.clear();
    done?;
    watcher.report();
    Ok(())
}

/// Tells those who look at it which workers make parts.
fn told_of(preparation: Preparation, beside: &Beside<'_>) -> Preparation {
    match beside.sight {
        Some(sight) => preparation.telling(sight.hears()),
        None => preparation,
    }
}

/// Ends the process behind a part where that was asked for.
struct Killed<'a> {
    storm: &'a FaultInjector,
    watcher: &'a mut Shared,
}

impl Observer for Killed<'_> {
    fn observe(&mut self, event: &Event) {
        self.watcher.observe(event);
        let EventKind::PartDone(done) = &event.what else { return };
        if let Err(error) = self.storm.reach(Kill::Part(u64::from(done.part))) {
            tracing::warn!(%error, "not killed, since nobody would remember");
        }
    }
}

/// Leaves a document out of the corpus.
pub(crate) fn forget(args: &ConfigArgs, document: &str, source: Option<&str>) -> anyhow::Result<()> {
    let corpora = Parsed::read(&args.config, &args.set)?.into_corpora(source)?;
    let config = alone(&corpora, "forget")?;
    let (clock, mut watcher) = (Clock::system(), Shared::listening(Dispatcher::start(Vec::new())?, None)?);
    let done = Preparation::plan(config).and_then(|preparation| preparation.forget(document, &clock, &mut watcher));
    watcher.clear();
    let (_, before) = done?;
    let folder = config.folder.display();
    told(match before {
        Some(dataset_version) => format!("{folder}: forgotten already, in dataset version {dataset_version}"),
        None => format!("{folder}: forgotten; runs that read the parts that held it are refused from now on"),
    });
    watcher.report();
    Ok(())
}
