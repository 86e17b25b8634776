//! `cloze train`: the composition of everything.
//!
//! A plan, a held folder, lanes that make batches, and the trainer on a thread of its own. [`Feed`] is what
//! the trainer sees of the pipeline, [`Keeper`] what it sees of the run folder, of the signals and of
//! those who watch.

mod feed;
mod keeper;
mod phases;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::sync::Arc;

use observe::{Clock, Many};
use pipeline::actor;
use schemas::Share;
use store::{Store, Weather};
use trainer::training::{Alone, Outcome, StopRequest};

use self::feed::Feed;
use self::keeper::Keeper;
use self::phases::{Phases, Slow};
use crate::cli::ConfigArgs;
use crate::control::{Control, Signal};
use crate::plan::{Plan, describe};
use crate::run_folder::RunFolder;
use crate::terminal::{Printer, note};

/// Plans and runs. The exit code tells a finished run from one that a signal stopped.
pub(crate) fn run(args: &ConfigArgs, replay: Option<u64>, slow: Option<&str>) -> anyhow::Result<ExitCode> {
    let plan = Plan::to_train(args)?;
    let slow = slow.map(Slow::parse).transpose()?;
    let phases = Phases { control: Arc::new(Control::start()?), slow };
    let outcome = if replay.is_some() {
        // Nothing is read or kept: this measures, it does not train.
        train(&plan, &Store::memory(Weather::calm()), None, replay, phases)?
    } else {
        let run = RunFolder::hold(&Store::folder(&plan.config().run.folder)?)?;
        train(&plan, &run.store().clone(), Some(run), None, phases)?
    };
    Ok(match outcome {
        Outcome::Finished(step) => {
            if replay.is_some() {
                note(format_args!("done: {step} steps over the same batches; nothing was kept"));
            }
            ExitCode::SUCCESS
        }
        Outcome::Stopped(_, StopRequest::Interrupt) => ExitCode::from(Signal::Interrupt.exit_code()),
        Outcome::Stopped(_, StopRequest::Terminate) => ExitCode::from(Signal::Terminate.exit_code()),
    })
}

/// Trains on a thread of its own, from what is in the store on.
fn train(
    plan: &Plan,
    store: &Store,
    run: Option<RunFolder>,
    replay: Option<u64>,
    phases: Phases,
) -> anyhow::Result<Outcome> {
    let mut feed = Feed::new(plan, Share::ALONE, replay, phases.clone());
    let mut keeper = Keeper {
        readers: Many(vec![Box::new(Printer { ends: run.is_some() })]),
        run,
        generations: Arc::clone(plan.data().generations()),
        papers: vec![("config.toml", plan.resolved_toml()), ("plan.json", describe::json(plan))],
        keep: plan.train().checkpoints.keep,
        phases,
        pending: None,
    };
    let (training, store) = (plan.train().clone(), store.clone());
    let thread = actor::spawn("trainer", move || {
        let outcome =
            trainer::training::run(&training, Box::new(Alone), &store, &Clock::system(), &mut feed, &mut keeper);
        // What went wrong first is what to say.
        (outcome, keeper.close())
    })?;
    let (outcome, closed) = thread.join()?;
    let outcome = outcome?;
    closed?;
    Ok(outcome)
}
