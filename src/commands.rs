//! One file per verb.

#[cfg(feature = "train")]
mod again;
#[cfg(feature = "train")]
mod branch;
#[cfg(feature = "train")]
mod checkpoints;
mod config;
#[cfg(feature = "train")]
mod diff;
#[cfg(feature = "train")]
mod explain;
#[cfg(feature = "train")]
mod export;
#[cfg(feature = "train")]
mod extend;
#[cfg(feature = "train")]
mod fill;
mod init;
mod inspect;
#[cfg(feature = "train")]
mod ledger;
mod manual;
#[cfg(feature = "train")]
mod parity;
mod plan;
mod prepare;
#[cfg(all(test, feature = "train"))]
mod presets;
mod profile;
#[cfg(feature = "train")]
mod replay;
mod report;
#[cfg(feature = "train")]
mod rollback;
#[cfg(feature = "train")]
mod runs;
mod tokenizer;
mod top;
#[cfg(feature = "train")]
mod train;
mod tune;
mod written;

use std::process::ExitCode;

use crate::cli::{ConfigVerb, InspectVerb, PrepareVerb, ProfileVerb, TokenizerVerb, Verb};
use crate::exit::Usage;

/// Runs a verb. The code is 0 but for a training that a signal stopped.
pub(crate) fn dispatch(verb: Verb) -> anyhow::Result<ExitCode> {
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
        #[cfg(feature = "train")]
        Verb::Train { config, replay, prepare, slow, chaos, profile, allow } => {
            let (slow, chaos, profile) = (slow.as_deref(), chaos.as_deref(), profile.as_deref());
            return train::run(&config, train::Options { replay, prepare, slow, chaos, profile, allow: &allow });
        }
        #[cfg(feature = "train")]
        Verb::Runs { folder, json } => runs::run(&folder, json)?,
        #[cfg(feature = "train")]
        Verb::Checkpoints { run, verb, json } => checkpoints::run(&run, verb, json)?,
        #[cfg(feature = "train")]
        Verb::Rollback { run, step, why, json } => rollback::run(&run, step, why, json)?,
        #[cfg(feature = "train")]
        Verb::Branch { run, step, out, set, json } => branch::run(&run, step, &out, &set, json)?,
        #[cfg(feature = "train")]
        Verb::Extend { run, steps, json } => extend::run(&run, steps, json)?,
        #[cfg(feature = "train")]
        Verb::Diff { one, other, json } => diff::run(&one, &other, json)?,
        Verb::Profile { verb: Some(verb), .. } => return of_profiles(verb),
        Verb::Profile { config, options, verb: None } => {
            let missing = || Usage("`cloze profile` needs `--config FILE`".to_owned());
            profile::run(&config.ok_or_else(missing)?, &options)?;
        }
        Verb::Tune { config, options } => tune::run(&config, &options)?,
        Verb::Inspect(InspectVerb::Batch { index, config, rows }) => inspect::batch(index, &config, rows)?,
        Verb::Inspect(InspectVerb::Shard { file, rows }) => inspect::shard(&file, rows)?,
        #[cfg(feature = "train")]
        Verb::Export { run, out, step, family } => export::run(&run, &out, step, family)?,
        #[cfg(feature = "train")]
        Verb::Explain { run, step, row, rows, json, set } => {
            explain::run(&run, &explain::Options { step, row, rows, json, set: &set })?;
        }
        #[cfg(feature = "train")]
        Verb::Ledger { run, document, json } => ledger::run(&run, document.as_deref(), json)?,
        #[cfg(feature = "train")]
        Verb::Replay { run, step, without, json, set } => {
            replay::run(&run, &replay::Options { step, without: without.as_deref(), json, set: &set })?;
        }
        #[cfg(feature = "train")]
        Verb::Fill { run, top, texts } => fill::run(&run, top, &texts)?,
        #[cfg(feature = "train")]
        Verb::Parity { input, output, dtype } => parity::run(&input, &output, dtype)?,
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
        #[cfg(feature = "train")]
        ProfileVerb::Live { run, steps, seconds, json } => {
            profile::live::run(&run, profile::live::Options { steps, seconds, json })?;
        }
        ProfileVerb::Report { profile, out, svg } => profile::report(&profile, &out, svg.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}
