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
use std::time::Duration;

use observe::{Clock, Many};
use pipeline::{actor, load};
use schemas::Share;
use store::{Store, Weather};
use trainer::training::{Alone, Outcome, StopRequest};

use self::feed::Feed;
use self::keeper::Keeper;
use self::phases::{Phases, Slow};
use crate::chaos::{Chaos, Storm};
use crate::cli::ConfigArgs;
use crate::control::{Control, Patience, Phase, STOP, Signal};
use crate::data::Purpose;
use crate::left_out::RunLeftOut;
use crate::plan::{Plan, describe, warnings};
use crate::run_folder::RunFolder;
use crate::terminal::{Printer, note};

/// What is made worse on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rehearsal<'a> {
    /// `--slow PHASE=MS`.
    pub(crate) slow: Option<&'a str>,
    /// `--chaos FILE|SPEC`.
    pub(crate) chaos: Option<&'a str>,
}

/// Plans and runs. The exit code tells a finished run from one that a signal stopped.
pub(crate) fn run(args: &ConfigArgs, replay: Option<u64>, rehearsal: Rehearsal<'_>) -> anyhow::Result<ExitCode> {
    let slow = rehearsal.slow.map(Slow::parse).transpose()?;
    let storm = rehearsal.chaos.map(Chaos::parse).transpose()?.map(|chaos| Arc::new(Storm::of(chaos)));
    // Heard from here on: also while it plans.
    let phases = Phases { control: Arc::new(Control::start()?), slow };
    let over = |store: Store| storm.as_ref().map_or_else(|| store.clone(), |storm| storm.over(&store));
    let plan = Plan::over(args, |folder| load::find(folder).map(over), Purpose::Run)?;
    for warning in warnings::of(&plan) {
        note(format_args!("warning: {warning}"));
    }
    let outcome = if replay.is_some() {
        // Nothing is read or kept: this measures, it does not train.
        train(&plan, &Store::memory(Weather::calm()), Around { run: None, replay, storm, phases })?
    } else {
        let folder = over(Store::folder(&plan.config().run.folder)?);
        let run = RunFolder::hold(&folder)?;
        let store = run.store().clone();
        phases.control.watch(patience(&plan, &store))?;
        phases.enter(Phase::Start);
        let outcome = train(&plan, &store, Around { run: Some(run), replay, storm, phases });
        let outcome = outcome.inspect_err(|error| {
            if let Some(line) = replay_line(error, args) {
                note(format_args!("hint: see what it learnt from with `{line}`"));
            }
        })?;
        if matches!(outcome, Outcome::Stopped(..)) {
            // Whoever asked by a file was obeyed: the next start runs.
            folder.remove(STOP)?;
        }
        outcome
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

fn patience(plan: &Plan, folder: &Store) -> Patience {
    let seconds = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
    let run = &plan.config().run;
    Patience { folder: folder.clone(), grace: seconds(run.grace_seconds), hang: seconds(run.hang_seconds) }
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

/// What is around a training.
struct Around {
    /// None where nothing is kept.
    run: Option<RunFolder>,
    replay: Option<u64>,
    storm: Option<Arc<Storm>>,
    phases: Phases,
}

/// Trains on a thread of its own, from what is in the store on.
fn train(plan: &Plan, store: &Store, around: Around) -> anyhow::Result<Outcome> {
    let Around { run, replay, storm, phases } = around;
    let left_out = Arc::<RunLeftOut>::default();
    let mut feed = Feed::new(plan, Share::ALONE, replay, Arc::clone(&left_out) as _, storm.as_ref(), phases.clone());
    let mut keeper = Keeper {
        readers: Many(vec![Box::new(Printer::start(run.is_some())?)]),
        run,
        generations: Arc::clone(plan.data().generations()),
        left_out,
        identity: plan.train().identity.hash().to_owned(),
        storm,
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
