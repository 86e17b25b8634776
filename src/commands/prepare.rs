//! `cloze prepare`: prepares a corpus with progress and a closing report.

mod dry_run;
mod interruption;
mod phase;
mod service;
mod watch;
mod watcher;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dry_run::DryRunOptions;
use interruption::Shared;
pub(crate) use phase::PreparePhase;
use pipeline::corpus_stats::CorpusStats;
use pipeline::load::RowOrder;
use pipeline::prepare::{
    PoolStatsCallback, Preparation, PrepareConfig, PrepareOptions, PreparePlan, Share, ShareSummary, SharedPreparation,
};
use store::Store;
pub use telemetry::alerts::{Alerts, AlertsConfig};
use telemetry::dispatcher::Dispatcher;
pub use telemetry::otlp::{Otlp, RunResource};
use telemetry::terminal::outcome;
use telemetry::{Clock, Event, EventKind, Observer};

use super::output_file;
use crate::cli::{ConfigArgs, PrepareArgs, PrepareVerb, SharedPrepareArgs};
use crate::config::Parsed;
use crate::config::corpora::NamedCorpus;
use crate::exit::Usage;
use crate::plan::preparing;
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
    /// Options of a dry run.
    pub(crate) dry_run: Option<DryRunOptions>,
    /// Delay: `writer=MS`.
    pub(crate) slow: Option<&'a str>,
    /// Faults to inject.
    pub(crate) faults: Option<&'a str>,
    /// Phase of the preparation.
    pub(crate) phase: PreparePhase,
}

/// Runs `cloze prepare` or one of its subcommands.
pub(crate) fn dispatch(args: PrepareArgs) -> anyhow::Result<()> {
    let PrepareArgs { config, source, watch, report, dry_run, sample, json, slow, inject_faults, verb } = args;
    let none = Options::default();
    match verb {
        None => {
            let dry_run = dry_run.then_some(DryRunOptions { share: sample, json });
            let (source, report) = (source.as_deref(), report.as_deref());
            let (slow, faults, phase) = (slow.as_deref(), inject_faults.as_deref(), PreparePhase::All);
            let options = Options { source, watch, report, dry_run, slow, faults, phase };
            run(&config.unwrap_or_default(), options)
        }
        Some(PrepareVerb::Forget { config, document, absent, source }) => {
            forget_document(&config, &document, absent, source.as_deref())
        }
        Some(PrepareVerb::Plan(shared)) => run_phase(&shared, PreparePhase::Plan, none),
        Some(PrepareVerb::Signatures { shared, share }) => {
            run_phase(&shared, PreparePhase::Sign(phase::share(&share)?), none)
        }
        Some(PrepareVerb::Run { shared, share, slow, inject_faults }) => {
            let options = Options { slow: slow.as_deref(), faults: inject_faults.as_deref(), ..none };
            run_phase(&shared, PreparePhase::Run(phase::share(&share)?), options)
        }
        Some(PrepareVerb::Finalize { shared, report }) => {
            run_phase(&shared, PreparePhase::Finalize, Options { report: report.as_deref(), ..none })
        }
    }
}

/// Runs one phase of a preparation that several processes share.
fn run_phase(args: &SharedPrepareArgs, phase: PreparePhase, options: Options<'_>) -> anyhow::Result<()> {
    run(&args.config, Options { source: args.source.as_deref(), phase, ..options })
}

/// Prepares the corpus, or continues to. With `watch`, it continues until a signal.
pub fn run(args: &ConfigArgs, options: Options<'_>) -> anyhow::Result<()> {
    let Options { source, watch, report, dry_run, slow, faults, phase } = options;
    if let Some(options) = dry_run {
        return Ok(dry_run::run(&Parsed::read(&args.config, &args.set)?.into_corpora(source)?, options)?);
    }
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
        let done = prepare_once(prepare, phase, options, &services, &mut watcher);
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
    let mut once = |corpus: &NamedCorpus| once(&corpus.prepare).map_err(|error| corpus.with_own_keys(error));
    if let Some(every) = every {
        let corpus = only_corpus(corpora, "--watch")?;
        return watch::run(&corpus.prepare, every, || once(corpus));
    }
    for corpus in corpora {
        if let (Some(source), 2..) = (&corpus.source, corpora.len()) {
            outcome(format_args!("source {source}"));
        }
        once(corpus)?;
    }
    Ok(())
}

