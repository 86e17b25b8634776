//! `cloze verify`: checks every object of a prepared folder, and makes damaged parts again.

use std::path::Path;
use std::thread::available_parallelism;

use anyhow::bail;
use pipeline::load;
use pipeline::prepare::{FolderCheck, Preparation, PrepareConfig, verify};
use serde_json::json;
use store::Store;
use telemetry::terminal::{ItemProgress, line, outcome};
use telemetry::{Clock, Fanout};

use crate::cli::ConfigArgs;
use crate::config::{Parsed, source};
use crate::exit::Usage;

/// Problems that are printed, at most.
const PRINTED_MAX: usize = 100;

/// Checks the prepared folder. With `repair`, makes damaged parts again from the corpus of the configuration.
pub(crate) fn run(folder: &Path, repair: bool, config: &ConfigArgs, is_json: bool) -> anyhow::Result<()> {
    let store = load::find(folder)?;
    let config = repair.then(|| config_of(folder, config)).transpose()?;
    let check = check(&store)?;
    print(folder, &check, is_json);
    if check.problems.is_empty() {
        return Ok(());
    }
    let Some(config) = config else {
        bail!("{}: {} problems; `cloze verify {0} --repair` mends them", folder.display(), check.problems.len());
    };
    let parts = check.damaged_parts();
    Preparation::plan(&config)?.remake(&parts, &Clock::system(), &mut Fanout::default())?;
    let again = self::check(&store)?;
    if again.problems.is_empty() {
        outcome(format_args!("{}: repaired, {} parts made again", folder.display(), parts.len()));
        return Ok(());
    }
    print(folder, &again, is_json);
    bail!("{}: {} problems remain; prepare into another folder", folder.display(), again.problems.len());
}

fn check(store: &Store) -> anyhow::Result<FolderCheck> {
    // Nothing cancels this token: a signal ends the process, which changes nothing.
    let (_source, stop) = runtime::cancel_pair();
    let mut bar = None;
    let check = verify(store, available_parallelism().map_or(1, Into::into), &stop, &mut |done, all| {
        bar.get_or_insert_with(|| ItemProgress::new("verify", all)).set(done, "");
    })?;
    Ok(check)
}

/// Returns the configuration whose folder this is.
fn config_of(folder: &Path, args: &ConfigArgs) -> anyhow::Result<PrepareConfig> {
    let corpora = Parsed::read(&args.config, &args.set)?.into_corpora(None)?;
    let is_it = |config: &PrepareConfig| source::is_same(&config.folder, folder);
    let found = corpora.into_iter().map(|corpus| corpus.prepare).find(is_it);
    let message = || {
        format!(
            "{}: not a folder that {} prepares; give its configuration with -c",
            folder.display(),
            args.config.display()
        )
    };
    Ok(found.ok_or_else(|| Usage(message()))?)
}

fn print(folder: &Path, check: &FolderCheck, is_json: bool) {
    let FolderCheck { parts, objects, bytes, rows, tokens, problems } = check;
    if is_json {
        let problems: Vec<_> = problems
            .iter()
            .map(|problem| json!({ "part": problem.part.map(|part| part.0), "message": problem.message }))
            .collect();
        let counts = json!({ "parts": parts, "objects": objects, "bytes": bytes, "rows": rows, "tokens": tokens });
        line(json!({ "folder": folder, "checked": counts, "problems": problems }));
        return;
    }
    for problem in problems.iter().take(PRINTED_MAX) {
        line(&problem.message);
    }
    if problems.len() > PRINTED_MAX {
        line(format_args!("and {} more", problems.len() - PRINTED_MAX));
    }
    let found = match problems.len() {
        0 => "no problem".to_owned(),
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    outcome(format_args!(
        "{}: {found} in {parts} parts: {objects} objects of {bytes} bytes, {rows} samples, {tokens} tokens",
        folder.display()
    ));
}
