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
use crate::plan::{Plan, describe, warnings};
use crate::run_folder::RunFolder;
use crate::terminal::{Printer, note};

/// Plans and runs. The exit code tells a finished run from one that a signal stopped.
pub(crate) fn run(args: &ConfigArgs, replay: Option<u64>, slow: Option<&str>) -> anyhow::Result<ExitCode> {
    let plan = Plan::of(args)?;
    for warning in warnings::of(&plan) {
        note(format_args!("warning: {warning}"));
    }
    let slow = slow.map(Slow::parse).transpose()?;
    let phases = Phases { control: Arc::new(Control::start()?), slow };
    let outcome = if replay.is_some() {
        // Nothing is read or kept: this measures, it does not train.
        train(&plan, &Store::memory(Weather::calm()), None, replay, phases)?
    } else {
        let run = RunFolder::hold(&Store::folder(&plan.config().run.folder)?)?;
        train(&plan, &run.store().clone(), Some(run), None, phases).inspect_err(|error| {
            if let Some(line) = replay_line(error, args) {
                note(format_args!("hint: see what it learnt from with `{line}`"));
            }
        })?
    };
    Ok(match outcome {
        Outcome::Finished(step) => {
            if replay.is_some() {
                note(format_args!("done: {step} steps over the same batches; nothing was kept"));
            }
            ExitCode::SUCCESS
        }
        Outcome::Stopped(_, stop) => ExitCode::from(signal(stop).exit_code()),
    })
}

fn signal(stop: StopRequest) -> Signal {
    match stop {
        StopRequest::Interrupt => Signal::Interrupt,
        StopRequest::Terminate => Signal::Terminate,
        StopRequest::Hangup => Signal::Hangup,
        StopRequest::Requeue => Signal::Requeue,
    }
}

/// The line of shell that shows the batch that a run failed over, configured as the run was.
fn replay_line(error: &anyhow::Error, args: &ConfigArgs) -> Option<String> {
    let trainer::Error::NonFinite { batch, .. } = error.downcast_ref()? else { return None };
    let mut words = vec![format!("cloze inspect batch {batch} --config"), quoted(&args.config.to_string_lossy())];
    words.extend(args.set.iter().flat_map(|set| ["--set".to_owned(), quoted(set)]));
    Some(words.join(" "))
}

/// One word of a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
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
        readers: Many(vec![Box::new(Printer::start(run.is_some())?)]),
        run,
        generations: plan.data().generations(),
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
    let joined = thread.join();
    let (outcome, closed) = joined.inspect_err(|_| {
        note("the trainer broke off: what was learnt since the newest checkpoint is not saved");
    })?;
    let outcome = outcome?;
    closed?;
    Ok(outcome)
}
