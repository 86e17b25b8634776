//! `cloze profile live`: a run that continues is asked to measure itself.
//!
//! It is asked by a file in its folder, as by `stop`, and answers with two files in `profiles/`: whoever may write there may
//! ask, whether the run is served or not.

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use store::{Lock, Store};
use telemetry::terminal::{line, note};

use crate::exit::Usage;
use crate::run::control::profile_file::{self, PROFILES, REFUSED, Wanted, Wish};

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
    let by = format!("{:x}{:x}", std::process::id(), now_ns() & 0xff_ffff);
    if !profile_file::ask(&folder, &Wish { wanted: wanted.clone(), by: Some(by.clone()) })? {
        return Err(Usage(format!("{}: somebody else has asked; ask again when that is heard", run.display())).into());
    }
    note(format_args!("asked for {}; the run continues", words(&wanted)));
    let name = wait(&folder, &by, &is_held)?;
    if name.contains(REFUSED) {
        let why = folder.read(&format!("{name}.txt")).unwrap_or_default();
        folder.remove(&format!("{name}.txt"))?;
        anyhow::bail!("{}: the run will not measure that: {}", run.display(), String::from_utf8_lossy(&why));
    }
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

/// The answer to whoever asked by that name, without its ending.
fn answer(folder: &Store, by: &str) -> io::Result<Option<String>> {
    let entries = match folder.list(PROFILES) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let ending = format!("-{by}.txt");
    let own = entries.into_iter().find(|entry| entry.name.ends_with(&ending));
    Ok(own.map(|entry| entry.name.trim_end_matches(".txt").to_owned()))
}

/// Waits for the answer, for as long as somebody trains.
fn wait(folder: &Store, by: &str, is_held: &dyn Fn() -> io::Result<bool>) -> anyhow::Result<String> {
    let (asked, mut is_told, mut is_over) = (Instant::now(), false, false);
    loop {
        if let Some(name) = answer(folder, by)? {
            return Ok(name);
        }
        if is_over {
            profile_file::take_back(folder)?;
            anyhow::bail!("{}: the run ended before it had answered", folder.place(""));
        }
        // What was written before it ended is looked for once more.
        is_over = !is_held()?;
        if !is_told && asked.elapsed() >= PATIENCE && folder.stat(profile_file::PROFILE)?.is_some() {
            is_told = true;
            note("the run has not heard it yet: it looks for files twice a second, unless it is an older version");
        }
        sleep(PULSE);
    }
}

fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
