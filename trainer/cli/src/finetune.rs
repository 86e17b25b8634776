//! `cloze finetune`: prepares a labelled task, trains on it and evaluates the result.

use std::process::ExitCode;

use cloze::cli::ConfigArgs;
use cloze::finetune::{self, Request};

use crate::{evaluate, train};

/// Fine-tunes as requested. `set` overrides keys of the configuration. A stopped run is not evaluated.
pub(crate) fn run(request: &Request<'_>, set: &[String]) -> anyhow::Result<ExitCode> {
    let prepared = finetune::prepare(request)?;
    let args = ConfigArgs { config: prepared.config, set: set.to_vec() };
    let code = train::run(&args, train::Options::default())?;
    if code == ExitCode::SUCCESS {
        evaluate::run(&prepared.run, None, false)?;
    }
    Ok(code)
}
