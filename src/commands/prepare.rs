//! `cloze prepare`: prepares a corpus with progress and a closing report.

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
pub use telemetry::alerts::{Alerts, AlertsConfig};
use telemetry::dispatcher::Dispatcher;
pub use telemetry::otlp::{Otlp, RunResource};
use telemetry::terminal::outcome;
use telemetry::{Clock, Event, EventKind, Observer};

use super::output_file;
use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::config::corpora::NamedCorpus;
use crate::exit::Usage;
use crate::report::corpus_page;
use crate::run::fault_injection::{FaultInjector, FaultPlan, Kill};
use crate::run::monitoring::preparing::PrepareBackend;

/// Options of a preparation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Source whose corpus is prepared.
    pub(crate) source: Option<&'a str>,
    /// Seconds between checks of the inputs, which then never end.
    pub(crate) watch: Option<f64>,
    /// HTML report about the corpus.
    pub(crate) report: Option<&'a Path>,
    /// Delay: `writer=MS`.
    pub(crate) slow: Option<&'a str>,
    /// Faults to inject.
    pub(crate) faults: Option<&'a str>,
}

/// Prepares the corpus, or continues to. With `watch`, it continues until a signal.
pub fn run(args: &ConfigArgs, options: Options<'_>) -> anyhow::Result<()> {
    let Options { source, watch, report, slow, faults } = options;
    report.map_or(Ok(()), output_file::check)?;
    let injector = faults.map(FaultPlan::parse).transpose()?.map(FaultInjector::new);
    let parsed = Parsed::read(&args.config, &args.set)?;
    let stall_timeout_seconds = parsed.config.run.stall_timeout_seconds;
    // A reader of streamed parts needs the first parts first.
    let in_order = parsed.config.data.order == RowOrder::Streamed;
    let config = parsed.config.clone();
    let corpora = parsed.into_corpora(source)?;
    let backend = PrepareBackend::open(&config)?;
    let write_delay = slow.map(delay).transpose()?.unwrap_or_default();
    let every = watch.map(watch::every).transpose()?;
    let options = PrepareOptions { in_order, write_delay, ..PrepareOptions::default() };
    let alerts = alerts(&config.alerts, &corpora)?;
    let otlp = otlp(config.run.otlp, &corpora);
    let watching =
        backend.as_ref().map(PrepareBackend::reader).into_iter().chain(alerts.as_ref().and_then(Alerts::reader));
    let watching = watching.chain(otlp.as_ref().map(Otlp::reader));
    let watchers = Dispatcher::start(watching.collect())?;
    let stall_timeout = (stall_timeout_seconds > 0).then(|| Duration::from_secs(stall_timeout_seconds));
    let mut watcher = Shared::listening(watchers, stall_timeout)?;
    if let Some(backend) = &backend {
        let service = Arc::clone(watcher.service());
        backend.watched(Box::new(move || service.check_progress()));
    }
    let services = Services { injector: injector.as_ref(), backend: backend.as_ref() };
    let is_watch = every.is_some();
    let done = all(&corpora, every, |prepare| {
        watcher.reset();
        let done = prepare_once(prepare, options, &services, &mut watcher);
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
    // Observers receive all events before the exporters are flushed.
    drop(watcher);
    drop((alerts, otlp));
    done?;
    report.map_or(Ok(()), |out| write_report(&corpora, out))
}

/// Writes the report about these corpora.
fn write_report(corpora: &[NamedCorpus], out: &Path) -> anyhow::Result<()> {
    let one = |corpus: &NamedCorpus| anyhow::Ok((corpus.source.clone(), CorpusStats::open(&corpus.prepare)?));
    let stats: Vec<_> = corpora.iter().map(one).collect::<anyhow::Result<_>>()?;
    output_file::put(out, &corpus_page::page(&stats))?;
    outcome(format_args!("{}: corpus report written", out.display()));
    Ok(())
}

/// Starts the OpenTelemetry exporter, if it is enabled. One preparation of several corpora is one resource.
fn otlp(is_enabled: bool, corpora: &[NamedCorpus]) -> Option<Otlp> {
    let name = corpora.first().map(|corpus| corpus.prepare.folder.display().to_string());
    Otlp::start(is_enabled, &RunResource { name: name.unwrap_or_default(), ..RunResource::default() })
}

/// Alerts of the configuration, for all corpora together.
fn alerts(config: &AlertsConfig, corpora: &[NamedCorpus]) -> runtime::Result<Option<Alerts>> {
    let Some(first) = corpora.first().map(|corpus| &corpus.prepare.folder) else { return Ok(None) };
    Alerts::start(config, &first.display().to_string(), first)
}

/// Prepares each corpus. A single corpus can be watched.
fn all(
    corpora: &[NamedCorpus],
    every: Option<Duration>,
    mut once: impl FnMut(&PrepareConfig) -> pipeline::Result<()>,
) -> anyhow::Result<()> {
    if let Some(every) = every {
        let config = only_corpus(corpora, "--watch")?;
        return watch::run(config, every, || once(config));
    }
    for NamedCorpus { source, prepare } in corpora {
        if let (Some(source), 2..) = (source, corpora.len()) {
            outcome(format_args!("source {source}"));
        }
        once(prepare)?;
    }
    Ok(())
}

/// The only corpus, for actions on one corpus.
fn only_corpus<'a>(corpora: &'a [NamedCorpus], what: &str) -> Result<&'a PrepareConfig, Usage> {
    match corpora {
        [corpus] => Ok(&corpus.prepare),
        several => {
            let names: Vec<&str> = several.iter().filter_map(|corpus| corpus.source.as_deref()).collect();
            Err(Usage(format!("{what}: name the source with `--source` ({})", names.join(", "))))
        }
    }
}

