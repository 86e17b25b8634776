//! `cloze tune`: finds the micro-batch, the workers and their depth by measuring them, and writes into the file what gains.

mod feeding;
mod file;
pub mod memory;
pub mod tuning;

use profiler::VERSION;
use serde_json::{Value, json};
use telemetry::terminal::line;

use self::file::ConfigFile;
use self::tuning::{TunedKey, Tuning, times};
use crate::cli::{ConfigArgs, TuneArgs};
use crate::exit::Usage;
use crate::plan::Plan;

/// Tunes for a training step of so many milliseconds, which is not timed.
pub(crate) fn untimed(args: &ConfigArgs, options: &TuneArgs, step_ms: f64) -> anyhow::Result<()> {
    run(args, options, |tuning, _| {
        tuning.say("`train.micro_batch_size` stays: with `--step-ms` no step is timed".to_owned());
        Ok(step_ms)
    })
}

/// Measures, says what gains, and writes that into the file.
///
/// `step_ms` gives the milliseconds of a training step, and may tune what they depend on.
pub fn run(
    args: &ConfigArgs,
    options: &TuneArgs,
    step_ms: impl FnOnce(&mut Tuning<'_>, &Plan) -> anyhow::Result<f64>,
) -> anyhow::Result<()> {
    if options.seconds <= 0.0 {
        return Err(Usage("--seconds 0: nothing can be measured in that".to_owned()).into());
    }
    let file = ConfigFile::open(&args.config)?;
    if !options.dry_run {
        file.check()?;
    }
    // What is wrong with it is said before anything is measured.
    let plan = Plan::to_look_at(args)?;
    let mut tuning = Tuning { options, args: args.clone(), changes: Vec::new(), notes: Vec::new() };
    let step_ms = step_ms(&mut tuning, &plan)?;
    drop(plan);
    feeding::tune(&mut tuning, step_ms)?;
    let Tuning { changes, notes, .. } = tuning;
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
        return vec![format!("nothing gains: {file} stays as it is")];
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
