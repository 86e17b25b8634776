//! `cloze prepare`: the offline half, with its progress and its closing report.

mod interruption;
mod watch;
mod watcher;

use std::time::Duration;

use observe::{Clock, Event, Observer, What};
use pipeline::load::RowOrder;
use pipeline::prepare::{self, Preparation, PrepareConfig, PrepareOptions, Summary};
use store::Store;

use crate::alerts::{Alerts, AlertsConfig};
use crate::chaos::{Chaos, Kill, Storm};
use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::config::corpora::NamedCorpus;
use crate::exit::Usage;
use crate::terminal::told;
use crate::watchers::Watchers;
use interruption::Shared;

/// How to go about it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// The corpus of this source alone.
    pub(crate) source: Option<&'a str>,
    /// Seconds between looks at the inputs, which are looked at for ever.
    pub(crate) watch: Option<f64>,
    /// `writer=MS`.
    pub(crate) slow: Option<&'a str>,
    /// Faults to live with.
    pub(crate) chaos: Option<&'a str>,
}

/// Prepares, or continues to; with `watch`, for ever.
pub(crate) fn run(args: &ConfigArgs, options: Options<'_>) -> anyhow::Result<()> {
    let Options { source, watch, slow, chaos } = options;
    let storm = chaos.map(Chaos::parse).transpose()?.map(Storm::of);
    let parsed = Parsed::read(&args.config, &args.set)?;
    // Whoever reads the parts as they come waits for the first ones first.
    let in_order = parsed.config.data.order == RowOrder::Streamed;
    let alerts_config = parsed.config.alerts.clone();
    let corpora = parsed.into_corpora(source)?;
    let write_delay = slow.map(delay).transpose()?.unwrap_or_default();
    let every = watch.map(watch::every).transpose()?;
    let options = PrepareOptions { in_order, write_delay, ..PrepareOptions::default() };
    let alerts = alerts(&alerts_config, &corpora)?;
    let readers = alerts.as_ref().and_then(Alerts::reader).into_iter().collect();
    let mut watcher = Shared::listening(Watchers::start(readers)?)?;
    let done = all(&corpora, every, |prepare| {
        watcher.begin_anew();
        once(prepare, options, storm.as_ref(), &mut watcher)
    });
    if let (Some(alerts), Err(error)) = (&alerts, &done) {
        alerts.failed(error);
    }
    // The readers are told all before what they have accepted is waited for.
    drop(watcher);
    drop(alerts);
    done
}

/// Whom the configuration wants told, of the corpora together.
fn alerts(config: &AlertsConfig, corpora: &[NamedCorpus]) -> anyhow::Result<Option<Alerts>> {
    let Some(first) = corpora.first().map(|corpus| &corpus.prepare.folder) else { return Ok(None) };
    Alerts::start(config, &first.display().to_string(), first)
}

/// Prepares each corpus; the only one for ever, where it is looked at every so often.
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

/// Prepares what there is.
fn once(
    config: &PrepareConfig,
    options: PrepareOptions,
    storm: Option<&Storm>,
    watcher: &mut Shared,
) -> pipeline::Result<()> {
    let done = match storm {
        None => prepare::run(config, options, &Clock::system(), watcher),
        Some(storm) => in_storm(storm, config, options, watcher),
    };
    watcher.clear();
    done?;
    watcher.report();
    Ok(())
}

/// Prepares with faults.
fn in_storm(
    storm: &Storm,
    config: &PrepareConfig,
    options: PrepareOptions,
    watcher: &mut Shared,
) -> pipeline::Result<Summary> {
    let calm = Store::folder(&config.folder)?;
    storm.keep_in(calm.clone())?;
    let mut watcher = Killed { storm, watcher };
    Preparation::plan_in(config, &storm.over(&calm))?.run(options, &Clock::system(), &mut watcher)
}

/// Ends the process behind a part where that was asked for.
struct Killed<'a> {
    storm: &'a Storm,
    watcher: &'a mut Shared,
}

impl Observer for Killed<'_> {
    fn observe(&mut self, event: &Event) {
        self.watcher.observe(event);
        let What::PartDone(done) = &event.what else { return };
        if let Err(error) = self.storm.reach(Kill::Part(u64::from(done.part))) {
            tracing::warn!(%error, "not killed, since nobody would remember");
        }
    }
}

/// Leaves a document out of the corpus.
pub(crate) fn forget(args: &ConfigArgs, document: &str, source: Option<&str>) -> anyhow::Result<()> {
    let corpora = Parsed::read(&args.config, &args.set)?.into_corpora(source)?;
    let config = alone(&corpora, "forget")?;
    let (clock, mut watcher) = (Clock::system(), Shared::listening(Watchers::start(Vec::new())?)?);
    let done = Preparation::plan(config).and_then(|preparation| preparation.forget(document, &clock, &mut watcher));
    watcher.clear();
    let (_, before) = done?;
    let folder = config.folder.display();
    told(match before {
        Some(generation) => format!("{folder}: forgotten already, in generation {generation}"),
        None => format!("{folder}: forgotten; runs that read the parts that held it are refused from now on"),
    });
    watcher.report();
    Ok(())
}
