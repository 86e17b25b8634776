//! `cloze prepare`: the offline half, with its progress and its closing report.

mod interruption;
mod watcher;

use observe::Clock;
use pipeline::prepare::{self, Preparation, PrepareOptions};

use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::terminal::told;
use interruption::Shared;

/// Prepares, or continues to.
pub(crate) fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = Parsed::read(&args.config, &args.set)?.into_prepare()?;
    let mut watcher = Shared::listening()?;
    let done = prepare::run(&config, PrepareOptions::default(), &Clock::system(), &mut watcher);
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
