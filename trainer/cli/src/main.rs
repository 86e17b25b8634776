//! `cloze-train`: verbs of `cloze` that compute tensors.
//!
//! `cloze` executes this program with its own arguments ([`cloze::train_program`]). The program parses them as `cloze`
//! does and passes every verb that needs no tensors to the library.

mod analyze;
mod evaluate;
mod explain;
mod export;
mod fill;
mod finetune;
mod parity;
#[cfg(test)]
mod presets;
mod profile;
mod replay;
mod replay_session;
mod step_profile;
mod train;
mod tune;

use std::process::ExitCode;

use cloze::cli::{TuneArgs, Verb};
use cloze::commands::plan;
use cloze::plan::step_estimate::TargetMachine;
use cloze::{commands, exit, program, train_program};

fn main() -> ExitCode {
    if let Err(error) = train_program::check_version() {
        telemetry::terminal::note(format_args!("error: {error:#}"));
        return exit::code(&error);
    }
    program::run(trainer::device::is_caught, dispatch)
}

/// Runs a verb. The exit code is 0, except for a training that a signal stopped.
fn dispatch(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Train { config, replay, prepare, slow, inject_faults, profile, allow_change } => {
            let slow = slow.as_deref();
            let faults = inject_faults.as_deref();
            let profile = profile.as_deref();
            return train::run(
                &config,
                train::Options { replay, prepare, slow, faults, profile, allow_change: &allow_change },
            );
        }
        Verb::Finetune { data, task, from, from_step, out, hyper, set } => {
            let task = cloze::finetune::task(&task)?;
            let request = cloze::finetune::Request { task, data: &data, from: &from, from_step, out: &out, hyper };
            return finetune::run(&request, &set);
        }
        Verb::Evaluate { run, step, task, data, json } => {
            let other = task.as_deref().zip(data.as_deref());
            evaluate::run(&run, evaluate::Options { step, other, is_final: false, json })?;
        }
        Verb::Analyze(args) => analyze::run(&args)?,
        Verb::Profile(verb) if verb.computes_tensors() => {
            let Ok((config, options)) = verb.measurement() else {
                anyhow::bail!("internal error: the verb computes tensors but has no measurement")
            };
            profile::run(&config, &options)?;
        }
        Verb::Tune { config, options: options @ TuneArgs { step_ms: None, .. } } => tune::run(&config, &options)?,
        Verb::Plan { config, on: None, measure: true, watts, price, ranks, bandwidth, json } => {
            profile::measure_step(&config)?;
            let target = TargetMachine { gpu: None, watts, price, ranks, network_bandwidth: bandwidth };
            plan::run(&config, plan::PlanOptions { target, json })?;
        }
        Verb::Export { run, out, step, family, network } => {
            export::run(&run, &export::Options { out: &out, step, family, network: &network })?;
        }
        Verb::Explain { run, step, row, rows, json, set } => {
            explain::run(&run, &explain::Options { step, row, rows, json, set: &set })?;
        }
        Verb::Replay { run, step, without, json, set } => {
            replay::run(&run, &replay::Options { step, without: without.as_deref(), json, set: &set })?;
        }
        Verb::Fill { model, step, top, texts } => fill::run(&model, step, top, &texts)?,
        Verb::Parity { input, output, dtype } => parity::run(&input, &output, dtype)?,
        other => return commands::dispatch(other),
    }
    Ok(ExitCode::SUCCESS)
}
