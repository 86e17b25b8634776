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
    if let Some(section) = set.iter().find(|set| is_section(set)) {
        let message =
            format!("--set {section}: it replaces the whole section that was written; set its keys one by one");
        return Err(Usage(message).into());
    }
    let prepared = finetune::prepare(request)?;
    let args = ConfigArgs { config: prepared.config, set: set.to_vec() };
    let code = train::run(&args, train::Options::default())?;
    if code == ExitCode::SUCCESS {
        evaluate::run(&prepared.run, evaluate::Options { is_final: true, ..Default::default() })?;
    }
    Ok(code)
}

/// Whether an override replaces a section of the configuration.
fn is_section(set: &str) -> bool {
    set.split_once('=').is_some_and(|(key, value)| !key.contains('.') && value.trim_start().starts_with('{'))
}
