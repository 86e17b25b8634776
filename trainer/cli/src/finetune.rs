//! `cloze finetune`: prepares a labelled task, trains on it and evaluates the result.

use std::process::ExitCode;

use cloze::cli::ConfigArgs;
use cloze::exit::Usage;
use cloze::finetune::{self, Request};

use crate::{evaluate, train};

/// Fine-tunes as requested. `set` overrides keys of the configuration. A stopped run is not evaluated.
pub(crate) fn run(request: &Request<'_>, set: &[String]) -> anyhow::Result<ExitCode> {
    // The evaluation reads the run below `--out`.
    if let Some(folder) = set.iter().find(|set| set.trim_start().starts_with("run.folder")) {
        return Err(Usage(format!("--set {folder}: `--out` sets the folder of the run; remove this `--set`")).into());
    }
    let prepared = finetune::prepare(request)?;
    let args = ConfigArgs { config: prepared.config, set: set.to_vec() };
    let code = train::run(&args, train::Options::default())?;
    if code == ExitCode::SUCCESS {
        evaluate::run(&prepared.run, evaluate::Options::default())?;
    }
    Ok(code)
}
