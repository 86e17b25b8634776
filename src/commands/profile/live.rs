//! `cloze profile live`: a run that goes on is asked to measure itself.
//!
//! It is asked by a file in its folder, as by `stop`, and answers with two files in `profiles/`: whoever may write there may
//! ask, whether the run is served or not.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use store::{Entry, Lock, Store, Version};

use crate::commands::train::profiler::PROFILES;
use crate::control::profile_file::{self, Wanted};
use crate::exit::Usage;
use crate::terminal::{line, note};

/// Between two looks for the answer, and between two at whoever trains.
const PULSE: Duration = Duration::from_millis(200);

/// For how long after it was asked a run may hear nothing, as far as anybody can see, before that is said.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is to be measured, and how it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) steps: u64,
    pub(crate) seconds: Option<f64>,
    pub(crate) json: bool,
}

/// Asks, waits, and prints.
pub(crate) fn run(run: &Path, options: Options) -> anyhow::Result<()> {
    let wanted = options.seconds.map_or(Wanted::Next(options.steps), Wanted::Seconds);
    // As whoever hears it will read it.
    let wanted: Wanted = wanted.to_string().parse().map_err(Usage)?;
    let folder = Store::existing(run).with_context(|| run.display().to_string())?;
    let is_held = || Lock::seen(&folder, store::LOCK).map(|holder| holder.is_some());
    if !is_held()? {
        return Err(Usage(format!(
            "{}: nobody trains there; `cloze train --profile 100..120` measures steps of a run that begins",
            run.display()
        ))
        .into());
    }
    let before = answers(&folder)?;
    if !profile_file::ask(&folder, &wanted)? {
        return Err(
            Usage(format!("{}: somebody else has asked; ask again when that is measured", run.display())).into()
        );
    }
    note(format_args!("asked for {}; the run goes on", words(&wanted)));
    let name = wait(&folder, &before, &is_held)?;
    let name = if options.json { format!("{name}.json") } else { format!("{name}.txt") };
    let told = folder.read(&name).with_context(|| folder.place(&name))?;
    line(String::from_utf8_lossy(&told).trim_end());
    Ok(())
}

fn words(wanted: &Wanted) -> String {
    match wanted {
        Wanted::Steps(steps) => format!("steps {} to {}", steps.start, steps.end),
        Wanted::Next(1) => "a step".to_owned(),
        Wanted::Next(steps) => format!("{steps} steps"),
        Wanted::Seconds(seconds) => format!("{seconds} s"),
    }
}

/// The answers that there are, without their endings. A step may be measured twice, where a run went back.
fn answers(folder: &Store) -> io::Result<BTreeMap<String, Version>> {
    let entries = match folder.list(PROFILES) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let named = |entry: Entry| Some((entry.name.strip_suffix(".txt")?.to_owned(), entry.stat.version));
    Ok(entries.into_iter().filter_map(named).collect())
}

/// The first answer that was not there before.
fn wait(
    folder: &Store,
    before: &BTreeMap<String, Version>,
    is_held: &dyn Fn() -> io::Result<bool>,
) -> anyhow::Result<String> {
    let (asked, mut is_told) = (Instant::now(), false);
    loop {
        let is_new = |(name, version): &(String, Version)| before.get(name) != Some(version);
        if let Some((name, _)) = answers(folder)?.into_iter().find(is_new) {
            return Ok(name);
        }
        if !is_held()? {
            profile_file::take_back(folder)?;
            anyhow::bail!("{}: the run ended before it had answered", folder.place(""));
        }
        if !is_told && asked.elapsed() >= PATIENCE && folder.stat(profile_file::PROFILE)?.is_some() {
            is_told = true;
            note("the run has not heard it yet: it looks for files twice a second, unless it is an older version");
        }
        sleep(PULSE);
    }
}
