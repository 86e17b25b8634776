//! `cloze tune`: finds the micro-batch, the lanes and their depth by measuring them, and writes into the file what gains.

mod feeding;
mod file;
pub(crate) mod memory;
#[cfg(feature = "train")]
mod micro_batch;

use serde_json::{Value, json};

use self::file::ConfigFile;
use self::memory::Bytes;
use crate::cli::ConfigArgs;
use crate::exit::Usage;
use crate::plan::Plan;
use crate::profile::VERSION;
use crate::profile::judge::percent;
use crate::profile::statistics::Estimate;
use crate::terminal::{line, note};

/// A gain below this share changes nothing in a file.
const GAIN_MIN: f64 = 0.02;

/// What to go by.
pub(crate) struct Options {
    /// Bytes that the plan of a step may come to, and those that batches in flight may; none: what there is.
    pub(crate) memory: Option<Bytes>,
    /// Of each measurement.
    pub(crate) seconds: f64,
    /// What a step takes; none: it is timed.
    pub(crate) step_ms: Option<f64>,
    pub(crate) slow: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
}

/// A key that gains.
#[derive(Clone, Debug)]
struct Change {
    key: &'static str,
    from: u64,
    to: u64,
    /// How many times as fast.
    ratio: Estimate,
    /// How it is and how it was.
    words: String,
}

/// What was found so far.
struct Tuning<'a> {
    options: &'a Options,
    /// As on the command line, and with what gains.
    args: ConfigArgs,
    changes: Vec<Change>,
    /// Why other keys stay as they are, and what else is worth a word.
    notes: Vec<String>,
}

impl Tuning<'_> {
    /// Whether the command line has a say about a key: then it is not ours to write.
    fn is_given(&self, key: &str) -> bool {
        let said = self.args.set.iter().filter_map(|set| set.split('=').next()).map(str::trim);
        said.into_iter().any(|said| said == key || key.strip_prefix(said).is_some_and(|rest| rest.starts_with('.')))
    }

    /// The command line with one key more.
    fn with(&self, key: &str, value: u64) -> ConfigArgs {
        let mut args = self.args.clone();
        args.set.push(format!("{key}={value}"));
        args
    }

    /// Takes a change: what is measured from now on has it.
    fn take(&mut self, change: Change) {
        self.args = self.with(change.key, change.to);
        self.changes.push(change);
    }

    fn say(&mut self, text: String) {
        note(&text);
        self.notes.push(text);
    }
}

/// Measures, says what gains, and writes that into the file.
pub(crate) fn run(args: &ConfigArgs, options: &Options) -> anyhow::Result<()> {
    if !(options.seconds.is_finite() && options.seconds > 0.0) {
        return Err(Usage(format!("--seconds {}: nothing can be measured in that", options.seconds)).into());
    }
    if options.step_ms.is_some_and(|ms| !ms.is_finite() || ms < 0.0) {
        return Err(Usage("--step-ms: a step takes 0 ms or more".to_owned()).into());
    }
    let file = ConfigFile::open(&args.config)?;
    if !options.dry_run {
        file.check()?;
    }
    // What is wrong with it is said before anything is measured.
    let plan = Plan::to_look_at(args)?;
    let mut tuning = Tuning { options, args: args.clone(), changes: Vec::new(), notes: Vec::new() };
    #[cfg(feature = "train")]
    let step_ms = micro_batch::tune(&mut tuning, &plan)?;
    #[cfg(not(feature = "train"))]
    let step_ms = options.step_ms.unwrap_or(0.0);
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

fn lines(args: &ConfigArgs, changes: &[Change], is_written: bool) -> Vec<String> {
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
        let Change { key, from, to, ratio, words } = change;
        format!("  `{key}` {from} → {to}: {}; {words}", times(*ratio))
    }));
    lines
}

/// `2.41 times as fast (2.38 to 2.45)`.
fn times(Estimate { mean, low, high }: Estimate) -> String {
    let times = if (mean - 1.0).abs() < GAIN_MIN { "as fast".to_owned() } else { format!("{mean:.2} times as fast") };
    format!("{times} ({low:.2} to {high:.2})")
}

/// A share of the time that a trainer waits, in words.
fn waits(now: f64, before: f64) -> String {
    format!("the trainer waits {} of the time, before {}", percent(now), percent(before))
}

fn object(args: &ConfigArgs, step_ms: f64, changes: &[Change], notes: &[String], is_written: bool) -> String {
    let changes: Vec<Value> = changes
        .iter()
        .map(|Change { key, from, to, ratio, words }| {
            json!({ "key": key, "from": from, "to": to, "words": words,
                    "ratio": { "mean": ratio.mean, "low": ratio.low, "high": ratio.high } })
        })
        .collect();
    let object = json!({ "version": VERSION, "file": args.config, "written": is_written, "step_ms": step_ms,
                         "changes": changes, "notes": notes });
    format!("{object:#}")
}