/// The only corpus, for actions on one corpus.
fn only_corpus<'a>(corpora: &'a [NamedCorpus], what: &str) -> Result<&'a NamedCorpus, Usage> {
    match corpora {
        [corpus] => Ok(corpus),
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

/// Prepares the corpus once, or runs one phase of it.
fn prepare_once(
    config: &PrepareConfig,
    phase: PreparePhase,
    options: PrepareOptions,
    services: &Services<'_>,
    watcher: &mut Shared,
) -> pipeline::Result<()> {
    let done = match services.injector {
        None => run_in(config, None, phase, options, services, watcher),
        Some(injector) => {
            let store = remote_store::open_path(&config.folder)?;
            injector.record_in(store.clone())?;
            let faulty = injector.wrap(&store);
            run_in(config, Some(&faulty), phase, options, services, &mut Killed { injector, watcher })
        }
    };
    watcher.clear();
    let said = done?;
    watcher.report();
    said.into_iter().for_each(outcome);
    Ok(())
}

/// Runs a phase in the configured folder, or in another store. Returns its result in words, unless an event tells it.
fn run_in(
    config: &PrepareConfig,
    store: Option<&Store>,
    phase: PreparePhase,
    options: PrepareOptions,
    services: &Services<'_>,
    observer: &mut dyn Observer,
) -> pipeline::Result<Option<String>> {
    // Nothing cancels this token: a signal ends the process.
    let (_source, stop) = runtime::cancel_pair();
    let clock = Clock::system();
    let plan = || store.map_or_else(|| Preparation::plan(config), |store| Preparation::plan_in(config, store));
    let open =
        || store.map_or_else(|| SharedPreparation::open(config), |store| SharedPreparation::open_in(config, store));
    let hears: Option<PoolStatsCallback> = services.backend.map(PrepareBackend::stats_callback);
    match phase {
        PreparePhase::All => {
            let preparation = match hears {
                Some(hears) => plan()?.telling(hears),
                None => plan()?,
            };
            preparation.run(options, &clock, observer).map(|_| None)
        }
        PreparePhase::Plan => plan()?.write_plan(&clock, observer).map(|plan| Some(describe_plan(config, &plan))),
        PreparePhase::Sign(share) => {
            let folder = config.folder.display();
            let is_done = open()?.sign(share, &stop, &clock, observer)?;
            let rest = if is_done {
                "all documents are compared; run `cloze prepare run`"
            } else {
                "the signatures of this share exist; when all shares are done, the documents are compared"
            };
            Ok(Some(format!("{folder}: {rest}")))
        }
        PreparePhase::Run(share) => {
            let summary = open()?.run(share, options, &stop, &clock, observer, hears)?;
            Ok(Some(describe_share(config, share, &summary)))
        }
        PreparePhase::Finalize => open()?.finalize(&stop, &clock, observer).map(|_| None),
    }
}

/// Describes a written plan.
fn describe_plan(config: &PrepareConfig, plan: &PreparePlan) -> String {
    let folder = config.folder.display();
    let change = plan.change.map(|change| format!("; {change}")).unwrap_or_default();
    let next = if plan.duplicates.is_some() { "signatures" } else { "run" };
    let mut said =
        format!("{folder}: {} parts of {} files planned{change}; next: `cloze prepare {next}`", plan.parts, plan.files);
    if let Some(cost) = plan.duplicates {
        said.push_str("\n  ");
        said.push_str(&preparing::duplicates(cost));
    }
    said
}

/// Describes the result of a share.
fn describe_share(config: &PrepareConfig, share: Share, summary: &ShareSummary) -> String {
    let folder = config.folder.display();
    let ShareSummary { parts, parts_made, elapsed } = summary;
    let seconds = elapsed.as_secs_f64();
    match share {
        Share::Index { index, count } => format!(
            "{folder}: share {index} of {count}: {parts_made} of {parts} parts made in {seconds:.1} s, all exist; when \
             all shares are done, run `cloze prepare finalize`"
        ),
        Share::Leases { .. } => format!(
            "{folder}: {parts_made} parts made in {seconds:.1} s, all {parts} exist; run `cloze prepare finalize`"
        ),
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
fn forget_document(args: &ConfigArgs, document: &str, absent: bool, source: Option<&str>) -> anyhow::Result<()> {
    let corpora = Parsed::read(&args.config, &args.set)?.into_corpora(source)?;
    let config = &only_corpus(&corpora, "forget")?.prepare;
    let clock = Clock::system();
    let mut watcher = Shared::listening(Dispatcher::start(Vec::new())?, None)?;
    let preparation = Preparation::plan(config);
    let done = preparation.and_then(|preparation| preparation.forget_document(document, absent, &clock, &mut watcher));
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
