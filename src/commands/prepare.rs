//! `cloze prepare`: the offline half, with its progress and its closing report.

mod interruption;
mod watch;
mod watcher;

use std::time::Duration;

use observe::Clock;
use pipeline::load::RowOrder;
use pipeline::prepare::{self, Preparation, PrepareConfig, PrepareOptions};

use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::exit::Usage;
use crate::terminal::told;
use interruption::Shared;

/// Prepares, or continues to; with `watch`, for ever.
pub(crate) fn run(args: &ConfigArgs, watch: Option<f64>, slow: Option<&str>) -> anyhow::Result<()> {
    let parsed = Parsed::read(&args.config, &args.set)?;
    // Whoever reads the parts as they come waits for the first ones first.
    let in_order = parsed.config.data.order == RowOrder::Streamed;
    let config = parsed.into_prepare()?;
    let write_delay = slow.map(delay).transpose()?.unwrap_or_default();
    let every = watch.map(watch::every).transpose()?;
    let options = PrepareOptions { in_order, write_delay, ..PrepareOptions::default() };
    let mut watcher = Shared::listening()?;
    match every {
        Some(every) => watch::run(&config, every, || {
            watcher.begin_anew();
            once(&config, options, &mut watcher)
        }),
        None => Ok(once(&config, options, &mut watcher)?),
    }
}

/// `writer=ms`.
fn delay(text: &str) -> anyhow::Result<Duration> {
    let ms = text.strip_prefix("writer=").and_then(|ms| ms.parse().ok());
    let wrong = || Usage(format!("--slow {text}: a preparation can slow `writer=MILLISECONDS`"));
    Ok(Duration::from_millis(ms.ok_or_else(wrong)?))
}

/// Prepares what there is.
fn once(config: &PrepareConfig, options: PrepareOptions, watcher: &mut Shared) -> pipeline::Result<()> {
    let done = prepare::run(config, options, &Clock::system(), watcher);
    watcher.clear();
    done?;
    watcher.report();
    Ok(())
}

/// Leaves a document out of the corpus.
pub(crate) fn forget(args: &ConfigArgs, document: &str) -> anyhow::Result<()> {
    let config = Parsed::read(&args.config, &args.set)?.into_prepare()?;
    let (clock, mut watcher) = (Clock::system(), Shared::listening()?);
    let done = Preparation::plan(&config).and_then(|preparation| preparation.forget(document, &clock, &mut watcher));
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
