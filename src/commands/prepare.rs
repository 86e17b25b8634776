//! `cloze prepare`: the offline half, with its progress and its closing report.

use observe::{Clock, Event, Observer, What};
use pipeline::prepare::{self, Preparation, PrepareOptions};

use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::terminal::{Progress, line, note};

/// Prepares, or continues to.
pub(crate) fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = Parsed::read(&args.config, &args.set)?.into_prepare()?;
    let mut watcher = Watcher::default();
    let done = prepare::run(&config, PrepareOptions::default(), &Clock::system(), &mut watcher);
    watcher.clear();
    done?;
    watcher.report();
    Ok(())
}

/// Leaves a document out of the corpus.
pub(crate) fn forget(args: &ConfigArgs, document: &str) -> anyhow::Result<()> {
    let config = Parsed::read(&args.config, &args.set)?.into_prepare()?;
    let (clock, mut watcher) = (Clock::system(), Watcher::default());
    let done = Preparation::plan(&config).and_then(|preparation| preparation.forget(document, &clock, &mut watcher));
    watcher.clear();
    let (_, before) = done?;
    let folder = config.folder.display();
    line(match before {
        Some(generation) => format!("{folder}: forgotten already, in generation {generation}"),
        None => format!("{folder}: forgotten; runs that read the parts that held it are refused from now on"),
    });
    watcher.report();
    Ok(())
}

/// Shows how a preparation begins and how far it is, and keeps how it ended: the result comes when nothing can go wrong.
#[derive(Default)]
struct Watcher {
    bar: Option<Progress>,
    end: Option<String>,
}

impl Observer for Watcher {
    fn observe(&mut self, event: &Event) {
        let Some(text) = observe::terminal::line(event) else { return };
        match &event.what {
            What::PrepareProgress(now) => self.bar.get_or_insert_with(|| Progress::new("prepare")).set(now, text),
            What::PrepareEnd(_) => self.end = Some(text),
            _ => note(text),
        }
    }
}

impl Watcher {
    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }

    fn report(self) {
        if let Some(text) = self.end {
            line(text);
        }
    }
}