/// Parses `writer=MS`.
fn delay(text: &str) -> anyhow::Result<Duration> {
    let ms = text.strip_prefix("writer=").and_then(|ms| ms.parse().ok());
    let wrong = || Usage(format!("--slow {text}: a preparation supports `writer=MILLISECONDS`"));
    Ok(Duration::from_millis(ms.ok_or_else(wrong)?))
}

/// Services that run concurrently with a preparation.
struct Services<'a> {
    /// Injected faults.
    injector: Option<&'a FaultInjector>,
    /// Backend of the status server.
    backend: Option<&'a PrepareBackend>,
}

/// Prepares the corpus once.
fn prepare_once(
    config: &PrepareConfig,
    options: PrepareOptions,
    services: &Services<'_>,
    watcher: &mut Shared,
) -> pipeline::Result<()> {
    let done = match services.injector {
        None => with_backend(Preparation::plan(config)?, services).run(options, &Clock::system(), watcher),
        Some(injector) => {
            let store = remote_store::open_path(&config.folder)?;
            injector.record_in(store.clone())?;
            let preparation = with_backend(Preparation::plan_in(config, &injector.wrap(&store))?, services);
            preparation.run(options, &Clock::system(), &mut Killed { injector, watcher })
        }
    };
    watcher.clear();
    done?;
    watcher.report();
    Ok(())
}

/// Connects a preparation to the status server, which shows its workers.
fn with_backend(preparation: Preparation, services: &Services<'_>) -> Preparation {
    match services.backend {
        Some(backend) => preparation.telling(backend.stats_callback()),
        None => preparation,
    }
}

/// Ends the process after a part, for injected kills.
struct Killed<'a> {
    injector: &'a FaultInjector,
    watcher: &'a mut Shared,
}

impl Observer for Killed<'_> {
    fn observe(&mut self, event: &Event) {
        self.watcher.observe(event);
        let EventKind::PartDone(done) = &event.what else { return };
        if let Err(error) = self.injector.reach(Kill::Part(u64::from(done.part))) {
            tracing::warn!(%error, "kill skipped: it cannot be recorded");
        }
    }
}

/// Removes a document from the corpus.
pub(crate) fn forget_document(args: &ConfigArgs, document: &str, source: Option<&str>) -> anyhow::Result<()> {
    let corpora = Parsed::read(&args.config, &args.set)?.into_corpora(source)?;
    let config = only_corpus(&corpora, "forget")?;
    let clock = Clock::system();
    let mut watcher = Shared::listening(Dispatcher::start(Vec::new())?, None)?;
    let done =
        Preparation::plan(config).and_then(|preparation| preparation.forget_document(document, &clock, &mut watcher));
    watcher.clear();
    let (_, before) = done?;
    let folder = config.folder.display();
    outcome(match before {
        Some(dataset_version) => format!("{folder}: forgotten already, in dataset version {dataset_version}"),
        None => format!("{folder}: forgotten; runs that read the parts with this document are refused from now on"),
    });
    watcher.report();
    Ok(())
}
