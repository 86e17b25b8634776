//! One file per verb.

mod config;
#[cfg(feature = "train")]
mod export;
#[cfg(feature = "train")]
mod fill;
mod init;
mod inspect;
mod manual;
#[cfg(feature = "train")]
mod parity;
mod plan;
mod prepare;
#[cfg(all(test, feature = "train"))]
mod presets;
mod profile;
mod tokenizer;
#[cfg(feature = "train")]
mod train;

use std::process::ExitCode;

use crate::cli::{ConfigVerb, InspectVerb, PrepareVerb, TokenizerVerb, Verb};
use crate::exit::Usage;

/// Runs a verb. The code is 0 but for a training that a signal stopped.
pub(crate) fn dispatch(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Init { inputs, out } => init::run(&inputs, &out)?,
        Verb::Config { verb: Some(ConfigVerb::Schema), .. } => config::schema(),
        Verb::Config { only, verb: None } => config::run(&only)?,
        Verb::Tokenizer(TokenizerVerb::Train(config)) => tokenizer::train(&config)?,
        Verb::Prepare { config: _, chaos: _, verb: Some(PrepareVerb::Forget { config, document }) } => {
            prepare::forget(&config, &document)?;
        }
        Verb::Prepare { config, chaos, verb: None } => {
            let missing = || Usage("`cloze prepare` needs `--config FILE`".to_owned());
            prepare::run(&config.ok_or_else(missing)?, chaos.as_deref())?;
        }
        Verb::Plan { config, json } => plan::run(&config, json)?,
        #[cfg(feature = "train")]
        Verb::Train { config, replay, slow, chaos } => {
            let rehearsal = train::Rehearsal { slow: slow.as_deref(), chaos: chaos.as_deref() };
            return train::run(&config, replay, rehearsal);
        }
        Verb::Profile { config, half, batches, steps, step_ms, slow, json } => {
            profile::run(&config, &profile::Options { half, batches, steps, step_ms, slow, json })?;
        }
        Verb::Inspect(InspectVerb::Batch { index, config, rows }) => inspect::batch(index, &config, rows)?,
        Verb::Inspect(InspectVerb::Shard { file, rows }) => inspect::shard(&file, rows)?,
        #[cfg(feature = "train")]
        Verb::Export { run, out, step, family } => export::run(&run, &out, step, family)?,
        #[cfg(feature = "train")]
        Verb::Fill { run, top, texts } => fill::run(&run, top, &texts)?,
        #[cfg(feature = "train")]
        Verb::Parity { input, output, dtype } => parity::run(&input, &output, dtype)?,
        Verb::Completions { shell } => manual::completions(shell)?,
        Verb::Man { verb } => manual::page(&verb)?,
    }
    Ok(ExitCode::SUCCESS)
}
