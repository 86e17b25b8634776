//! `cloze prepare`: the offline half, with its progress and its closing report.

mod interruption;
mod watcher;

use observe::{Clock, Event, Observer, What};
use pipeline::prepare::{self, Preparation, PrepareConfig, PrepareOptions, Summary};
use store::Store;

use crate::chaos::{Chaos, Kill, Storm};
use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::terminal::told;
use interruption::Shared;

/// Prepares, or continues to.
pub(crate) fn run(args: &ConfigArgs, chaos: Option<&str>) -> anyhow::Result<()> {
    let storm = chaos.map(Chaos::parse).transpose()?.map(Storm::of);
    let config = Parsed::read(&args.config, &args.set)?.into_prepare()?;
    let mut watcher = Shared::listening()?;
    let done = match &storm {
        None => prepare::run(&config, PrepareOptions::default(), &Clock::system(), &mut watcher),
        Some(storm) => in_storm(storm, &config, &mut watcher),
    };
    watcher.clear();
    done?;
    watcher.report();
    Ok(())
}

/// Prepares with faults.
fn in_storm(storm: &Storm, config: &PrepareConfig, watcher: &mut Shared) -> pipeline::Result<Summary> {
    let calm = Store::folder(&config.folder)?;
    storm.keep_in(calm.clone())?;
    let mut watcher = Killed { storm, watcher };
    Preparation::plan_in(config, &storm.over(&calm))?.run(PrepareOptions::default(), &Clock::system(), &mut watcher)
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
