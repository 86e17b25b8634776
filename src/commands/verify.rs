//! `cloze verify`: checks every object of a prepared folder, and makes damaged parts again.

use std::path::Path;
use std::thread::available_parallelism;

use anyhow::bail;
use pipeline::load;
use pipeline::prepare::{FolderCheck, Preparation, PrepareConfig, verify};
use serde_json::json;
use store::Store;
use telemetry::terminal::{ItemProgress, json_document, line, outcome};
use telemetry::{Clock, Fanout};

use crate::cli::ConfigArgs;
use crate::config::{Parsed, source};
use crate::exit::Usage;

/// Problems that are printed, at most.
const MAX_PRINTED: usize = 100;

/// Checks the prepared folder. With `repair`, makes damaged parts again from the corpus of the configuration.
pub(crate) fn run(folder: &Path, repair: bool, config: &ConfigArgs, is_json: bool) -> anyhow::Result<()> {
    let store = load::find(folder)?;
    let config = repair.then(|| config_of(folder, config)).transpose()?;
    let found = check(&store)?;
    let parts = found.damaged_parts();
    let Some(config) = config.filter(|_| !found.problems.is_empty()) else {
        print(folder, &found, None, is_json);
        if found.problems.is_empty() {
            return Ok(());
        }
        bail!("{}: {}; run `cloze verify {0} --repair -c FILE`", folder.display(), problems(found.problems.len()));
    };
    // The document in JSON is about the folder after the repair.
    if !is_json {
        print(folder, &found, None, is_json);
    }
    Preparation::plan(&config)?.remake(&parts, &Clock::system(), &mut Fanout::default())?;
    let left = check(&store)?;
    print(folder, &left, Some(parts.len()), is_json);
    if !left.problems.is_empty() {
        bail!("{}: {} left; prepare into another folder", folder.display(), problems(left.problems.len()));
    }
    Ok(())
}

fn problems(number: usize) -> String {
    match number {
        0 => "no problem".to_owned(),
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    }
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

fn print(folder: &Path, check: &FolderCheck, repaired: Option<usize>, is_json: bool) {
    let FolderCheck { parts, objects, bytes, rows, tokens, problems: found } = check;
    if is_json {
        let problems: Vec<_> = found
            .iter()
            .map(|problem| json!({ "part": problem.part.map(|part| part.0), "message": problem.message }))
            .collect();
        let counts = json!({ "parts": parts, "objects": objects, "bytes": bytes, "rows": rows, "tokens": tokens });
        let mut document = json!({ "folder": folder, "checked": counts, "problems": problems });
        if let Some(repaired) = repaired {
            document["repaired_parts"] = repaired.into();
        }
        json_document(&document);
        return;
    }
    for problem in found.iter().take(MAX_PRINTED) {
        line(&problem.message);
    }
    if found.len() > MAX_PRINTED {
        line(format_args!("and {} more", found.len() - MAX_PRINTED));
    }
    let repaired = repaired.map(|parts| format!("{parts} parts made again; ")).unwrap_or_default();
    outcome(format_args!(
        "{}: {repaired}{} in {parts} parts: {objects} objects of {bytes} bytes, {rows} samples, {tokens} tokens",
        folder.display(),
        problems(found.len())
    ));
}
