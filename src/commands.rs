//! One file per verb. Verbs that compute tensors are those of the second program.

mod branch;
pub mod checkpoints;
mod config;
mod diff;
mod extend;
mod init;
pub mod inspect;
mod ledger;
mod manual;
mod output_file;
mod plan;
pub mod prepare;
pub mod profile;
mod report;
mod rollback;
mod runs;
pub mod tokenizer;
mod top;
pub mod tune;

use std::process::ExitCode;

use crate::cli::{ConfigVerb, InspectVerb, PrepareVerb, ProfileVerb, TokenizerVerb, TuneArgs, Verb};
use crate::exit::Usage;

/// Runs a verb that computes no tensors. The others are those of [`second_program::is_needed`](crate::second_program::is_needed).
pub fn dispatch(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Init { inputs, out } => init::run(&inputs, &out)?,
        Verb::Config { verb: Some(ConfigVerb::Schema), .. } => config::schema(),
        Verb::Config { only, verb: None } => config::run(&only)?,
        Verb::Tokenizer(TokenizerVerb::Train(config)) => tokenizer::train(&config)?,
        Verb::Prepare { verb: Some(PrepareVerb::Forget { config, document, source }), .. } => {
            prepare::forget(&config, &document, source.as_deref())?;
        }
        Verb::Prepare { config, source, watch, report, slow, chaos, verb: None } => {
            let missing = || Usage("`cloze prepare` needs `--config FILE`".to_owned());
            let (source, slow, chaos) = (source.as_deref(), slow.as_deref(), chaos.as_deref());
            let options = prepare::Options { source, watch, report: report.as_deref(), slow, chaos };
            prepare::run(&config.ok_or_else(missing)?, options)?;
        }
        Verb::Plan { config, json } => plan::run(&config, json)?,
        Verb::Runs { folder, json } => runs::run(&folder, json)?,
        Verb::Checkpoints { run, verb, json } => checkpoints::run(&run, verb, json)?,
        Verb::Rollback { run, step, why, json } => rollback::run(&run, step, why, json)?,
        Verb::Branch { run, step, out, set, json } => branch::run(&run, step, &out, &set, json)?,
        Verb::Extend { run, steps, json } => extend::run(&run, steps, json)?,
        Verb::Diff { one, other, json } => diff::run(&one, &other, json)?,
        Verb::Profile { verb: Some(verb), .. } => return of_profiles(verb),
        Verb::Profile { config: Some(config), options, verb: None } if !options.half.computes_tensors() => {
            profile::run(&config, &options)?;
        }
        Verb::Profile { config: None, verb: None, .. } => {
            return Err(Usage("`cloze profile` needs `--config FILE`".to_owned()).into());
        }
        Verb::Tune { config, options: options @ TuneArgs { step_ms: Some(step_ms), .. } } => {
            tune::untimed(&config, &options, step_ms)?;
        }
        Verb::Train { .. }
        | Verb::Profile { .. }
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
        Verb::Exposure { run, document, json } => ledger::run(&run, document.as_deref(), json)?,
        Verb::Report { runs, out, svg } => report::run(&runs, &out, svg.as_deref())?,
        Verb::Top { run } => top::run(&run)?,
        Verb::Completions { shell } => manual::completions(shell)?,
        Verb::Man { verb } => manual::page(&verb)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is done with profiles, not by making one.
fn of_profiles(verb: ProfileVerb) -> anyhow::Result<ExitCode> {
    match verb {
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
