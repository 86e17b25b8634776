//! `cloze tune`: finds micro-batch size, workers and prefetch depth by measuring, and writes the keys that gain into
//! the file.

mod feeding;
mod file;
pub mod memory;
pub mod tuning;

use profiler::VERSION;
use serde_json::{Value, json};
use telemetry::terminal::line;

use self::file::ConfigFile;
use self::tuning::{TuneSession, TunedKey, times};
use crate::cli::{ConfigArgs, TuneArgs};
use crate::exit::Usage;
use crate::plan::Plan;

/// Tunes for a training step of a given duration in ms, which is not timed.
pub(crate) fn untimed(args: &ConfigArgs, options: &TuneArgs, step_ms: f64) -> anyhow::Result<()> {
    run(args, options, |tuning, _| {
        tuning.report("`train.micro_batch_size` stays: with `--step-ms` no step is timed".to_owned());
        Ok(step_ms)
    })
}

/// Measures, prints the gains and writes them into the file.
///
/// `step_ms` returns the milliseconds of a training step. It may tune the keys that the duration depends on.
pub fn run(
    args: &ConfigArgs,
    options: &TuneArgs,
    step_ms: impl FnOnce(&mut TuneSession<'_>, &Plan) -> anyhow::Result<f64>,
) -> anyhow::Result<()> {
    if options.seconds <= 0.0 {
        return Err(Usage("--seconds 0: give a positive duration".to_owned()).into());
    }
    let file = ConfigFile::open(&args.config)?;
    if !options.dry_run {
        file.check()?;
    }
    // Errors of the configuration are reported before any measurement.
    let plan = Plan::load_read_only(args)?;
    let mut tuning = TuneSession { options, args: args.clone(), changes: Vec::new(), notes: Vec::new() };
    let step_ms = step_ms(&mut tuning, &plan)?;
    drop(plan);
    feeding::tune(&mut tuning, step_ms)?;
    let TuneSession { changes, notes, .. } = tuning;
    let is_written = !options.dry_run && !changes.is_empty();
    if is_written {
        file.write(&changes.iter().map(|change| (change.key, change.to)).collect::<Vec<_>>())?;
    }
    if options.json {
        line(object(args, step_ms, &changes, &notes, is_written));
    } else {
        lines(args, &changes, is_written).into_iter().for_each(line);
    }
    Ok(())
}

fn lines(args: &ConfigArgs, changes: &[TunedKey], is_written: bool) -> Vec<String> {
    let file = args.config.display();
    if changes.is_empty() {
        return vec![format!("nothing gains: {file} is unchanged")];
    }
    let what = match (changes.len(), is_written) {
        (1, true) => "1 key is written".to_owned(),
        (many, true) => format!("{many} keys are written"),
        (1, false) => "1 key would be written".to_owned(),
        (many, false) => format!("{many} keys would be written"),
    };
    let mut lines = vec![format!("{file}: {what}")];
    lines.extend(changes.iter().map(|change| {
        let TunedKey { key, from, to, ratio, words } = change;
        format!("  `{key}` {from} → {to}: {}; {words}", times(*ratio))
    }));
    lines
}

fn object(args: &ConfigArgs, step_ms: f64, changes: &[TunedKey], notes: &[String], is_written: bool) -> String {
    let changes: Vec<Value> = changes
        .iter()
        .map(|TunedKey { key, from, to, ratio, words }| {
            json!({ "key": key, "from": from, "to": to, "words": words,
                    "ratio": { "mean": ratio.mean, "low": ratio.low, "high": ratio.high } })
        })
        .collect();
    let object = json!({ "version": VERSION, "file": args.config, "written": is_written, "step_ms": step_ms,
                         "changes": changes, "notes": notes });
    format!("{object:#}")
}
