//! One module per verb. `cloze-train` runs the verbs that compute tensors.

mod branch;
pub mod checkpoints;
mod config;
mod diff;
mod exposure;
mod extend;
mod init;
pub mod inspect;
mod manual;
pub(crate) mod output_file;
pub mod plan;
pub mod prepare;
pub mod profile;
mod report;
mod rollback;
mod runs;
mod sweep;
pub mod tokenizer;
mod top;
pub mod tune;
mod verify;

use std::process::ExitCode;

use crate::cli::{ConfigVerb, InspectVerb, ProfileVerb, SweepVerb, TokenizerVerb, TuneArgs, Verb};
use crate::plan::step_estimate::TargetMachine;

/// Runs a verb that computes no tensors. [`train_program::is_needed`](crate::train_program::is_needed) selects the
/// others.
pub fn dispatch(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Init { inputs, method, size, from, text_field, data, out } => {
            let from = from.as_deref();
            let data = data.as_deref();
            let text_field = text_field.as_deref();
            init::run(&inputs, init::Options { method, size, from, text_field, data, out: &out })?;
        }
        Verb::Config { verb: Some(ConfigVerb::Schema), .. } => config::schema(),
        Verb::Config { only, verb: None } => config::run(&only)?,
        Verb::Tokenizer(TokenizerVerb::Train(config)) => tokenizer::train(&config)?,
        Verb::Prepare(args) => prepare::dispatch(args)?,
        Verb::Plan { config, on, measure: _, watts, price, ranks, bandwidth, json } => {
            let target = TargetMachine { gpu: on, watts, price, ranks, network_bandwidth: bandwidth };
            plan::run(&config, plan::PlanOptions { target, json })?;
        }
        Verb::Verify { folder, repair, config, json } => verify::run(&folder, repair, &config, json)?,
        Verb::Runs { folder, json } => runs::run(&folder, json)?,
        Verb::Checkpoints { run, verb, json } => checkpoints::run(&run, verb, json)?,
        Verb::Rollback { run, step, reason, json } => rollback::run(&run, step, reason, json)?,
        Verb::Branch { run, step, out, set, json } => branch::run(&run, step, &out, &set, json)?,
        Verb::Extend { run, steps, json } => extend::run(&run, steps, json)?,
        Verb::Diff { one, other, json } => diff::run(&one, &other, json)?,
        Verb::Sweep { args: _, verb: Some(SweepVerb::Report { sweeps, statistic, average }) } => {
            sweep::report(&sweeps, statistic, average)?;
        }
        Verb::Sweep { args, verb: None } => return sweep::run(&args),
        Verb::Profile(verb) if !verb.computes_tensors() => return profile(verb),
        Verb::Tune { config, options: options @ TuneArgs { step_ms: Some(step_ms), .. } } => {
            tune::untimed(&config, &options, step_ms)?;
        }
        Verb::Train { .. }
        | Verb::Finetune { .. }
        | Verb::Evaluate { .. }
        | Verb::Analyze(_)
        | Verb::Profile(_)
        | Verb::Tune { .. }
        | Verb::Export { .. }
        | Verb::Explain { .. }
        | Verb::Replay { .. }
        | Verb::Fill { .. }
        | Verb::Parity { .. } => {
            anyhow::bail!("internal error: a verb that computes tensors reached a program without it")
        }
        Verb::Inspect(InspectVerb::Batch { index, config, rows }) => inspect::batch(index, &config, rows)?,
        Verb::Inspect(InspectVerb::Shard { file, rows }) => inspect::shard(&file, rows)?,
        Verb::Exposure { run, document, json } => exposure::run(&run, document.as_deref(), json)?,
        Verb::Report { runs, out, svg } => report::run(&runs, &out, svg.as_deref())?,
        Verb::Top { run } => top::run(&run)?,
        Verb::Completions { shell } => manual::completions(shell)?,
        Verb::Man { verb } => manual::page(&verb)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a verb of `cloze profile` that computes no tensors.
fn profile(verb: ProfileVerb) -> anyhow::Result<ExitCode> {
    match verb.measurement() {
        Ok((config, options)) => profile::run(&config, &options)?,
        Err(verb) => return of_profiles(*verb),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a verb of `cloze profile` that measures nothing itself.
fn of_profiles(verb: ProfileVerb) -> anyhow::Result<ExitCode> {
    match verb {
        ProfileVerb::Loader(_)
        | ProfileVerb::Prepare(_)
        | ProfileVerb::Train(_)
        | ProfileVerb::Step(_)
        | ProfileVerb::All(_) => anyhow::bail!("internal error: a measurement reached the verbs about profiles"),
        ProfileVerb::Compare { before, after, limit, json } => {
            return profile::compared((&before, &after), limit, json);
        }
        ProfileVerb::Live { run, steps, seconds, json } => {
            profile::live::run(&run, profile::live::Options { steps, seconds, json })?;
        }
        ProfileVerb::Report { profile, out, svg } => profile::report(&profile, &out, svg.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}
